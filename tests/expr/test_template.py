"""Template: values keep their type, text is text, undefined is told."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr import Budget, guard, template

SCOPES: dict[str, Any] = {
    "workload": {
        "n": 7,
        "f": 2.5,
        "flag": True,
        "nothing": None,
        "text": "7",
        "list": [1, "<", {"k": False}],
        "map": {"b": 1, "a": [True, None, "x & y"]},
        "user": {"name": "Ann"},
        "page": {"items": [1, 2], "keys": "k", "get": "g"},
        "_id": "under",
    },
    "ctx": {},
    "now": lambda: "2026-03-01T00:00:00Z",
}


def evaluate(text: str, **more: Any) -> Any:
    return template(text).evaluate({**SCOPES, **more})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ workload.n }}", 7),
        ("  {{ workload.n }}\n", 7),
        ("{{- workload.n -}}", 7),
        ("{{ workload.f }}", 2.5),
        ("{{ workload.flag }}", True),
        ("{{ workload.nothing }}", None),
        ("{{ workload.text }}", "7"),
        ("{{ workload.list }}", [1, "<", {"k": False}]),
        ("{{ {'a': [1, 2]} }}", {"a": [1, 2]}),
        ("{{ {'a': {'b': 1}} }}", {"a": {"b": 1}}),
        ("{{ '}}' }}", "}}"),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ {1: 'a', true: 'b', none: 'c'} }}", {"1": "b", "null": "c"}),
        ("{{ workload.n + 1 if workload.flag else 0 }}", 8),
        ("{{ now() }}", "2026-03-01T00:00:00Z"),
        ("{{ 'a' 'b' }}", "ab"),
        ("{{ workload.list[1:] | length }}", 2),
        ("{{ 1, 2 }}", [1, 2]),
        ("{{ -3 | abs }}", 3),
        ("{{ 7 // 2 ** 2 }}", 1),
        ("{{ workload['n'] }}", 7),
        ("{{ workload._id }}", "under"),
        ("{{ 'héllo' | upper }}", "HÉLLO"),
    ],
)
def test_exactly_one_expression_keeps_its_values_type(text: str, expected: Any) -> None:
    found = evaluate(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{{ workload.n }}{{ workload.n }}", "77"),
        ("n is {{ workload.n }}", "n is 7"),
        ("{{ workload.flag }}/{{ 1 > 2 }}/{{ workload.nothing }}", "true/false/"),
        ("m={{ workload.map }}", 'm={"a": [true, null, "x \\u0026 y"], "b": 1}'),
        ("l={{ workload.list }}", 'l=[1, "\\u003c", {"k": false}]'),
        ("{{ 1.0 }}|{{ 1e300 }}", "1.0|1e+300"),
        ("a {{- workload.n -}} b", "a7b"),
        ("{# note #}{{ workload.n }}", "7"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("keep the newline\n{# x #}\n", "keep the newline\n\n"),
        ("}} is {{ '{{' }} no {{ '%}' }}", "}} is {{ no %}"),
    ],
)
def test_any_other_string_yields_text(text: str, expected: str) -> None:
    assert evaluate(text) == expected


def test_the_concatenation_operator_writes_values_as_text_does() -> None:
    assert evaluate("{{ 'm=' ~ workload.map }}") == evaluate("m={{ workload.map }}")
    assert evaluate("{{ 'b=' ~ true ~ none }}") == "b=true"


def test_data_that_looks_like_a_template_stays_data() -> None:
    assert evaluate("<{{ x }}>", x="{{ 6 * 7 }}") == "<{{ 6 * 7 }}>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ workload.a.b.c | default(1) }}", 1),
        ("{{ workload.nothing.a.b | default('none') }}", "none"),
        ("{{ workload.list[9].id | default(-1) }}", -1),
        ("{{ workload.n.real | default(0) }}", 0),
        ("{{ workload.a.b is defined }}", False),
        ("{{ foo is undefined }}", True),
        ("{{ workload.a or 5 }}", 5),
        ("{{ 1 if workload.a else 2 }}", 2),
        ("{{ not workload.a }}", True),
        ("{{ workload.a.b is none }}", False),
        ("{{ [] | first | default(3) }}", 3),
        ("{{ workload[workload.absent] | default(4) }}", 4),
        ("{{ ('a' if false) | default('b') }}", "b"),
        ("{{ workload.page.items }}", [1, 2]),
        ("{{ workload.page.get }}", "g"),
        ("{{ workload.user.items | default(0) }}", 0),
        ("{{ workload.list.append | default(0) }}", 0),
        ("{{ workload.text.upper | default(0) }}", 0),
        ("{{ workload.user.items() }}", [["name", "Ann"]]),
        ("{{ workload.user.get('x', 9) }}", 9),
    ],
)
def test_a_missing_attribute_is_undefined_at_any_depth_and_methods_exist_only_where_called(
    text: str, expected: Any
) -> None:
    assert evaluate(text) == expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "{{ workload.user.contact.mail }}",
            ["{{ workload.user.contact.mail }}", "`contact` is missing in `workload.user`"],
        ),
        ("mail: {{ workload.user.contact }}!", ["{{ workload.user.contact }}", "`contact` is missing"]),
        ("{{ foo.bar }}", ["{{ foo.bar }}", "`foo` is not known here"]),
        ("{{ workload.a + 1 }}", ["`a` is missing in `workload`"]),
        ("{{ workload.a == 1 }}", ["`a` is missing"]),
        ("{{ 1 in workload.a }}", ["`a` is missing"]),
        ("{{ workload.a | upper }}", ["`a` is missing"]),
        ("{{ workload.a | sort }}", ["`a` is missing"]),
        ("{{ [1, workload.a] }}", ["`a` is missing"]),
        ("{{ {'k': [workload.a]} }}", ["`a` is missing"]),
        ("{{ {workload.a: 1} }}", ["`a` is missing"]),
        ("{{ 'x' ~ workload.a }}", ["`a` is missing"]),
        ("{{ workload.list[7] }}", ["`7` is missing in `workload.list`"]),
        ("{{ workload.list | map(attribute='k') | list }}", ["`k` is missing"]),
        ("{{ 'x' if false }}", ["no `else`"]),
        ("{% for x in workload.a %}{% endfor %}", ["`a` is missing"]),
        ("{{ '%s' % workload.a }}", ["`a` is missing"]),
        ("{{ '{}'.format(workload.a) }}", ["`a` is missing"]),
        ("{{ workload.a.b() }}", ["`a`"]),
        ("{{ workload.a is odd }}", ["`a` is missing"]),
        ("{{ [workload.a] | join }}", ["`a` is missing"]),
        ("{{ now(workload.a) }}", ["`a` is missing"]),
    ],
)
def test_an_undefined_that_reaches_a_value_is_an_error_that_names_the_first_missing_part(
    text: str, parts: list[str]
) -> None:
    with pytest.raises(UndefinedValue) as caught:
        evaluate(text)
    for part in parts:
        assert part in str(caught.value)
    assert caught.value.expression == text
    assert caught.value.kind == "template"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{{ 1 / 0 }}", "template"),
        ("{{ 1 + 'a' }}", "template"),
        ("{{ 'x' | from_json }}", "template"),
        ("{{ now }}", "type"),
        ("{{ [now] }}", "type"),
        ("t: {{ now }}", "type"),
        ("{{ 1 + }}", "template"),
        ("{{ x | nope }}", "template"),
        ("{{ workload.n() }}", "template"),
        ("{{ workload.user.update({}) }}", "template"),
        ("{{ workload.list.append(1) }}", "template"),
        ("{{ 1 | tojson(bad=1) }}", "template"),
        ("{% set ns.x = 1 %}", "template"),
        ("{% for a, b in [[1]] %}{% endfor %}", "template"),
        ("{{ (-8) ** 0.5 }}", "type"),
        ("{{ 'a'.encode() }}", "type"),
    ],
)
def test_whatever_goes_wrong_is_a_template_error(text: str, kind: str) -> None:
    with pytest.raises(TemplateError) as caught:
        evaluate(text)
    assert caught.value.kind == kind


def test_the_message_of_an_error_quotes_the_expression_alone() -> None:
    with pytest.raises(TemplateError, match=r"in `\{\{ workload.n / 0 \}\}`: division by zero"):
        evaluate("a long text {{ workload.f }} with {{ workload.n / 0 }} inside")


@pytest.mark.parametrize("text", ["{{ now }}", "at {{ now }}", "{{ [now] }}"])
def test_a_function_that_is_not_called_is_told_of_with_the_way_to_call_it(text: str) -> None:
    with pytest.raises(TemplateError, match=r"it yields a function, which is not data: write `now\(\)`"):
        evaluate(text)


def test_a_function_is_no_condition() -> None:
    scopes = {"now": lambda: "2026-01-01"}
    with pytest.raises(TemplateError, match=r"it yields a function, which is not data: write `now\(\)`"):
        guard("{{ now }}").evaluate(scopes)
    assert guard("{{ now() }}").evaluate(scopes)


def test_what_comes_straight_from_the_scopes_is_not_copied() -> None:
    assert evaluate("{{ workload.map }}") is SCOPES["workload"]["map"]


def test_templates_are_cached_by_their_text() -> None:
    assert template("{{ a.b }}") is template("{{ a.b }}")


def test_forms_are_told_apart_without_evaluating() -> None:
    assert template("text").is_constant
    assert template("").is_constant
    assert not template("{{ 1 }}").is_constant
    assert template(" {{ {'a': '}}'} }} ").is_expression
    assert not template("{{ a }}{{ b }}").is_expression
    assert not template("{# c #}{{ a }}").is_expression
    assert template("{{ '{% if %}' }}").is_expression


def test_a_smaller_budget_is_kept() -> None:
    assert template("{{ 'a' * 100 }}").evaluate({}) == "a" * 100
    with pytest.raises(TemplateError, match="grew too large"):
        template("{{ 'a' * 100 }}").evaluate({}, Budget(size=50))


def test_an_error_raised_by_a_function_of_the_scopes_is_a_template_error() -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(TemplateError):
        evaluate("{{ broken() }}", broken=broken)


@pytest.mark.parametrize("text", ["{{ 1e400 }}", "{{ [-1e400] }}", "{{ 1e400 > é }}"])
def test_a_number_that_is_too_large_to_be_one_does_not_parse(text: str) -> None:
    (problem,) = template(text).problems
    assert problem.code == "template-syntax"
    assert "the number is too large" in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "{{ 1e308 * 10 }}",
        "{{ 1e308 ** 2 }}",
        "{{ 1e308 + 1e308 }}",
        "{{ [1e308, 1e308] | sum }}",
        "{{ '1e400' | from_json }}",
        "{{ '[NaN]' | from_json }}",
        "{{ n }}",
        "{{ [n] }}",
        "of {{ n }}",
        "{{ [n] | tojson }}",
    ],
)
@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_no_template_yields_infinity_or_nan(text: str, number: float) -> None:
    with pytest.raises(TemplateError):
        template(text).evaluate({"n": number})


def test_the_words_inf_and_nan_are_not_numbers() -> None:
    assert template("{{ ['inf' | float, 'nan' | float(7), '1e400' | float] }}").evaluate({}) == [0.0, 7, 0.0]


@pytest.mark.parametrize("source", ["{{ '\\ud800' }}", "a {{ '\\ud800' }}", "{{ '\"\\\\ud800\"' | from_json }}"])
def test_half_a_character_is_an_error_and_never_a_value(source: str) -> None:
    with pytest.raises(TemplateError):
        template(source).evaluate({})

"""Filters, tests and methods: Jinja2's own mean what they mean there, and ours what the language says."""

from __future__ import annotations

from typing import Any

import jinja2
import jsonpath
import pytest
from hypothesis import given, settings, strategies as st
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.tests import TESTS as JINJA_TESTS

from noetl.errors import TemplateError
from noetl.expr import scopes, template
from noetl.expr.sandbox import filters, jinja_filters, list_filters, operators

JINJA = jinja2.Environment()
SCOPES: dict[str, Any] = {
    "rows": [{"id": 3, "t": "B"}, {"id": 1, "t": "a"}, {"id": 2, "t": "b"}],
    "nums": [3, 1, 2, 1],
    "m": {"b": 1, "a": [1, 2]},
    "s": "Hello <b>World</b> & all",
    "f": 3.14159,
    "nested": [{"p": {"q": 1}}, {"p": {"q": 2}}],
}


def test_the_vocabulary_is_that_of_the_installed_jinja2_and_ours() -> None:
    assert set(JINJA_FILTERS) == scopes.JINJA_FILTERS
    assert scopes.TESTS == set(JINJA_TESTS) == set(operators.TESTS)
    assert set(jinja2.defaults.DEFAULT_NAMESPACE) == scopes.FUNCTIONS
    assert filters.FILTERS.keys() | list_filters.LIST_FILTERS.keys() | jinja_filters.BORROWED.keys() == scopes.FILTERS


SAME_AS_JINJA = [
    "nums | sort", "nums | unique | list", "nums | max", "nums | min", "nums | sum", "nums | reverse | list", "nums | first",
    "nums | last", "nums | length", "nums | count", "nums | join(',')", "nums | batch(3, 0) | list", "nums | slice(2) | list",
    "nums | select('odd') | list", "nums | reject('eq', 1) | list", "nums | map('string') | list", "nums | list",
    "rows | map(attribute='id') | list", "rows | sort(attribute='t') | map(attribute='id') | list", "rows | sum('id')",
    "rows | selectattr('id', 'gt', 1) | map(attribute='t') | join", "rows | rejectattr('id', 'in', [1]) | list",
    "rows | join(',', attribute='t')", "rows | map(attribute='zz', default='-') | list", "rows | min(attribute='id')",
    "rows | groupby('t') | list", "nested | map(attribute='p.q') | list", "nested | join('', 'p.q')", "m | dictsort", "m | items | list",
    "m | tojson", "m | xmlattr", "m | urlencode", "m | length", "m | list",
    "s | upper", "s | lower", "s | title", "s | capitalize", "s | trim('H')", "s | striptags", "s | escape", "s | forceescape",
    "s | safe", "s | replace('l', 'L', 2)", "s | truncate(12)", "s | wordcount", "s | wordwrap(5)", "s | center(40)", "s | indent",
    "s | urlencode", "s | urlize", "s | length", "s | first", "s | last", "s | list", "s | reverse", "s | string", "s | tojson",
    "f | round(2)", "f | round(1, 'floor')", "f | int", "f | string", "'42' | int", "'x' | int(7)", "'0x1F' | int(base=16)",
    "'3.9' | int", "'2.5' | float", "'x' | float(1.5)", "-5 | abs", "1000000 | filesizeformat", "'%s-%03d' | format('a', 7)",
    "'%(a)s' | format(a=1)", "[1, [2]] | pprint", "missing | default('d')", "'' | d('e', true)", "none | default('f')",
    "[[3, 'b'], [1, 'a']] | sort", "'a,b' .split(',')", "s.startswith('He')", "'{}-{a[0]}'.format(1, a=[2])", "'%s|%s' % (1, 'x')",
    "'a'.join(['x', 'y'])", "m.keys() | list", "m.values() | list", "m.get('zz', 5)", "nums.index(2)", "nums.count(1)",
    "'x'.center(5, '*')", "'7'.zfill(3)", "'a\\tb'.expandtabs(4)", "'aXbX'.replace('X', 'y', 1)", "'abc'[::-1]", "(1.0).is_integer()",
]  # fmt: skip


@pytest.mark.parametrize("expression", SAME_AS_JINJA)
def test_an_expression_yields_what_jinja2_yields(expression: str) -> None:
    theirs = JINJA.compile_expression(expression)(**SCOPES)
    if isinstance(theirs, list):
        theirs = [list(part) if isinstance(part, tuple) else part for part in theirs]
    assert template("{{ " + expression + " }}").evaluate(SCOPES) == theirs


@pytest.mark.parametrize("name", sorted(JINJA_TESTS.keys() - {"filter", "test"}))
def test_a_test_answers_as_in_jinja2(name: str) -> None:
    arguments = {"divisibleby": "(2)", "sameas": "(none)", "in": "([1, 4])"}.get(name, "")
    if name in {
        "eq",
        "equalto",
        "==",
        "ne",
        "!=",
        "gt",
        "greaterthan",
        ">",
        "ge",
        ">=",
        "lt",
        "lessthan",
        "<",
        "le",
        "<=",
    }:
        if not name.isalpha():
            return  # these are for `select('==', 1)`
        arguments = "(4)"
    for value in ["4", "'a'", "'A'", "none", "[1]", "{}", "1.5", "true"]:
        expression = f"{value} is {name}{arguments}"
        try:
            theirs = JINJA.compile_expression(expression)()
        except TypeError:
            with pytest.raises(TemplateError):
                template("{{ " + expression + " }}").evaluate({})
        else:
            assert template("{{ " + expression + " }}").evaluate({}) == theirs, expression


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'abc' | sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("'héllo' | b64encode", "aMOpbGxv"),
        ("'aMOpbGxv' | b64decode", "héllo"),
        ("{'a': [1, none, true], 'é': 'ü'} | to_json", '{"a": [1, null, true], "é": "ü"}'),
        ("{'a': [1, none, true]} | to_json | from_json", {"a": [1, None, True]}),
        ("{'b': 1, 'a': 2} | to_json", '{"b": 1, "a": 2}'),
        ("[1] | to_json(indent=1)", "[\n 1\n]"),
        ("doc | jsonpath('$.a.b')", [5]),
        ("doc | jsonpath('$.none')", []),
        ("doc | jsonpath('$.rows[*].id')", [1, 2]),
        ("doc | jsonpath('$..id')", [1, 2]),
        ("(doc.rows, 1) | jsonpath('$[0][0].id')", [1]),
        ("'x' | sql | raw", "x"),
        ("range(3) | to_json", "[0, 1, 2]"),
    ],
)
def test_the_languages_own_filters(expression: str, expected: Any) -> None:
    scopes = {"doc": {"a": {"b": 5}, "rows": [{"id": 1}, {"id": 2}]}}
    assert template("{{ " + expression + " }}").evaluate(scopes) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "'{' | from_json",
        "5 | from_json",
        "[1] | sha256",
        "'?' | b64decode",
        "'/w==' | b64decode",
        "1 | jsonpath('$[')",
        "now | to_json",
        "[now] | tojson",
        "5 | length",
        "5 | items",
        "5 | list",
    ],
)
def test_a_filter_that_cannot_work_is_a_template_error(expression: str) -> None:
    with pytest.raises(TemplateError):
        template("{{ " + expression + " }}").evaluate({"now": lambda: 1})


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(json_values)
def test_any_json_value_survives_every_way_through_a_template(value: Any) -> None:
    scopes = {"v": value}
    assert template("{{ v }}").evaluate(scopes) == value
    assert template("{{ [v][0] }}").evaluate(scopes) == value
    assert template("{{ v | to_json | from_json }}").evaluate(scopes) == value
    text = template("<{{ v }}>").evaluate(scopes)
    if isinstance(value, (list, dict)):
        assert text == "<" + template("{{ v | tojson }}").evaluate(scopes) + ">"
        assert text == "<" + str(JINJA.from_string("{{ v | tojson }}").render(scopes)) + ">"


documents = st.recursive(
    st.one_of(st.none(), st.integers(0, 9), st.sampled_from(["a", "b"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, max_size=3)
    ),
    max_leaves=12,
)
path_steps = st.sampled_from(
    [".a", ".b", "['c d']", '["a"]', "[0]", "[-1]", "[1]", "[*]", ".*", "..a", "..*", "..[0]", "..['b']"]
)


@settings(max_examples=300, deadline=None)
@given(documents.filter(lambda value: isinstance(value, (list, dict))), st.lists(path_steps, max_size=4).map("".join))
def test_a_plain_path_finds_what_the_library_finds(document: Any, steps: str) -> None:
    assert template("{{ d | jsonpath(p) }}").evaluate({"d": document, "p": "$" + steps}) == jsonpath.findall(
        "$" + steps, document
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.rows[?@.id > 1].id", [2, 3]),
        ("$.rows[0,2].id", [1, 3]),
        ("$.rows[0:2].id", [1, 2]),
        ("$", [{"rows": [{"id": 1}, {"id": 2}, {"id": 3}]}]),
    ],
)
def test_any_other_path_is_left_to_the_library(path: str, expected: Any) -> None:
    assert (
        template("{{ d | jsonpath(p) }}").evaluate({"d": {"rows": [{"id": n} for n in (1, 2, 3)]}, "p": path})
        == expected
    )


@pytest.mark.parametrize("path", ["$[", "$[?match(@, 'a+')]", "$[?@ =~ /a/]", "a b", 5, "$" + "..*" * 30 + "[?@.a]"])
def test_a_path_that_is_wrong_or_could_run_for_ever_is_an_error(path: Any) -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep, deep[:1]]
    with pytest.raises(TemplateError):
        template("{{ d | jsonpath(p) }}").evaluate({"d": deep, "p": path})


def test_a_path_through_text_finds_nothing_in_it() -> None:
    assert template("{{ '[1]' | jsonpath('$[0,1]') }}").evaluate({}) == []
    assert template("{{ '[1]' | jsonpath('$') }}").evaluate({}) == ["[1]"]


@pytest.mark.parametrize(
    ("path", "keys"),
    [("$", ()), ("$.a.b", ("a", "b")), ("$['a'][0]", ("a", 0)), ("$.a[*]", None), ("$..a", None), ("$.a[?@.b]", None), ("a", None)],
)  # fmt: skip
def test_a_path_of_keys_alone_leads_to_one_value(path: str, keys: tuple[str | int, ...] | None) -> None:
    from noetl.expr.sandbox.jsonpath import plain_keys

    assert plain_keys(path) == keys

"""What a template reads and calls, and what is wrong with it, without running it."""

from __future__ import annotations

import pytest

from noetl.expr import Template, template


def paths(text: str) -> list[str]:
    return [".".join(read.path) + ("" if read.exact else ".*") for read in template(text).reads]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ output.data.rows[0].id }}", ["output.data.rows.0.id"]),
        ("{{ ctx[workload.which].patients }}", ["ctx.*", "workload.which"]),
        ("{{ ctx['a b'].c }}", ["ctx.a b.c"]),
        ("{{ a.b[1:2] }}", ["a.b.*"]),
        ("{{ a.b.items() }}", ["a.b"]),
        ("{{ a.b.get(c.d) }}", ["a.b", "c.d"]),
        ("{{ (a.b | default(c.d)).e }}", ["a.b", "c.d"]),
        ("x/{{ a.b }}/{{ c }}", ["a.b", "c"]),
        ("{{ done('a') and range(n) }}", ["n"]),
        (
            "{% for x in a.rows if x.ok and b %}{{ x.id }}{{ loop.index }}{{ c }}{% else %}{{ x }}{% endfor %}{{ loop }}",
            ["a.rows", "b", "c", "x", "loop"],
        ),
        ("{% set y = a.b %}{{ y.c }}", ["a.b"]),
        ("{% set y %}{{ a }}{% set z = 1 %}{{ z }}{% endset %}{{ y }}{{ z }}", ["a", "z"]),
        ("{% with q = a.b, r = q %}{{ q }}{{ r }}{% endwith %}{{ q }}", ["a.b", "q", "q"]),
        ("{% if a %}{% set b = 1 %}{% endif %}{{ b }}", ["a"]),
        ("{% filter replace(a, 'b') %}{{ c }}{% endfilter %}", ["a", "c"]),
        ("{% set ns = namespace(x=a) %}{% set ns.x = b %}{{ ns.x }}", ["a", "b"]),
        ("{% for k, v in a.items() %}{{ k }}{{ v }}{% endfor %}", ["a"]),
        ("{{ {'k': a, b: 1}[c] ~ d ** -e // (f, g) }}", ["a", "b", "c", "d", "e", "f", "g"]),
        ("{{ f(*a, **b) }}", ["a", "b"]),
        ("{{ x is divisibleby y }}", ["x", "y"]),
        ("{{ true and none }}", []),
        ("plain", []),
    ],
)
def test_reads_are_paths_up_to_the_last_literal_part(text: str, expected: list[str]) -> None:
    assert sorted(paths(text)) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        "{{ a.b }}",
        "  {{   a.b.c }}",
        "x {{ q }} y {{ 'a' ~ b.c }}",
        "{% if zz %}{{ q.r | upper }}{% endif %}",
        "{{ [a, (b)] }}",
    ],
)
def test_offsets_point_at_the_root_name(text: str) -> None:
    for read in template(text).reads:
        assert text[read.offset :].startswith(read.path[0])


def test_calls_are_told_with_their_literal_arguments() -> None:
    found = template("{{ done('a') and all_done(['b', 'c', x]) or ok(y) or quiet() }}").calls
    assert [(call.name, call.args) for call in found] == [
        ("done", ("a",)),
        ("all_done", ("b", "c", None)),
        ("ok", (None,)),
        ("quiet", ()),
    ]
    assert found[0].offset == 3


def test_a_function_bound_by_the_template_is_no_call() -> None:
    assert [call.name for call in template("{% set f = joiner() %}{{ f() }}").calls] == ["joiner"]


def test_filters_are_told_by_name() -> None:
    assert template("{{ a | sql | upper }} {{ b | raw }}").filters == {"sql", "upper", "raw"}


def problem(found: Template) -> tuple[str, int]:
    (only,) = found.problems
    return only.code, only.offset


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("{{ workload.x | to_jsonn }}", "unknown-filter", "to_jsonn"),
        ("a {{ b }} {{ x is defind }}", "unknown-filter", "defind"),
        ("{% if x is defind %}{% endif %}", "unknown-filter", "defind"),
        ("{{ 1 + }}", "template-syntax", "}}"),
        ("{{ }}", "template-syntax", ""),
        ("text {{ a b }}", "template-syntax", "b }}"),
        ("{{ (a }}", "template-syntax", ""),
        ("{{ 'a }}", "template-syntax", ""),
        ("{{ broken", "template-syntax", ""),
        ("ok {% macro x() %}{% endmacro %}", "template-syntax", "macro"),
        ("{% call x() %}{% endcall %}", "template-syntax", "call"),
        ("{% include 'x' %}", "template-syntax", "include"),
        ("{% import 'x' as y %}", "template-syntax", "import"),
        ("{% from 'x' import y %}", "template-syntax", "from"),
        ("{% extends 'x' %}", "template-syntax", "extends"),
        ("{% block x %}{% endblock %}", "template-syntax", "block"),
        ("{% autoescape true %}{% endautoescape %}", "template-syntax", "autoescape"),
        ("{% for x in y %}", "template-syntax", ""),
        ("{% nonsense %}", "template-syntax", "nonsense"),
        ("{{ a, }} {{ }}", "template-syntax", ""),
        ("{# open", "template-syntax", ""),
        ("{{ " + "9" * 5000 + " }}", "template-syntax", ""),
        ("{{ " + "(" * 3000 + ")" * 3000 + " }}", "template-syntax", ""),
    ],
)
def test_problems_have_a_code_a_sentence_and_a_place(text: str, code: str, at: str) -> None:
    (only,) = template(text).problems
    assert only.code == code
    assert only.message
    assert not only.message.endswith(".")
    if at:
        assert text[only.offset :].lstrip().startswith(at)


@pytest.mark.parametrize("text", ["{{ [" + "1," * 50_000 + "] }}", "{% if x %}" + "y" * 100_000 + "{% endif %}"])
def test_what_would_take_long_to_read_is_refused_with_its_length(text: str) -> None:
    (only,) = template(text).problems
    assert only.code == "template-syntax"
    assert only.message.endswith("characters long; 100,000 are the limit")


def test_text_with_expressions_in_it_may_be_of_any_length() -> None:
    assert template("x" * 200_000 + "{{ y }}").problems == ()


def test_all_problems_of_a_template_are_told_at_once() -> None:
    assert [p.code for p in template("{{ a | nope }}{{ 1 + }}{{ b is nah }}").problems] == [
        "unknown-filter",
        "template-syntax",
        "unknown-filter",
    ]

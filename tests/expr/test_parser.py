"""The quick parser answers what Jinja2's would, or leaves the question to it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings, strategies as st

from noetl.expr.syntax.facts import TemplateProblem
from noetl.expr.syntax.jinja import parse_expression
from noetl.expr.syntax.nodes import Expr
from noetl.expr.syntax.parser import NeedsJinja, parse

USUAL = [
    "a.b.c",
    "output.status == 'error' and output.http.status in [429, 503]",
    "ctx.n | default(0) + 1",
    "{'a': [1, none, true], \"b\": {}} | to_json | from_json",
    "a if b else c if d else e",
    "a ~ b ~ c + d - e * f ** -g // h % i",
    "not a and not b or c not in d",
    "x is defined and y is not none and z is divisibleby 3",
    "x[0][1:2][::2][:]['k']",
    "f(a, b=1, c=[x, y])(z)",
    "(1, 2, ) + () ~ (3)",
    "'a' \"b\" '\\n\\'\\u00e9\\d'",
    "1.5e3 + 2e-1 - 0",
    "-a.b | abs",
    "a.and.or.if",
    "rows | selectattr('a', 'eq', 1) | map(attribute='b') | list",
]
ODD = [
    "a, b",
    "a.0.b",
    "1_000",
    "f(*a, **b)",
    "a[1, 2]",
    "ä.ö",
    "x is foo.bar",
    "0x1F",
    "007",
    "if",
    "a b",
    "x | f.g",
    "",
    "a ? b",
    "1.",
    "a..b",
    "{1, 2}",
    "x is defined if y else z",
]


def quick(source: str) -> Expr | None:
    try:
        return parse(source)
    except NeedsJinja:
        return None


@pytest.mark.parametrize("source", USUAL)
def test_what_people_usually_write_is_parsed_without_jinja2_and_to_the_same_tree(source: str) -> None:
    assert quick(source) is not None
    assert quick(source) == parse_expression(source)


@pytest.mark.parametrize("source", ODD)
def test_what_is_odd_or_wrong_is_left_to_jinja2(source: str) -> None:
    assert quick(source) is None


names = st.sampled_from(["a", "b", "ctx", "not_", "iff", "true", "none", "is_", "_x"])
numbers = st.one_of(st.integers(0, 10**6).map(str), st.floats(0, 1e9, allow_nan=False).map(repr))
quoted = st.text(string.ascii_letters + " \\'\"{}%é\n", max_size=8).map(
    lambda t: "'" + t.replace("\\", "\\\\").replace("'", "\\'") + "'"
)
leaves = st.one_of(names, numbers, quoted)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operator = st.sampled_from(
        [
            " + ",
            " - ",
            "*",
            " / ",
            "//",
            " % ",
            "**",
            " ~ ",
            " == ",
            " != ",
            " < ",
            ">=",
            " in ",
            " not in ",
            " and ",
            " or ",
        ]
    )
    return st.one_of(
        st.tuples(inner, operator, inner).map("".join),
        inner.map("({})".format),
        inner.map("not {}".format),
        inner.map("-{}".format),
        inner.map("{}.name".format),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}:]"),
        st.lists(inner, max_size=3).map(lambda p: "[" + ", ".join(p) + "]"),
        st.lists(inner, max_size=3).map(lambda p: "(" + ", ".join(p) + ",)"),
        st.lists(st.tuples(inner, inner), max_size=2).map(lambda p: "{" + ", ".join(f"{k}: {v}" for k, v in p) + "}"),
        st.tuples(inner, inner, inner).map(lambda p: f"{p[0]} if {p[1]} else {p[2]}"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]} | default({p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"f({p[0]}, k={p[1]})"),
        inner.map("{} is defined".format),
        st.tuples(inner, inner).map(lambda p: f"{p[0]} is not eq {p[1]}"),
    )


expressions = st.recursive(leaves, grown, max_leaves=12)


@settings(max_examples=400, deadline=None)
@given(expressions)
def test_wherever_the_quick_parser_answers_jinja2_agrees(source: str) -> None:
    tree = quick(source)
    if tree is not None:
        assert parse_expression(source) == tree


tokens = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            ".",
            ",",
            ":",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "|",
            "is",
            "not",
            "in",
            "if",
            "else",
            "and",
            "or",
            "+",
            "-",
            "*",
            "**",
            "~",
            "==",
            "<",
            "1",
            "2.5",
            "'x'",
            '"y"',
            "defined",
            "true",
            "=",
            "%",
            "//",
        ]
    ),
    max_size=9,
)


@settings(max_examples=400, deadline=None)
@given(tokens, st.sampled_from(["", " "]))
def test_nonsense_is_accepted_by_neither_or_understood_alike(words: list[str], space: str) -> None:
    source = space.join(words)
    tree = quick(source)
    theirs = parse_expression(source)
    if tree is not None:
        assert theirs == tree
    else:
        assert theirs is not None
    assert not (isinstance(theirs, TemplateProblem) and tree is not None)

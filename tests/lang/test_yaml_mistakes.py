"""Slips of writing YAML: told where the mistake is, not where the parser gave up, and mended where that is certain."""

import pytest

from noetl.lang.loader import load
from noetl.lang.printing.diagnostic_report import apply_edits
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"


def told(text: str) -> Diagnostic:
    return load(text, KINDS).diagnostics[0]


def place(found: Diagnostic) -> tuple[int, int]:
    assert found.span is not None
    return found.span.line, found.span.column


def mended(text: str) -> str:
    """The text after the edits of what is found, round after round."""
    for _ in range(5):
        text = apply_edits(text, (edit for found in load(text, KINDS).diagnostics for edit in found.edits))
    return text


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a: [1, 2\nb: 3\n", (1, 4), "this `[` is never closed"),
        ("a: [1, 2", (1, 4), "this `[` is never closed"),
        ("a: {x: 1\nb: {y: 2}\n", (1, 4), "this `{` is never closed"),
        ("a: [1, 2}\n", (1, 4), "this `[` is never closed"),
        ("a: {b: 1, c: [1, 2}\nd: 3\n", (1, 14), "this `[` is never closed"),
        ('a: "foo\nb: 1\n', (1, 4), "this quote is never closed"),
        ('a: "foo\nb: "bar"\nc: 1\n', (1, 4), "this quote is never closed on its line"),
        ("x: 1\na: 'it\n\nb: 'x'\n", (2, 4), "this quote is never closed on its line"),
        ("a: 'it's'\n", (1, 4), "the apostrophe ends the quoted text"),
    ],
)
def test_what_was_left_open_is_told_where_it_was_opened(text: str, where: tuple[int, int], message: str) -> None:
    found = told(text)
    assert (found.code, place(found), found.message) == ("yaml-syntax", where, message)
    assert found.fix


@pytest.mark.parametrize("text", ["a: {x: 1 y: 2}\n", "a: {\n x: 1\n y: 2\n}\n"])
def test_a_bracket_that_is_closed_is_not_blamed_for_what_stands_inside(text: str) -> None:
    found = told(text)
    assert "expected ','" in found.message
    assert "comma" in (found.fix or "")


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("tool:\n  kind:python\n  code: x\n", (2, 3), "a space is missing after `kind:`"),
        ("tool:\n  code: x\n  kind:python\nb: 1\n", (3, 3), "a space is missing after `kind:`"),
        ("w:\n  -step: a\n    tool: x\n", (2, 3), "a space is missing after `-`"),
        ("w:\n  - step: a\n  -step: b\n", (3, 3), "a space is missing after `-`"),
        ("a:\n\u00a0\u00a0b: 1\n  c: 2\n", (2, 1), "YAML takes a no-break space for a letter"),
        ("a:\n  b:\u00a01\n  c: 2\n", (2, 5), "YAML takes a no-break space for a letter"),
    ],
)
def test_a_missing_space_is_told_and_put_in(text: str, where: tuple[int, int], message: str) -> None:
    found = told(text)
    assert (found.code, place(found), found.message) == ("yaml-syntax", where, message)
    assert "yaml-syntax" not in [one.code for one in load(mended(text), KINDS).diagnostics]


@pytest.mark.parametrize(
    "steps",
    [
        "- step: a\n  tool: {kind: noop}\n  spec:\n    timeout:5\n",
        "- step: a\n  tool: {kind:noop}\n",
        "- step: a\n  tool: {kind: noop}\n  desc:about\n",
        "-step: end\n",
        "- step: a\n  tool: {kind: http, url: x,\u00a0method: GET}\n",
    ],
)
def test_a_missing_space_that_yaml_does_not_mind_is_put_in_too(steps: str) -> None:
    found = load(HEAD + steps, KINDS).diagnostics
    assert any("space" in one.message or "space" in (one.fix or "") for one in found), found
    assert load(mended(HEAD + steps), KINDS).diagnostics == ()


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ('a: "\\d"\n', "write the backslash twice"), ("a: *.txt\n", "quotes"), ("a: %x\n", "quotes"), ("a: `x`\n", "quotes"),
        ("a: b: c\n", "quotes"),
    ],
)  # fmt: skip
def test_what_yaml_reads_as_a_sign_is_told_with_the_way_out(text: str, fix: str) -> None:
    assert fix in (told(text).fix or "")


def test_a_long_line_is_looked_at_in_linear_time() -> None:
    assert told("a: [" + ": {{ x }} " * 100_000).code == "yaml-syntax"


def test_typographic_quotes_are_told_and_made_straight() -> None:
    text = f"{HEAD}- step: a\n  tool: {{kind: shell, cmd: “ls”}}\n"
    (found,) = load(text, KINDS).diagnostics
    assert (found.code, place(found)) == ("typographic-quotes", (6, 28))
    assert load(mended(text), KINDS).diagnostics == ()


@pytest.mark.parametrize("step", ["{step: end, desc: “x”}", "{step: a, tool: {kind: shell, cmd: say “x” twice}}"])
def test_typographic_quotes_in_prose_are_nobodys_business(step: str) -> None:
    assert load(f"{HEAD}- {step}\n", KINDS).diagnostics == ()

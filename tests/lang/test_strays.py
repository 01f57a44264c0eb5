"""Keys and lines at the wrong depth: told for what they are, and moved where that is certain."""

from __future__ import annotations

import pytest

from noetl.lang.loader import load
from noetl.lang.printing.diagnostic_report import apply_edits
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"
KINDS = ToolKinds()


def found(steps: str) -> tuple[str, list[Diagnostic]]:
    text = HEAD + steps
    return text, [one for one in load(text, KINDS).diagnostics if one.severity == "error"]


@pytest.mark.parametrize(
    ("steps", "message", "fix"),
    [
        (
            "- step: a\n  tool:\n  kind: python\n  input: {x: 1}\n  code: |\n    def main(x):\n\n        return x\n  set: {ctx.a: 1}\n",
            "`kind`, `input`, `code` stand beside `tool`, which is empty",
            "put them under `tool`: indent them by two more spaces",
        ),
        (
            "- step: a\n  loop:\n  in: [1]\n  iterator: x\n  tool: {kind: noop}\n",
            "`in`, `iterator` stand beside `loop`, which is empty",
            "put them under `loop`: indent them by two more spaces",
        ),
        (
            "- step: a\n  next:\n  arcs:\n  - step: a\n    when: '{{ workload.x }}'\n",
            "`arcs` stands beside `next`, which is empty",
            "put it under `next`: indent it by two more spaces",
        ),
    ],
)  # fmt: skip
def test_keys_beside_the_empty_one_they_belong_under_are_told_once_and_moved(
    steps: str, message: str, fix: str
) -> None:
    text, (one,) = found(steps)
    assert (one.code, one.message, one.fix) == ("unknown-key", message, fix)
    assert [again.message for again in load(apply_edits(text, one.edits), KINDS).diagnostics] == []


@pytest.mark.parametrize(
    ("steps", "fix"),
    [
        ("- step: a\n  loop:\n    iterator: x\n  in: [1]\n  tool: {kind: noop}\n", "it belongs under `loop`: indent it further"),
        ("- step: a\n  tool:\n  - fetch:\n    kind: noop\n", "write `name: fetch`, or indent the lines below `fetch:` further"),
        ("- step: a\n  tols: {kind: noop}\n", "did you mean `tool`?"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_told_with_what_is_likely_wrong(steps: str, fix: str) -> None:
    assert fix in [one.fix for one in found(steps)[1] if one.code == "unknown-key"]


def test_the_example_of_the_help_is_answered_with_the_key_that_was_meant_and_nothing_else() -> None:
    _, (one,) = found("- step: a\n  tols: {kind: noop}\n")
    assert (one.fix, one.edits) == ("did you mean `tool`?", ())


@pytest.mark.parametrize(
    ("steps", "line", "fix"),
    [
        ("  - step: a\n    loop:\n      iterator: x\n     in: [1]\n", 8, "indent it by 6 to stand beside `iterator`, or by 4 to stand beside `loop`"),
        ("  - step: a\n    loop:\n        iterator: x\n      in: [1]\n", 8, "indent it by 8 to stand beside `iterator`, or by 4 to stand beside `loop`"),
        ("  - step: a\n    loop:\n      in: [1]\n       iterator: x\n", 8, "indent it by 6 to stand beside `in`"),
        ("  - step: a\n   tool: {kind: noop}\n  - step: end\n", 6, "indent it by 4 to stand beside `step`"),
        ("  - step: a\n  tool: {kind: noop}\n", 6, "indent it by 4 to stand beside `step`"),
        ("  - step: a\n    loop:\n   in: [1]\n    tool: {kind: noop}\n", 7, "indent it by 4 to stand beside `loop`"),
        ("  - step: a\n    tool:\n     - kind: noop\n    - kind: noop\n", 8, "indent it by 5 to stand beside `-`"),
        ("  - step: a\n    tool: {kind: noop,\n  input: {}}\n     set: {ctx.a: 1}\n", 8, "indent it by 4 to stand beside `tool`"),
        ("  - step: a\n    tool:\n      kind: python\n      code: |\n        x = 1\n          y\n       z = 2\n", 11, "indent it by 8, as the text above it"),
    ],
)  # fmt: skip
def test_a_line_that_is_indented_like_no_other_is_told_with_where_it_could_stand(
    steps: str, line: int, fix: str
) -> None:
    _, (one,) = found(steps)
    assert one.span is not None
    assert (one.code, one.span.line, one.fix) == ("yaml-syntax", line, fix)
    assert "which fits nothing above it" in one.message


def test_text_that_goes_on_with_a_colon_may_have_been_meant() -> None:
    _, (one,) = found("  - step: a\n    desc: one\n      note: two\n")
    assert one.fix == "indent it by 4 to stand beside `desc`, or put text that goes on here in quotes"


@pytest.mark.parametrize("steps", ["  - step: a\n    desc: a: b\n", "  - step: 'a\n", "  - [\n", "  - step: %a\n"])
def test_indentation_that_fits_is_not_blamed(steps: str) -> None:
    assert all("indented" not in one.message for one in found(steps)[1])


@pytest.mark.parametrize(
    ("keys", "fix", "edit"),
    [
        ("kind: noop, spec: {timeout: '10s'}", "write seconds, a number: 10", "10"),
        ("kind: wait, seconds: 1.5 min", "write seconds, a number: 90", "90"),
        ("kind: wait, seconds: 250ms", "write seconds, a number: 0.25", "0.25"),
        ("kind: noop, spec: {timeout: soon}", "write a number or a map", None),
    ],
)
def test_a_duration_with_a_unit_is_told_in_seconds(keys: str, fix: str, edit: str | None) -> None:
    _, (one,) = found(f"- {{step: a, tool: {{{keys}}}}}\n")
    assert one.fix == fix
    assert [made.text for made in one.edits] == ([edit] if edit else [])


def test_a_jump_without_a_task_to_go_to_is_marked_where_it_is_said() -> None:
    rules = "[{when: true, then: {do: jump}}]"
    text, (one,) = found(f"- {{step: a, tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}}}\n")
    assert one.span is not None
    assert text.splitlines()[4][one.span.column - 1 : one.span.end_column - 1] == "do: jump"

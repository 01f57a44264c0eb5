"""Comments `# TODO noetl:` are reported where they stand; what only looks like one is not."""

from __future__ import annotations

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: asked}\n"


def find_todos(text: str, *, strict: bool = False, legacy: bool = False) -> list[Diagnostic]:
    found = load(text, ToolKinds(), strict=strict, legacy=legacy).diagnostics
    return [one for one in found if one.code == "migration-todo"]


def test_each_comment_is_a_warning_at_its_own_place() -> None:
    """Above a step, behind a value, beside the header of a block, at the end of the file, in a flow map."""
    text = HEAD + (
        "workflow:\n"
        "  # TODO noetl: above\n"
        "  - step: start # TODO noetl: behind\n"
        "    tool:\n"
        "      kind: python\n"
        "      code: | # TODO noetl: header\n"
        "        result = 1\n"
        "      spec: {timeout: 3, # TODO noetl: flow\n"
        "        retries: 1}\n"
        "#TODO noetl:   end  \n"
    )
    found = find_todos(text)
    asked = ["above", "behind", "header", "flow", "end"]
    assert [one.message.rpartition(": ")[2] for one in found] == asked
    for one, word in zip(found, asked, strict=True):
        assert one.span is not None
        line = text.split("\n")[one.span.line - 1]
        assert line[one.span.column - 1] == "#"
        assert word in line
        assert one.severity == "warning"


@pytest.mark.parametrize(
    "part",
    [
        "desc: 'a # TODO noetl: b'",
        "desc: a#TODO noetl:b",
        "desc: |\n      # TODO noetl: text\n      more",
        "desc: >-\n\n      # TODO noetl: folded",
        "desc: 'over\n      # TODO noetl: lines'",
        "desc: x # remove the # TODO noetl: comment",
        "desc: x # TODO: noetl",
        "desc: x # todo noetl: small",
    ],
)
def test_text_that_only_looks_like_such_a_comment_is_none(part: str) -> None:
    assert find_todos(f"{HEAD}workflow:\n  - step: start\n    {part}\n    tool: {{kind: noop}}\n") == []


def test_code_belongs_to_its_author() -> None:
    """Migration writes its comments into the YAML, never into code, so that a comment of the code is no open decision."""
    code = "      code: |\n        # TODO noetl: ours\n        result = 1\n"
    assert find_todos(f"{HEAD}workflow:\n  - step: start\n    tool:\n      kind: python\n{code}") == []


def test_strict_makes_them_errors() -> None:
    text = f"{HEAD}workflow:\n  - step: start # TODO noetl: which\n    tool: {{kind: noop}}\n"
    assert [one.severity for one in find_todos(text, strict=True)] == ["error"]


def test_a_file_with_older_constructs_reports_them_too() -> None:
    """They are looked for in the text, whatever a lowering makes of its nodes."""
    text = (
        f"{HEAD}workflow:\n  - step: start\n    # TODO noetl: which\n    args: {{code: '# TODO noetl: no'}}\n"
        "    tool: {kind: noop}\n"
    )
    assert len(find_todos(text, legacy=True)) == 1
    assert len(find_todos(text)) == 1


def test_comments_behind_anchors_aliases_and_empty_values_are_told_once() -> None:
    text = HEAD + (
        "x-a: &a # TODO noetl: one\n  k: v\n"
        "x-b: *a # TODO noetl: two\n"
        "x-c: # TODO noetl: three\n"
        "x-d:\n  # TODO noetl: four\nx-e: &b # TODO noetl: five\n  text\n"
        "workflow: [{step: start, tool: {kind: noop}}]\n"
    )
    words = [one.message.rpartition(": ")[2] for one in find_todos(text)]
    assert words == ["one", "two", "three", "four", "five"]

"""Tags of stored structs: literals, so that a class can get another name and stores are still read."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src"
#: tag → the fields behind it, in the order in which arrays of them would be written. A tag never changes its meaning
TAGS = {
    "Signal": ["name", "data", "number", "by"],
    "Cancel": ["why", "number"],
    "Pause": ["number", "with_parent"],
    "Resume": ["number", "with_parent"],
    "Denied": ["step_run_id", "iteration", "error", "number"],
    "pipe": ["since", "seq", "input", "begun", "number", "is_open", "wait", "unfolds"],
    "loop": [
        *("path", "items", "mode", "ctx", "step", "running", "results", "succeeded", "failed", "stopped", "error"),
        *("writes", "refs", "gathering"),
    ],
}


def tagged() -> dict[object, list[str]]:
    """The tag of every class in the source that says one, with its fields."""
    found: dict[object, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            words = {one.arg: one.value for one in node.keywords} if isinstance(node, ast.ClassDef) else {}
            if isinstance(node, ast.ClassDef) and words.keys() & {"tag", "tag_field"}:
                assert "tag_field" not in words, f"{path}: stores know the field `type`"
                value = words["tag"]
                tag = value.value if isinstance(value, ast.Constant) else ast.unparse(value)
                assert tag not in found, f"the tag {tag} is used twice"
                fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
                found[tag] = [one.id for one in fields if isinstance(one, ast.Name)]
    return found


def test_every_tag_is_a_literal_and_stands_in_the_table() -> None:
    """`tag=True` takes the name of the class, which another name of the class would change in every store."""
    assert tagged() == TAGS

"""What may mean something else here, and only a person can say: ids of executions, folders of commands."""

from __future__ import annotations

import re

from noetl.lang.legacy.lowered_document import Lowering, strings, task_items
from noetl.lang.reading.node import ListNode, MapNode, Scalar, text_of

#: an execution's id that is used as a number
_AS_NUMBER = re.compile(
    r"\{\{[^{}]*\bexecution_id\b[^{}]*\|\s*(?:int|float)\b|\bexecution_id\b[^{}]*\}\}'?\s*::\s*(?:big|small)?(?:int|serial|numeric)"
    r"|cast\(\s*'?\{\{[^{}]*\bexecution_id\b[^{}]*\}\}'?\s+as\s+(?:big|small)?(?:int|numeric)"
    r"|\bexecution_id\s+(?:big|small)?(?:int|serial|numeric|decimal)",
    re.IGNORECASE,
)
#: a path that depends on where a command runs
_RELATIVE = re.compile(
    r"(?:^|[\s=\"'(;&|])(?:\.{1,2}/|[A-Za-z0-9_-]+/)[\w.-]|(?:^|[;&|]\s*)(?:cd\s+[^/~$\s{]|make\b)", re.MULTILINE
)
#: what a command prints is no path
_PRINTED = re.compile(r"\b(?:echo|printf)\b(?:[^\n;|&>\"']|\"[^\"]*\"|'[^']*')*")
_ADDRESS = re.compile(r"\w+://\S+|(?<![\w.-])/\S+")
_SQL = ("postgres", "duckdb")


def lower(doc: Lowering) -> None:
    """Ask about what a migrated file cannot show."""
    if not doc.migrating or not doc.found_any:
        return
    for body, called in doc.bodies():
        for _name, task in task_items(body):
            holder = task.entry("kind") or called or body.entry("tool")
            if text_of(task, "kind") in _SQL and any(_AS_NUMBER.search(one.text) for one in strings(task)):
                doc.todo(
                    holder, "`execution_id` is text here: a column or a cast that is a number does not take it", task
                )
            if _depends_on_folder(task):
                said = "this runs in the playbook's folder, and ran in the caller's: write `cwd` if they differ"
                doc.todo(holder, said, task)


def _depends_on_folder(task: MapNode) -> bool:
    cmd = task.get("cmd")
    lines = cmd.items if isinstance(cmd, ListNode) else [cmd]
    if text_of(task, "kind") != "shell" or "cwd" in task:
        return False
    texts = [_PRINTED.sub("", line.text) for line in lines if isinstance(line, Scalar)]
    return any(_RELATIVE.search(_ADDRESS.sub("", text)) for text in texts)

"""DuckDB without a file: older engines gave each execution one database, and today each task has one in memory.

Where a table that one task makes is used by another, or by the next iteration, both get a file of the execution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from noetl.lang.legacy.lowered_document import Lowering, task_items
from noetl.lang.reading.node import ListNode, MapNode, Scalar, entry, make, map_of, text_of

FILE = "duckdb_{{ execution_id }}.duckdb"
_MADE = re.compile(
    r"\bCREATE\s+(?P<anew>OR\s+REPLACE\s+)?(?:TABLE|VIEW|SEQUENCE|SCHEMA|TYPE|MACRO|FUNCTION)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:main\.)?\"?(?P<name>\w+)",
    re.IGNORECASE,
)
_REMARKS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass
class _Use:
    """A task, a source or a target of DuckDB that names no file."""

    holder: MapNode
    sql: str
    #: it runs more than once
    repeats: bool

    def makes(self) -> dict[str, bool]:
        """The names that it creates, and whether it makes each anew."""
        return {found["name"].lower(): found["anew"] is not None for found in _MADE.finditer(self.sql)}

    def mentions(self, name: str) -> bool:
        return re.search(rf"\b{re.escape(name)}\b", self.sql, re.IGNORECASE) is not None


def lower(doc: Lowering) -> None:
    """Give tasks that share a table a file of the execution."""
    if not (doc.accepted or doc.migrating):
        return
    uses = list(_uses(doc))
    shared = {name for use in uses for name, anew in use.makes().items() if _is_shared(name, anew, use, uses)}
    for use in uses:
        if any(use.mentions(name) for name in shared):
            doc.report_older("habit", "a database of DuckDB without a file", f"`file: {FILE}`", use.holder)
            kind = use.holder.position("kind") + 1
            use.holder.put(entry("file", make(FILE, near=use.holder), near=use.holder), at=kind)


def _is_shared(name: str, anew: bool, maker: _Use, uses: list[_Use]) -> bool:  # noqa: FBT001  a fact of the name
    others = [use for use in uses if use is not maker and use.mentions(name) and use.makes().get(name) is not True]
    return bool(others) or (maker.repeats and not anew)


def _uses(doc: Lowering) -> Iterator[_Use]:
    for body, called in doc.bodies():
        repeats = called is not None or "loop" in body
        for _name, task in task_items(body):
            targets = task.get("targets")
            blocks = [task, map_of(task, "source"), *(targets.items if isinstance(targets, ListNode) else [])]
            for block in blocks:
                if isinstance(block, MapNode) and text_of(block, "kind") == "duckdb" and "file" not in block:
                    texts = [block.get(word) for word in ("query", "command", "table")]
                    sql = "\n".join(one.text for one in texts if isinstance(one, Scalar))
                    yield _Use(block, _REMARKS.sub(" ", sql), repeats)

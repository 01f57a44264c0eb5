"""Typographic quotes around a value: YAML takes them for letters, and the value is another than it looks."""

from __future__ import annotations

from noetl.lang.checks.subject import Subject
from noetl.lang.reading.node import PLAIN, ListNode, MapNode, Node, Scalar
from noetl.model.diagnostics import Edit

_OPENING, _CLOSING = "“”„‟", "“”‟"
#: text for people, in which such quotes may well be meant
_PROSE = frozenset({"desc", "description", "message"})


def check(subject: Subject) -> None:
    """Report values of the program that stand in typographic quotes; data may hold what it likes."""
    text = subject.problems.source.text
    if any(quote in text for quote in _OPENING):
        for block in ("keychain", "executor", "workflow", "workbook"):
            if (node := subject.root.get(block)) is not None:
                _look(subject, node)


def _look(subject: Subject, node: Node) -> None:
    if isinstance(node, MapNode):
        for entry in node.entries:
            if entry.name not in _PROSE:
                _look(subject, entry.value)
    elif isinstance(node, ListNode):
        for item in node.items:
            _look(subject, item)
    elif _is_quoted(node):
        inner = node.text[1:-1]
        quote = "'" if '"' in inner else '"'
        certain = not any(sign in inner for sign in (quote, "\\", "\n")) and not node.alias and not node.changed
        subject.problems.warning(
            "typographic-quotes",
            "these quotes are part of the text; YAML knows only \" and '",
            node.alias or (node.start, node.end),
            fix=f"write {quote}{inner}{quote}" if certain else "use straight quotes",
            edits=[Edit(node.start, node.end, f"{quote}{inner}{quote}")] if certain else (),
        )


def _is_quoted(node: Scalar) -> bool:
    return node.style == PLAIN and len(node.text) > 1 and node.text[0] in _OPENING and node.text[-1] in _CLOSING

"""Comments `# TODO noetl:` that a migration left in a playbook: each is a decision that is still open."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.model.diagnostics import Diagnostics

CODE = "migration-todo"
_WORDS = "TODO noetl:"
_TODO = re.compile(rf"#[ \t]*{_WORDS}[ \t]*(.*)", re.DOTALL)


def report_todos(text: str, problems: Diagnostics) -> None:
    """Report each comment; the text is YAML that can be read."""
    if _WORDS not in text:
        return  # nearly every file, and looking for comments takes a second reading
    for start, end in _comments(text):
        todo = _TODO.match(text, start, end)
        if todo is not None:
            asked = todo[1].rstrip() or "it does not say what"
            problems.warning(
                CODE,
                f"migration left this for you to decide: {asked}",
                (start, end),
                fix="decide, correct the place if need be, and remove the comment",
            )


def _comments(text: str) -> Iterator[tuple[int, int]]:
    """The comments of the YAML text; what looks like one inside of a value, code included, is a part of the value."""
    from noetl.lang.printing.outline import MAP, Outline

    outline = Outline(text)
    where = 0
    for at, kind in enumerate(outline.kind):
        if kind >= MAP:
            continue
        content = outline.content(at)
        yield from ((found.start, found.end) for found in outline.comments(where, content))
        yield from ((found.start, found.end) for found in outline.header_comment(at))
        where = max(where, content, outline.end[at])
    yield from ((found.start, found.end) for found in outline.comments(where, len(text)))

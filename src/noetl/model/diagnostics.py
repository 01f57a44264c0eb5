"""Diagnostic: one thing to say about a playbook, with its place and the way out."""

import enum
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from noetl.model.source import Source, Span


class Severity(enum.StrEnum):
    """How much a diagnostic matters: an error keeps the playbook from running."""

    ERROR = "error"
    WARNING = "warning"


class Edit(msgspec.Struct, frozen=True):
    """Replace the text between two offsets of the source."""

    start: int
    end: int
    text: str


class Diagnostic(msgspec.Struct, frozen=True):
    """One problem. `fix` says what to do; `edits`, where there are any, do it."""

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    fix: str | None = None
    edits: tuple[Edit, ...] = ()


#: nobody reads more, and telling a hundred thousand takes seconds
MOST = 5_000
#: a place: two offsets into the source, or a span, or nowhere
Where: TypeAlias = tuple[int, int] | Span | None


class Diagnostics:
    """Where the passes of the language put what they find: they go on, so that all problems are told at once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._found: dict[tuple[object, ...], Diagnostic] = {}
        #: whether anything found keeps the playbook from running
        self.has_errors = False

    def add(
        self,
        code: str,
        severity: Severity,
        message: str,
        at: Where,
        *,
        fix: str | None = None,
        edits: Iterable[Edit] = (),
    ) -> None:
        """Record a problem at a stretch of the source."""
        self.has_errors = self.has_errors or severity is Severity.ERROR
        if len(self._found) >= MOST:
            return
        if len(self._found) == MOST - 1:
            message += f" (and there are more problems: only the first {MOST:,} are told)"
        span = self.source.span(*at) if isinstance(at, tuple) else at
        found = Diagnostic(code, severity, message, span, fix, tuple(edits))
        self._found.setdefault((code, span and (span.line, span.column), message), found)

    def error(self, code: str, message: str, at: Where, *, fix: str | None = None, edits: Iterable[Edit] = ()) -> None:
        """Record an error."""
        self.add(code, Severity.ERROR, message, at, fix=fix, edits=edits)

    def warning(
        self, code: str, message: str, at: Where, *, fix: str | None = None, edits: Iterable[Edit] = ()
    ) -> None:
        """Record a warning."""
        self.add(code, Severity.WARNING, message, at, fix=fix, edits=edits)

    def found(self) -> tuple[Diagnostic, ...]:
        """All that was found, in the order of the source."""
        return tuple(sorted(self._found.values(), key=_by_place))


def _by_place(found: Diagnostic) -> tuple[int, int, str]:
    return (found.span.line, found.span.column, found.code) if found.span else (0, 0, found.code)

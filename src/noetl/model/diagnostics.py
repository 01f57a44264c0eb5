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


class TooManyErrors(Exception):
    """So many errors are told that nothing more needs to be looked for."""


class Diagnostics:
    """Where the passes of the language put what they find: they go on, so that all problems are told at once.

    Of errors and of warnings each the first `MOST` are kept. With `stops`, an error beyond them raises `Enough`.
    """

    def __init__(self, source: Source, *, stops: bool = False) -> None:
        self.source = source
        self._found: dict[tuple[object, ...], Diagnostic] = {}
        self._room = {Severity.ERROR: MOST, Severity.WARNING: MOST}
        #: of which there were more than are kept
        self._more: set[Severity] = set()
        self._stops = stops
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
        if not self._room[severity]:
            self._more.add(severity)
            if self._stops and severity is Severity.ERROR:
                raise TooManyErrors
            return
        span = self.source.span(*at) if isinstance(at, tuple) else at
        key = (code, span and (span.line, span.column), message)
        if key in self._found:
            return
        self._room[severity] -= 1
        self._found[key] = Diagnostic(code, severity, message, span, fix, tuple(edits))

    def error(self, code: str, message: str, at: Where, *, fix: str | None = None, edits: Iterable[Edit] = ()) -> None:
        """Record an error."""
        self.add(code, Severity.ERROR, message, at, fix=fix, edits=edits)

    def warning(
        self, code: str, message: str, at: Where, *, fix: str | None = None, edits: Iterable[Edit] = ()
    ) -> None:
        """Record a warning."""
        self.add(code, Severity.WARNING, message, at, fix=fix, edits=edits)

    def collect(self) -> tuple[Diagnostic, ...]:
        """All that was found, in the order of the source."""
        told = sorted(self._found.values(), key=_by_place)
        for severity in self._more:
            at = max(index for index, one in enumerate(told) if one.severity is severity)
            more = f" (and there are more problems: only the first {MOST:,} {severity}s are told)"
            told[at] = msgspec.structs.replace(told[at], message=told[at].message + more)
        return tuple(told)


def _by_place(found: Diagnostic) -> tuple[int, int, str]:
    return (found.span.line, found.span.column, found.code) if found.span else (0, 0, found.code)

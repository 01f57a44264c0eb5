"""Diagnostic: one thing to say about a playbook, with its place and the way out."""

import enum
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import msgspec

# Source and Span: where a thing stands in the author's file.


class Span(msgspec.Struct, frozen=True):
    """A stretch of source text by line and column, both counted from 1; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class Source:
    """A text with its name, able to turn character offsets into places."""

    def __init__(self, text: str, name: str = "playbook.yaml") -> None:
        self.text = text
        self.name = name

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = list(accumulate((len(line) + 1 for line in self.text.split("\n")), initial=0))
        starts.pop()
        return starts

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and a column, both from 1."""
        return self._line_starts[line - 1] + column - 1

    def span(self, start: int, end: int) -> Span:
        """The span between two offsets."""
        starts = self._line_starts
        line = bisect_right(starts, start)
        column = start - starts[line - 1] + 1
        if line == len(starts) or end < starts[line]:
            return Span(line, column, line, column + end - start)
        return Span(line, column, *self.place(end))

    def line_text(self, line: int) -> str:
        """The text of a line, without its line break."""
        starts = self._line_starts
        end = starts[line] if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r\n")

    def line_start(self, offset: int) -> int:
        """The offset at which the line that holds `offset` begins."""
        return self._line_starts[bisect_right(self._line_starts, offset) - 1]


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

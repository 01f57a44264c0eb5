"""Lines whose indentation fits nothing above them: told with those that do, because the parser only says that it is lost."""

from __future__ import annotations

import re
from typing import NamedTuple

_BLANK = re.compile(r"\s*(?:#.*)?$")
_DASHES = re.compile(r"(?:-(?: +|$))*")
_KEY = re.compile(r"(\"[^\"]*\"|'[^']*'|[^\s#'\"\[\]{},&*!|>%@`][^#:]*?)\s*:(?:\s|$)")
_OPENS = re.compile(r"(?:[:-]|:\s+[&!]\S+)\s*(?:#.*)?$")
_TEXT = re.compile(r"[:-]\s+(?:[&!]\S+\s+)?[|>][-+0-9]*\s*(?:#.*)?$")
_BRACKETS = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\[\]{}]")
#: lines looked at: a file may be a megabyte of anything
_MOST = 50_000
_DASH = "-"


class Level(NamedTuple):
    """A column at which something stands, and what: a key, a dash, or nothing that has a name."""

    column: int
    key: str


class Misplaced(NamedTuple):
    """A line that stands at no column of those around it."""

    #: where it begins, and how far it is indented
    start: int
    column: int
    #: where it could stand, the deepest first
    levels: tuple[Level, ...]


def misplaced(text: str, at: int) -> Misplaced | None:
    """The last line up to an offset, if its indentation is what stops the parser there."""
    end = text.find("\n", at)
    lines = text[: end if end >= 0 else len(text)].split("\n")
    if len(lines) > _MOST:
        return None
    reading = _Reading()
    start, found = 0, None
    for line in lines:
        if not _BLANK.match(line):
            levels = reading.take(line)
            found = Misplaced(start, _indent(line), levels) if levels else None
        start += len(line) + 1
    return found


class _Reading:
    """What is known of the lines above: the columns at which something stands, and what the last line left open."""

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.opens = True
        self.brackets = 0
        #: of text in a block: the column of its key, and that of its first line
        self.text: tuple[int, int | None] | None = None

    def take(self, line: str) -> tuple[Level, ...]:
        """Go on to a line; where it could stand, if it stands where it cannot."""
        column = _indent(line)
        if self.brackets:
            self.brackets = max(0, self.brackets + _opened(line))
            return ()
        if self.text is not None and column > self.text[0]:
            first = self.text[1]
            self.text = self.text[0], column if first is None else first
            return (Level(first, ""),) if first is not None and column < first else ()
        dashed = line[column:].startswith("- ") or line[column:].rstrip() == _DASH
        left = [one for one in self.levels if one.column > column]
        self.levels = self.levels[: len(self.levels) - len(left)]
        wrong = () if self._fits(column, left, dashed=dashed) else self._possible(left, dashed=dashed)
        self._go_on(line, column, dashed=dashed)
        return wrong

    def _fits(self, column: int, left: list[Level], *, dashed: bool) -> bool:
        here = [one for one in self.levels if one.column == column]
        if not here:
            return not self.levels or (self.opens and not left)
        # A list may stand right below its key, and a key behind such a list.
        return any((one.key == _DASH) is dashed for one in here) or (dashed and self.opens and not left)

    def _possible(self, left: list[Level], *, dashed: bool) -> tuple[Level, ...]:
        fitting = [one for one in (*left[:2], *self.levels[-1:]) if one.key and (one.key == _DASH) is dashed]
        return tuple(sorted(fitting[:2], reverse=True))

    def _go_on(self, line: str, column: int, *, dashed: bool) -> None:
        here = [one for one in self.levels if one.column == column and dashed and one.key != _DASH]
        self.levels = [one for one in self.levels if one.column < column] + here + _levels(line, column)
        self.opens = _OPENS.search(line) is not None
        self.brackets = max(0, _opened(line))
        self.text = (self.levels[-1].column, None) if _TEXT.search(line) else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _opened(line: str) -> int:
    """How many more brackets a line opens than it closes."""
    signs = _BRACKETS.findall(line)
    return sum(sign in "[{" for sign in signs) - sum(sign in "]}" for sign in signs)


def _levels(line: str, column: int) -> list[Level]:
    """The columns that a line makes: of each dash, and of the key behind them."""
    rest = line[column:]
    dashes = _DASHES.match(rest)[0]  # type: ignore[index]  # it matches nothing too
    found = [Level(column + index, _DASH) for index, sign in enumerate(dashes) if sign == _DASH]
    key = _KEY.match(rest[len(dashes) :])
    if key is not None or not found:
        found.append(Level(column + len(dashes), key[1] if key is not None else ""))
    return found

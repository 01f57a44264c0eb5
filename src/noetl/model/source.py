"""Source and Span: where a thing stands in the author's file."""

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

import msgspec


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

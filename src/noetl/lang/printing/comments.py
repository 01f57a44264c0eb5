"""The white space and the comments of one collection, divided among its parts (entries or items)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from noetl.lang.printing.outline import BREAK, Comment, Line, Outline
from noetl.lang.reading.node import MapEntry, Node


class PartLayout:
    """What surrounds one part of a collection in the source."""

    __slots__ = ("above", "gap", "handed", "header", "lead", "part", "side", "start", "stop", "value")

    def __init__(self, part: int, value: int, start: int, gap: int) -> None:
        self.part, self.value = part, value
        #: where the part begins: at its dash, its key or a `?`
        self.start = start
        #: where the part before it ends; the lines from there to `start` are above this part
        self.gap = gap
        #: where the part ends, with all comments that belong to it
        self.stop = start
        self.above: list[Line] = []
        #: comments between key (or dash) and value
        self.header: list[Comment] = []
        #: lines between the key and the block collection below it
        self.lead: list[Line] = []
        #: whether these lines now go with the first part of that collection
        self.handed = False
        #: the comment behind the value
        self.side: Comment | None = None

    def is_explicit(self, outline: Outline) -> bool:
        """Whether the key is marked with `?`."""
        return outline.is_key(self.part) and self.start != outline.start[self.part]

    def comments(self) -> list[str]:
        """All comments, in their order."""
        side = [self.side.text] if self.side else []
        above, lead = ([text for _, text in lines if text] for lines in (self.above, self.lead))
        return [*above, *(comment.text for comment in self.header), *([] if self.handed else lead), *side]


def lay_out(outline: Outline, at: int, least: int) -> tuple[list[PartLayout], tuple[int, int]]:
    """The parts of a collection with what surrounds them, and the stretch behind the last that belongs to it.

    `least` is the column from which comments behind a block collection count as its own.
    """
    return _lay_block(outline, at, least) if outline.is_block(at) else _lay_flow(outline, at)


def own_column(outline: Outline, at: int) -> int:
    """The column from which comments behind the block collection `at` count as its own."""
    parent = outline.parent[at]
    while parent >= 0 and not outline.is_block(parent):
        parent = outline.parent[parent]
    outer = outline.column(outline.body(parent)) + 1 if parent >= 0 else 0
    return max(outline.column(outline.body(at)), outer) if parent >= 0 else 0


def _lay_block(outline: Outline, at: int, least: int) -> tuple[list[PartLayout], tuple[int, int]]:
    lays: list[PartLayout] = []
    for part in outline.children(at):
        value = outline.value(part)
        if lays:
            start, gap = outline.skip(outline.end[lays[-1].value]), lays[-1].stop
        else:
            start = gap = outline.body(at)
        lay = PartLayout(part, value, start, gap)
        lay.above = outline.between(gap, start)
        _fill_header(outline, lay, outline.end[part] if outline.is_key(part) else start + 1)
        _fill_stop(outline, lay)
        lays.append(lay)
    stop = lays[-1].stop
    behind = outline.comments(stop, outline.skip(outline.end[lays[-1].value]))
    return lays, (stop, _run(outline, behind, least, stop))


def _fill_header(outline: Outline, lay: PartLayout, start: int) -> None:
    body = outline.content(lay.value)
    lay.header = _before_key(outline, lay)
    if body <= start:
        return
    comments = outline.comments(start, body)
    if not outline.is_block(lay.value):
        lay.header += comments
        return
    lay.header += [comment for comment in comments if not comment.own]
    lay.lead = outline.between(max([start, *(comment.end for comment in lay.header)]), body)


def _before_key(outline: Outline, lay: PartLayout) -> list[Comment]:
    """The comments between `?` and its key."""
    return outline.comments(lay.start, outline.content(lay.part)) if lay.is_explicit(outline) else []


def _fill_stop(outline: Outline, lay: PartLayout) -> None:
    value = lay.value
    lay.stop = outline.line_end(outline.stop(value))
    comments = outline.comments(outline.end[value], outline.skip(outline.end[value]))
    if comments and not comments[0].own:
        first = comments.pop(0)
        lay.stop = first.end
        if not outline.is_block(value):
            lay.side = first
    if outline.is_block(value):
        lay.stop = _run(outline, comments, own_column(outline, value), lay.stop)


def _run(outline: Outline, comments: list[Comment], least: int, stop: int) -> int:
    for comment in comments:
        if not comment.own or outline.column(comment.start) < least:
            break
        stop = comment.end
    return stop


def _lay_flow(outline: Outline, at: int) -> tuple[list[PartLayout], tuple[int, int]]:
    lays: list[PartLayout] = []
    end = outline.body(at) + (outline.text[outline.body(at)] in "[{")
    for part in outline.children(at):
        value = outline.value(part)
        lay = PartLayout(part, value, outline.skip_comma(end), end)
        above = outline.comments(end, lay.start)
        if lays and above and not above[0].own:
            lays[-1].side = above.pop(0)
        lay.above = [(-1, comment.text) for comment in above]
        lay.header = outline.comments(outline.end[part] if value != part else lay.start, outline.content(value))
        lay.header[:0] = _before_key(outline, lay)
        end = lay.stop = outline.end[value]
        lays.append(lay)
    behind = outline.comments(end, outline.end[at])
    if lays and behind and not behind[0].own:
        lays[-1].side = behind[0]
        end = behind[0].end
    return lays, (end, outline.end[at])


class Todo(str):
    """A comment that a lowering asks for."""

    __slots__ = ()


def todos(element: MapEntry | Node) -> list[Todo]:
    """The comments that a lowering asks for above an element."""
    asked = element.todo if isinstance(element, MapEntry) else []
    return [Todo(f"# TODO noetl: {' '.join(text.split())}") for text in asked]


def drop_blanks(lines: list[Line]) -> list[Line]:
    """The lines from the first comment on."""
    first = next((n for n, line in enumerate(lines) if line[1]), len(lines))
    return lines[first:]


def collapse_blanks(lines: list[Line]) -> list[Line]:
    """The lines with no two blank ones in a row."""
    return [line for n, line in enumerate(lines) if line[1] or n == 0 or lines[n - 1][1]]


def add_lines(lines: list[Line], col: int, more: Iterable[str]) -> list[Line]:
    """Lines with further comments; what a lowering asks for is not said twice."""
    lines = list(lines)
    for text in more:
        if not isinstance(text, Todo) or all(text != line for _, line in lines):
            lines.append((col, text))
    return lines


def shift(text: str, delta: int, *, least: int = 0) -> str:
    """Move all lines but the first to the right or left; none that says something stays left of `least`."""
    if not BREAK.search(text) or not (delta or least):
        return text
    pieces = re.split(f"({BREAK.pattern})", text)
    for at in range(2, len(pieces), 2):
        line = pieces[at]
        bare = line.lstrip(" ")
        width = len(line) - len(bare)
        if line:
            pieces[at] = " " * max(width + delta, least if bare else 0, 0) + bare
    return "".join(pieces)

"""The source as its author laid it out: a second reading of the text, as flat arrays in document order.

What the nodes say may have been changed or removed since; the outline still knows what stood where.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import yaml

from noetl.lang.reading.node import MapNode, Node, Scalar

SCALAR, BLOCK_SCALAR, ALIAS, MAP, LIST, FLOW_MAP, FLOW_LIST = range(7)

#: a line of its own: its column and its comment, which is empty for a blank line
Line = tuple[int, str]

#: what the YAML parser takes for the end of a line
BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_COMMENT = re.compile("#[^\r\n\x85\u2028\u2029]*")
_SKIP = re.compile("(?:[ \t\ufeff\r\n\x85\u2028\u2029]+|#[^\r\n\x85\u2028\u2029]*)*")
_SKIP_COMMA = re.compile("(?:[ \t,\ufeff\r\n\x85\u2028\u2029]+|#[^\r\n\x85\u2028\u2029]*)*")
_BLANKS = re.compile("[ \t]*")
_PROPERTY = re.compile("[&!][^ \t\r\n\x85\u2028\u2029,\\[\\]{}]*")
_BLOCK = frozenset("|>")
_BEFORE_EMPTY = frozenset(":-?")
_HEADER = re.compile("[|>][-+0-9]*")


class Outline:
    """All nodes of the text in document order; node `i` and what is below it are `range(i, after(i))`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [0, *(found.end() for found in BREAK.finditer(text))]
        self.kind: list[int] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.parent: list[int] = []
        #: the key of a value; of anything else the node itself
        self.part: list[int] = []
        #: of collections: where the node itself begins, behind its anchor, and the next node that is not below it
        self._bodies: dict[int, int] = {}
        self._afters: dict[int, int] = {}
        self._read()

    def _read(self) -> None:
        """One pass over the parser's events; what is done for every scalar is done here, for speed."""
        kinds, starts, ends, parents, parts = self.kind, self.start, self.end, self.parent, self.part
        parent, keys, key = -1, [-2], -2  # key: of a map, its key that still wants a value, else -1; -2 for a list
        last = 0
        for event in yaml.parse(self.text, Loader=_LOADER):
            sort = type(event)
            if sort is yaml.MappingEndEvent or sort is yaml.SequenceEndEvent:
                # A block collection, and a map in a list without braces, ends with its last child.
                end = event.end_mark.index
                last = ends[parent] = last if end == event.start_mark.index else end
                self._afters[parent] = len(kinds)
                parent = parents[parent]
                key = keys.pop()
                continue
            kind = (
                self._sort_of(event)
                if sort is not yaml.ScalarEvent
                else SCALAR
                if event.style not in _BLOCK
                else BLOCK_SCALAR
            )
            if kind is None:
                continue
            at = len(kinds)
            start, end = event.start_mark.index, event.end_mark.index
            starts.append(start)
            if start == end and kind == SCALAR and self.text[start - 1 : start] not in _BEFORE_EMPTY:
                end = last
            kinds.append(kind)
            ends.append(end)
            parents.append(parent)
            parts.append(key if key >= 0 else at)
            key = key if key == -2 else at if key == -1 else -1
            if kind < MAP:
                last = end
                continue
            self._bodies[at] = self._body(kind, start, end)
            parent = at
            keys.append(key)
            key = -1 if kind in (MAP, FLOW_MAP) else -2

    def _sort_of(self, event: Any) -> int | None:
        if isinstance(event, yaml.MappingStartEvent):
            return FLOW_MAP if event.flow_style else MAP
        if isinstance(event, yaml.SequenceStartEvent):
            return FLOW_LIST if event.flow_style else LIST
        return ALIAS if isinstance(event, yaml.AliasEvent) else None

    def _body(self, kind: int, start: int, end: int) -> int:
        """Where a collection begins; `end` is where the parser says that its first token ends."""
        if kind >= FLOW_MAP:
            return end - 1 if end > start and self.text[end - 1] in "{[" else start
        # The parser has already eaten the dash of a list that is not indented.
        return end - 1 if kind == LIST and self.text[end : end + 1] != "-" else end

    def after(self, at: int) -> int:
        """The next node that is not below this one."""
        return self._afters.get(at, at + 1)

    def body(self, at: int) -> int:
        """Where a collection begins, behind its anchor."""
        return self._bodies.get(at, self.start[at])

    def find(self, node: Node) -> int:
        """The index of what stood at the node's place, if it was of the same sort; else -1."""
        if isinstance(node, Scalar):
            kinds: tuple[int, ...] = (SCALAR, BLOCK_SCALAR)
        elif isinstance(node, MapNode):
            kinds = (FLOW_MAP,) if node.flow else (MAP,)
        else:
            kinds = (FLOW_LIST,) if node.flow else (LIST,)
        start = node.start
        at = bisect_left(self.start, start)
        while at < len(self.start) and self.start[at] == start:
            if self.kind[at] in kinds and (not isinstance(node, Scalar) or self._is_place(at, node)):
                return at
            at += 1
        return -1

    def _is_place(self, at: int, node: Scalar) -> bool:
        # The parser puts a value that is left out where the next thing stands; here it ends with its key.
        return self.end[at] == node.end or self.end[at] < self.start[at]

    def is_key(self, at: int) -> bool:
        """Whether this is the key of an entry."""
        parent = self.parent[at]
        return parent >= 0 and self.kind[parent] in (MAP, FLOW_MAP) and self.part[at] == at

    def is_block(self, at: int) -> bool:
        """Whether this is a collection in block style."""
        return self.kind[at] in (MAP, LIST)

    def children(self, at: int) -> Iterator[int]:
        """The parts of a collection: its keys, or its items."""
        is_map = self.kind[at] in (MAP, FLOW_MAP)
        child, stop = at + 1, self.after(at)
        while child < stop:
            yield child
            child = self.after(self.after(child)) if is_map else self.after(child)

    def value(self, part: int) -> int:
        """The value of a part: behind a key, or the item itself."""
        return self.after(part) if self.is_key(part) else part

    def column(self, offset: int) -> int:
        """The column of an offset, from 0."""
        return offset - self.lines[bisect_right(self.lines, offset) - 1]

    def line_start(self, offset: int) -> int:
        """Where the line of an offset begins."""
        return self.lines[bisect_right(self.lines, offset) - 1]

    def content(self, at: int) -> int:
        """Where a node begins behind its anchor and tag."""
        if self.kind[at] >= MAP:
            return self.body(at)
        where, end = self.start[at], self.end[at]
        while where < end and self.text[where] in "&!":
            where = self.skip(_PROPERTY.match(self.text, where).end())  # type: ignore[union-attr]
        return min(where, end)

    def properties(self, at: int) -> list[str]:
        """The anchor and the tag of a node, as written."""
        return _PROPERTY.findall(_COMMENT.sub("", self.text[self.start[at] : self.content(at)]))

    def skip(self, offset: int) -> int:
        """The next thing that is neither white space nor comment."""
        return _SKIP.match(self.text, offset).end()  # type: ignore[union-attr]

    def skip_comma(self, offset: int) -> int:
        """The same, behind commas."""
        return _SKIP_COMMA.match(self.text, offset).end()  # type: ignore[union-attr]

    def comments(self, start: int, end: int) -> list[Comment]:
        """The comments of a stretch that holds no scalars."""
        if self.text.find("#", start, end) < 0:
            return []
        return [Comment(self, found.start(), found.end()) for found in _COMMENT.finditer(self.text, start, end)]

    def line_end(self, offset: int) -> int:
        """Behind the blanks that follow an offset."""
        return _BLANKS.match(self.text, offset).end()  # type: ignore[union-attr]

    def header_comment(self, at: int) -> list[Comment]:
        """The comment beside the `|` of a block scalar."""
        if self.kind[at] != BLOCK_SCALAR:
            return []
        behind = self.line_end(_HEADER.match(self.text, self.content(at)).end())  # type: ignore[union-attr]
        found = _COMMENT.match(self.text, behind)
        return [Comment(self, found.start(), found.end())] if found else []

    def keeps(self, at: int) -> bool:
        """Whether this is a block scalar to which the blank lines behind it belong."""
        return self.kind[at] == BLOCK_SCALAR and "+" in _HEADER.match(self.text, self.content(at))[0]  # type: ignore[index]

    def scalar_stop(self, at: int) -> int:
        """Where the last line of a block scalar ends."""
        start, end = self.content(at), self.end[at]
        text = self.text[start:end]
        lines = BREAK.split(text)
        breaks = BREAK.findall(text)
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        if not self.keeps(at):
            first = next((line for line in lines[1:] if line.strip(" ")), "")
            indent = 0 if any(c.isdigit() for c in _HEADER.match(text)[0]) else len(first) - len(first.lstrip(" "))  # type: ignore[index]
            while len(lines) > 1 and not lines[-1].strip(" ") and len(lines[-1]) <= indent:
                lines.pop()
        return start + sum(map(len, lines)) + sum(len(found) for found in breaks[: len(lines) - 1])

    def stop(self, at: int) -> int:
        """Where the last line of a node ends, without what follows its text in that line."""
        leaf = self.after(at) - 1
        if self.kind[leaf] == BLOCK_SCALAR and (leaf == at or self.end[leaf] == self.end[at]):
            return self.scalar_stop(leaf)
        return self.end[at]

    def between(self, start: int, end: int) -> list[Line]:
        """The comments and blank lines between two offsets."""
        lines: list[Line] = []
        text = self.text[start:end]
        if text.isspace() and text.count("\n") < 2 and text.isascii():
            return lines
        at = start
        pieces = BREAK.split(text)
        breaks = [len(found) for found in BREAK.findall(text)]
        for n, piece in enumerate(pieces):
            bare = piece.strip(" \t")
            if bare.startswith("#") or (not bare and 0 < n < len(breaks)):
                lines.append((self.column(at) + len(piece) - len(piece.lstrip()), bare))
            at += len(piece) + (breaks[n] if n < len(breaks) else 0)
        return lines

    def head(self, start: int) -> int:
        """Where the comments begin that stand directly above the line of an offset."""
        n = bisect_right(self.lines, start) - 1
        while n > 0 and self.text[self.lines[n - 1] : self.lines[n]].lstrip(" \t").startswith("#"):
            n -= 1
        return self.lines[n]

    def find_alias(self, offset: int) -> int:
        """The index of the alias that stands at an offset."""
        at = bisect_left(self.start, offset)
        # A map begins where its first key does, and that may be an alias.
        return at if self.kind[at] == ALIAS else at + 1

    def home(self, at: int) -> int:
        """The column of the block collection in which a node lies, however deep."""
        parent = self.parent[at]
        while parent >= 0 and not self.is_block(parent):
            parent = self.parent[parent]
        return self.column(self.body(parent)) if parent >= 0 else 0

    def is_bracketed(self, at: int) -> bool:
        """Whether a flow collection has brackets; `a: b` in a list is a map without."""
        return self.text[self.body(at)] in "[{"

    def is_multiline(self, at: int) -> bool:
        """Whether a flow collection is spread over several lines."""
        end = self.body(at)
        for part in self.children(at):
            value = self.value(part)
            if BREAK.search(self.text, end, self.start[part]) or BREAK.search(
                self.text, self.end[part], self.start[value]
            ):
                return True
            end = self.end[value]
        return bool(BREAK.search(self.text, end, self.end[at]))

    def is_filled(self, at: int) -> bool:
        """Whether a flow collection starts beside its bracket, as if filled with words."""
        first = next(self.children(at), None)
        return first is not None and not BREAK.search(self.text, self.body(at), self.start[first])

    def width(self, at: int) -> int:
        """The longest line of a node."""
        return max(map(len, BREAK.split(self.text[self.line_start(self.start[at]) : self.end[at]])))

    @cached_property
    def flush_lists(self) -> bool:
        """Whether most lists stand in the column of their key."""
        balance = 0
        for at, kind in enumerate(self.kind):
            parent = self.parent[at]
            if kind == LIST and parent >= 0 and self.kind[parent] == MAP:
                balance += 1 if self.column(self.body(at)) == self.column(self.body(parent)) else -1
        return balance > 0

    def is_open(self, at: int) -> bool:
        """Whether the file ends within this block scalar, which so lacks its last line break."""
        header = _HEADER.match(self.text, self.content(at))[0]  # type: ignore[index]
        return self.end[at] == len(self.text) and "-" not in header and self.lines[-1] != len(self.text)


class Comment:
    """One comment: where it stands, and whether it has the line for itself."""

    __slots__ = ("end", "gap", "own", "start", "text")

    def __init__(self, outline: Outline, start: int, end: int) -> None:
        before = outline.text[outline.line_start(start) : start]
        blanks = len(before) - len(before.rstrip(" \t"))
        self.start, self.end = start, end
        self.own = not before.strip(" \t\ufeff")
        #: the blanks in front of it
        self.gap = before[len(before) - blanks :]
        self.text = outline.text[start:end].rstrip()

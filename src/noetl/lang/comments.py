"""The source as its author laid it out, and what becomes of each of its comments.

`Outline` is a second reading of the text, as flat arrays in document order: what the nodes say may have been
changed or removed since, the outline still knows what stood where. `lay_out` divides the white space and the
comments of one collection among its parts (entries or items). `Plan` compares the nodes with the outline: it
says what can be copied and what is printed anew, and gives every comment to exactly one element.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import yaml

from noetl.lang.node import Entry, ListNode, MapNode, Node, Scalar

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


class Lay:
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


def lay_out(outline: Outline, at: int, least: int) -> tuple[list[Lay], tuple[int, int]]:
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


def _lay_block(outline: Outline, at: int, least: int) -> tuple[list[Lay], tuple[int, int]]:
    lays: list[Lay] = []
    for part in outline.children(at):
        value = outline.value(part)
        if lays:
            start, gap = outline.skip(outline.end[lays[-1].value]), lays[-1].stop
        else:
            start = gap = outline.body(at)
        lay = Lay(part, value, start, gap)
        lay.above = outline.between(gap, start)
        _fill_header(outline, lay, outline.end[part] if outline.is_key(part) else start + 1)
        _fill_stop(outline, lay)
        lays.append(lay)
    stop = lays[-1].stop
    behind = outline.comments(stop, outline.skip(outline.end[lays[-1].value]))
    return lays, (stop, _run(outline, behind, least, stop))


def _fill_header(outline: Outline, lay: Lay, start: int) -> None:
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


def _before_key(outline: Outline, lay: Lay) -> list[Comment]:
    """The comments between `?` and its key."""
    return outline.comments(lay.start, outline.content(lay.part)) if lay.is_explicit(outline) else []


def _fill_stop(outline: Outline, lay: Lay) -> None:
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


def _lay_flow(outline: Outline, at: int) -> tuple[list[Lay], tuple[int, int]]:
    lays: list[Lay] = []
    end = outline.body(at) + (outline.text[outline.body(at)] in "[{")
    for part in outline.children(at):
        value = outline.value(part)
        lay = Lay(part, value, outline.skip_comma(end), end)
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


class Note:
    """The comments of one part, as it is to be printed."""

    __slots__ = ("below", "extra", "inner", "lay")

    def __init__(self, lay: Lay | None = None) -> None:
        self.lay = lay
        #: comments of removed parts that stood above or below
        self.extra: list[str] = []
        self.below: list[str] = []
        #: comments of what stood inside and is no more
        self.inner: list[str] = []

    def any(self) -> bool:
        """Whether there are any comments."""
        return bool(self.extra or self.below or self.inner or (self.lay and self.lay.comments()))


class Tail:
    """The lines behind the last part of a collection."""

    __slots__ = ("col", "extra", "lines", "span")

    def __init__(self, span: tuple[int, int], lines: list[Line], col: int) -> None:
        self.span, self.lines, self.col = span, lines, col
        self.extra: list[str] = []


Element = Entry | Scalar | MapNode | ListNode


def touched(node: Node) -> bool:
    """Whether a lowering has changed anything here or below."""
    if node.changed:
        return True
    if isinstance(node, MapNode):
        return any(entry.todo or entry.key.changed or touched(entry.value) for entry in node.entries)
    return isinstance(node, ListNode) and any(touched(item) for item in node.items)


class Plan:
    """Decides what is copied and what is printed anew, and gives every comment to exactly one of them."""

    def __init__(self, outline: Outline, root: Node, *, tidy: bool) -> None:
        self.outline, self.tidy = outline, tidy
        #: nodes that are printed anew
        self.dirty: set[int] = set()
        #: maps whose `<<` is replaced by what it stands for
        self.expanded: set[int] = set()
        #: nodes that have their place in the source, with its comments, for themselves
        self.owner: dict[int, int] = {}
        self.notes: dict[int, Note] = {}
        self.tails: dict[int, Tail] = {}
        self.lays: dict[int, Lay] = {}
        self._given: list[tuple[dict[int, Any], int, Any]] = []
        #: nodes that print their anchor
        self.anchored: set[int] = set()
        self._defined: set[int] = set()
        self._anchors: dict[str, int] = {}
        self._survey(root, foreign=False)
        self._raw: list[int] = []
        self._opened: dict[int, Node] = {}
        self._parts: dict[int, Element] = {}
        self._holders: dict[int, Node] = {}
        self._claim(root)
        #: comments for which no place is left but the top
        self.loose = self._settle(0) if outline.kind[0] >= MAP and self._inside(0) < 0 else []
        self._frame()

    def _frame(self) -> None:
        """Where the document's text ends, and the comment beside it."""
        outline = self.outline
        self.root_side: Comment | None = None
        if outline.is_block(0):
            return
        self.head = 0
        self.root_stop = outline.stop(0)
        found = outline.comments(outline.end[0], outline.skip(outline.end[0]))
        if found and not found[0].own:
            self.root_side = found[0]
            self.root_stop = found[0].end

    def note(self, element: Element) -> Note:
        """What is to be printed around an element; only once, whoever asks."""
        note = self.notes.pop(id(element), None)
        if note is None:
            return Note()
        self._given.append((self.notes, id(element), note))
        return note

    def tail(self, node: Node) -> Tail | None:
        """What is to be printed behind the last element of a collection; only once."""
        tail = self.tails.pop(id(node), None)
        if tail is not None:
            self._given.append((self.tails, id(node), tail))
        return tail

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._given)

    def back(self, mark: int) -> None:
        """Take back what was given away since."""
        while len(self._given) > mark:
            table, key, given = self._given.pop()
            table[key] = given

    # -- what is dirty

    def _survey(self, node: Node, *, foreign: bool) -> bool:
        if node.alias is not None:
            name = self.outline.text[node.alias[0] + 1 : node.alias[1]]
            if self._anchors.get(name) == node.start and not touched(node):
                return False
            foreign = True
        dirty = node.changed or node.alias is not None
        if isinstance(node, MapNode):
            dirty = self._survey_map(node, foreign=foreign) or dirty
        elif isinstance(node, ListNode):
            for item in node.items:
                dirty = self._survey(item, foreign=foreign) or dirty
        if dirty:
            self.dirty.add(id(node))
        if node.anchor is not None and not foreign and node.start not in self._defined:
            self._defined.add(node.start)
            self.anchored.add(id(node))
            self._anchors[node.anchor] = -1 if dirty else node.start
        return dirty

    def _survey_map(self, node: MapNode, *, foreign: bool) -> bool:
        dirty = False
        if node.merge is not None and (self._survey(node.merge.value, foreign=foreign) or not _merge_holds(node)):
            self.expanded.add(id(node))
            dirty = True
        for entry in self._entries(node):
            key, value = entry.key, entry.value
            if entry is node.merge:
                continue
            if key.changed or key.anchor or key.alias or entry.todo:
                dirty = self._survey(key, foreign=foreign) or bool(entry.todo) or dirty
            if value.changed or value.anchor or value.alias or not isinstance(value, Scalar):
                dirty = self._survey(value, foreign=foreign or entry.merged) or dirty
        return dirty

    def elements(self, node: Node) -> list[Element]:
        """The parts of a collection in the order in which they are printed."""
        if isinstance(node, MapNode):
            return list(self._entries(node))
        return list(node.items) if isinstance(node, ListNode) else []

    def _entries(self, node: MapNode) -> list[Entry]:
        merge = node.merge
        if merge is None or id(node) in self.expanded:
            return node.entries
        # An entry that overrides a merged one has taken its position; in the source it stands where it stands.
        entries = [entry for entry in node.entries if not entry.merged]
        own = [n for n, entry in enumerate(entries) if node.start <= entry.key.start < node.end]
        for n, entry in zip(own, sorted((entries[n] for n in own), key=_key_start), strict=True):
            entries[n] = entry
        later = (n for n in own if entries[n].key.start > merge.key.start)
        entries.insert(next(later, len(entries)), merge)
        return entries

    # -- which part of the source each element stands for

    def _claim(self, root: Node) -> None:
        opened: dict[int, list[Node]] = {}
        raw: dict[int, Node] = {}
        elements: list[Element] = []
        self._gather(root, opened, raw, elements)
        outline = self.outline
        end = 0
        for at in sorted(raw):
            if at >= end:
                self._raw.append(at)
                self.owner[id(raw[at])] = at
                end = outline.after(at)
        for at, nodes in opened.items():
            if self._inside(at) < 0:
                best = max(nodes, key=lambda node, at=at: self._likeness(node, at))  # type: ignore[misc]
                self._opened[at] = best
                self.owner[id(best)] = at
        for find in (self._by_key, self._by_place, self._by_holder, self._by_value):
            for element in elements:
                part = -1 if id(element) in self.notes else find(element)
                if part >= 0 and part not in self._parts and self._may_have(element, part):
                    self._parts[part] = element
                    self.notes[id(element)] = Note()

    def _gather(self, node: Node, opened: dict[int, list[Node]], raw: dict[int, Node], elements: list[Element]) -> None:
        at = self.outline.find(node)
        if isinstance(node, Scalar) or (id(node) not in self.dirty and not self.tidy and at != 0):
            if at >= 0 and not node.changed:
                raw.setdefault(at, node)
            return
        self.dirty.add(id(node))
        if at >= 0:
            opened.setdefault(at, []).append(node)
        for element in self.elements(node):
            value = element.value if isinstance(element, Entry) else element
            if (isinstance(element, Entry) and element.merged) or id(element) in self._holders:
                continue
            self._holders[id(element)] = node
            elements.append(element)
            if value.alias is None:
                self._gather(value, opened, raw, elements)

    def _likeness(self, node: Node, at: int) -> int:
        """How many parts of the collection at `at` the node still has."""
        parent = self.outline.parent
        places = [self.where(e.key if isinstance(e, Entry) else e) for e in self.elements(node)]
        return sum(place >= 0 and parent[place] == at for place in places)

    def _inside(self, at: int) -> int:
        """The copied node in which a node of the outline lies; -1 if there is none."""
        n = bisect_right(self._raw, at) - 1
        return self._raw[n] if n >= 0 and at < self.outline.after(self._raw[n]) else -1

    def _may_have(self, element: Element, part: int) -> bool:
        inside = self._inside(part)
        return inside < 0 or (not isinstance(element, Entry) and self.owner.get(id(element)) == inside == part)

    def where(self, node: Node) -> int:
        """The place of a node in the outline, be it that of an alias; -1 if it has none."""
        return self.outline.find_alias(node.alias[0]) if node.alias else self.outline.find(node)

    def _by_key(self, element: Element) -> int:
        node = element.key if isinstance(element, Entry) else element
        return -1 if node.changed and isinstance(node, Scalar) else self._by_place(element)

    def _by_place(self, element: Element) -> int:
        outline = self.outline
        at = self.where(element.key if isinstance(element, Entry) else element)
        if at < 0 or outline.parent[at] < 0 or outline.part[at] != at:
            return -1
        if isinstance(element, MapNode | ListNode) and id(element) not in self.owner and not element.alias:
            return -1
        return at if isinstance(element, Entry) == outline.is_key(at) else -1

    def _by_value(self, element: Element) -> int:
        value = element.value if isinstance(element, Entry) else element
        if isinstance(value, Scalar) and value.changed:
            return -1
        at = self.owner.get(id(value), -1)
        return self.outline.part[at] if at > 0 else -1

    def _by_holder(self, element: Element) -> int:
        """The part of the same collection in which the element's place lies: what it was made of."""
        outline = self.outline
        at = self.owner.get(id(self._holders[id(element)]), -1)
        place = element.key.start if isinstance(element, Entry) else element.place
        if at < 0 or not outline.start[at] <= place < outline.end[at]:
            return -1
        child = bisect_right(outline.start, place) - 1
        while child >= 0 and outline.parent[child] != at:
            child = outline.parent[child]
        return outline.part[child] if child >= 0 else -1

    # -- which element each comment goes to

    def _settle(self, at: int, holder: Lay | None = None) -> list[str]:
        """Give the comments of a collection of the source to its elements; return those left over."""
        outline = self.outline
        node = self._opened.get(at)
        lays, span = lay_out(outline, at, own_column(outline, at))
        if at == 0 and outline.is_block(0):
            lays[0].gap = self.head = outline.head(lays[0].start)
            lays[0].above = outline.between(self.head, lays[0].start)
            self.root_stop = span[1]
        elif holder and holder.lead:
            lays[0].above, holder.handed = holder.lead, True
        homeless: list[str] = []
        last: Note | None = None
        for lay in lays:
            self.lays[lay.part] = lay
            inner = self._inner(lay)
            element = self._parts.get(lay.part)
            if element is None:
                homeless += lay.comments() + inner
                heir = self._heir(lay, node)
                if heir is not None:
                    heir.extra, homeless, last = homeless + heir.extra, [], heir
                continue
            note = self.notes[id(element)]
            note.lay, note.inner = lay, inner
            if node is not None and self._holders[id(element)] is node:
                note.extra, homeless, last = homeless, [], note
        lines = outline.between(*span) if outline.is_block(at) else [(-1, c.text) for c in outline.comments(*span)]
        if node is None:
            return homeless + [text for _, text in lines if text]
        tail = self.tails[id(node)] = Tail(
            span, lines, outline.column(outline.body(at)) if outline.is_block(at) else -1
        )
        if last is not None:
            last.below = homeless
        else:
            tail.extra = homeless
        return []

    def _heir(self, lay: Lay, node: Node | None) -> Note | None:
        """What came out of a part that is gone, if it has taken its place."""
        inner = self.outline.children(lay.value) if self.outline.kind[lay.value] >= MAP else ()
        elements = [self._parts[part] for part in inner if part in self._parts]
        return next((self.notes[id(e)] for e in elements if self._holders[id(e)] is node), None)

    def _inner(self, lay: Lay) -> list[str]:
        """The comments inside of a value that is no longer there as it was."""
        if self._inside(lay.value) >= 0:
            return []
        if self.outline.kind[lay.value] >= MAP:
            return self._settle(lay.value, lay)
        lay.header = lay.header + self.outline.header_comment(lay.value)
        return []


def _merge_holds(node: MapNode) -> bool:
    """Whether `<<` still says what the merged entries say."""
    value = node.merge.value if node.merge else None
    sources = value.items if isinstance(value, ListNode) else [value]
    names = {entry.name for source in sources if isinstance(source, MapNode) for entry in source.entries}
    for entry in node.entries:
        if entry.merged and (entry.todo or entry.key.changed or entry.name not in names or touched(entry.value)):
            return False
    return names <= {entry.name for entry in node.entries}


def _key_start(entry: Entry) -> int:
    return entry.key.start


class Todo(str):
    """A comment that a lowering asks for."""

    __slots__ = ()


def todos(element: Entry | Node) -> list[Todo]:
    """The comments that a lowering asks for above an element."""
    asked = element.todo if isinstance(element, Entry) else []
    return [Todo(f"# TODO noetl: {' '.join(text.split())}") for text in asked]


def drop_blanks(lines: list[Line]) -> list[Line]:
    """The lines from the first comment on."""
    first = next((n for n, line in enumerate(lines) if line[1]), len(lines))
    return lines[first:]


def squeeze(lines: list[Line]) -> list[Line]:
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

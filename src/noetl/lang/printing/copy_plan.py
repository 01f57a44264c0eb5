"""Which text is copied and which is printed again; every comment belongs to exactly one element."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from noetl.lang.printing.comments import PartLayout, lay_out, own_column
from noetl.lang.printing.outline import MAP, Comment, Line, Outline
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar


class PartComments:
    """The comments of one part, as it is to be printed."""

    __slots__ = ("below", "extra", "inner", "lay")

    def __init__(self, lay: PartLayout | None = None) -> None:
        self.lay = lay
        #: comments of removed parts that stood above or below
        self.extra: list[str] = []
        self.below: list[str] = []
        #: comments of what stood inside and is no more
        self.inner: list[str] = []

    def any(self) -> bool:
        """Whether there are any comments."""
        return bool(self.extra or self.below or self.inner or (self.lay and self.lay.comments()))


class TrailingLines:
    """The lines behind the last part of a collection."""

    __slots__ = ("col", "extra", "lines", "span")

    def __init__(self, span: tuple[int, int], lines: list[Line], col: int) -> None:
        self.span, self.lines, self.col = span, lines, col
        self.extra: list[str] = []


Element = MapEntry | Scalar | MapNode | ListNode


def is_touched(node: Node) -> bool:
    """Whether a lowering has changed anything here or below."""
    if node.changed:
        return True
    if isinstance(node, MapNode):
        return any(entry.todo or entry.key.changed or is_touched(entry.value) for entry in node.entries)
    return isinstance(node, ListNode) and any(is_touched(item) for item in node.items)


class PrintPlan:
    """Decides what is copied and what is printed anew, and gives every comment to exactly one of them."""

    def __init__(self, outline: Outline, root: Node, *, tidy: bool) -> None:
        self.outline, self.tidy = outline, tidy
        #: nodes that are printed anew
        self.dirty: set[int] = set()
        #: maps whose `<<` is replaced by what it stands for
        self.expanded: set[int] = set()
        #: nodes that have their place in the source, with its comments, for themselves
        self.owner: dict[int, int] = {}
        self.notes: dict[int, PartComments] = {}
        self.tails: dict[int, TrailingLines] = {}
        self.lays: dict[int, PartLayout] = {}
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

    def note(self, element: Element) -> PartComments:
        """What is to be printed around an element; only once, whoever asks."""
        note = self.notes.pop(id(element), None)
        if note is None:
            return PartComments()
        self._given.append((self.notes, id(element), note))
        return note

    def tail(self, node: Node) -> TrailingLines | None:
        """What is to be printed behind the last element of a collection; only once."""
        tail = self.tails.pop(id(node), None)
        if tail is not None:
            self._given.append((self.tails, id(node), tail))
        return tail

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._given)

    def roll_back(self, mark: int) -> None:
        """Take back what was given away since."""
        while len(self._given) > mark:
            table, key, given = self._given.pop()
            table[key] = given

    # -- what is dirty

    def _survey(self, node: Node, *, foreign: bool) -> bool:
        if node.alias is not None:
            name = self.outline.text[node.alias[0] + 1 : node.alias[1]]
            if self._anchors.get(name) == node.start and not is_touched(node):
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

    def _entries(self, node: MapNode) -> list[MapEntry]:
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
                    self.notes[id(element)] = PartComments()

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
            value = element.value if isinstance(element, MapEntry) else element
            if (isinstance(element, MapEntry) and element.merged) or id(element) in self._holders:
                continue
            self._holders[id(element)] = node
            elements.append(element)
            if value.alias is None:
                self._gather(value, opened, raw, elements)

    def _likeness(self, node: Node, at: int) -> int:
        """How many parts of the collection at `at` the node still has."""
        parent = self.outline.parent
        places = [self.where(e.key if isinstance(e, MapEntry) else e) for e in self.elements(node)]
        return sum(place >= 0 and parent[place] == at for place in places)

    def _inside(self, at: int) -> int:
        """The copied node in which a node of the outline lies; -1 if there is none."""
        n = bisect_right(self._raw, at) - 1
        return self._raw[n] if n >= 0 and at < self.outline.after(self._raw[n]) else -1

    def _may_have(self, element: Element, part: int) -> bool:
        inside = self._inside(part)
        return inside < 0 or (not isinstance(element, MapEntry) and self.owner.get(id(element)) == inside == part)

    def where(self, node: Node) -> int:
        """The place of a node in the outline, be it that of an alias; -1 if it has none."""
        return self.outline.find_alias(node.alias[0]) if node.alias else self.outline.find(node)

    def _by_key(self, element: Element) -> int:
        node = element.key if isinstance(element, MapEntry) else element
        return -1 if node.changed and isinstance(node, Scalar) else self._by_place(element)

    def _by_place(self, element: Element) -> int:
        outline = self.outline
        at = self.where(element.key if isinstance(element, MapEntry) else element)
        if at < 0 or outline.parent[at] < 0 or outline.part[at] != at:
            return -1
        if isinstance(element, MapNode | ListNode) and id(element) not in self.owner and not element.alias:
            return -1
        return at if isinstance(element, MapEntry) == outline.is_key(at) else -1

    def _by_value(self, element: Element) -> int:
        value = element.value if isinstance(element, MapEntry) else element
        if isinstance(value, Scalar) and value.changed:
            return -1
        at = self.owner.get(id(value), -1)
        return self.outline.part[at] if at > 0 else -1

    def _by_holder(self, element: Element) -> int:
        """The part of the same collection in which the element's place lies: what it was made of."""
        outline = self.outline
        at = self.owner.get(id(self._holders[id(element)]), -1)
        place = element.key.start if isinstance(element, MapEntry) else element.place
        if at < 0 or not outline.start[at] <= place < outline.end[at]:
            return -1
        child = bisect_right(outline.start, place) - 1
        while child >= 0 and outline.parent[child] != at:
            child = outline.parent[child]
        return outline.part[child] if child >= 0 else -1

    # -- which element each comment goes to

    def _settle(self, at: int, holder: PartLayout | None = None) -> list[str]:
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
        last: PartComments | None = None
        for lay in lays:
            self.lays[lay.part] = lay
            inner = self._inner(lay)
            element = self._parts.get(lay.part)
            if element is None:
                homeless += lay.comments() + inner
                successor = self._successor(lay, node)
                if successor is not None:
                    successor.extra, homeless, last = homeless + successor.extra, [], successor
                continue
            note = self.notes[id(element)]
            note.lay, note.inner = lay, inner
            if node is not None and self._holders[id(element)] is node:
                note.extra, homeless, last = homeless, [], note
        lines = outline.between(*span) if outline.is_block(at) else [(-1, c.text) for c in outline.comments(*span)]
        if node is None:
            return homeless + [text for _, text in lines if text]
        tail = self.tails[id(node)] = TrailingLines(
            span, lines, outline.column(outline.body(at)) if outline.is_block(at) else -1
        )
        if last is not None:
            last.below = homeless
        else:
            tail.extra = homeless
        return []

    def _successor(self, lay: PartLayout, node: Node | None) -> PartComments | None:
        """What came out of a part that is gone, if it has taken its place."""
        inner = self.outline.children(lay.value) if self.outline.kind[lay.value] >= MAP else ()
        elements = [self._parts[part] for part in inner if part in self._parts]
        return next((self.notes[id(e)] for e in elements if self._holders[id(e)] is node), None)

    def _inner(self, lay: PartLayout) -> list[str]:
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
        if entry.merged and (entry.todo or entry.key.changed or entry.name not in names or is_touched(entry.value)):
            return False
    return names <= {entry.name for entry in node.entries}


def _key_start(entry: MapEntry) -> int:
    return entry.key.start

"""The document as nodes: what the YAML says and where it says it.

Every pass of the language works on these nodes. They are mutable, because the older dialects are lowered by
rewriting them, and each remembers the stretch of source text it came from, so that `noetl migrate` can print
untouched parts as the author wrote them. A node made by a lowering borrows the place of what it replaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

#: `style` of a scalar: how the author wrote it
PLAIN, SINGLE, DOUBLE, LITERAL, FOLDED = "", "'", '"', "|", ">"


class NodeBase:
    """What all nodes share: the place in the source, and whether a lowering has touched it."""

    __slots__ = ("alias", "anchor", "changed", "end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        #: the name of a YAML anchor on this node
        self.anchor: str | None = None
        #: where `*name` stands in the source, when this node is the copy that an alias stands for
        self.alias: tuple[int, int] | None = None
        #: the source text no longer says what this node says
        self.changed = False

    @property
    def place(self) -> int:
        """The offset a diagnostic about this node points to."""
        return self.alias[0] if self.alias else self.start


class Scalar(NodeBase):
    """One value. `text` is what stood there with quotes and folding undone, `value` what it means."""

    __slots__ = ("style", "text", "value")

    def __init__(self, value: Any, text: str, style: str, start: int, end: int) -> None:
        # Not through `super`: there are hundreds of thousands of these.
        self.start = start
        self.end = end
        self.anchor = None
        self.alias = None
        self.changed = False
        self.value = value
        self.text = text
        self.style = style

    def rewrite(self, text: str) -> None:
        """Make this a string with other text."""
        if text != self.value:
            self.value = self.text = text
            self.changed = True


class MapEntry:
    """A key with its value. `merged` entries came through `<<` and do not stand in this map's text."""

    __slots__ = ("_key", "merged", "name", "todo", "value")

    def __init__(self, key: Scalar, value: Node, *, merged: bool = False) -> None:
        self._key = key
        #: the key as text, which nearly every question is about
        self.name = key.text
        self.value = value
        self.merged = merged
        #: what a person still has to decide here; printed as `# TODO noetl:` comments above the entry
        self.todo: tuple[str, ...] = ()

    @property
    def key(self) -> Scalar:
        """The node of the key."""
        return self._key

    @key.setter
    def key(self, key: Scalar) -> None:
        self._key = key
        self.name = key.text

    def ask(self, text: str) -> None:
        """Add something that a person has to decide."""
        self.todo += (text,)


class MapNode(NodeBase):
    """A mapping. Entries keep their order; `merge` is the `<<` entry, if there was one."""

    __slots__ = ("entries", "flow", "merge")

    def __init__(self, entries: list[MapEntry], start: int, end: int, *, flow: bool = False) -> None:
        super().__init__(start, end)
        self.entries = entries
        self.flow = flow
        self.merge: MapEntry | None = None

    def entry(self, name: str) -> MapEntry | None:
        """The entry of that name."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        return None

    def get(self, name: str) -> Node | None:
        """The value of that name."""
        for entry in self.entries:
            if entry.name == name:
                return entry.value
        return None

    def __contains__(self, name: str) -> bool:
        return self.entry(name) is not None

    def __iter__(self) -> Iterator[MapEntry]:
        return iter(list(self.entries))

    def put(self, entry: MapEntry, *, at: int | None = None) -> MapEntry:
        """Add an entry, at the end or at a position; one of the same name is replaced where it stands."""
        for index, old in enumerate(self.entries):
            if old.name == entry.name:
                self.entries[index] = entry
                break
        else:
            self.entries.insert(len(self.entries) if at is None else at, entry)
        self.changed = True
        return entry

    def take(self, name: str) -> MapEntry | None:
        """Remove the entry of that name and return it."""
        for index, entry in enumerate(self.entries):
            if entry.name == name:
                self.changed = True
                return self.entries.pop(index)
        return None

    def rename(self, old: str, new: str) -> MapEntry | None:
        """Give the entry `old` the key `new`, in its place."""
        entry = self.entry(old)
        if entry is not None:
            entry.key = scalar(new, near=entry.key)
            self.changed = True
        return entry

    def position(self, name: str) -> int:
        """Where the entry of that name stands among the others; the end if there is none."""
        names = [entry.name for entry in self.entries]
        return names.index(name) if name in names else len(names)


class ListNode(NodeBase):
    """A sequence."""

    __slots__ = ("flow", "items")

    def __init__(self, items: list[Node], start: int, end: int, *, flow: bool = False) -> None:
        super().__init__(start, end)
        self.items = items
        self.flow = flow

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self.items))


Node: TypeAlias = Scalar | MapNode | ListNode


def scalar(value: Any, *, near: NodeBase) -> Scalar:
    """A new scalar that borrows the place of `near`."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    node = Scalar(value, text, PLAIN, near.start, near.end)
    node.changed = True
    return node


def entry(name: str, value: Node, *, near: NodeBase | None = None) -> MapEntry:
    """A new entry; its key borrows the place of `near`, by default of the value."""
    return MapEntry(scalar(name, near=near or value), value)


def make(value: Any, *, near: NodeBase) -> Node:
    """A new node out of plain data; nodes inside the data are kept as they are."""
    if isinstance(value, Scalar | MapNode | ListNode):
        return value
    made: Node
    if isinstance(value, dict):
        entries = [MapEntry(scalar(key, near=near), make(item, near=near)) for key, item in value.items()]
        made = MapNode(entries, near.start, near.end)
    elif isinstance(value, list | tuple):
        made = ListNode([make(item, near=near) for item in value], near.start, near.end)
    else:
        return scalar(value, near=near)
    made.changed = True
    return made


def plain_value(node: Node | None) -> Any:
    """The data a node stands for."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, MapNode):
        return {entry.key.text: plain_value(entry.value) for entry in node.entries}
    if isinstance(node, ListNode):
        return [plain_value(item) for item in node.items]
    return None


def text_of(node: MapNode | None, name: str) -> str:
    """The text under a key, or an empty one."""
    found = node.get(name) if node is not None else None
    return found.text if isinstance(found, Scalar) and found.value is not None else ""


def map_of(node: MapNode | None, name: str) -> MapNode | None:
    """The map under a key, if there is one."""
    found = node.get(name) if node is not None else None
    return found if isinstance(found, MapNode) else None


def list_of(node: MapNode | None, name: str) -> ListNode | None:
    """The list under a key, if there is one."""
    found = node.get(name) if node is not None else None
    return found if isinstance(found, ListNode) else None


def copy(node: Node, *, alias: tuple[int, int] | None = None) -> Node:
    """A deep copy; with `alias`, one that stands where `*name` stands."""
    made: Node
    if isinstance(node, Scalar):
        made = Scalar(node.value, node.text, node.style, node.start, node.end)
    elif isinstance(node, MapNode):
        entries = [_copy_entry(entry) for entry in node.entries]
        made = MapNode(entries, node.start, node.end, flow=node.flow)
        made.merge = node.merge
    else:
        made = ListNode([copy(item, alias=item.alias) for item in node.items], node.start, node.end, flow=node.flow)
    made.anchor, made.alias, made.changed = node.anchor, alias, node.changed
    return made


def _copy_entry(entry: MapEntry) -> MapEntry:
    key = entry.key
    copied = Scalar(key.value, key.text, key.style, key.start, key.end)
    copied.changed = key.changed
    return MapEntry(copied, copy(entry.value, alias=entry.value.alias), merged=entry.merged)


def walk_nodes(node: Node) -> Iterator[Node]:
    """The node and everything below it, in document order."""
    yield node
    if isinstance(node, MapNode):
        for child in node.entries:
            yield from walk_nodes(child.value)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from walk_nodes(item)

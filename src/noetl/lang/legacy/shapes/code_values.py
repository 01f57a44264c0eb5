"""Values of python code as far as its syntax shows them: where they come from, and the keys they have.

A *read path* is a root (the name of an input, or `ctx` and a key of it) and the keys after it; `*` stands for any
element of a list or any value of a map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ReadPath = tuple[str, ...]
#: any element of a list, any value of a map
ANY = "*"
#: parts of one value: code can nest a value in itself again and again, so that each line doubles it
_MOST_PARTS = 10_000


class TooComplex(Exception):
    """Code that takes too long to read; nothing is known of it."""


@dataclass(frozen=True, slots=True)
class CodeValue:
    """What an expression may stand for."""

    #: parts of what the code was given
    origins: frozenset[ReadPath] = frozenset()
    #: keys that the code itself puts into a map
    keys: Mapping[str, CodeValue] = field(default_factory=dict)
    #: what the code itself puts into a list
    element: CodeValue | None = None
    #: may be something else than what `origins`, `keys` and `element` say
    is_open: bool = False
    #: how many values it consists of
    size: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        size = 1 + sum(one.size for one in self.keys.values()) + (self.element.size if self.element is not None else 0)
        if size > _MOST_PARTS:
            raise TooComplex
        object.__setattr__(self, "size", size)

    def shows(self, key: str) -> bool:
        """Whether the code puts that key into the value."""
        return key in self.keys


NOTHING = CodeValue()
UNKNOWN = CodeValue(is_open=True)


def join_values(values: Iterable[CodeValue]) -> CodeValue:
    """A value that is one of these."""
    found = [value for value in values if value is not NOTHING]
    if len(found) <= 1:
        return found[0] if found else NOTHING
    keys: dict[str, CodeValue] = {}
    for name in dict.fromkeys(key for value in found for key in value.keys):
        keys[name] = join_values(value.keys[name] for value in found if name in value.keys)
    elements = [value.element for value in found if value.element is not None]
    return CodeValue(
        frozenset().union(*(value.origins for value in found)),
        keys,
        join_values(elements) if elements else None,
        any(value.is_open for value in found),
    )


@dataclass(slots=True)
class ReadTree:
    """How code reads one value: key by key, element by element, or as a whole."""

    children: dict[str, ReadTree] = field(default_factory=dict)
    #: given to something whose reading is not known: returned, printed as text, passed to another function
    is_whole: bool = False
    #: used as a list: iterated, indexed by number, measured
    is_list: bool = False
    #: read by subscript: without this key the code fails
    is_required: bool = False
    #: its keys are listed
    is_listed_map: bool = False

    def child(self, key: str) -> ReadTree:
        """How the value under a key is read; made if it is not there."""
        return self.children.setdefault(key, ReadTree())

    def at(self, path: Iterable[str]) -> ReadTree:
        """How the value at a path is read; made if it is not there."""
        tree = self
        for key in path:
            tree = tree.child(key)
        return tree

    def keys(self) -> set[str]:
        """The keys that are read by name."""
        return set(self.children) - {ANY}

    def merge(self, other: ReadTree) -> None:
        """Add the reads of another tree."""
        self.is_whole |= other.is_whole
        self.is_list |= other.is_list
        self.is_required |= other.is_required
        self.is_listed_map |= other.is_listed_map
        for key, child in other.children.items():
            self.child(key).merge(child)

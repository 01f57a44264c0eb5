"""Shapes: what a value in a playbook may look like, said once.

The grammar of the document and the configuration of every tool kind are tables of these. Validation, the JSON
Schema for editors and the reference documentation are all read off the same tables.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class Shape(msgspec.Struct, frozen=True):
    """The root of all shapes."""


class Anything(Shape, frozen=True):
    """Any value; templates inside it are rendered unless `literal`."""

    literal: bool = False


class Text(Shape, frozen=True):
    """A string. `templated`: it may contain `{{ … }}`; `name`: it must have the form of an identifier."""

    templated: bool = False
    name: bool = False


class Number(Shape, frozen=True):
    """A number, or where `templated` a template that yields one."""

    integer: bool = False
    minimum: float | None = None
    templated: bool = False


class Flag(Shape, frozen=True):
    """true or false."""

    templated: bool = False


class Word(Shape, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]
    templated: bool = False
    #: words that are not known, and what to write for what they mean: the nearest known one means something else
    instead: Mapping[str, str] = {}
    #: words that have no meaning yet, each with what to write instead
    reserved: Mapping[str, str] = {}


class When(Shape, frozen=True):
    """A `when`: one `{{ … }}` expression, or true or false."""


class ListOf(Shape, frozen=True):
    """A list whose items all have one shape."""

    item: Shape
    at_least: int = 0


class MapOf(Shape, frozen=True):
    """A map with free keys whose values all have one shape."""

    value: Shape
    #: its keys are names of tool kinds
    of_kinds: bool = False
    #: keys that have no meaning, each with what to write instead
    reserved: Mapping[str, str] = {}


class ShapeRef(Shape, frozen=True):
    """A shape by its name: how a shape can contain itself."""

    name: str


class OneOf(Shape, frozen=True):
    """Any of several shapes, told apart by what kind of value stands there."""

    shapes: tuple[Shape, ...]


class Beside(msgspec.Struct, frozen=True):
    """What must stand beside a key, so that the key has an effect: another key, with one of these words if there are any."""

    key: str
    words: tuple[str, ...] = ()


class Key(msgspec.Struct, frozen=True):
    """What may stand under one key."""

    shape: Shape
    doc: str
    required: bool = False
    #: of a word that has no meaning and is rejected: what to write instead
    reserved: str = ""
    #: of such a word: older documents have it, and `noetl migrate` removes it
    dropped: bool = False
    #: still accepted, but nobody is told of it
    hidden: bool = False
    default: Any = None
    #: it has an effect only beside this
    beside: Beside | None = None


def reserve_key(instead: str, *, dropped: bool = False) -> Key:
    """A word that documents mention and that means nothing here; `instead` says what to write."""
    return Key(Anything(literal=True), f"Rejected: {instead}.", reserved=instead, dropped=dropped)


class Variant(msgspec.Struct, frozen=True):
    """What a map means whose `kind` is a certain word."""

    #: of each group at least one key must be there
    needs: tuple[tuple[str, ...], ...] = ()
    #: keys without which it cannot run, though older documents show it without them
    wants: tuple[str, ...] = ()
    #: keys that mean something to it and not to all others
    takes: tuple[str, ...] = ()
    #: keys that hold a JSONPath
    finds: tuple[str, ...] = ()
    #: endings of names of files, of which `path` has one unless `format` or `body` says what is in the file
    endings: tuple[str, ...] = ()
    #: keys that may have fewer words than elsewhere
    words: Mapping[str, tuple[str, ...]] = {}

    @property
    def knows(self) -> frozenset[str]:
        """The keys that it names."""
        return frozenset({*self.takes, *self.wants}).union(*self.needs)


class Record(Shape, frozen=True):
    """A map with known keys."""

    keys: Mapping[str, Key]
    #: what it is called in messages: "a step", "a rule"
    title: str
    doc: str = ""
    #: what else holds, by its `kind`
    variants: Mapping[str, Variant] = {}
    #: a key, one of its words, and the key that must be there then
    implied: tuple[tuple[str, str, str], ...] = ()

"""Where a schema is being compiled: what its keywords ask for, and how they say that something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

from noetl.patterns import Pattern, PatternProblem, compile_pattern
from noetl.schemas.judging import Judgement, Seen, Trail, quote

#: a compiled keyword: reports what it finds
Check: TypeAlias = Callable[[Judgement, Any, Trail], None]


class Dialect(NamedTuple):
    """What differs between the versions of JSON Schema."""

    name: str
    #: its keywords, each with what compiles it and the values that it looks at
    keywords: Mapping[str, Any]
    #: the key that names a schema
    id_key: str = "$id"
    #: `$ref` makes everything beside it void
    lone_ref: bool = False
    #: 1.0 is an integer
    whole_floats: bool = True
    #: `exclusiveMinimum` and `exclusiveMaximum` are numbers, not booleans
    bounds_are_numbers: bool = True
    #: true and false are schemas
    booleans: bool = True


class SchemaInvalid(Exception):
    """A value is no JSON Schema; carries the place and why."""

    def __init__(self, path: tuple[str | int, ...], said: str) -> None:
        super().__init__(said)
        self.path = path
        self.said = said


class SchemaNode:
    """A schema. It can be referred to before it is compiled, which gives it its `check`."""

    __slots__ = ("check", "resource")

    def __init__(self, resource: str) -> None:
        #: the schema resource that it is part of
        self.resource = resource
        self.check: Callable[[Judgement, Any, Trail], Seen | None] = _unfinished


def _unfinished(_run: Judgement, _value: Any, _trail: Trail) -> NoReturn:
    raise RuntimeError("the schema is not compiled yet")


class Owner(Protocol):
    """The document that a place is in."""

    dialect: Dialect
    run: Judgement

    def compile(self, schema: Any, path: tuple[str | int, ...], base: str) -> SchemaNode:
        """The node of a schema inside of the document."""

    def refer(self, reference: str, path: tuple[str | int, ...], base: str) -> SchemaNode:
        """The node that a reference leads to."""

    def refer_dynamically(self, reference: str, base: str) -> str | None:
        """The anchor that a dynamic reference looks for; None: it is like any other."""

    def anchored(self, resource: str, anchor: str) -> SchemaNode | None:
        """The node of a dynamic anchor of a schema resource."""


class Place:
    """One keyword of one schema."""

    __slots__ = ("_owner", "base", "path", "schema")

    def __init__(self, owner: Owner, schema: Mapping[str, Any], path: tuple[str | int, ...], base: str) -> None:
        self._owner = owner
        self.schema = schema
        self.path = path
        self.base = base

    @property
    def dialect(self) -> Dialect:
        """The version of JSON Schema."""
        return self._owner.dialect

    @property
    def run(self) -> Judgement:
        """What compiling is paid from."""
        return self._owner.run

    @property
    def owner(self) -> Owner:
        """The document."""
        return self._owner

    def below(self, *keys: str | int) -> Place:
        """A place inside."""
        return Place(self._owner, self.schema, (*self.path, *keys), self.base)

    def refuse(self, said: str) -> NoReturn:
        """Say that this is no schema."""
        raise SchemaInvalid(self.path, said)

    def node(self, schema: Any, *keys: str | int) -> SchemaNode:
        """A schema inside, compiled."""
        return self._owner.compile(schema, (*self.path, *keys), self.base)

    def nodes(self, given: Any) -> list[SchemaNode]:
        """A list of schemas."""
        if not isinstance(given, list) or not given:
            self.refuse("it must be a list of schemas, and not empty")
        return [self.node(schema, index) for index, schema in enumerate(given)]

    def named_nodes(self, given: Any) -> dict[str, SchemaNode]:
        """A map of schemas."""
        return {name: self.node(schema, name) for name, schema in self.map_of(given).items()}

    def map_of(self, given: Any) -> dict[str, Any]:
        """A map by text."""
        if not isinstance(given, dict):
            self.refuse(f"it must be a map, not {quote(given)}")
        for name in given:
            if not isinstance(name, str):
                self.refuse(f"its key {quote(name)} must be text")
        return given

    def number(self, given: Any) -> int | float:
        """A number."""
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            self.refuse(f"it must be a number, not {quote(given)}")
        return given

    def count(self, given: Any) -> int:
        """A whole number from 0 on."""
        found = self.number(given)
        if found < 0 or (isinstance(found, float) and not found.is_integer()):
            self.refuse(f"it must be a whole number of at least 0, not {quote(given)}")
        return int(found)

    def flag(self, given: Any) -> bool:
        """True or false."""
        if not isinstance(given, bool):
            self.refuse(f"it must be true or false, not {quote(given)}")
        return given

    def text(self, given: Any) -> str:
        """A text."""
        if not isinstance(given, str):
            self.refuse(f"it must be text, not {quote(given)}")
        return given

    def texts(self, given: Any) -> list[str]:
        """A list of texts, none of them twice."""
        if not isinstance(given, list):
            self.refuse(f"it must be a list of texts, not {quote(given)}")
        for one in given:
            self.text(one)
        if len(set(given)) < len(given):
            self.refuse("it has the same text twice")
        return given

    def pattern(self, given: Any) -> Pattern:
        """A regular expression."""
        try:
            found = compile_pattern(self.text(given))
        except PatternProblem as problem:
            self.refuse(f"{quote(given)} is not a usable pattern: {problem}")
        self.run.pay(1000 + 5 * found.size)
        return found

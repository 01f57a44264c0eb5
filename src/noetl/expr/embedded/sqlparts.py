"""What SQL text with templates consists of."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias

import msgspec

from noetl.expr.sandbox.run import Run

#: stands for one `{{ … }}` in the text that is scanned
HOLE: Final = "\x00"


class Source(Protocol):
    """What stands in a hole."""

    @property
    def marker(self) -> str | None:
        """`sql` when the value is to be inserted as it is."""

    def evaluate(self, run: Run) -> Any:
        """The value."""

    def plain_value(self, run: Run) -> Any:
        """The value as plain data."""


Pieces = tuple[str | Source, ...]


class Text(msgspec.Struct, frozen=True):
    """SQL as the author wrote it."""

    text: str


class Bind(msgspec.Struct, frozen=True):
    """A value to be bound: one expression's own, or the text of a whole literal in pieces."""

    pieces: Pieces
    #: whether it was a quoted literal, so that the value is text
    literal: bool = False
    #: whether no database takes a parameter here, so that a quoted literal has to stay one
    inline: bool = False


class Identifier(msgspec.Struct, frozen=True):
    """A name made of pieces; `quoted` when the author wrote the quotes."""

    pieces: Pieces
    quoted: bool = False


class Splice(msgspec.Struct, frozen=True):
    """A value marked with `| sql`, inserted as it is."""

    source: Source


class Named(msgspec.Struct, frozen=True):
    """`:name` or `%(name)s`, bound from `params`."""

    name: str


class Code(msgspec.Struct, frozen=True):
    """The quoted body of a `DO` or of a function: SQL in its own right, in which nothing can be bound."""

    parts: tuple[Part, ...]
    #: why no value may stand in it
    refusal: str = ""


class Break(msgspec.Struct, frozen=True):
    """The `;` between two statements."""


Part: TypeAlias = Text | Bind | Identifier | Splice | Named | Code | Break

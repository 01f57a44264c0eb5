"""Bound SQL: the finished text and its parameters, in the way a driver wants them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from noetl.errors import TemplateError
from noetl.expr.sandbox.evaluation import Evaluation

# What SQL text with templates consists of.


#: stands for one `{{ … }}` in the text that is scanned
HOLE: Final = "\x00"


class HoleValue(Protocol):
    """What stands in a hole."""

    @property
    def marker(self) -> str | None:
        """`sql` when the value is to be inserted as it is."""

    @property
    def key(self) -> Hashable:
        """The same for equal expressions."""

    def evaluate(self, run: Evaluation) -> Any:
        """The value."""

    def plain_value(self, run: Evaluation) -> Any:
        """The value as plain data."""


Pieces = tuple[str | HoleValue, ...]


class SqlText(msgspec.Struct, frozen=True):
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

    source: HoleValue


class NamedParameter(msgspec.Struct, frozen=True):
    """`:name` or `%(name)s`, bound from `params`."""

    name: str


class CodeBody(msgspec.Struct, frozen=True):
    """The quoted body of a `DO` or of a function: SQL in its own right, in which nothing can be bound."""

    parts: tuple[Part, ...]
    #: why no value may stand in it
    refusal: str = ""


class StatementBreak(msgspec.Struct, frozen=True):
    """The `;` between two statements."""


Part: TypeAlias = SqlText | Bind | Identifier | Splice | NamedParameter | CodeBody | StatementBreak


#: how a driver writes its placeholders: numbered, or one for all (then a literal % is doubled)
Style = Literal["$1", "%s"]
#: a driver's own way to write a value as a literal
Quote = Callable[[Any], str]

_FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([A-Za-z]+)", re.DOTALL)


class Parameter(msgspec.Struct, frozen=True):
    """A value to be bound; `inline` when no database takes a parameter at its place, only a literal."""

    value: Any
    inline: bool = False
    #: what it was made of; of one statement, those of equal keys and values can be one parameter
    key: Hashable = None


class QuotedBody(msgspec.Struct, frozen=True):
    """SQL inside of a quoted text: its values become literals first, then the whole becomes one."""

    query: BoundQuery


#: what a statement with its values consists of
Finished: TypeAlias = str | Parameter | QuotedBody | StatementBreak


class BoundQuery(msgspec.Struct, frozen=True):
    """A statement, or several, with their values: finished SQL and parameters in turn."""

    parts: tuple[Finished, ...]

    @property
    def verbs(self) -> tuple[str, ...]:
        """The first word of each statement, in capitals: what tells a driver whether parameters can be bound."""
        return tuple(found for query in self.statements() if (found := _verb(query)))

    def statements(self) -> tuple[BoundQuery, ...]:
        """The single statements, without the `;` between them; empty ones are left out."""
        found: list[list[Finished]] = [[]]
        for part in self.parts:
            if isinstance(part, StatementBreak):
                found.append([])
            else:
                found[-1].append(part)
        return tuple(
            BoundQuery(tuple(one)) for one in found if any(not isinstance(part, str) or part.strip() for part in one)
        )

    def render(
        self, style: Style, quote: Quote | None = None, *, shares: Callable[[Any], bool] = lambda _: True
    ) -> tuple[str, list[Any]]:
        """The text and the parameters to pass with it; given `quote`, literals stand in for all parameters.

        In style `$1` equal expressions are one parameter, if their value is one that `shares`: `SELECT n / $1 …
        GROUP BY n / $1` is one expression to a database, and `n / $2` is another.
        In style `%s` each literal `%` is doubled, so the parameters have to be passed even if there are none.
        """
        texts: list[str] = []
        params: list[Any] = []
        numbers: dict[Hashable, int] = {}
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part.replace("%", "%%") if style == "%s" else part)
            elif isinstance(part, StatementBreak):
                texts.append(";")
            elif isinstance(part, QuotedBody) or part.inline or quote is not None:
                value = part.query.render("$1", quote or sql_literal)[0] if isinstance(part, QuotedBody) else part.value
                written = (quote or sql_literal)(value)
                texts.append(written.replace("%", "%%") if style == "%s" else written)
            elif style == "%s":
                params.append(part.value)
                texts.append("%s")
            else:
                number = numbers.get(part.key) if part.key is not None and shares(part.value) else None
                if number is None or not _is_same(params[number - 1], part.value):
                    params.append(part.value)
                    number = numbers[part.key] = len(params)
                texts.append(f"${number}")
        return "".join(texts), params


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of one expression are the same: those of `uuid()` never are."""
    return type(one) is type(other) and bool(one == other)


def _verb(query: BoundQuery) -> str:
    match = _FIRST_WORD.match("".join(part if isinstance(part, str) else "?" for part in query.parts))
    return match[1].upper() if match else ""


def sql_literal(value: Any) -> str:
    """A value as a literal of standard SQL; maps and lists as JSON."""
    if value is None:
        return "NULL"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\x00" in text:
        raise sql_error("there is a NUL character in a value")
    return "'" + text.replace("'", "''") + "'"


def sql_error(message: str, expression: str = "") -> TemplateError:
    """The error of SQL that cannot be made of these values."""
    error = TemplateError(message, expression=expression)
    error.kind = "sql"
    return error

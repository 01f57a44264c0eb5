"""SQL with its values: finished text and parameters, in the way a driver wants them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from noetl.errors import TemplateError
from noetl.expr.embedded.sqlparts import Break

#: how a driver writes its placeholders: numbered, or one for all (then a literal % is doubled)
Style = Literal["$1", "%s"]
#: a driver's own way to write a value as a literal
Quote = Callable[[Any], str]

_FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([A-Za-z]+)", re.DOTALL)


class Parameter(msgspec.Struct, frozen=True):
    """A value to be bound; `inline` when no database takes a parameter at its place, only a literal."""

    value: Any
    inline: bool = False


class Body(msgspec.Struct, frozen=True):
    """SQL inside of a quoted text: its values become literals first, then the whole becomes one."""

    query: Query


#: what a statement with its values consists of
Finished: TypeAlias = str | Parameter | Body | Break


class Query(msgspec.Struct, frozen=True):
    """A statement, or several, with their values: finished SQL and parameters in turn."""

    parts: tuple[Finished, ...]

    @property
    def verbs(self) -> tuple[str, ...]:
        """The first word of each statement, in capitals: what tells a driver whether parameters can be bound."""
        return tuple(found for query in self.statements() if (found := _verb(query)))

    def statements(self) -> tuple[Query, ...]:
        """The single statements, without the `;` between them; empty ones are left out."""
        found: list[list[Finished]] = [[]]
        for part in self.parts:
            if isinstance(part, Break):
                found.append([])
            else:
                found[-1].append(part)
        return tuple(
            Query(tuple(one)) for one in found if any(not isinstance(part, str) or part.strip() for part in one)
        )

    def render(self, style: Style, quote: Quote | None = None) -> tuple[str, list[Any]]:
        """The text and the parameters to pass with it; given `quote`, literals stand in for all parameters.

        In style `%s` each literal `%` is doubled, so the parameters have to be passed even if there are none.
        """
        texts: list[str] = []
        params: list[Any] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part.replace("%", "%%") if style == "%s" else part)
            elif isinstance(part, Break):
                texts.append(";")
            elif isinstance(part, Body) or part.inline or quote is not None:
                value = part.query.render("$1", quote or literal)[0] if isinstance(part, Body) else part.value
                written = (quote or literal)(value)
                texts.append(written.replace("%", "%%") if style == "%s" else written)
            else:
                params.append(part.value)
                texts.append(f"${len(params)}" if style == "$1" else "%s")
        return "".join(texts), params


def _verb(query: Query) -> str:
    match = _FIRST_WORD.match("".join(part if isinstance(part, str) else "?" for part in query.parts))
    return match[1].upper() if match else ""


def literal(value: Any) -> str:
    """A value as a literal of standard SQL; maps and lists as JSON."""
    if value is None:
        return "NULL"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\x00" in text:
        raise refused("there is a NUL character in a value")
    return "'" + text.replace("'", "''") + "'"


def refused(message: str, expression: str = "") -> TemplateError:
    """The error of SQL that cannot be made of these values."""
    error = TemplateError(message, expression=expression)
    error.kind = "sql"
    return error

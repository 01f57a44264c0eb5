"""DuckDB, which is an optional part of an installation: the module, names and literals in its SQL."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from noetl.errors import NoetlError

NOT_INSTALLED = "DuckDB is not installed; it comes with the extra `duckdb`: pip install 'noetl[duckdb]'"


class NoDuckDB(NoetlError):
    """The extra is not installed."""


def duckdb() -> Any:
    """The module; NoDuckDB: it is not installed."""
    try:
        import duckdb as module
    except ImportError:
        raise NoDuckDB(NOT_INSTALLED) from None
    return module


def name(text: str) -> str:
    """One name, quoted."""
    return '"' + text.replace('"', '""') + '"'


def names(texts: Iterable[str]) -> str:
    """Names in a list."""
    return ", ".join(name(text) for text in texts)


def make_distinct(text: str, others: Iterable[str]) -> str:
    """A name that none of the others is like; DuckDB does not tell capitals from small letters."""
    taken = {other.lower() for other in others}
    while text.lower() in taken:
        text += "_"
    return text


def literal(value: Any) -> str:
    """A value as a literal: lists of plain values as lists, maps and everything nested as JSON text."""
    value = bindable(value)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if fits(value) else big_number(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"'{value}'::DOUBLE"
    if isinstance(value, list):
        return "[" + ", ".join(literal(one) for one in value) + "]"
    # No literal holds the character that ends texts in C, but one can be put in.
    return " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in str(value).split("\x00"))


def bindable(value: Any) -> Any:
    """A value as it is bound: maps, and lists that hold more than values of one type, as JSON text."""
    if isinstance(value, Mapping):
        return _json(value)
    if isinstance(value, (list, tuple)):
        kinds = {type(one) for one in value} - {type(None)}
        plain = len(kinds) <= 1 or kinds == {int, float}
        return list(value) if plain and kinds <= {str, int, float, bool} and all(map(fits, value)) else _json(value)
    return value


def fits(value: Any) -> bool:
    """Whether a value is no whole number of more than 128 bits: those have no type that can be bound."""
    return not isinstance(value, int) or -(2**127) <= value < 2**127


def big_number(value: int) -> str:
    """A whole number of any size as an expression."""
    return f"CAST('{value}' AS BIGNUM)"


def _json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


# SQL that writes rows as JSON, by the rules that hold for all tools: ISO 8601, exact numbers, base64.
#
# DuckDB does it at its own speed, and nothing passes through Python objects.


# SQL that makes rows fit for Parquet without losing a digit.


def parquet_row(columns: Sequence[tuple[str, Any]]) -> str:
    """The columns of a SELECT whose result is written as Parquet."""
    return ", ".join(_column(key, kind) for key, kind in columns)


def _column(key: str, kind: Any) -> str:
    # Parquet has no integers of 128 bits, and DuckDB would write doubles.
    if kind.id in ("hugeint", "uhugeint"):
        return f"CAST({name(key)} AS DECIMAL(38, 0)) AS {name(key)}"
    if kind.id in ("bit", "bignum"):
        return f"CAST({name(key)} AS VARCHAR) AS {name(key)}"
    if kind.id == "union":
        return f"to_json({name(key)}) AS {name(key)}"
    return name(key)


def result_row(columns: Sequence[tuple[str, Any]], wide: Collection[str]) -> str:
    """The same for a result that is read back: columns with `wide` numbers as JSON, and times of day in UTC."""
    return ", ".join(_result_column(key, kind, wide) for key, kind in columns)


def _result_column(key: str, kind: Any, wide: Collection[str]) -> str:
    if key in wide:
        return f"to_json({name(key)}) AS {name(key)}"
    if kind.id in _TIMES_OF_DAY:
        return f"{_scalar(name(key), kind.id, kind, key)} AS {name(key)}"
    return _column(key, kind)


def wide_columns(columns: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Columns that may hold whole numbers for which Parquet has no type, each with an expression that says so of all."""
    asked = {
        "bignum": "true",
        "uhugeint": "bool_or({0} > {1}::UHUGEINT)",
        "hugeint": "bool_or({0} NOT BETWEEN -{1} AND {1})",
    }
    return {key: asked[kind.id].format(name(key), 10**38 - 1) for key, kind in columns if kind.id in _WIDE}


#: begins the message where a value cannot be written at all
NOT_JSON = "not JSON: "
#: what JSON holds as DuckDB writes it
_PLAIN = frozenset(
    "boolean tinyint smallint integer bigint utinyint usmallint uinteger ubigint varchar uuid enum date time "  # noqa: SIM905
    "interval bit null sqlnull".split()
)
_TIMES = frozenset({"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"})
_MOMENTS = frozenset({"timestamp with time zone", "timestamp_tz"})
_TIMES_OF_DAY = frozenset({"time with time zone", "time_tz"})
_ZONED = _MOMENTS | _TIMES_OF_DAY
#: whole numbers for which Parquet has no type
_WIDE = frozenset({"hugeint", "uhugeint", "bignum"})
#: digits that a double always keeps
_SURE = 15


def json_row(columns: Sequence[tuple[str, Any]]) -> str:
    """An expression: the row as a JSON object. `columns` are names with their types, as DuckDB describes them."""
    row = _Row(columns)
    return (
        "json_object(" + ", ".join(f"{literal(key)}, {row.value(name(key), kind, key)}" for key, kind in columns) + ")"
    )


def text_row(columns: Sequence[tuple[str, Any]]) -> str:
    """The columns of a SELECT whose values are written as text, such as CSV: as in JSON, but numbers in full."""
    row = _Row(columns)
    return ", ".join(f"{_text(row, name(key), kind, key)} AS {name(key)}" for key, kind in columns)


def _text(row: _Row, text: str, kind: Any, column: str) -> str:
    if kind.id in _TIMES or kind.id in _ZONED or kind.id == "blob":
        return row.value(text, kind, column)
    if kind.id in ("list", "array", "struct", "map", "union"):
        return f"to_json({row.convert_nested(text, kind, column)})"
    return text


def _scalar(text: str, sort: str, kind: Any, column: str) -> str | None:
    if sort in _PLAIN:
        return text
    if sort in ("double", "float"):
        refusal = literal(f"{NOT_JSON}the column {name(column)} holds a number that JSON has no form for: ")
        return f"CASE WHEN isfinite({text}) OR {text} IS NULL THEN {text} ELSE error({refusal} || {text}) END"
    if sort in _TIMES:
        return f"replace(CAST({text} AS VARCHAR), ' ', 'T')"
    if sort in _ZONED:
        return _in_utc(text, sort)
    if sort == "blob":
        return f"to_base64({text})"
    if sort == "decimal":
        whole = not dict(kind.children)["scale"]
        return text if whole or dict(kind.children)["precision"] <= _SURE else _decimal(text, kind)
    if sort in _WIDE:
        return f"to_json({text})"
    return None


def _in_utc(text: str, sort: str) -> str:
    """A time with a zone in UTC, whatever zone the session is in."""
    if sort in _TIMES_OF_DAY:
        return f"CAST(timezone('UTC', {text}) AS VARCHAR) || ':00'"
    moment = f"replace(CAST(make_timestamp(epoch_us({text})) AS VARCHAR), ' ', 'T') || '+00:00'"
    return f"CASE WHEN isfinite({text}) THEN {moment} ELSE CAST({text} AS VARCHAR) END"


def _decimal(text: str, kind: Any) -> str:
    """A number if no digit is lost, else text."""
    return f"CASE WHEN CAST(CAST({text} AS DOUBLE) AS {kind}) = {text} THEN to_json({text}) ELSE {_as_text(text)} END"


def _as_text(text: str) -> str:
    return f"to_json(CAST({text} AS VARCHAR))"


class _Row:
    """The columns of one SELECT: what lambdas call their parameter must be none of them."""

    def __init__(self, columns: Sequence[tuple[str, Any]]) -> None:
        self._columns = [key for key, _ in columns]

    def value(self, text: str, kind: Any, column: str, depth: int = 0) -> str:
        """An expression that `to_json` writes as it should be; the same text where it does so anyway."""
        made = _scalar(text, kind.id, kind, column)
        return self.convert_nested(text, kind, column, depth) if made is None else made

    def convert_nested(self, text: str, kind: Any, column: str, depth: int = 0) -> str:
        """The same for what has parts."""
        element = make_distinct(f"e{depth}", self._columns)
        if kind.id in ("list", "array"):
            inner = self.value(element, dict(kind.children)["child"], column, depth + 1)
            return text if inner == element else f"list_transform({text}, lambda {element}: {inner})"
        if kind.id == "struct":
            fields = [(key, self.value(f"{text}.{name(key)}", one, column, depth)) for key, one in kind.children]
            if all(made == f"{text}.{name(key)}" for key, made in fields):
                return text
            made = ", ".join(f"{literal(key)}, {part}" for key, part in fields)
            return f"CASE WHEN {text} IS NULL THEN NULL ELSE json_object({made}) END"
        if kind.id == "map":
            inner = self.value(f"{element}.value", dict(kind.children)["value"], column, depth + 1)
            if inner == f"{element}.value":
                return text
            entries = f"lambda {element}: {{'key': CAST({element}.key AS VARCHAR), 'value': {inner}}}"
            return f"map_from_entries(list_transform(map_entries({text}), {entries}))"
        return f"to_json({text})"

"""Types of columns: told from JSON rows and CSV samples, and casts that refuse to change a value without a word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from noetl.drivers.datahost import DataHostFailed
from noetl.rows.duck import name

#: rows looked at where there are many
SAMPLE = 20_480
_LARGEST = 2**63


def columns_of(rows: Iterable[Any], first: int = 0) -> dict[str, str]:
    """The columns of rows in order of their appearance, each with a type that holds all of its values."""
    return {key: sort or "VARCHAR" for key, sort in sorts_of(rows, first).items()}


def sorts_of(rows: Iterable[Any], first: int = 0) -> dict[str, str | None]:
    """The same; None: no row has a value there."""
    found: dict[str, str | None] = {}
    for number, row in enumerate(rows, first + 1):
        if not isinstance(row, dict):
            raise not_a_map_failure(number, row)
        for key, value in row.items():
            before = found.get(key)
            sort = _sort(value)
            found[key] = sort if before is None else before if sort is None else wider_type(before, sort)
    return found


def not_a_map_failure(number: int, row: Any) -> DataHostFailed:
    """The failure of a row that has no columns."""
    return DataHostFailed("type", f"row {number:,} is no map of columns: {str(row)[:80]!r}", row=number)


def _sort(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -_LARGEST <= value < _LARGEST else "HUGEINT"
    if isinstance(value, float):
        return "DOUBLE"
    return "VARCHAR" if isinstance(value, str) else "JSON"


def wider_type(one: str, other: str) -> str:
    """A type that holds the values of both."""
    if one == other:
        return one
    numbers = {"BIGINT", "HUGEINT", "DOUBLE"}
    if {one, other} <= numbers:
        return "DOUBLE" if "DOUBLE" in (one, other) else "HUGEINT"
    return "JSON" if "JSON" in (one, other) else "VARCHAR"


# Numbers of CSV files whose digits a double would not keep: which type a column is to have instead.


#: digits that a double always keeps, and digits that a decimal has
_SURE, _MOST = 15, 38


def exact_types(connection: Any, relation: str, types: Mapping[str, str]) -> dict[str, str]:
    """The types of columns; one of numbers that a double would change is of decimals, or else of text.

    `relation` has the columns as text; as many rows are looked at as DuckDB does to find out types.
    """
    found = dict(types)
    doubles = [column for column, kind in types.items() if kind == "DOUBLE"]
    if not doubles:
        return found
    digits = [f"max(length(regexp_replace({name(one)}, '[^0-9]', '', 'g')))" for one in doubles]
    some = f"(FROM {relation} LIMIT {SAMPLE})"
    longest = connection.execute(f"SELECT {', '.join(digits)} FROM {some}").fetchone()
    for column, most in zip(doubles, longest, strict=True):
        if most is not None and most > _SURE:
            values = connection.execute(f"SELECT DISTINCT {name(column)} FROM {some}").fetchall()
            found[column] = _kind(value for (value,) in values if value)
    return found


def _kind(values: Iterable[str]) -> str:
    """The type that keeps all digits of some numbers."""
    texts = list(values)
    try:
        numbers = [Decimal(text.strip()) for text in texts]
    except InvalidOperation:
        return "VARCHAR"
    if all(not one.is_finite() or one == Decimal(repr(float(one))) for one in numbers):
        return "DOUBLE"
    if not all(one.is_finite() for one in numbers):
        return "VARCHAR"
    behind = max(max(0, -int(one.as_tuple().exponent)) for one in numbers)
    before = max(max(0, one.adjusted() + 1) for one in numbers)
    return f"DECIMAL({_MOST}, {behind})" if behind + before <= _MOST else "VARCHAR"


# Casts that fail where DuckDB's own would change a value: it rounds numbers and cuts times off dates.


_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
_DECIMAL = re.compile(r"DECIMAL\(\d+, ?(\d+)\)")
_FLOATING = ("FLOAT", "DOUBLE")
_FRACTIONS = re.compile(r"FLOAT|DOUBLE|DECIMAL\b.*")
_TIME = re.compile(r"TIMESTAMP.*")
#: digits with an exponent, which a hexadecimal number has not
_POWER = r"'^\s*[-+]?[0-9.]+[eE]'"


def cast_text(text: str, wanted: str) -> str | None:
    """What is written as text, in a type; None: DuckDB changes nothing of that type."""
    condition = build_altered_condition(text, wanted)
    if condition is None:
        return None
    # What most values have not is seen at a glance: a point or an exponent, and a date with anything behind it.
    marks = " OR ".join(f"contains({text}, {mark})" for mark in ("'.'", "'e'", "'E'"))
    doubtful = f"length({text}) > 10" if wanted == "DATE" else marks
    return f"CASE WHEN {doubtful} THEN {_fail_if(text, condition, wanted)} ELSE CAST({text} AS {wanted}) END"


def cast_value(value: str, kind: str, wanted: str) -> str:
    """A value of one type in another."""
    if kind == "VARCHAR":
        return cast_text(value, wanted) or f"CAST({value} AS {wanted})"
    if kind in _FLOATING and _DECIMAL.fullmatch(wanted):
        return _cast_float(value, wanted)
    loses = (_FRACTIONS.fullmatch(kind) and scale_of(wanted) is not None) or (
        _TIME.fullmatch(kind) and wanted == "DATE"
    )
    if kind == wanted or not loses:
        return f"CAST({value} AS {wanted})"
    return _fail_if(value, f"CAST(TRY_CAST({value} AS {wanted}) AS {kind}) IS DISTINCT FROM {value}", wanted)


def _cast_float(value: str, wanted: str) -> str:
    """A floating number as a decimal: DuckDB's own cast multiplies it first, and what does not come out even is another."""
    whole = f"CAST(CAST({value} AS HUGEINT) AS {wanted})"
    # As text it has the digits that everybody sees; but of a large whole number only the first ones.
    return f"CASE WHEN {value} = trunc({value}) THEN {whole} ELSE {cast_text(f'CAST({value} AS VARCHAR)', wanted)} END"


def build_altered_condition(text: str, wanted: str) -> str | None:
    """What is true of a text whose value is another in a type; None: of no text."""
    if wanted == "DATE":
        time = f"TRY_CAST(trim({text}) AS TIMESTAMP)"
        return f"{time} IS DISTINCT FROM CAST(TRY_CAST({text} AS DATE) AS TIMESTAMP)"
    scale = scale_of(wanted)
    if scale is None:
        return None
    # Digits are looked at as they are written: a double would not keep all of them.
    power = f"regexp_matches({text}, {_POWER})"
    return f"CASE WHEN {power} THEN {_places(text)} > {scale} ELSE {too_fine_condition(text, scale)} END"


def scale_of(kind: str) -> int | None:
    """How many digits a type has behind the point; None: as many as there are, or it is none of numbers."""
    if _WHOLE.fullmatch(kind):
        return 0
    decimal = _DECIMAL.fullmatch(kind)
    return int(decimal[1]) if decimal else None


def too_fine_condition(text: str, scale: int) -> str:
    """What is true of a number, as text without an exponent, that has more digits behind the point."""
    return rf"regexp_matches({text}, '\.[0-9]{{{scale}}}[0-9]*[1-9]')"


def _places(text: str) -> str:
    """How many digits behind the point a number has that is written with an exponent; zeros at its end are none."""
    digits = f"regexp_extract({text}, '[0-9.]+')"
    behind = f"length(split_part({digits}, '.', 2))"
    zeros = f"length(regexp_extract(replace({digits}, '.', ''), '0*$'))"
    none = f"regexp_full_match({digits}, '[0.]*')"
    # However large the exponent is, a double tells whether it is too large.
    exponent = f"CAST(regexp_extract({text}, '[eE]([-+]?[0-9]+)', 1) AS DOUBLE)"
    return f"CASE WHEN {none} THEN 0 ELSE {behind} - {zeros} - {exponent} END"


def _fail_if(value: str, condition: str, wanted: str) -> str:
    """What does not fit is made something that no type has, so that the cast ends with an error."""
    return f"CASE WHEN {condition} THEN CAST(concat('?', {value}) AS {wanted}) ELSE CAST({value} AS {wanted}) END"


# Values that would be others in the type of their column, which it has by earlier rows or by a table.
#
# DuckDB rounds numbers of JSON and takes truth for one, without a word.


class AlterationCheck(NamedTuple):
    """Which values of a column are others in its type."""

    column: str
    kind: str
    #: what is true of them, and what shows one, in SQL
    condition: str
    shown: str


def check_unaltered(connection: Any, source: str, kinds: Mapping[str, str], strict: set[str], first: int) -> None:
    """Failing: a value is not the same in the type of its column.

    `source` has the columns as JSON. In columns that are `strict` text is text, and neither a number nor a truth.
    """
    odd = [
        AlterationCheck(key, kind, condition, f"CAST({name(key)} AS VARCHAR)")
        for key, kind in kinds.items()
        if (condition := _alteration_condition(name(key), kind, strict=key in strict))
    ]
    refuse_altered(connection, source, odd, first)


def refuse_altered(connection: Any, source: str, odd: Sequence[AlterationCheck], first: int) -> None:
    """Failing: there is such a value; it says in which row, behind so many others."""
    any_of_them = " OR ".join(one.condition for one in odd)
    if not odd or connection.execute(f"SELECT 1 FROM {source} WHERE {any_of_them} LIMIT 1").fetchone() is None:
        return
    which = " ".join(f"WHEN {one.condition} THEN {at}" for at, one in enumerate(odd))
    shown = ", ".join(one.shown for one in odd)
    numbered = f"SELECT row_number() OVER () AS n, CASE {which} END AS w, [{shown}] AS v FROM {source}"
    row, at, values = connection.execute(f"SELECT n, w, v FROM ({numbered}) WHERE w IS NOT NULL LIMIT 1").fetchone()
    column, kind, value = odd[at].column, odd[at].kind, str(values[at])[:200]
    message = (
        f"column `{column}`, row {first + row:,}: {value} is not of type {kind}, which the column has by earlier rows, by its "
        "table or by what was said; give it another one in `source.columns` or `mapping`, or make the table with one that "
        "holds all"
    )
    raise DataHostFailed("type", message, column=column, row=first + row, value=value)


def _alteration_condition(column: str, kind: str, *, strict: bool) -> str | None:
    """What is true of a value that is another in a type; None: no value is, or DuckDB refuses it."""
    sort, text = f"json_type({column})", f"({column} ->> '$')"
    is_text = f" OR {sort} = 'VARCHAR'" if strict else ""
    # What is written as most values are is passed over at a glance, which takes a third of the time.
    written = f"CAST({column} AS VARCHAR)"
    if kind == "BOOLEAN":
        exact = f"{sort} NOT IN ('BOOLEAN', 'NULL', 'VARCHAR'){is_text}"
        return f"({written} NOT IN ('true', 'false') AND ({exact}))"
    other = f"{sort} = 'BOOLEAN'{is_text}"
    if (rounded := build_altered_condition(text, kind)) and kind != "DATE":
        return f"(regexp_matches({written}, '[^-0-9]') AND ({other} OR {rounded}))"
    if kind in ("FLOAT", "DOUBLE"):
        return f"({written}[1] IN ('t', 'f', '\"') AND ({other}))"
    return None

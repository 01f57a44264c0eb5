"""Casts that end where DuckDB's own would change a value without a word: it rounds numbers and cuts times off dates."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
_DECIMAL = re.compile(r"DECIMAL\(\d+, ?(\d+)\)")
_FLOATING = ("FLOAT", "DOUBLE")
_FRACTIONS = re.compile(r"FLOAT|DOUBLE|DECIMAL\b.*")
_TIME = re.compile(r"TIMESTAMP.*")
#: digits with an exponent, which a hexadecimal number has not
_POWER = r"'^\s*[-+]?[0-9.]+[eE]'"


def of_text(text: str, wanted: str) -> str | None:
    """What is written as text, in a type; None: DuckDB changes nothing of that type."""
    condition = altered(text, wanted)
    if condition is None:
        return None
    # What most values have not is seen at a glance: a point or an exponent, and a date with anything behind it.
    marks = " OR ".join(f"contains({text}, {mark})" for mark in ("'.'", "'e'", "'E'"))
    doubtful = f"length({text}) > 10" if wanted == "DATE" else marks
    return f"CASE WHEN {doubtful} THEN {_or_fail(text, condition, wanted)} ELSE CAST({text} AS {wanted}) END"


def of_value(value: str, kind: str, wanted: str) -> str:
    """A value of one type in another."""
    if kind == "VARCHAR":
        return of_text(value, wanted) or f"CAST({value} AS {wanted})"
    if kind in _FLOATING and _DECIMAL.fullmatch(wanted):
        return _of_floating(value, wanted)
    loses = (_FRACTIONS.fullmatch(kind) and scale_of(wanted) is not None) or (
        _TIME.fullmatch(kind) and wanted == "DATE"
    )
    if kind == wanted or not loses:
        return f"CAST({value} AS {wanted})"
    return _or_fail(value, f"CAST(TRY_CAST({value} AS {wanted}) AS {kind}) IS DISTINCT FROM {value}", wanted)


def _of_floating(value: str, wanted: str) -> str:
    """A floating number as a decimal: DuckDB's own cast multiplies it first, and what does not come out even is another."""
    whole = f"CAST(CAST({value} AS HUGEINT) AS {wanted})"
    # As text it has the digits that everybody sees; but of a large whole number only the first ones.
    return f"CASE WHEN {value} = trunc({value}) THEN {whole} ELSE {of_text(f'CAST({value} AS VARCHAR)', wanted)} END"


def altered(text: str, wanted: str) -> str | None:
    """What is true of a text whose value is another in a type; None: of no text."""
    if wanted == "DATE":
        time = f"TRY_CAST(trim({text}) AS TIMESTAMP)"
        return f"{time} IS DISTINCT FROM CAST(TRY_CAST({text} AS DATE) AS TIMESTAMP)"
    scale = scale_of(wanted)
    if scale is None:
        return None
    # Digits are looked at as they are written: a double would not keep all of them.
    power = f"regexp_matches({text}, {_POWER})"
    return f"CASE WHEN {power} THEN {_places(text)} > {scale} ELSE {too_fine(text, scale)} END"


def scale_of(kind: str) -> int | None:
    """How many digits a type has behind the point; None: as many as there are, or it is none of numbers."""
    if _WHOLE.fullmatch(kind):
        return 0
    decimal = _DECIMAL.fullmatch(kind)
    return int(decimal[1]) if decimal else None


def too_fine(text: str, scale: int) -> str:
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


def _or_fail(value: str, condition: str, wanted: str) -> str:
    """What does not fit is made something that no type has, so that the cast ends with an error."""
    return f"CASE WHEN {condition} THEN CAST(concat('?', {value}) AS {wanted}) ELSE CAST({value} AS {wanted}) END"

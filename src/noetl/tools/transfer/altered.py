"""Values that would be others in the type of their column, which it has by earlier rows or by a table.

DuckDB rounds numbers of JSON and takes truth for one, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from noetl.rows.duck import name
from noetl.tools.datahost.failing import Failing
from noetl.tools.transfer.faithful import altered


class Odd(NamedTuple):
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
        Odd(key, kind, condition, f"CAST({name(key)} AS VARCHAR)")
        for key, kind in kinds.items()
        if (condition := _odd(name(key), kind, strict=key in strict))
    ]
    refuse(connection, source, odd, first)


def refuse(connection: Any, source: str, odd: Sequence[Odd], first: int) -> None:
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
    raise Failing("type", message, column=column, row=first + row, value=value)


def _odd(column: str, kind: str, *, strict: bool) -> str | None:
    """What is true of a value that is another in a type; None: no value is, or DuckDB refuses it."""
    sort, text = f"json_type({column})", f"({column} ->> '$')"
    is_text = f" OR {sort} = 'VARCHAR'" if strict else ""
    # What is written as most values are is passed over at a glance, which takes a third of the time.
    written = f"CAST({column} AS VARCHAR)"
    if kind == "BOOLEAN":
        exact = f"{sort} NOT IN ('BOOLEAN', 'NULL', 'VARCHAR'){is_text}"
        return f"({written} NOT IN ('true', 'false') AND ({exact}))"
    other = f"{sort} = 'BOOLEAN'{is_text}"
    if (rounded := altered(text, kind)) and kind != "DATE":
        return f"(regexp_matches({written}, '[^-0-9]') AND ({other} OR {rounded}))"
    if kind in ("FLOAT", "DOUBLE"):
        return f"({written}[1] IN ('t', 'f', '\"') AND ({other}))"
    return None

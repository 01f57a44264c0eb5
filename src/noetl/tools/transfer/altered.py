"""Values of JSON that DuckDB would make others of, because their column has the type of earlier rows or of a table.

It rounds numbers and takes truth for one, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.rows.duck import name
from noetl.tools.datahost.failing import Failing
from noetl.tools.transfer.faithful import altered


def check_unaltered(connection: Any, source: str, kinds: Mapping[str, str], strict: set[str], first: int) -> None:
    """Failing: a value is not the same in the type of its column.

    `source` has the columns as JSON. In columns that are `strict` text is text, and neither a number nor a truth.
    """
    odd = {key: found for key, kind in kinds.items() if (found := _odd(name(key), kind, strict=key in strict))}
    if (
        not odd
        or connection.execute(f"SELECT 1 FROM {source} WHERE {' OR '.join(odd.values())} LIMIT 1").fetchone() is None
    ):
        return
    which = " ".join(f"WHEN {condition} THEN {at}" for at, condition in enumerate(odd.values()))
    shown = ", ".join(f"CAST({name(key)} AS VARCHAR)" for key in odd)
    numbered = f"SELECT row_number() OVER () AS n, CASE {which} END AS w, [{shown}] AS v FROM {source}"
    row, at, values = connection.execute(f"SELECT n, w, v FROM ({numbered}) WHERE w IS NOT NULL LIMIT 1").fetchone()
    column, value = list(odd)[at], str(values[at])[:200]
    message = (
        f"column `{column}`, row {first + row:,}: {value} is not of type {kinds[column]}, which the column has since earlier "
        "rows; give it another one in `source.columns` or `mapping`, or make the table with one that holds all"
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

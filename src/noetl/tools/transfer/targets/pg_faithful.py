"""Values that PostgreSQL would change without a word: it rounds to the digits of a column and cuts the time off a date.

Text that is copied as it is would have to be read for nothing but that, and most of it need not: bytes tell at a glance that there
is no value of which it could be true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from noetl.tools.transfer.altered import Odd, refuse
from noetl.tools.transfer.chunks import Chunk, Csv
from noetl.tools.transfer.faithful import altered, scale_of
from noetl.tools.transfer.mapping import Column, Mapped
from noetl.tools.transfer.targets.pg_tables import PgTarget

Pairs = list[tuple[Column, PgTarget]]
#: a time, as PostgreSQL reads one also where DuckDB does not: `17:45`, or `174500` behind a date
_TIMED = r":[0-9]|^\s*[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ]\s*[0-9]"
#: what a text with such a time has in it; each begins with one byte, which is found quickly
_TIMES = [re.compile(mark) for mark in (rb":[0-9]", rb" [0-9]{4}", rb"T[0-9]{4}")]
_POWERS = [re.compile(mark) for mark in (rb"e[-+]?[0-9]", rb"E[-+]?[0-9]")]
#: the longest of dates without a time that most have
_DATE = 10


def doubtful(mapped: Mapped, columns: Sequence[PgTarget]) -> Pairs:
    """The columns that may get other values than they are sent."""
    pairs = zip(mapped.columns, columns, strict=True)
    found = [(one, into) for one, into in pairs if _changes(into) and not _keeps(mapped.chunk, one, into)]
    if not isinstance(mapped.chunk, Csv) or _may_hold(mapped.chunk, found):
        return found
    return [(one, into) for one, into in found if one.source is None]


def check(connection: Any, source: str, texts: Mapping[str, str], doubts: Pairs, first: int) -> None:
    """Failing: a value would be another in its column. `texts` are expressions for what is sent, by columns of the table."""
    odd = []
    for one, into in doubts:
        text = f"CAST({texts[into.name]} AS VARCHAR)"
        odd.append(Odd(one.source or one.name, into.spelled, _odd(text, into), text))
    refuse(connection, source, odd, first)


def _changes(into: PgTarget) -> bool:
    # Who wants fewer digits than those before the point wants them rounded.
    return into.type == "date" or (into.scale is not None and into.scale >= 0)


def _keeps(chunk: Chunk, column: Column, into: PgTarget) -> bool:
    """Whether the type of a column says that no value is changed; where it is a guess, it says nothing."""
    if not chunk.keeps_types or column.source is None:
        return False
    kind = chunk.columns()[column.source]
    if into.scale is None:
        return kind == "DATE"
    scale = scale_of(kind)
    return scale is not None and scale <= into.scale


def _odd(text: str, into: PgTarget) -> str:
    """What is true of a text that is another value in a column."""
    if into.scale is not None:
        return str(altered(text, f"DECIMAL(38, {into.scale})"))
    # What DuckDB does not take for a date, PostgreSQL may: `Jan 3 2024 17:45`.
    foreign = f"TRY_CAST({text} AS DATE) IS NULL AND regexp_matches({text}, '{_TIMED}')"
    return f"(length({text}) > {_DATE} AND ({altered(text, 'DATE')} OR ({foreign})))"


def _may_hold(chunk: Csv, doubts: Pairs) -> bool:
    """Whether there may be a value in a text that is too long for its column; False is sure."""
    marks = [*_TIMES] if any(into.scale is None for _, into in doubts) else []
    for scale in {into.scale for _, into in doubts if into.scale is not None}:
        marks += [re.compile(rb"\.[0-9]{%d}" % (scale + 1)), *_POWERS]
    return any(mark.search(chunk.body) for mark in marks)

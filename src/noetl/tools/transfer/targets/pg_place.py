"""What COPY refused, as column, row and value of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl.tools.datahost.failing import Failing
from noetl.tools.pg.failing import is_lost
from noetl.tools.transfer.mapping import Mapped
from noetl.tools.transfer.pg_client import refusal
from noetl.tools.transfer.targets.pg_csv import CopyText

if TYPE_CHECKING:
    import psycopg

#: `COPY t, line 3, column amount: "abc"`; without a column where the row as a whole is wrong
_PLACE = re.compile(r'^COPY .*?, line (\d+)(?:, column (.+?))?(?:: (?:"(.*)"|null input))?$', re.DOTALL | re.MULTILINE)
_UNIQUE, _NULL = "23505", "23502"
#: what says that values are wrong, not the statement or the server
_OF_VALUES = ("22", "23")
_MOST = 200


def unfit(error: psycopg.Error, mapped: Mapped, sent: CopyText | None) -> Failing:
    """The failure of a chunk, with the place if there is one."""
    chunk, diag, state = mapped.chunk, error.diag, error.sqlstate or ""
    if is_lost(error) or not state.startswith(_OF_VALUES):
        return refusal(error)
    said = diag.message_primary or str(error)
    match = _PLACE.search(diag.context or "")
    if match is None or sent is None:
        among = f"(among rows {chunk.first + 1:,} to {chunk.first + chunk.size:,})"
        return refusal(error, f"{said} {among}") if state.startswith("23") else _unplaced(error, said, among)
    quote = getattr(chunk, "dialect", None)
    row = chunk.first + _row(sent.whole(), int(match[1]), (quote[1] if quote else '"').encode())
    column = match[2] or diag.column_name
    if column is None:
        detail = f" ({diag.message_detail})" if state == _UNIQUE and diag.message_detail else ""
        shown = f": {match[3][:_MOST]!r}" if match[3] and not detail else ""
        return Failing("type", f"row {row:,}: {said}{detail}{shown}", row=row, code=state)
    source = next((one.source for one in mapped.columns if one.name == column and one.source), column)
    if state == _NULL:
        return Failing("type", f"row {row:,}: column `{column}` must not be empty", column=column, row=row, code=state)
    value = (match[3] or "")[:_MOST]
    came = f" (from `{source}`)" if source != column else ""
    message = f"column `{column}`{came}, row {row:,}: {value!r} does not fit: {said}"
    return Failing("type", message, column=column, row=row, value=value, code=state)


def no_key(error: psycopg.Error, keys: list[str], failing: Failing) -> Failing:
    """The same of an upsert: a key that is empty is told as what it is."""
    column = error.diag.column_name
    if error.sqlstate != _NULL or column not in keys:
        return failing
    row = failing.failure.get("row")
    where = f"row {row:,} has" if row is not None else "a row has"
    message = f"{where} no value for `{column}`, the `key` of the upsert"
    return Failing("type", message, column=column, **({"row": row} if row is not None else {}))


def _unplaced(error: psycopg.Error, said: str, among: str) -> Failing:
    return Failing("type", f"{said} {among}", code=error.sqlstate)


def _row(text: bytes, line: int, quote: bytes) -> int:
    """The row that PostgreSQL means by a line: it counts rows, and with them most ends of lines inside of quotes."""
    said = number = 0
    counted = b"\r"  # as long as it has not seen how lines end
    for number, row in enumerate(_rows(text, quote), 1):
        said += 1 + row.rstrip(b"\r\n").count(counted)
        if said >= line:
            break
        if number == 1:
            counted = b"\r" if row.endswith(b"\r\n") else b"\n"
    return max(1, number)


def _rows(text: bytes, quote: bytes) -> Iterator[bytes]:
    """Lines, put together where an end of one is inside of quotes."""
    held: list[bytes] = []
    odd = 0
    for one in text.split(b"\n"):
        held.append(one)
        odd ^= one.count(quote) & 1
        if not odd:
            yield b"\n".join(held) + b"\n"
            held = []

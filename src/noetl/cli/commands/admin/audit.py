"""noetl audit: what was called to change something, and what was refused."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import json_option
from noetl.cli.output.printing import as_json, columns, local_time, note, out
from noetl.cli.target import client
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.model.access import AuditEntry, AuditQuery

_AGO = re.compile(r"(\d{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


@click.command()
@click.option("--since", metavar="TIME", help="Only from this time on: 2h, 7d, or a date such as 2026-01-31T12:00.")
@click.option("--until", metavar="TIME", help="Only before this time.")
@click.option("--who", metavar="NAME", help="Only of this token, or of this user.")
@click.option("--action", metavar="ACTION", help="Only this action, such as `execution.cancel` or `token.add`.")
@click.option(
    "-n", "--limit", default=100, show_default=True, type=click.IntRange(1, 1_000_000), help="How many at most."
)
@json_option
def command(
    *, since: str | None, until: str | None, who: str | None, action: str | None, limit: int, as_data: bool
) -> None:
    """Print the audit log, the latest first.

    Every call that changes something is in it, every call that was refused (those that are alike are counted), and every command
    on the store of this machine, with the user of the system.
    """
    from noetl.model.access import AuditQuery

    query = AuditQuery(_time("--since", since), _time("--until", until), who, action, limit=limit)
    found = _read(query)
    if as_data:
        import msgspec

        out(as_json(msgspec.to_builtins(found)))
    elif found:
        rows = [("TIME", "WHO", "ACTION", "OUTCOME", "ON", "FROM")]
        out(columns(rows + [_row(one) for one in found]))
    else:
        note("there is no such entry")


def _read(query: AuditQuery) -> list[AuditEntry]:
    there = client()
    if there is None:
        from noetl.cli.local_audit import open_access_store

        with open_access_store() as store:
            return store.audit(query)
    with there:
        return there.audit(since=query.since, until=query.until, who=query.who, action=query.action, limit=query.limit)


def _row(one: AuditEntry) -> tuple[str, ...]:
    from noetl.lang import escape_controls

    times = f" ({one.count} times until {local_time(one.until)})" if one.count > 1 or one.until else ""
    status = f" {one.status}" if one.status is not None and one.outcome != "done" else ""
    texts = one.who or "nobody", one.action, f"{one.outcome}{status}{times}", one.object, one.origin
    return (local_time(one.at), *map(escape_controls, texts))


def _time(option: str, text: str | None) -> str | None:
    from noetl.model.access import format_time

    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return format_time(time.time() - int(ago[1]) * _SECONDS[ago[2]])
        from datetime import datetime

        return format_time(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} {text}: write how long ago, such as 2h or 7d, or a date such as 2026-01-31T12:00"
        ) from None

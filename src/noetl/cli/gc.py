"""noetl gc: remove stored payloads whose time has run out."""

from __future__ import annotations

import click

from noetl.cli.executions import json_option
from noetl.cli.printing import as_json, out
from noetl.cli.words import count, size


@click.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@json_option
def command(*, dry_run: bool, as_data: bool) -> None:
    """Remove payloads whose `spec.result.ttl` has run out, and what killed processes left half written.

    A reference to such a payload stays in the log; whoever resolves it is told that it has expired.
    """
    from noetl.config import settings
    from noetl.wiring import open_results

    store = open_results(settings())
    found = []
    for one in store.expired():
        found.append((one.shown, one.bytes))
        if not dry_run:
            one.remove()
    store.close()
    total = sum(bytes_ for _, bytes_ in found)
    if as_data:
        listed = [{"path": shown, "bytes": bytes_} for shown, bytes_ in found]
        out(as_json({"removed": listed, "bytes": total, "dry_run": dry_run}))
        return
    if dry_run:
        for shown, bytes_ in found:
            out(f"{shown}  {size(bytes_)}\n")
    verb = "would be removed" if dry_run else "removed"
    out(f"{count(len(found), 'file')} {verb}, {size(total)}\n" if found else "nothing has expired\n")

"""noetl gc: remove stored payloads whose time has run out."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import json_option
from noetl.cli.printing import as_json, out
from noetl.cli.words import count, size

if TYPE_CHECKING:
    from pathlib import Path


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
    found: list[tuple[Path, int]] = []
    for path in store.expired():
        with contextlib.suppress(FileNotFoundError):  # somebody else removes them, too
            found.append((path, path.stat().st_size))
            if not dry_run:
                store.remove(path)
    total = sum(one for _, one in found)
    if as_data:
        listed = [{"path": path.relative_to(store.folder).as_posix(), "bytes": one} for path, one in found]
        out(as_json({"removed": listed, "bytes": total, "dry_run": dry_run}))
        return
    if dry_run:
        for path, one in found:
            out(f"{path.relative_to(store.folder).as_posix()}  {size(one)}\n")
    verb = "would be removed" if dry_run else "removed"
    out(f"{count(len(found), 'file')} {verb}, {size(total)}\n" if found else "nothing has expired\n")

"""noetl archive: move executions that are over out of the store, into files; and back."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import json_option, open_command_log
from noetl.cli.local_audit import record
from noetl.cli.output.printing import as_json, count, note, out, seconds_of
from noetl.errors import NoetlError, UsageError
from noetl.ports import StoreFailed

if TYPE_CHECKING:
    from noetl.ports import EventLog, Summary

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGE = re.compile(r"(\d+)([smhdw])")


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID|FILE]...")
@click.option("--older", metavar="AGE", help="All that ended longer ago, such as 30d, 12h or 0s.")
@click.option("--to", "folder", type=click.Path(path_type=Path), help="The folder for the files.")
@click.option("--restore", is_flag=True, help="Bring executions back from files, or from all of a folder.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be moved.")
@json_option
def command(
    *, ids: tuple[str, ...], older: str | None, folder: Path | None, restore: bool, dry_run: bool, as_data: bool
) -> int:
    """Move executions that are over, with those that they started, out of the store into files.

    Each becomes one file of JSON lines, compressed: the playbook, the events, what tools wrote. It is removed from the store when
    its file is safe on disk. Stored payloads stay where they are, until their `ttl` has run out.

    A restore that was interrupted can be repeated: what is there already, as it is in its file, is skipped.
    """
    if restore:
        return asyncio.run(_restore([Path(one) for one in ids], as_data=as_data))
    if folder is None:
        raise UsageError("name the folder for the files: `noetl archive --older 30d --to FOLDER`")
    if not ids and older is None:
        raise UsageError("name executions, or all that ended some time ago: --older 30d")
    with open_command_log() as log:
        chosen = [_find_finished(log, one) for one in ids]
        if older is not None:
            before = time.time() - _seconds(older)
            roots = log.summaries(limit=10_000_000, parent="")
            chosen += [one for one in roots if seconds_of(one.updated_at) <= before]
        asyncio.run(_move(log, chosen, folder, dry_run=dry_run, as_data=as_data))
    return 0


async def _move(log: EventLog, chosen: list[Summary], folder: Path, *, dry_run: bool, as_data: bool) -> None:
    from noetl.history import execution_tree, write_archive

    moved: list[str] = []
    for root in chosen:
        for one in execution_tree(log, root):
            if not dry_run:
                write_archive(log, one, folder)
                await log.forget(one.execution_id)
                await record(log, "execution.archive", f"{one.execution_id} {one.path}")
            moved.append(one.execution_id)
            if not as_data:
                out(f"{one.execution_id}  {one.status}  {one.path}\n")
    if as_data:
        out(as_json({"moved": moved, "folder": str(folder), "dry_run": dry_run}))
    else:
        out(f"{count(len(moved), 'execution')} {'would be moved' if dry_run else 'moved'} to {folder}\n")


async def _restore(paths: list[Path], *, as_data: bool) -> int:
    from noetl.app import open_log
    from noetl.config import settings
    from noetl.history import ARCHIVE_SUFFIX, restore_archive

    if not paths:
        raise UsageError("name the files to bring back")
    files = [one for path in paths for one in (sorted(path.glob(f"*{ARCHIVE_SUFFIX}")) if path.is_dir() else [path])]
    restored: list[str] = []
    skipped: list[str] = []
    problems: list[str] = []
    log = open_log(settings())
    try:
        for path in files:
            try:
                found = await restore_archive(log, path)
            except StoreFailed:  # nor can it be written with the next one
                raise
            except NoetlError as error:
                problems.append(str(error))
                note(f"noetl: {error}")
                continue
            (restored if found.restored else skipped).append(found.summary.execution_id)
            if found.restored:
                await record(log, "execution.restore", f"{found.summary.execution_id} {found.summary.path}")
            if found.restored and not as_data:
                out(f"{found.summary.execution_id}  {found.summary.status}  {found.summary.path}\n")
    finally:
        await log.close()
    if as_data:
        out(as_json({"restored": restored, "skipped": skipped, "problems": problems}))
    else:
        there = f", {len(skipped):,} {'was' if len(skipped) == 1 else 'were'} there already" if skipped else ""
        failed = f", {count(len(problems), 'file')} could not be restored" if problems else ""
        out(f"{count(len(restored), 'execution')} restored{there}{failed}\n")
    return 1 if problems else 0


def _find_finished(log: EventLog, given: str) -> Summary:
    from noetl.ports import OVER

    found = log.summary(given)
    if found is None:
        raise UsageError(f"there is no execution {given}")
    if found.status not in OVER:
        raise UsageError(f"execution {found.execution_id} is {found.status}; only what is over can be moved")
    return found


def _seconds(age: str) -> int:
    found = _AGE.fullmatch(age)
    if found is None:
        raise UsageError(f"--older is {age!r}; write a number with s, m, h, d or w behind it, such as 30d")
    return int(found[1]) * _UNITS[found[2]]

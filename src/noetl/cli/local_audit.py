"""Commands on a local store, in its audit log: who did what, by the user of the system."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from noetl.cli.output.printing import note
from noetl.errors import NoetlError

if TYPE_CHECKING:
    from noetl.model.access import AuditEntry
    from noetl.ports import AccessStore, EventLog


def system_user() -> str:
    """Return the name of the user whose process this is."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def make_entry(action: str, about: str) -> AuditEntry:
    """Return the entry of a command that was done."""
    from noetl.model.access import AuditEntry, format_time

    return AuditEntry(format_time(time.time()), system_user(), action, about, os.uname().nodename)


async def record(log: EventLog, action: str, *about: str) -> None:
    """Record a command, for each thing that it was about. What a server does, it records itself.

    A store that cannot be written must not keep a command from what it is for, such as making room on its disk.
    """
    from noetl.ports import HasAccess

    if isinstance(log, HasAccess):
        try:
            await log.access().record([make_entry(action, one) for one in about])
        except NoetlError as error:
            note(f"warning: {action} is not in the audit log: {error}")


def record_apart(action: str, *about: str) -> None:
    """Record a command that uses no log by itself."""
    from noetl.app import open_log
    from noetl.config import settings

    async def run() -> None:
        log = open_log(settings())
        try:
            await record(log, action, *about)
        finally:
            await log.close()

    try:
        asyncio.run(run())
    except NoetlError as error:
        note(f"warning: {action} is not in the audit log: {error}")


@contextmanager
def open_access_store(actions: Sequence[str] = ()) -> Iterator[AccessStore]:
    """The access store of this machine; `actions`, an action and what it is about, is recorded when it was done."""
    from noetl.app import open_log
    from noetl.config import settings
    from noetl.ports import HasAccess

    log = open_log(settings())
    try:
        if not isinstance(log, HasAccess):
            raise NoetlError("this store keeps no tokens")
        yield log.access()
        if actions:
            asyncio.run(record(log, *actions))
    finally:
        asyncio.run(log.close())

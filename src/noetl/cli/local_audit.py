"""Commands on a local store in its audit log: who did what, by the user of the system."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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


def make_entry(action: str, about: str, *, failed: bool = False) -> AuditEntry:
    """Return the entry of a command."""
    from noetl.model.access import AuditEntry
    from noetl.server.http import format_time

    outcome = "failed" if failed else "done"
    return AuditEntry(format_time(time.time()), system_user(), action, about, socket.gethostname(), outcome)  # type: ignore[arg-type]


@contextmanager
def record_command(log: EventLog, action: str, about: str) -> Iterator[None]:
    """Record what is done inside of this; nothing of a server's log, which records it itself."""
    from noetl.ports import HasAccess

    if not isinstance(log, HasAccess):
        yield
        return
    try:
        yield
    except BaseException:
        asyncio.run(log.access().record([make_entry(action, about, failed=True)]))
        raise
    asyncio.run(log.access().record([make_entry(action, about)]))


@contextmanager
def open_access_store(action: str = "", about: str = "") -> Iterator[AccessStore]:
    """The access store of this machine; with an action, what is done with it is recorded."""
    from noetl.app import open_log
    from noetl.config import settings
    from noetl.ports import HasAccess

    log = open_log(settings())
    try:
        if not isinstance(log, HasAccess):
            raise NoetlError("this store keeps no tokens")
        if not action:
            yield log.access()
            return
        with record_command(log, action, about):
            yield log.access()
    finally:
        asyncio.run(log.close())

"""What `noetl fsck` finds in a store that a test left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path


def unsound(database: Path) -> list[str]:
    """What `noetl fsck` finds in a store."""
    from noetl.cli.executions import whole_net
    from noetl.history.fsck import check_log
    from noetl.stores.sqlite_log import SqliteLog
    from noetl.stores.verify import verify_store

    log = SqliteLog(database)
    try:
        found = [str(problem) for problem in verify_store(log)]
        for summary in log.summaries(limit=10_000) if not found else []:
            found += map(str, check_log(log, summary, whole_net(log, summary)))
    finally:
        asyncio.run(log.close())
    return found

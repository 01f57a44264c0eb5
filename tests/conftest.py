"""Whatever a test leaves behind in a store must be sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


def unsound(database: Path) -> list[str]:
    """What `noetl fsck` finds in a store."""
    from noetl.cli.executions import net_of
    from noetl.server.fsck import check
    from noetl.stores.sqlite import SqliteLog
    from noetl.stores.verify import verify

    log = SqliteLog(database)
    found = [str(problem) for problem in verify(log)]
    for summary in log.summaries(limit=10_000) if not found else []:
        found += map(str, check(log, summary, net_of(log, summary)))
    return found


@pytest.fixture(autouse=True)
def stores_are_sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the stores under a test's folder, unless the test damages them on purpose."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    # The store's own tests write events that no engine made.
    exempt = request.node.get_closest_marker("damages") is not None or "stores" in request.node.path.parts
    if folder is None or exempt:
        return
    for database in folder.rglob("noetl.db"):
        assert unsound(database) == []

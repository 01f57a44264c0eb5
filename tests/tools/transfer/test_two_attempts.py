"""Two attempts at one transfer at once: a worker that was given up may still be at it when another one goes on.

Whatever the older one does next, it is told, and the rows are those of one attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pgworld import asked
from servers import Database
from test_finishing import around, write
from waiting import wait_until

from noetl.drivers.datahost.host import DataHostFailed, HostCall
from noetl.tools.transfer.postgres_copy import PgClient
from noetl.tools.transfer.targets.postgres_target import Markers, PostgresTarget

MODES: dict[str, dict[str, Any]] = {"append": {}, "replace": {}, "upsert": {"key": ["id"]}}


class Attempts:
    """An older and a newer attempt at the same transfer to a table `t`."""

    def __init__(self, folder: Path, database: Database, mode: str) -> None:
        given: dict[str, Any] = {"kind": "postgres", "mode": mode, "table": "t", "auth": "pg", **MODES[mode]}
        given["connect"] = {"conninfo": database.url}
        self.folder, self.database, self.running = folder, database, HostCall(folder)
        self.old, self.new = PostgresTarget(given, around(folder)), PostgresTarget(given, around(folder))

    def write(self, target: PostgresTarget, index: int) -> None:
        write(target, self.folder, index, {"id": index})

    @property
    def ids(self) -> list[int]:
        return [row[0] for row in asked(self.database, "SELECT id FROM t ORDER BY id")]


@pytest.fixture(params=MODES)
def attempts(request: pytest.FixtureRequest, tmp_path: Path, database: Database) -> Iterator[Attempts]:
    made = Attempts(tmp_path, database, request.param)
    made.old.open(made.running)
    made.write(made.old, 0)
    yield made
    made.old.close()
    made.new.close()


def test_a_chunk_that_the_newer_attempt_brought_in_is_refused_to_the_older(attempts: Attempts) -> None:
    assert attempts.new.open(attempts.running) == 1
    attempts.write(attempts.new, 1)
    with pytest.raises(DataHostFailed, match="another attempt"):
        attempts.write(attempts.old, 1)
    attempts.write(attempts.new, 2)
    attempts.new.finish(attempts.running)
    assert attempts.ids == [0, 1, 2]


def test_the_older_attempt_cannot_finish_what_the_newer_has_finished(attempts: Attempts) -> None:
    """A `replace` would put nothing in the place of all the rows."""
    assert attempts.new.open(attempts.running) == 1
    attempts.new.finish(attempts.running)
    with pytest.raises(DataHostFailed, match="another attempt"):
        attempts.old.finish(attempts.running)
    assert attempts.ids == [0]


def test_the_older_attempt_cannot_begin_anew_when_the_newer_has_gone_on(attempts: Attempts) -> None:
    assert attempts.new.open(attempts.running) == 1
    attempts.write(attempts.new, 1)
    if attempts.old.mode == "append":
        assert not attempts.old.restart(attempts.running)
    else:
        with pytest.raises(DataHostFailed, match="another attempt"):
            attempts.old.restart(attempts.running)
    attempts.new.finish(attempts.running)
    assert attempts.ids == [0, 1]


def test_an_attempt_waits_for_a_chunk_that_is_just_coming_in_and_counts_it(database: Database) -> None:
    """Else it would bring in the same chunk, and learn of the other one only when it has sent all of it."""
    where = {"connect": {"conninfo": database.url}, "auth": "db"}
    old, new, markers = PgClient(where), PgClient(where), Markers("public", "one")
    try:
        assert markers.read(old) is None
        markers.begin(old, 0, 0)
        old.do("BEGIN")
        markers.advance(old, (0, 0), (1, 100))
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(markers.read, new)
            waits = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            wait_until(lambda: found.done() or asked(database, waits) == [(1,)])
            old.do("COMMIT")
            assert found.result(60) == (1, 100)
    finally:
        old.close()
        new.close()

"""How much memory a database of rows that pass through it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.drivers.datahost.databases import LITTLE, Database, config_of
from noetl.drivers.datahost.host import HostCall

_KEPT = "SELECT sum(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'BASE_TABLE'"
_LIMIT = "SELECT current_setting('memory_limit')"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database that has written 16 MB to its file, and keeps them."""
    made = Database(HostCall(tmp_path), str(tmp_path / "rows.duckdb"), config_of({}, memory=LITTLE))
    made.connection.execute("CREATE TABLE t AS SELECT hash(range) AS n FROM range(2_000_000)")
    made.connection.execute("CHECKPOINT")
    yield made
    made.close()


def _kept(database: Database) -> int:
    return int(database.connection.execute(_KEPT).fetchone()[0])


def test_pages_that_are_on_disk_are_let_go_and_the_limit_is_the_one_before(database: Database) -> None:
    limit = database.connection.execute(_LIMIT).fetchone()
    assert _kept(database) > 12_000_000

    database.release_pages()

    assert _kept(database) <= 8_000_000
    assert database.connection.execute(_LIMIT).fetchone() == limit
    assert database.connection.execute("SELECT count(DISTINCT n) FROM t").fetchone() == (2_000_000,)


def test_rows_that_are_not_on_disk_stay(database: Database) -> None:
    database.connection.execute("BEGIN")
    database.connection.execute("CREATE TEMP TABLE w AS SELECT hash(range) AS n FROM range(2_000_000)")

    database.release_pages()

    database.connection.execute("COMMIT")
    assert database.connection.execute("SELECT count(*) FROM w").fetchone() == (2_000_000,)


def test_pages_stay_while_somebody_else_uses_the_file(database: Database, tmp_path: Path) -> None:
    other = Database(HostCall(tmp_path), str(tmp_path / "rows.duckdb"), config_of({}, memory=LITTLE))
    before = _kept(database)

    database.release_pages()

    assert _kept(database) == before
    other.close()


def test_a_limit_that_the_author_set_is_left_alone(tmp_path: Path) -> None:
    config = config_of({"limits.memory_mb": 100}, memory=LITTLE)
    database = Database(HostCall(tmp_path), str(tmp_path / "strict.duckdb"), config)

    database.release_pages()  # its configuration is locked: to set anything would fail

    assert database.connection.execute(_LIMIT).fetchone() == ("95.3 MiB",)
    database.close()

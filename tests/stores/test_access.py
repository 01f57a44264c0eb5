"""Tokens and the audit log in stores: earlier stores get them, and whatever is changed behind their back is found."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from access_contract import entry, token
from log_contract import events
from servers import Database

from noetl.model.access import AuditQuery
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.sqlite_log import SqliteLog
from noetl.stores.verify import verify_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def fill() -> None:
        log = SqliteLog(tmp_path / "noetl.db")
        await log.access().record([entry(at, "ann") for at in range(1, 6)])
        await log.close()

    asyncio.run(fill())
    return tmp_path / "noetl.db"


@pytest.mark.parametrize(
    ("statement", "problems"),
    [
        ("SELECT 1", []),
        ("UPDATE audit SET body = replace(body, 'ann', 'bob') WHERE number = 3", ["entry 3 of the audit log is not what"]),
        ("DELETE FROM audit WHERE number = 3", ["entry 3 of the audit log is missing"]),
        ("DELETE FROM audit WHERE number = 1", ["entry 1 of the audit log is missing"]),
        ("DELETE FROM audit WHERE number >= 4", ["the audit log ends at entry 3; its last entry was 5"]),
        ("DELETE FROM audit", ["the audit log ends at entry 0; its last entry was 5"]),
        ("UPDATE audit SET number = 9 - number WHERE number IN (2, 3)", ["entry 2 of the", "entry 6 of the", "entry 7 of the", "the audit log ends at entry 7"]),
        ("UPDATE audit SET body = (SELECT body FROM audit WHERE number = 2) WHERE number = 4", ["entry 4 of the"]),
    ],
)  # fmt: skip
def test_an_audit_log_that_was_changed_is_found_to_be(path: Path, statement: str, problems: list[str]) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER audit_is_final")
    connection.execute(statement)
    connection.commit()
    connection.close()
    log = SqliteLog(path)
    found = [one.message for one in verify_store(log)]
    asyncio.run(log.close())
    assert len(found) == len(problems), found
    assert all(one.startswith(begins) for one, begins in zip(found, problems, strict=True)), found


def test_an_entry_is_never_changed(path: Path) -> None:
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute("UPDATE audit SET who = 'eve'")
    connection.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_store_of_the_version_before_gets_tokens_and_keeps_its_executions(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any
    if store == "sqlite":
        from noetl.stores import sqlite_file as module

        version, opened = 3, lambda: SqliteLog(tmp_path / "noetl.db")
    else:
        from noetl.stores.postgres import schema as module

        database: Database = request.getfixturevalue("database")
        version, opened = 6, lambda: PostgresLog(database.url)  # type: ignore[assignment,return-value]

    async def fill() -> None:
        log = opened()
        await log.append(events("old", 1, 3), status="running")
        await log.close()

    async def use() -> None:
        log = opened()
        assert [one.execution_id for one in log.summaries()] == ["old"]
        await log.access().add_token(token("ann"))
        await log.access().record([entry(1)])
        assert [one.name for one in log.access().tokens()] == ["ann"]
        assert [one.number for one in log.access().audit(AuditQuery())] == [1]
        await log.close()

    with monkeypatch.context() as patch:
        patch.setattr(module, "VERSION", version)
        asyncio.run(fill())
    asyncio.run(use())

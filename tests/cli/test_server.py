"""noetl server, from before it listens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from servers import QUICK, Database

from noetl.app import server
from noetl.app.local import open_log, open_registry
from noetl.cli.output.printing import note_with_time
from noetl.config import Secret, Settings
from noetl.ports import StoreFailed, StoreUnreachable
from noetl.services.servers import PostgresServer


def at(url: str, home: Path) -> Settings:
    return Settings(home=home, store=Secret(url))


def test_a_database_that_starts_later_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PostgresServer(tmp_path / "data", settings=QUICK) as database:
        database.stop(at_once=True)
        found = at(database.url(), tmp_path)

        async def opened() -> None:
            later = asyncio.create_task(asyncio.to_thread(database.start))
            log = await server._open_with_retries(open_log, found, note_with_time)
            registry = await server._open_with_retries(open_registry, found, note_with_time)
            await later
            assert log.summary("none") is None
            assert registry.workers() == []
            registry.close()
            await log.close()

        asyncio.run(opened())
    said = capsys.readouterr().err
    assert said.count("it is asked again for 60 s") <= 2
    assert "Connection refused" in said
    assert database.password not in said


def test_a_database_that_stays_away_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_PATIENCE_S", 0.5)
    with pytest.raises(StoreUnreachable, match="Connection refused"):
        asyncio.run(
            server._open_with_retries(open_log, at("postgresql://me:hush@127.0.0.1:1/x", tmp_path), note_with_time)
        )


@pytest.mark.parametrize("wrong", ["password", "database"])
def test_a_database_that_will_not_have_it_is_told_at_once(
    tmp_path: Path, database: Database, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    url = database.url + "_none" if wrong == "database" else database.url.replace(database.server.password, "hush")
    with pytest.raises(StoreFailed) as caught:
        asyncio.run(server._open_with_retries(open_log, at(url, tmp_path), note_with_time))
    assert not isinstance(caught.value, StoreUnreachable)
    assert capsys.readouterr().err == ""

"""Ids and keys of executions: unique whatever the clocks say, and one execution for each key whatever is killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st
from servers import Database

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.model.events import Event
from noetl.ports import EventLog, StoreFailed, Summary
from noetl.server.core import Effects, ExecutionIds, KeyReused, LiveExecution, StartKey
from noetl.server.core.execution_ids import id_of_earlier_key
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.sqlite_log import SqliteLog
from noetl.stores.verify import verify_store

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkflow:\n"
WAITS = HEAD % "waits" + "  - {step: end, tool: {kind: wait, signal: go}}\n"
NOOP = HEAD % "noop" + "  - {step: end, tool: {kind: noop}}\n"
KEY = StartKey("ann", "k", "digest")


async def start_once(node: LocalNode, key: StartKey = KEY, text: str = WAITS) -> LiveExecution | Summary:
    source, loaded = node.catalog.read(Path("main.yaml"), text.encode())
    assert loaded.net is not None
    return await node.start_once(key, source, loaded.net, {})


async def start(node: LocalNode, text: str = NOOP, **more: Any) -> str:
    source, loaded = node.catalog.read(Path("main.yaml"), text.encode())
    assert loaded.net is not None
    return (await node.start(source, loaded.net, {}, **more)).id


def id_of(found: LiveExecution | Summary) -> str:
    return found.execution_id if isinstance(found, Summary) else found.id


# --- ids -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 4e9), min_size=2, max_size=30), st.integers(0, 2**30 - 1))
def test_ids_sort_by_the_time_of_the_start_and_have_one_width(times: list[float], bits: int) -> None:
    ids = ExecutionIds(lambda _: bits)
    times.sort()
    found = [ids.next_id(now) for now in times for _ in range(3)]
    assert {len(one) for one in found} == {16}
    for (before, first), (now, second) in zip(
        zip(sorted(times * 3), found, strict=True), zip(sorted(times * 3)[1:], found[1:], strict=True), strict=False
    ):
        if int(before * 1000) < int(now * 1000) or bits < 2**30 - 90:
            assert first < second


def test_ids_of_this_version_sort_after_those_of_earlier_ones() -> None:
    """They had the same ten characters for the millisecond."""
    assert ExecutionIds(lambda _: 0).next_id(1_794_000_000.123)[:10] == "01m6sbq53v"


@hypothesis_settings(max_examples=10)
@given(st.data())
def test_executions_of_processes_with_skewed_clocks_have_ids_of_their_own(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Chance is of no help here: all processes draw the same few numbers, so the store has to tell them apart."""
    home = tmp_path_factory.getbasetemp() / "ids"
    skews = data.draw(st.lists(st.sampled_from([-3600.0, -0.001, 0.0, 0.0, 0.001, 3600.0]), min_size=2, max_size=4))
    steps = data.draw(st.lists(st.sampled_from([0.0, 0.0, 0.0004, 0.001, -0.002]), min_size=4, max_size=12))
    now = [1_794_000_000.0]

    async def run() -> None:
        first = MemoryLog()
        nodes = []
        for number, skew in enumerate(skews):
            log = first if not number else MemoryLog(first)
            ids = ExecutionIds(lambda _: data.draw(st.integers(0, 2)))
            effects = Effects(clock=lambda skew=skew: now[0] + skew, new_execution_id=ids.next_id)
            nodes.append(LocalNode(Settings(home), log, effects=effects, alone=True))
        started: list[str] = []
        for step in steps:
            now[0] += step
            started += await asyncio.gather(*(start(node, WAITS) for node in nodes))
        assert len(set(started)) == len(started) == len(first.summaries(limit=1000))
        for node in nodes:
            await node.__aexit__(None, None, None)

    asyncio.run(run())


def test_an_id_that_is_always_taken_is_an_error_and_no_endless_search(tmp_path: Path) -> None:
    async def run() -> None:
        effects = Effects(new_execution_id=lambda _now: "same")
        async with LocalNode(Settings(tmp_path), MemoryLog(), effects=effects) as node:
            assert await start(node) == "same"
            with pytest.raises(NoetlError, match="no unused id was found"):
                await start(node)

    asyncio.run(run())


# --- keys ------------------------------------------------------------------------------------------------------------

OpenLog = Callable[[], EventLog]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLog:
    """Opens a log as another process would."""
    if request.param == "memory":
        first = MemoryLog()
        return lambda: MemoryLog(first)
    if request.param == "sqlite":
        return lambda: SqliteLog(tmp_path / "noetl.db")
    database: Database = request.getfixturevalue("database")
    return lambda: PostgresLog(database.url)


def test_servers_that_are_asked_at_the_same_time_start_one_execution(open_log: OpenLog, tmp_path: Path) -> None:
    async def run() -> None:
        nodes = [LocalNode(Settings(tmp_path / str(number)), open_log()) for number in range(3)]
        keys = [StartKey("ann", f"k{number}", "digest") for number in range(4)]
        asked = [start_once(node, key) for key in keys for node in nodes for _ in range(3)]
        found = await asyncio.gather(*asked)
        ids = [{id_of(one) for one in found[at * 9 : at * 9 + 9]} for at in range(4)]
        assert [len(one) for one in ids] == [1] * 4
        assert sum(isinstance(one, LiveExecution) for one in found) == 4
        log = nodes[0].log
        assert {one.execution_id: one.key for one in log.summaries()} == {
            name: f"k{at}" for at, names in enumerate(ids) for name in names
        }
        assert list(verify_store(log)) == []  # type: ignore[arg-type]
        for node in nodes:
            await node.__aexit__(None, None, None)

    asyncio.run(run())


class DyingLog(EventLog):
    """The log of a process that dies at its next append: before it is durable, or before anybody hears that it is."""

    def __init__(self, log: EventLog, *, durable: bool) -> None:
        self._log, self._durable = log, durable

    def __getattribute__(self, name: str) -> Any:
        if name in ("append", "_log", "_durable"):
            return object.__getattribute__(self, name)
        return getattr(self._log, name)

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        if self._durable:
            await self._log.append(events, status=status, snapshot=snapshot)
        raise StoreFailed("killed")


@pytest.mark.parametrize("durable", [False, True])
def test_a_start_that_was_killed_is_repeated_and_starts_one_execution(
    open_log: OpenLog, tmp_path: Path, *, durable: bool
) -> None:
    async def run() -> None:
        dying = LocalNode(Settings(tmp_path / "a"), DyingLog(open_log(), durable=durable))
        with pytest.raises(StoreFailed):
            await start_once(dying)
        await dying.__aexit__(None, None, None)
        async with LocalNode(Settings(tmp_path / "b"), open_log()) as node:
            found = await start_once(node)
            assert isinstance(found, Summary) == durable
            live = found if isinstance(found, LiveExecution) else await node.resume(found.execution_id)
            assert id_of(await start_once(node)) == live.id
            assert [one.execution_id for one in node.log.summaries()] == [live.id]

    asyncio.run(run())


def test_a_key_that_was_used_before_the_upgrade_is_found_by_its_old_id(open_log: OpenLog, tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalNode(Settings(tmp_path / "home"), open_log()) as node:
            old = id_of_earlier_key("ann", "k")
            assert old == "xezb5spqjvq8gxzs"
            # As the version before wrote it: the id follows from the key, which is not recorded.
            await start(node, execution_id=old, asked={"by": "ann", "digest": "digest"})
            assert id_of(await start_once(node)) == old
            with pytest.raises(KeyReused) as error:
                await start_once(node, StartKey("ann", "k", "another"))
            assert error.value.execution_id == old
            assert id_of(await start_once(node, StartKey("bob", "k", "digest"))) != old

    asyncio.run(run())


def test_the_loser_of_a_race_leaves_nothing_behind(tmp_path: Path) -> None:
    async def run() -> None:
        log = MemoryLog()
        nodes = [LocalNode(Settings(tmp_path / str(number)), MemoryLog(log)) for number in range(2)]
        await asyncio.gather(*(start_once(node) for node in nodes for _ in range(4)))
        assert set(log._shared.owners) == {one.execution_id for one in log.summaries()}
        for node in nodes:
            await node.__aexit__(None, None, None)

    asyncio.run(run())


# --- stores of the version before --------------------------------------------------------------------------------------


def open_at_once(open_one: Callable[[], EventLog], number: int = 4) -> list[EventLog]:
    """Open a store from several threads, as servers that are started together do."""
    together, found = threading.Barrier(number), list[EventLog | Exception]()

    def opened() -> None:
        together.wait()
        try:
            found.append(open_one())
        except Exception as error:  # noqa: BLE001  told below
            found.append(error)

    threads = [threading.Thread(target=opened) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one for one in found if isinstance(one, Exception)] == []
    return [one for one in found if not isinstance(one, Exception)]


@pytest.fixture(params=["sqlite", "postgres"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenLog:
    """A store without keys, with an execution; gives what opens it."""
    if request.param == "sqlite":
        from noetl.stores import sqlite_file as module

        version, open_one = 2, lambda: SqliteLog(tmp_path / "noetl.db")
    else:
        from noetl.stores.postgres import schema as module  # type: ignore[no-redef]

        database: Database = request.getfixturevalue("database")
        version, open_one = 5, lambda: PostgresLog(database.url)  # type: ignore[assignment,return-value]
    with monkeypatch.context() as patch:
        patch.setattr(module, "VERSION", version)
        log = open_one()
        insert = "INSERT INTO %sexecution (execution_id, path, playbook, requested_at, status, updated_at, seq, over%s)"
        values = " VALUES ('old', 'p', 'h', '', 'running', '', 0, %s)"
        is_file = request.param == "sqlite"
        parts = (insert % ("", ""), values % "0") if is_file else (insert % ("noetl.", ", hash"), values % "false, ''")
        asyncio.run(_write(log, "".join(parts)))
    return open_one


async def _write(log: Any, statement: str) -> None:
    await log._queue.submit(lambda connection: connection.execute(statement) and None)
    await log.close()


def test_a_store_of_the_version_before_is_upgraded_once_by_servers_that_start_together(
    earlier: OpenLog, tmp_path: Path
) -> None:
    async def run() -> None:
        logs = open_at_once(earlier)
        assert [one.execution_id for one in logs[0].summaries()] == ["old"]
        await logs[0].forget("old")  # it has no events
        async with LocalNode(Settings(tmp_path / "home"), logs[0]) as node:
            found = await start_once(node, text=NOOP)
            assert {log.execution_of_key("ann", "k") for log in logs} == {id_of(found)}
            for log in logs[1:]:
                await log.close()

    asyncio.run(run())

"""Limits across executions: in one process, in several on one home, and over one database."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from forkserver import ForkedProcess, ForkServer
from servers import Database
from waiting import until, wait_until

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.model.requests import Cancel, Pause, Resume
from noetl.ports import EventLog
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.sqlite_log import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: main, path: main}\nworkload: {who: a}\nworkflow:\n"
#: notes when it begins and ends, in one file for all
NOTES = """  - step: work
    spec: {%s}
    tool: {kind: shell, cmd: "echo + $(date +%%s.%%N) {{ workload.who }} >> notes; sleep %s; echo - $(date +%%s.%%N) {{ workload.who }} >> notes"}
"""
#: time to be in one another's way, and as long as it takes until so many have begun
TOGETHER = "0.1; until [ $(grep -c + notes) -ge %s ]; do sleep 0.02; done"
HELD = "  - step: work\n    spec: {%s}\n    tool: {kind: wait, signal: go}\n"


class Site:
    """A folder with playbooks, and houses in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(folder / "home")
        self.file = folder / "main.yaml"

    def write(self, steps: str) -> None:
        self.file.write_text(HEAD + steps)

    def node(self, log: EventLog | None = None) -> LocalNode:
        return LocalNode(self.settings, log or SqliteLog(self.settings.home / "noetl.db"))

    async def start(self, node: LocalNode, **payload: Any) -> LiveExecution:
        source, loaded = node.catalog.read(self.file)
        assert loaded.net is not None, loaded.diagnostics
        return await node.start(source, loaded.net, payload)

    def notes(self) -> list[tuple[str, float, str]]:
        file = self.folder / "notes"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(sign, float(at), who) for sign, at, who in map(str.split, lines)]

    def most_at_once(self) -> int:
        now = most = 0
        for sign, _, _ in sorted(self.notes(), key=lambda note: note[1]):
            now += 1 if sign == "+" else -1
            most = max(most, now)
        return most

    def starts(self) -> list[float]:
        return sorted(at for sign, at, _ in self.notes() if sign == "+")

    def check_pace(self, began: float, limit: int, per_s: float) -> None:
        """A shell may start late, but none before there was room for it, counted from the beginning."""
        for number, at in enumerate(self.starts()):
            assert at - began >= number // limit * per_s - 0.01, f"start {number}"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def within(seconds: float, test: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(seconds):
            await test()

    asyncio.run(run())


def begun(live: LiveExecution) -> bool:
    return any(run.pipe is not None for run in live.state.runs.values())


async def ended(*executions: LiveExecution) -> list[str]:
    await asyncio.gather(*(asyncio.shield(live.finished) for live in executions))
    return [live.state.status for live in executions]


# --- in one process ----------------------------------------------------------------------------------------------------


def test_executions_of_one_process_share_a_limit_and_go_in_the_order_in_which_they_came(site: Site) -> None:
    site.write(NOTES % ('concurrency: {key: "api", limit: 2}', TOGETHER % "{{ workload.n }}"))

    async def test() -> None:
        async with site.node() as node:
            executions = [await site.start(node, who=str(number), n=number // 2 * 2 + 2) for number in range(6)]
            assert await ended(*executions) == ["completed"] * 6
        assert site.most_at_once() == 2
        # Shells that are started together may write in any order; those of one pair come before those of the next.
        order = [who for sign, _, who in sorted(site.notes(), key=lambda note: note[1]) if sign == "+"]
        assert [set(order[at : at + 2]) for at in (0, 2, 4)] == [{"0", "1"}, {"2", "3"}, {"4", "5"}]

    within(120, test)


def test_who_has_another_key_does_not_wait(site: Site) -> None:
    site.write(HELD % 'concurrency: {key: "{{ workload.who }}", limit: 1}')

    async def test() -> None:
        async with site.node() as node:
            first, second, other = [await site.start(node, who=who) for who in ("a", "a", "b")]
            await until(lambda: begun(first) and begun(other))
            assert not begun(second)

    within(120, test)


def test_without_a_key_each_step_has_a_limit_of_its_own(site: Site) -> None:
    step = "  - {step: %s, spec: {concurrency: {limit: 1}}, tool: {kind: wait, signal: go}%s}\n"
    site.write(
        "  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}\n"
        + step % ("a", "")
        + step % ("b", "")
    )

    async def test() -> None:
        async with site.node() as node:
            first = await site.start(node)
            await until(lambda: {run.step for run in first.state.runs.values() if run.pipe} == {"a", "b"})
            second = await site.start(node)
            await asyncio.sleep(0.3)
            assert not begun(second)

    within(120, test)


def test_the_iterations_of_a_loop_count_each(site: Site) -> None:
    site.write(
        (NOTES % ("concurrency: {limit: 3}", TOGETHER % 3)).replace(
            "    tool:",
            '    loop: {in: "{{ range(9) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 9}}\n    tool:',
        )
    )

    async def test() -> None:
        async with site.node() as node:
            assert await ended(await site.start(node)) == ["completed"]
        assert (site.most_at_once(), len(site.starts())) == (3, 9)

    within(120, test)


def test_cancel_new_fails_the_step_that_would_be_too_many(site: Site) -> None:
    site.write(HELD % 'concurrency: {key: "api", limit: 1, on_limit: cancel_new}')

    async def test() -> None:
        async with site.node() as node:
            first = await site.start(node)
            await until(lambda: begun(first))
            second = await site.start(node)
            assert await ended(second) == ["failed"]
            error = second.state.error
            assert error is not None
            assert (error["kind"], error["key"], error["limit"]) == ("concurrency", "api", 1)
            assert first.state.status == "running"

    within(120, test)


def test_cancel_new_fails_an_iteration_and_leaves_the_others(site: Site) -> None:
    site.write(
        "  - step: work\n    spec: {policy: {failure: {mode: best_effort}}, concurrency: {limit: 1, on_limit: cancel_new}}\n"
        "    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}\n"
        "    tool: {kind: shell, cmd: 'until [ -e go ]; do sleep 0.02; done'}\n"
        '    output: {good: "{{ output.loop.succeeded }}", bad: "{{ output.loop.failed }}"}\n'
    )

    async def test() -> None:
        async with site.node() as node:
            live = await site.start(node)
            await until(lambda: any(event.name == "loop.iteration.failed" for event in node.log.read(live.id)))
            (site.folder / "go").touch()
            assert await ended(live) == ["completed"]
            failed = [event for event in node.log.read(live.id) if event.name == "loop.iteration.failed"]
            assert [event.payload["error"]["kind"] for event in failed] == ["concurrency"]

    within(120, test)


def test_cancel_running_has_the_oldest_make_room(site: Site) -> None:
    site.write(HELD % 'concurrency: {key: "api", limit: 1, on_limit: cancel_running}')

    async def test() -> None:
        async with site.node() as node:
            first = await site.start(node)
            await until(lambda: begun(first))
            second = await site.start(node)
            assert await ended(first) == ["failed"]
            assert first.state.error is not None
            assert first.state.error["on_limit"] == "cancel_running"
            await until(lambda: begun(second))

    within(120, test)


def test_at_most_so_many_start_in_any_period(site: Site) -> None:
    site.write(NOTES % ("rate: {limit: 3, per_s: 0.6}", "0"))

    async def test() -> None:
        began = time.time()
        async with site.node() as node:
            executions = [await site.start(node) for _ in range(8)]
            assert await ended(*executions) == ["completed"] * 8
            granted = [
                event.timestamp
                for live in executions
                for event in node.log.read(live.id)
                if event.name == "task.started"
            ]
            assert len(granted) == 8
        site.check_pace(began, 3, 0.6)

    within(120, test)


@pytest.mark.parametrize(
    ("spec", "kind", "said"),
    [
        ('concurrency: {key: "{{ workload.nobody.knows }}", limit: 1}', "template", "nobody"),
        ('concurrency: {key: "{{ workload.none }}", limit: 1}', "type", "concurrency.key"),
        ('concurrency: {key: a, limit: "{{ workload.who }}"}', "type", "concurrency.limit"),
        ('rate: {key: a, limit: 1, per_s: "{{ workload.who }}"}', "type", "rate.per_s"),
    ],
)
def test_a_limit_that_makes_no_sense_fails_the_step(site: Site, spec: str, kind: str, said: str) -> None:
    site.write(HELD % spec)

    async def test() -> None:
        async with site.node(MemoryLog()) as node:
            live = await site.start(node, none=None)
            assert await ended(live) == ["failed"]
            assert live.state.error is not None
            assert live.state.error["kind"] == kind
            assert said in live.state.error["message"]

    within(120, test)


def test_an_execution_that_is_paused_lets_others_go_and_queues_again(site: Site) -> None:
    site.write(
        "  - step: work\n    spec: {concurrency: {limit: 1}}\n    tool:\n"
        "      - {name: one, kind: shell, cmd: 'until [ -e go ]; do sleep 0.02; done'}\n      - {name: two, kind: wait, signal: go}\n"
    )

    async def test() -> None:
        async with site.node() as node:
            first, second = await site.start(node), await site.start(node)
            await until(lambda: begun(first))
            await node.service.record(first.id, [Pause()])
            (site.folder / "go").touch()
            await until(lambda: begun(second))
            node.service.post(first.id, [Resume()])
            await asyncio.sleep(0.5)
            names = [event.entity_id for event in node.log.read(first.id) if event.name == "task.started"]
            assert names == ["work.one"]
            node.service.post(second.id, [Cancel()])
            await until(lambda: "work.two" in [event.entity_id for event in node.log.read(first.id)])

    within(120, test)


def test_one_that_waits_can_be_cancelled_and_the_next_in_line_goes(site: Site) -> None:
    site.write(HELD % "concurrency: {limit: 1}")

    async def test() -> None:
        async with site.node() as node:
            first, second, third = [await site.start(node) for _ in range(3)]
            await until(lambda: begun(first))
            node.service.post(second.id, [Cancel()])
            assert await ended(second) == ["cancelled"]
            node.service.post(first.id, [Cancel()])
            await until(lambda: begun(third))

    within(120, test)


# --- in several processes ------------------------------------------------------------------------------------------------


def command(forkserver: ForkServer, site: Site, *more: str) -> ForkedProcess:
    environment = {**os.environ, "NOETL_HOME": str(site.settings.home)}
    return forkserver.start("run", "main.yaml", "--json", *more, cwd=site.folder, env=environment)


def test_processes_on_one_home_share_a_limit(site: Site, forkserver: ForkServer) -> None:
    site.write(NOTES % ("concurrency: {limit: 1}", "0.2"))
    running = [command(forkserver, site) for _ in range(3)]
    assert [one.wait(120) for one in running] == [0, 0, 0]
    assert (site.most_at_once(), len(site.starts())) == (1, 3)


def test_the_slot_of_a_process_that_was_killed_comes_back(site: Site, forkserver: ForkServer) -> None:
    site.write(NOTES % ("concurrency: {limit: 1}", "{{ workload.long }}"))
    killed = command(forkserver, site, "--set", "long=600", "--set", "who=killed")
    wait_until(lambda: len(site.starts()) == 1)
    heir = command(forkserver, site, "--set", "long=0", "--set", "who=heir")
    time.sleep(1.0)
    assert len(site.starts()) == 1
    killed.kill()
    assert heir.wait(120) == 0
    assert [who for _, _, who in site.notes()] == ["killed", "heir", "heir"]


# --- over one database ---------------------------------------------------------------------------------------------------


def test_offices_on_one_database_share_a_limit_and_a_rate(site: Site, database: Database) -> None:
    site.write(NOTES % ('concurrency: {key: "api", limit: 2}, rate: {key: "api", limit: 4, per_s: 1.5}', TOGETHER % 2))

    async def test() -> None:
        logs = [PostgresLog(database.url), PostgresLog(database.url)]
        began = time.time()
        async with site.node(logs[0]) as one, site.node(logs[1]) as other:
            executions = [await site.start(node) for _ in range(4) for node in (one, other)]
            assert await ended(*executions) == ["completed"] * 8
        assert site.most_at_once() == 2
        site.check_pace(began, 4, 1.5)

    within(120, test)


def test_an_execution_of_another_office_makes_room(site: Site, database: Database) -> None:
    site.write(HELD % 'concurrency: {key: "api", limit: 1, on_limit: cancel_running}')

    async def test() -> None:
        logs = [PostgresLog(database.url), PostgresLog(database.url)]
        async with site.node(logs[0]) as one, site.node(logs[1]) as other:
            first = await site.start(one)
            await until(lambda: begun(first))
            second = await site.start(other)
            assert await ended(first) == ["failed"]
            await until(lambda: begun(second))

    within(120, test)


def test_an_execution_that_is_taken_over_keeps_its_slot_and_gives_it_back(site: Site, database: Database) -> None:
    site.write(HELD % "concurrency: {limit: 1}")

    async def test() -> None:
        async with site.node(PostgresLog(database.url)) as node:
            first = await site.start(node)
            await until(lambda: begun(first))
        async with site.node(PostgresLog(database.url)) as heir:
            live = await heir.resume(first.id)
            await asyncio.sleep(0.3)
            second = await site.start(heir)
            await asyncio.sleep(0.3)
            assert not begun(second)
            heir.service.post(live.id, [Cancel()])
            await until(lambda: begun(second))

    within(120, test)

"""Pipelines and their workers: who gets what, who is believed, and what becomes of what is left behind."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from fleet import Server, serving, working

from noetl.model.requests import Cancel, Pause, Resume
from noetl.model.wire import Holding, Message
from noetl.outpost import Outpost
from noetl.server.registry import MemoryRegistry
from noetl.server.service import Hot
from noetl.stores.memory import MemoryLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\n"


async def start(server: Server, folder: Path, workflow: str, payload: dict[str, Any] | None = None) -> Hot:
    """Start a playbook of this workflow."""
    source, loaded = server.station.catalog.read(folder / "it.yaml", (HEAD + workflow).encode())
    assert loaded.net is not None, loaded.diagnostics
    return await server.station.start(source, loaded.net, payload or {})


async def until(holds: Any, seconds: float = 20.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.02)


def marking(folder: Path, seconds: float) -> str:
    """A step that marks that it begins, takes its time, and marks that it ends."""
    return (
        "workflow:\n- step: slow\n  tool:\n    kind: shell\n"
        f"    cmd: 'echo begun >> {folder}/marks; sleep {seconds}; echo ended >> {folder}/marks'\n"
    )


def marks(folder: Path) -> list[str]:
    path = folder / "marks"
    return path.read_text().split() if path.exists() else []


async def vanish(outpost: Outpost) -> None:
    """Be gone without a word, as a process that was killed: its tools die with it, and nobody hears from it."""
    assert outpost._pulse is not None
    await asyncio.to_thread(outpost._pulse.stop)
    for task in outpost._tasks:
        task.cancel()
    outpost.kill()


async def test_what_a_dead_worker_had_is_run_by_another(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(1.0), tmp_path, lease_s=0.6) as server,
        working([server.url], tmp_path / "a") as first,
    ):
        hot = await start(server, tmp_path, marking(tmp_path, 3))
        await until(lambda: marks(tmp_path) == ["begun"])
        await vanish(first)
        async with working([server.url], tmp_path / "b"):
            await hot.finished
    assert hot.state.status == "completed"
    assert marks(tmp_path) == ["begun", "begun", "ended"]


async def test_what_a_worker_says_that_was_given_up_is_refused_and_recorded(tmp_path: Path) -> None:
    log, registry = MemoryLog(), MemoryRegistry(30.0)
    async with serving(log, registry, tmp_path) as server, working([server.url], tmp_path / "w") as outpost:
        hot = await start(server, tmp_path, marking(tmp_path, 0.4))
        await until(lambda: marks(tmp_path) == ["begun"])
        (offer,) = server.station.board.held()
        offer.fence = "another's"
        await until(lambda: any("refused" in line.text for _, line in log.lines(hot.id)))
        await until(lambda: not outpost.depot.held)
        assert [event.name for event in log.read(hot.id)].count("task.done") == 0
        # It was never told what became of it, so it is offered again as soon as the two compare what they have.
        server.station.board.again(offer, "the test says so")
        await hot.finished
    assert hot.state.status == "completed"


async def test_what_is_given_anew_to_the_worker_that_has_it_is_run_when_that_was_refused(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(30.0), tmp_path) as server,
        working([server.url], tmp_path / "w") as outpost,
    ):
        hot = await start(server, tmp_path, marking(tmp_path, 0.4))
        await until(lambda: marks(tmp_path) == ["begun"])
        (offer,) = server.station.board.held()
        server.station.board.again(offer, "the test says so")
        await until(lambda: any(one.following is not None for one in outpost.depot.held.values()))
        await hot.finished
        assert offer.ways == 0  # it was not taken for lost on its way
    assert marks(tmp_path) == ["begun", "ended"] * 2


async def test_a_worker_that_was_given_up_must_begin_anew(tmp_path: Path) -> None:
    registry = MemoryRegistry(30.0)
    async with serving(MemoryLog(), registry, tmp_path) as server:
        assert not (await server.station.counter.alive(Holding("w"))).lost
        registry._until["w"] = 0.0
        assert await registry.give_up() == ["w"]
        assert (await server.station.counter.alive(Holding("w"))).lost
        assert (await server.station.counter.serve(Message("w", room=1))).lost
        assert not (await server.station.counter.alive(Holding("w-again"))).lost


async def test_a_step_runs_in_its_pool_alone(tmp_path: Path) -> None:
    workflow = "workflow:\n- step: heavy\n  spec: {pool: gpu}\n  tool: {kind: noop}\n"
    async with serving(MemoryLog(), MemoryRegistry(2.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        hot = await start(server, tmp_path, workflow)
        await asyncio.sleep(0.5)
        assert not hot.finished.done()
        (said,) = server.station.waits(hot.id)
        assert said.startswith("1 pipeline waits for a worker of pool `gpu`: none is there")
        async with working([server.url], tmp_path / "b", pools=["gpu"]):
            await hot.finished
    assert hot.state.status == "completed"


async def test_what_is_urgent_goes_first(tmp_path: Path) -> None:
    workflow = (
        "workflow:\n"
        "- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: low}, {step: high}]}}\n"
        "- {step: low, spec: {priority: 1}, tool: {kind: noop}}\n"
        "- {step: high, spec: {priority: 9}, tool: {kind: noop}}\n"
    )
    log = MemoryLog()
    async with serving(log, MemoryRegistry(2.0), tmp_path) as server:
        hot = await start(server, tmp_path, workflow)
        async with working([server.url], tmp_path / "a", slots=1):
            await hot.finished
    began = [event.entity_id for event in log.read(hot.id) if event.name == "task.started"]
    assert began == ["high.high", "low.low"]


async def test_a_cancelled_execution_ends_its_tools_at_the_worker(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(5.0), tmp_path) as server,
        working([server.url], tmp_path / "a") as outpost,
    ):
        hot = await start(server, tmp_path, marking(tmp_path, 30))
        await until(lambda: marks(tmp_path) == ["begun"])
        server.station.service.post(hot.id, [Cancel()])
        await hot.finished
        await until(lambda: not outpost.depot.held and not outpost.shop.tasks, 5)
    assert hot.state.status == "cancelled"
    assert marks(tmp_path) == ["begun"]


async def test_a_paused_execution_begins_nothing_until_it_goes_on(tmp_path: Path) -> None:
    workflow = marking(tmp_path, 0.3) + "  next: {arcs: [{step: after}]}\n- {step: after, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(5.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        hot = await start(server, tmp_path, workflow)
        await until(lambda: marks(tmp_path) == ["begun"])
        await server.station.service.record(hot.id, [Pause()])
        await until(lambda: marks(tmp_path) == ["begun", "ended"])
        await asyncio.sleep(0.3)
        assert "after" not in {name for name, info in hot.state.steps.items() if info.status}
        await server.station.service.record(hot.id, [Resume()])
        await hot.finished
    assert hot.state.status == "completed"


async def test_a_worker_that_drains_finishes_what_it_has_and_gives_back_the_rest(tmp_path: Path) -> None:
    workflow = (
        "workflow:\n- step: each\n"
        '  loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 6}}\n'
        f"  tool: {{kind: shell, cmd: 'sleep 0.5; echo ended >> {tmp_path}/marks'}}\n"
    )
    async with serving(MemoryLog(), MemoryRegistry(5.0), tmp_path) as server:
        async with working([server.url], tmp_path / "a", slots=2) as first:
            hot = await start(server, tmp_path, workflow)
            await until(lambda: len(first.depot.held) >= 2)
            await first.drain(10)
            assert len(marks(tmp_path)) == 2
        async with working([server.url], tmp_path / "b"):
            await hot.finished
    assert hot.state.status == "completed"
    assert marks(tmp_path) == ["ended"] * 6


async def test_a_pipeline_that_nobody_brings_to_an_end_is_put_away_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noetl.worker.runner import Runner

    def breaks(self: Runner) -> bool:
        raise RuntimeError("it cannot be run")

    monkeypatch.setattr(Runner, "sprint", breaks)
    workflow = "workflow:\n- {step: bad, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(5.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        hot = await start(server, tmp_path, workflow)
        await hot.finished
    assert hot.state.status == "failed"
    assert hot.state.error is not None
    assert hot.state.error["kind"] == "dead_letter"
    assert "5 times" in hot.state.error["message"]
    assert "it cannot be run" in hot.state.error["message"]
    (letter,) = server.station.dead_letters()
    assert (letter["execution_id"], letter["step_run_id"], letter["tries"]) == (hot.id, "bad-1", 5)
    assert "it cannot be run" in letter["why"]


async def test_workers_say_whether_credentials_are_there(tmp_path: Path) -> None:
    workflow = "keychain: [{name: api, kind: bearer, from: {env: SURELY_NOT_SET}}]\nworkflow:\n- {step: a, tool: {kind: noop}}\n"
    log = MemoryLog()
    async with serving(log, MemoryRegistry(5.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        hot = await start(server, tmp_path, workflow)
        await hot.finished
    assert hot.state.error is not None
    assert hot.state.error["kind"] == "credential"
    assert "workflow.started" not in [event.name for event in log.read(hot.id)]


async def test_a_step_in_another_pool_is_announced_when_the_one_before_it_ends(tmp_path: Path) -> None:
    workflow = (
        "workflow:\n- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n"
        "- {step: b, spec: {pool: gpu}, tool: {kind: noop}}\n"
    )
    async with (
        serving(MemoryLog(), MemoryRegistry(30.0), tmp_path) as server,
        working([server.url], tmp_path / "a"),
        working([server.url], tmp_path / "b", pools=["gpu"]),
    ):
        await until(lambda: len(server.station.board.workers) == 2)
        hot = await start(server, tmp_path, workflow)
        async with asyncio.timeout(10):  # whoever is not called asks again after twenty
            await hot.finished
    assert hot.state.status == "completed"


async def test_a_priority_that_is_none_is_not_heeded(tmp_path: Path) -> None:
    workflow = "workflow:\n- {step: a, spec: {priority: '{{ \"high\" }}'}, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(5.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        hot = await start(server, tmp_path, workflow)
        await hot.finished
    assert hot.state.status == "completed"


async def test_slots_are_counted_right_after_a_report_had_to_be_told_again(tmp_path: Path) -> None:
    from noetl.worker.link import Link, Unreachable

    failing = [True]
    exchange = Link.exchange

    async def once(self: Link, message: Message) -> Any:
        if message.reports and failing:
            failing.clear()
            raise Unreachable("the test says so")
        return await exchange(self, message)

    workflow = "workflow:\n- {step: a, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(5.0), tmp_path) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Link, "exchange", once)
            async with working([server.url], tmp_path / "a") as outpost:
                hot = await start(server, tmp_path, workflow)
                await hot.finished
                await until(lambda: not outpost.depot.held)
                assert outpost.depot._running == 0
    assert not failing


async def test_a_request_for_an_execution_that_was_lost_is_heard_when_it_is_back(tmp_path: Path) -> None:
    from noetl.errors import NoetlError
    from noetl.model.requests import Signal, encode_request

    workflow = "workflow:\n- {step: ask, tool: {kind: wait, signal: ok}}\n"
    log = MemoryLog()
    async with (
        serving(log, MemoryRegistry(5.0), tmp_path, lease_s=0.6) as server,
        working([server.url], tmp_path / "a"),
    ):
        hot = await start(server, tmp_path, workflow)
        await until(lambda: hot.state.listeners.get("ok"))
        server.station.service.give_up(hot.id, NoetlError("the store was away"))
        log.post(hot.id, encode_request(Signal("ok")))
        await until(lambda: log.summary(hot.id).status == "completed")  # type: ignore[union-attr]


async def test_a_message_that_a_server_cannot_take_holds_up_no_other(tmp_path: Path) -> None:
    from noetl.worker.link import Link, Rejected

    exchange = Link.exchange

    async def picky(self: Link, message: Message) -> Any:
        if any(report.step_run_id.startswith("bad") and report.facts for report in message.reports):
            raise Rejected("too large, says the test")
        return await exchange(self, message)

    workflow = (
        "workflow:\n- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: good}]}}\n"
        "- {step: bad, tool: {kind: noop}}\n- {step: good, tool: {kind: noop}}\n"
    )
    async with serving(MemoryLog(), MemoryRegistry(5.0), tmp_path) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Link, "exchange", picky)
            async with working([server.url], tmp_path / "a"):
                hot = await start(server, tmp_path, workflow)
                await hot.finished
    assert hot.state.steps["good"].status == "done"
    assert hot.state.error is not None
    assert hot.state.error["kind"] == "dead_letter"
    assert "too large" in hot.state.error["message"]

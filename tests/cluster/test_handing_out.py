"""Pipelines and their workers: who gets what, who is believed, and what becomes of what is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from fleet import Server, serving, working
from waiting import until

from noetl.app.worker import WorkerNode
from noetl.dispatch import Entry
from noetl.model.requests import Cancel, Pause, Resume
from noetl.model.wire import Heartbeat, HeldPipeline, PipelineReport, ServerReply, WorkerMessage
from noetl.ports import Summary
from noetl.server.cluster import worker_api
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.worker import agent

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\n"


async def start(server: Server, folder: Path, workflow: str, payload: dict[str, Any] | None = None) -> LiveExecution:
    """Start a playbook of this workflow."""
    source, loaded = server.station.catalog.read(folder / "it.yaml", (HEAD + workflow).encode())
    assert loaded.net is not None, loaded.diagnostics
    return await server.station.start(source, loaded.net, payload or {})


def marking(folder: Path, seconds: float) -> str:
    """A step that marks that it begins, takes its time, and marks that it ends."""
    return (
        "workflow:\n- step: slow\n  tool:\n    kind: shell\n"
        f"    cmd: 'echo begun >> {folder}/marks; sleep {seconds}; echo ended >> {folder}/marks'\n"
    )


def gated(folder: Path) -> str:
    """The same, but it takes as long as there is no file `go`."""
    return marking(folder, 0).replace("sleep 0", f"until [ -e {folder}/go ]; do sleep 0.02; done")


def marks(folder: Path) -> list[str]:
    path = folder / "marks"
    return path.read_text().split() if path.exists() else []


def lose(server: Server, entry: Entry) -> None:
    """Let a server take a pipeline from its worker, and hand it out again."""
    report = PipelineReport(*entry.key, entry.fence, broken="the test says so")
    station = server.station
    station.pipelines.carry_out(station.dispatcher.report(entry.worker or "", report, now=station.remote.now()))


async def vanish(outpost: WorkerNode) -> None:
    """Be gone without a word, as a process that was killed: its tools die with it, and nobody hears from it."""
    assert outpost._heartbeats is not None
    await asyncio.to_thread(outpost._heartbeats.stop)
    for task in outpost._tasks:
        task.cancel()
    outpost.kill()


async def test_what_a_dead_worker_had_is_run_by_another(tmp_path: Path) -> None:
    registry = MemoryRegistry(60.0)
    async with (
        serving(MemoryLog(), registry, tmp_path, lease_s=0.6) as server,
        working([server.url], tmp_path / "a") as first,
    ):
        live = await start(server, tmp_path, gated(tmp_path))
        await until(lambda: marks(tmp_path) == ["begun"])
        await vanish(first)
        registry._until[first.agent.name] = 0.0
        async with working([server.url], tmp_path / "b"):
            await until(lambda: marks(tmp_path) == ["begun"] * 2)
            (tmp_path / "go").touch()
            await live.finished
    assert live.state.status == "completed"
    assert marks(tmp_path) == ["begun", "begun", "ended"]


async def test_what_a_worker_says_that_was_given_up_is_refused_and_recorded(tmp_path: Path) -> None:
    log, registry = MemoryLog(), MemoryRegistry(30.0)
    async with (
        serving(log, registry, tmp_path) as server,
        # It sends heartbeats so seldom that it hears of nothing before it says anything.
        working([server.url], tmp_path / "w", beat_s=600) as outpost,
    ):
        live = await start(server, tmp_path, gated(tmp_path))
        await until(lambda: marks(tmp_path) == ["begun"])
        (entry,) = server.station.dispatcher.list_held()
        entry.fence = "another's"
        (tmp_path / "go").touch()
        await until(lambda: any("refused" in line.text for _, line in log.lines(live.id)))
        await until(lambda: not outpost.agent.held)
        assert [event.name for event in log.read(live.id)].count("task.done") == 0
        # It was never told what became of it, so it is offered again as soon as the two compare what they have.
        lose(server, entry)
        await live.finished
    assert live.state.status == "completed"


async def test_what_is_given_anew_to_the_worker_that_has_it_is_run_when_that_was_refused(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(30.0), tmp_path) as server,
        working([server.url], tmp_path / "w") as outpost,
    ):
        live = await start(server, tmp_path, gated(tmp_path))
        await until(lambda: marks(tmp_path) == ["begun"])
        (entry,) = server.station.dispatcher.list_held()
        lose(server, entry)
        await until(lambda: any(one.following is not None for one in outpost.agent.held.values()))
        (tmp_path / "go").touch()
        await live.finished
        assert entry.undelivered == 0  # it was not taken for lost on its way
    assert marks(tmp_path) == ["begun", "ended"] * 2


async def test_a_worker_that_was_given_up_must_begin_anew(tmp_path: Path) -> None:
    registry = MemoryRegistry(30.0)
    async with serving(MemoryLog(), registry, tmp_path) as server:
        assert not (await server.station.worker_api.alive(Heartbeat("w"))).lost
        registry._until["w"] = 0.0
        assert (await registry.give_up()).given_up == ["w"]
        assert (await server.station.worker_api.alive(Heartbeat("w"))).lost
        assert (await server.station.worker_api.serve(WorkerMessage("w", room=1))).lost
        assert not (await server.station.worker_api.alive(Heartbeat("w-again"))).lost


class Asked(MemoryLog):
    """A log that knows how often it was asked what became of executions."""

    def __init__(self, beside: MemoryLog) -> None:
        super().__init__(beside)
        self.questions = 0

    def summary(self, execution_id: str) -> Summary | None:
        self.questions += 1
        return super().summary(execution_id)

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        self.questions += 1
        return super().under_way(execution_ids)


async def test_a_server_asks_once_for_all_that_a_worker_has_from_others(tmp_path: Path) -> None:
    log, registry = MemoryLog(), MemoryRegistry(30.0)
    asked = Asked(log)
    workflow = "workflow:\n- step: a\n  tool: {kind: wait, signal: go}\n"
    async with serving(log, registry, tmp_path) as server, serving(asked, registry, tmp_path) as other:
        async with working([server.url], tmp_path / "w"):
            going, over = await start(server, tmp_path, workflow), await start(server, tmp_path, workflow)
            server.station.service.post(over.id, [Cancel("the test says so")])
            await over.finished
        has = [
            HeldPipeline(name, "a-1", index, "1-1") for name in (going.id, over.id, "nobody") for index in range(100)
        ]
        await other.station.worker_api.serve(WorkerMessage("w", room=0))
        await other.station.worker_api.alive(Heartbeat("w"))
        await other.station.worker_api.serve(WorkerMessage("w", room=0))
        asked.questions = 0
        reply = await other.station.worker_api.alive(Heartbeat("w", held=has))
        assert {key[0] for key in reply.stops} == {over.id, "nobody"}
        assert len(reply.stops) == 200
        assert asked.questions == 1


async def test_a_step_runs_in_its_pool_alone(tmp_path: Path) -> None:
    workflow = "workflow:\n- step: heavy\n  spec: {pool: gpu}\n  tool: {kind: noop}\n"
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        live = await start(server, tmp_path, workflow)
        await until(lambda: server.station.waits(live.id))
        await asyncio.sleep(0.3)
        assert not live.finished.done()
        (said,) = server.station.waits(live.id)
        assert said.startswith("1 pipeline waits for a worker of pool `gpu`: none is there")
        async with working([server.url], tmp_path / "b", pools=["gpu"]):
            await live.finished
    assert live.state.status == "completed"


async def test_what_is_urgent_goes_first(tmp_path: Path) -> None:
    workflow = (
        "workflow:\n"
        "- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: low}, {step: high}]}}\n"
        "- {step: low, spec: {priority: 1}, tool: {kind: noop}}\n"
        "- {step: high, spec: {priority: 9}, tool: {kind: noop}}\n"
    )
    log = MemoryLog()
    async with serving(log, MemoryRegistry(60.0), tmp_path) as server:
        live = await start(server, tmp_path, workflow)
        async with working([server.url], tmp_path / "a", slots=1):
            await live.finished
    began = [event.entity_id for event in log.read(live.id) if event.name == "task.started"]
    assert began == ["high.high", "low.low"]


async def test_a_cancelled_execution_ends_its_tools_at_the_worker(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "a") as outpost,
    ):
        live = await start(server, tmp_path, marking(tmp_path, 600))
        await until(lambda: marks(tmp_path) == ["begun"])
        server.station.service.post(live.id, [Cancel()])
        await live.finished
        await until(lambda: not outpost.agent.held and not outpost.runners.tasks)
    assert live.state.status == "cancelled"
    assert marks(tmp_path) == ["begun"]


async def test_a_paused_execution_begins_nothing_until_it_goes_on(tmp_path: Path) -> None:
    workflow = gated(tmp_path) + "  next: {arcs: [{step: after}]}\n- {step: after, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        live = await start(server, tmp_path, workflow)
        await until(lambda: marks(tmp_path) == ["begun"])
        await server.station.service.record(live.id, [Pause()])
        (tmp_path / "go").touch()
        await until(lambda: marks(tmp_path) == ["begun", "ended"])
        await asyncio.sleep(0.3)
        assert "after" not in {name for name, info in live.state.steps.items() if info.status}
        await server.station.service.record(live.id, [Resume()])
        await live.finished
    assert live.state.status == "completed"


def four(folder: Path) -> str:
    """Four tasks, each of which marks that it begins, and takes as long as it is not let go."""
    return "".join(
        f"\n    - {{name: {task}, kind: shell, cmd: 'echo {task} >> {folder}/marks; "
        f"until [ -e {folder}/go.{task} ]; do sleep 0.02; done'}}"
        for task in "abcd"
    )


def let_go(folder: Path, tasks: str) -> None:
    for task in tasks:
        (folder / f"go.{task}").touch()


async def come_to_rest(folder: Path, outpost: WorkerNode, live: LiveExecution) -> None:
    """A worker hears of a pause with the end of a task, when the next one may have begun already; and of no more."""
    let_go(folder, "a")
    await until(lambda: outpost.agent.remotes[live.id].state.paused)
    let_go(folder, "b")
    await until(lambda: not outpost.agent.held)
    assert not {"c", "d"} & {*marks(folder)}
    let_go(folder, "cd")


async def test_a_pause_is_heard_by_all_pipelines_that_came_with_a_new_execution(tmp_path: Path) -> None:
    workflow = (
        "workflow:\n- step: each\n  loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel, max_in_flight: 4}}\n"
        f"  tool:{four(tmp_path)}\n"
    )
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "a") as outpost,
    ):
        live = await start(server, tmp_path, workflow)
        await until(lambda: marks(tmp_path) == ["a"] * 4)
        await server.station.service.record(live.id, [Pause()])
        await come_to_rest(tmp_path, outpost, live)
        await server.station.service.record(live.id, [Resume()])
        await live.finished
    assert live.state.status == "completed"
    assert sorted(marks(tmp_path)) == sorted("abcd" * 4)


async def test_an_answer_to_a_paused_execution_lets_nothing_else_of_it_go_on(tmp_path: Path) -> None:
    from noetl.model.requests import Signal

    workflow = (
        "workflow:\n- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: ask}, {step: slow}]}}\n"
        f"- {{step: ask, tool: {{kind: wait, signal: ok}}}}\n- step: slow\n  tool:{four(tmp_path)}\n"
    )
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "a") as outpost,
    ):
        live = await start(server, tmp_path, workflow)
        await until(lambda: marks(tmp_path) == ["a"] and live.state.listeners.get("ok"))
        await server.station.service.record(live.id, [Pause()])
        let_go(tmp_path, "a")
        await until(lambda: outpost.agent.remotes[live.id].state.paused)
        run, paused = outpost.runners.run, []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(outpost.runners, "run", lambda it, order: (paused.append(it.state.paused), run(it, order)))
            await server.station.service.record(live.id, [Signal("ok")])
            await until(lambda: paused)
            await come_to_rest(tmp_path, outpost, live)
        assert paused == [True]
        await server.station.service.record(live.id, [Resume()])
        await live.finished
    assert live.state.status == "completed"
    assert marks(tmp_path) == [*"abcd"]


async def test_what_was_handed_out_and_has_not_begun_is_given_back_while_it_is_paused(tmp_path: Path) -> None:
    workflow = (
        "workflow:\n- step: each\n  loop: {in: [1, 2, 3, 4, 5, 6], iterator: n, spec: {mode: parallel, max_in_flight: 6}}\n"
        f"  tool:{four(tmp_path)}\n"
    )
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "a", slots=2) as outpost,
    ):
        outpost.agent.queue.pace.ahead = lambda _slots: 4  # type: ignore[method-assign]
        live = await start(server, tmp_path, workflow)
        await until(lambda: len(outpost.agent.held) == 6 and marks(tmp_path) == ["a"] * 2)
        await server.station.service.record(live.id, [Pause()])
        await come_to_rest(tmp_path, outpost, live)
        assert marks(tmp_path).count("a") == 2
        assert outpost.agent.queue.running == 0
        await server.station.service.record(live.id, [Resume()])
        await live.finished
    assert live.state.status == "completed"
    assert sorted(marks(tmp_path)) == sorted("abcd" * 6)


async def test_a_worker_that_drains_finishes_what_it_has_and_gives_back_the_rest(tmp_path: Path) -> None:
    workflow = (
        "workflow:\n- step: each\n"
        '  loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 6}}\n'
        + gated(tmp_path).partition("- step: slow\n")[2]
    )
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server:
        async with working([server.url], tmp_path / "a", slots=2) as first:
            live = await start(server, tmp_path, workflow)
            await until(lambda: marks(tmp_path) == ["begun"] * 2)
            draining = asyncio.create_task(first.drain(60))
            await until(lambda: first.agent.draining)
            (tmp_path / "go").touch()
            await draining
            assert marks(tmp_path) == ["begun"] * 2 + ["ended"] * 2
        async with working([server.url], tmp_path / "b"):
            await live.finished
    assert live.state.status == "completed"
    assert sorted(marks(tmp_path)) == ["begun"] * 6 + ["ended"] * 6


async def test_a_pipeline_that_nobody_brings_to_an_end_is_put_away_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noetl.worker.runner import PipelineRunner

    def breaks(self: PipelineRunner) -> bool:
        raise RuntimeError("it cannot be run")

    monkeypatch.setattr(PipelineRunner, "run_sync", breaks)
    workflow = "workflow:\n- {step: bad, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        live = await start(server, tmp_path, workflow)
        await live.finished
    assert live.state.status == "failed"
    assert live.state.error is not None
    assert live.state.error["kind"] == "dead-letter"
    assert "5 times" in live.state.error["message"]
    assert "it cannot be run" in live.state.error["message"]
    (letter,) = server.station.dead_letters()
    assert (letter["execution_id"], letter["step_run_id"], letter["tries"]) == (live.id, "bad-1", 5)
    assert "it cannot be run" in letter["why"]


async def test_workers_say_whether_credentials_are_there(tmp_path: Path) -> None:
    workflow = "keychain: [{name: api, kind: bearer, from: {env: SURELY_NOT_SET}}]\nworkflow:\n- {step: a, tool: {kind: noop}}\n"
    log = MemoryLog()
    async with serving(log, MemoryRegistry(60.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        live = await start(server, tmp_path, workflow)
        await live.finished
    assert live.state.error is not None
    assert live.state.error["kind"] == "credential"
    assert "workflow.started" not in [event.name for event in log.read(live.id)]


async def test_a_step_in_another_pool_is_announced_when_the_one_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((agent, "_WAIT_S"), (worker_api, "MOST_WAIT_S")):
        monkeypatch.setattr(module, name, 600.0)  # whoever is not called asks again then
    workflow = (
        "workflow:\n- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n"
        "- {step: b, spec: {pool: gpu}, tool: {kind: noop}}\n"
    )
    async with (
        serving(MemoryLog(), MemoryRegistry(30.0), tmp_path) as server,
        working([server.url], tmp_path / "a"),
        working([server.url], tmp_path / "b", pools=["gpu"]),
    ):
        await until(lambda: len(server.station.dispatcher.workers) == 2)
        live = await start(server, tmp_path, workflow)
        async with asyncio.timeout(60):
            await live.finished
    assert live.state.status == "completed"


async def test_a_priority_that_is_none_is_not_heeded(tmp_path: Path) -> None:
    workflow = "workflow:\n- {step: a, spec: {priority: '{{ \"high\" }}'}, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server, working([server.url], tmp_path / "a"):
        live = await start(server, tmp_path, workflow)
        await live.finished
    assert live.state.status == "completed"


async def test_slots_are_counted_right_after_a_report_had_to_be_told_again(tmp_path: Path) -> None:
    from noetl.errors import ServerUnavailable
    from noetl.worker.link import ServerLink

    failing = [True]
    exchange = ServerLink.exchange

    async def once(self: ServerLink, message: WorkerMessage) -> Any:
        if message.reports and failing:
            failing.clear()
            raise ServerUnavailable("the test says so")
        return await exchange(self, message)

    workflow = "workflow:\n- {step: a, tool: {kind: noop}}\n"
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ServerLink, "exchange", once)
            async with working([server.url], tmp_path / "a") as outpost:
                live = await start(server, tmp_path, workflow)
                await live.finished
                await until(lambda: not outpost.agent.held)
                assert outpost.agent.queue.running == 0
    assert not failing


async def test_a_request_for_an_execution_that_was_lost_is_heard_when_it_is_back(tmp_path: Path) -> None:
    from noetl.model.requests import Signal, encode_request
    from noetl.ports import StoreFailed

    workflow = "workflow:\n- {step: ask, tool: {kind: wait, signal: ok}}\n"
    log = MemoryLog()
    async with (
        serving(log, MemoryRegistry(60.0), tmp_path, lease_s=0.6) as server,
        working([server.url], tmp_path / "a"),
    ):
        live = await start(server, tmp_path, workflow)
        await until(lambda: live.state.listeners.get("ok"))
        server.station.service.give_up(live.id, StoreFailed("the store was away"))
        log.post(live.id, encode_request(Signal("ok")))
        await until(lambda: log.summary(live.id).status == "completed")  # type: ignore[union-attr]


async def test_workers_keep_nothing_of_an_execution_that_sleeps(tmp_path: Path) -> None:
    from noetl.model.requests import Signal, encode_request

    workflow = "workflow:\n- {step: ask, tool: [{kind: wait, signal: ok}, {kind: noop}]}\n"
    log = MemoryLog()
    async with (
        serving(log, MemoryRegistry(60.0), tmp_path, lease_s=0.6) as server,
        working([server.url], tmp_path / "a") as outpost,
    ):
        live = await start(server, tmp_path, workflow)
        await until(lambda: live.state.listeners.get("ok") and not outpost.agent.held)
        assert live.id in outpost.runners.worlds
        server.station.service.release(live)
        await until(lambda: not outpost.agent.remotes and not outpost.runners.worlds)
        assert live.id not in server.station.dispatcher.executions
        assert not any(live.id in box.knows for box in server.station.remote._boxes.values())
        log.post(live.id, encode_request(Signal("ok")))
        await until(lambda: log.summary(live.id).status == "completed")  # type: ignore[union-attr]
        await until(lambda: not outpost.agent.remotes and not outpost.runners.worlds)


async def test_a_server_that_lays_an_execution_down_ends_nothing_that_another_has_given(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "a") as outpost,
    ):
        live = await start(server, tmp_path, gated(tmp_path))
        await until(lambda: marks(tmp_path) == ["begun"])
        outpost.agent.handle_reply(outpost.agent.links[0], ServerReply(ended=[live.id]))
        (tmp_path / "go").touch()
        await live.finished
        await until(lambda: not outpost.agent.remotes and not outpost.runners.worlds)
    assert marks(tmp_path) == ["begun", "ended"]


async def test_a_message_that_a_server_cannot_take_holds_up_no_other(tmp_path: Path) -> None:
    from noetl.errors import RequestInvalid
    from noetl.worker.link import ServerLink

    exchange = ServerLink.exchange

    async def picky(self: ServerLink, message: WorkerMessage) -> Any:
        if any(report.step_run_id.startswith("bad") and report.facts for report in message.reports):
            raise RequestInvalid("too large, says the test", 413)
        return await exchange(self, message)

    workflow = (
        "workflow:\n- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: good}]}}\n"
        "- {step: bad, tool: {kind: noop}}\n- {step: good, tool: {kind: noop}}\n"
    )
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ServerLink, "exchange", picky)
            async with working([server.url], tmp_path / "a"):
                live = await start(server, tmp_path, workflow)
                await live.finished
    assert live.state.steps["good"].status == "done"
    assert live.state.error is not None
    assert live.state.error["kind"] == "dead-letter"
    assert "too large" in live.state.error["message"]


def spread(folder: Path, policy: str) -> str:
    """Four iterations that begin together, and a step after them."""
    return (
        f"workflow:\n- step: many\n  loop: {{in: [1, 2, 3, 4], iterator: n, spec: {{mode: parallel{policy}}}}}\n"
        f"  tool: {{kind: shell, cmd: 'echo begun >> {folder}/marks; until [ -e {folder}/go ]; do sleep 0.02; done'}}\n"
        "  next: {arcs: [{step: after}]}\n- {step: after, tool: {kind: noop}}\n"
    )


@pytest.mark.parametrize(
    ("head", "policy", "workers"),
    [("", "", 2), ("executor: {profile: local}\n", "", 1), ("", ", policy: {exec: local}", 1)],
    ids=["spread", "profile local", "exec local"],
)
async def test_local_pipelines_all_go_to_one_worker_and_others_are_spread(
    tmp_path: Path, head: str, policy: str, workers: int
) -> None:
    used: dict[str, set[str]] = {"many": set(), "after": set()}
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "a") as first,
        working([server.url], tmp_path / "b") as second,
    ):
        dispatcher = server.station.dispatcher
        take = dispatcher.take

        def recorded(worker: Any, *, now: float) -> Any:
            given = take(worker, now=now)
            for one in given:
                used[one.order.step].add(worker.name)
            return given

        dispatcher.take = recorded  # type: ignore[method-assign]
        await until(lambda: {first.agent.name, second.agent.name} <= dispatcher.workers.keys())
        live = await start(server, tmp_path, head + spread(tmp_path, policy))
        await until(lambda: marks(tmp_path) == ["begun"] * 4)
        (tmp_path / "go").touch()
        await live.finished
    assert live.state.status == "completed"
    assert len(used["many"]) == workers
    if head:
        assert used["after"] == used["many"]

"""What was ordered or reported, and overtaken before it took effect: nothing is run twice because of it, or taken from anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from noetl.app.local import open_catalog
from noetl.model.events import Fact
from noetl.model.output import ok
from noetl.model.requests import Cancel, Pause, Resume, Signal
from noetl.model.wire import Heartbeat, HeldPipeline, PipelineReport, WorkAssignment, WorkerMessage
from noetl.pipeline import machine
from noetl.pipeline.frame import Frame, Moment, task_started_fact
from noetl.ports import EventLog, StoreFailed
from noetl.server.cluster.server_node import ClusterStore, ServerNode
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core.children import OwnedElsewhere
from noetl.server.core.service import LiveExecution, apply_request
from noetl.stores.memory import MemoryLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\nworkflow:\n"
TWO = "- {step: a, tool: {kind: shell, cmd: echo}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}\n"


class Slow(MemoryLog):
    """A log that writes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Semaphore(1000)
        self.fails = False

    async def append(self, *args: Any, **more: Any) -> None:
        await self.may.acquire()
        if self.fails:
            self.fails = False
            raise StoreFailed("the store is away")
        await super().append(*args, **more)


@asynccontextmanager
async def station(log: EventLog, *workers: str, cluster_store: ClusterStore | None = None) -> AsyncIterator[ServerNode]:
    """A server that knows workers, which the test speaks for."""
    async with ServerNode(log, open_catalog(), MemoryRegistry(30.0), lease_s=30.0, cluster_store=cluster_store) as made:
        for worker in workers:
            await made.worker_api.alive(Heartbeat(worker))
        yield made


async def start(server: ServerNode, workflow: str) -> LiveExecution:
    source, loaded = server.catalog.read(Path("it.yaml"), (HEAD + workflow).encode())
    assert loaded.net is not None, loaded.diagnostics
    return await server.start(source, loaded.net, {})


async def take(server: ServerNode, worker: str) -> list[WorkAssignment]:
    """What a worker is given that asks for as much as there is."""
    found: list[WorkAssignment] = []
    while more := (await server.worker_api.serve(WorkerMessage(worker, pools=["default"], room=9))).assignments:
        found += more
    return found


def said(live: LiveExecution, given: WorkAssignment, *, waits: str | None = None, done: int = 0) -> list[Fact]:
    """What a worker says of a pipeline whose next task, behind some that are done, comes to its end or waits for a signal."""
    order, moment = given.order, Moment(1.0, lambda: "u", 0.5)
    step, run, label = live.net.steps[order.step], order.step_run_id, order.iteration
    frame = Frame(step, dict(order.scopes), run=run, iteration=label, max_payload=10**6)
    begun = list(machine.begin(frame, moment).facts)
    for _ in range(done):
        begun += [task_started_fact(frame, {}), *machine.advance(frame, ok(), moment).facts]
    about = {"wait": {"signal": waits, "until": None}} if waits is not None else {}
    started = task_started_fact(frame, about)
    return [*begun, started, *([] if waits is not None else machine.advance(frame, ok(), moment).facts)]


async def report(server: ServerNode, worker: str, given: WorkAssignment, what: list[Fact]) -> None:
    """Say the last of a pipeline."""
    reply = await server.worker_api.serve(
        WorkerMessage(worker, [PipelineReport(*given.key, given.fence, what, last=True)])
    )
    assert (reply.refused, reply.again) == ([], [])


async def test_a_pause_that_ends_before_a_worker_has_said_anything_makes_nothing_run_twice() -> None:
    async with station(MemoryLog(), "first", "second") as server:
        live = await start(server, TWO)
        (given,) = await take(server, "first")
        await server.service.record(live.id, [Pause(), Resume()])
        await report(server, "first", given, said(live, given))
        assert live.state.steps["a"].status == "done"
        assert [one.order.step for one in await take(server, "second")] == ["b"]


async def test_who_heard_late_of_a_pause_that_was_over_is_given_the_pipeline_again() -> None:
    async with station(MemoryLog(), "worker") as server:
        live = await start(server, "- {step: a, tool: [{kind: shell, cmd: echo}, {kind: shell, cmd: echo}]}\n")
        (given,) = await take(server, "worker")
        await report(server, "worker", given, said(live, given)[:3])  # the first task, and that nothing follows
        (again,) = await take(server, "worker")
        assert (again.key, again.order.begun) == (given.key, True)


async def test_an_answer_that_was_used_is_not_given_to_the_next_wait() -> None:
    async with station(MemoryLog(), "worker") as server:
        two = "- {step: a, tool: [{kind: wait, signal: go}, {kind: wait, signal: go}]}\n"
        live = await start(server, two)
        (given,) = await take(server, "worker")
        await report(server, "worker", given, said(live, given, waits="go"))
        await server.service.record(live.id, [Signal("go")])
        (answered,) = await take(server, "worker")
        assert answered.order.answer is not None
        await report(server, "worker", answered, said(live, answered, waits="go", done=1)[2:])
        assert await take(server, "worker") == []


async def test_what_a_worker_has_of_a_paused_execution_is_still_its_own_when_another_server_goes_on() -> None:
    log, registry = MemoryLog(), MemoryRegistry(30.0)
    async with ServerNode(log, open_catalog(), registry, lease_s=30.0) as before:
        await before.worker_api.alive(Heartbeat("worker"))
        live = await start(before, TWO)
        (given,) = await take(before, "worker")
        await before.service.record(live.id, [Pause()])
        before.service.give_up(live.id, OwnedElsewhere("another server goes on with it"))
        after = ServerNode(log, open_catalog(), registry, lease_s=30.0)
        after.dispatcher.inherit(live.id, [HeldPipeline(*given.key, given.fence, "worker", 0)])
        after.dispatcher.update_worker("worker", [], 0)
        found = await after.resume(live.id)
        await report(after, "worker", given, said(found, given))
        assert found.state.steps["a"].status == "done"


async def test_a_worker_that_has_died_is_given_nothing_because_something_it_had_has_ended_elsewhere() -> None:
    log = MemoryLog()
    async with station(log, "dead", "alive") as server:
        ended, back = await start(server, TWO), await start(server, TWO)
        await take(server, "dead")
        for live in (ended, back):
            server.service.give_up(live.id, OwnedElsewhere("another server goes on with it"))
        server.worker_api.give_up("dead")
        effects = server.effects
        await apply_request(
            log, ended.id, ended.net, Cancel(), server.catalog, clock=effects.clock, new_id=effects.new_id
        )
        await server._forget_ended()
        await server._sweep()
        assert [one.execution_id for one in await take(server, "alive")] == [back.id]


async def test_of_executions_that_are_over_nothing_is_remembered_for_a_worker() -> None:
    async with station(MemoryLog(), "worker") as server:
        live = await start(server, "- {step: a, tool: {kind: noop}}\n")
        (given,) = await take(server, "worker")
        await report(server, "worker", given, said(live, given))
        assert live.state.over
        assert server.remote.box("worker").knows == set()


async def test_a_worker_is_told_once_of_many_executions_that_are_laid_down() -> None:
    async with station(MemoryLog(), "worker") as server:
        told: list[str] = []
        executions = [await start(server, "- {step: a, tool: {kind: wait, signal: go}}\n") for _ in range(5)]
        for live, given in zip(executions, await take(server, "worker"), strict=True):
            await report(server, "worker", given, said(live, given, waits="go"))
        server.remote.notify = told.append
        for live in executions:
            server.service.release(live)
        assert told == ["worker"]
        assert sorted((await server.worker_api.serve(WorkerMessage("worker"))).ended) == sorted(
            live.id for live in executions
        )


async def test_what_ended_while_it_was_looked_for_is_not_told_as_taken_over() -> None:
    said_of: list[int] = []
    async with station(MemoryLog(), "worker") as server:
        live = await start(server, "- {step: a, tool: {kind: noop}}\n")
        server._find_left = lambda: [live.id]  # type: ignore[method-assign]  as it was a moment ago
        server.worker_api.roster.note_takeover = said_of.append  # type: ignore[method-assign]
        await server.service.record(live.id, [Cancel()])
        await server._sweep()
    assert not any(said_of)


async def test_what_an_execution_could_not_write_is_no_loss_to_the_one_that_came_back() -> None:
    log = Slow()
    async with station(log, "worker") as server:
        live = await start(server, TWO)
        log.may = asyncio.Semaphore(0)
        writing = asyncio.create_task(server.service.record(live.id, [Signal("go")]))
        await asyncio.sleep(0.01)
        server.service.give_up(live.id, OwnedElsewhere("another server goes on with it"))
        back = await server.resume(live.id)
        log.fails = True
        log.may.release()
        log.may.release()
        await asyncio.gather(writing, return_exceptions=True)
        assert server.service.live == {live.id: back}


async def test_a_report_that_comes_twice_takes_nothing_from_who_went_on_behind_the_first() -> None:
    log = Slow()
    async with station(log, "first", "second") as server:
        live = await start(server, "- {step: a, tool: {kind: wait, signal: go}}\n")
        await server.service.record(live.id, [Signal("go")])  # it has come before anybody waits for it
        (given,) = await take(server, "first")
        what = said(live, given, waits="go")
        log.may = asyncio.Semaphore(0)
        once = asyncio.create_task(report(server, "first", given, what))
        await asyncio.sleep(0.01)
        twice = asyncio.create_task(report(server, "first", given, what))  # the answer did not come
        await asyncio.sleep(0.01)
        server.service.post(
            live.id, [Signal("other")]
        )  # what is decided with the second is written too, behind the first
        log.may.release()
        await once
        (going_on,) = await take(server, "second")
        assert not twice.done()
        log.may.release()
        await twice
        assert [(one.worker, one.fence) for one in server.dispatcher.list_held()] == [("second", going_on.fence)]


async def test_what_a_worker_ended_is_not_run_again_though_it_was_given_up_before_that_was_written() -> None:
    log = Slow()
    async with station(log, "first", "second") as server:
        live = await start(server, TWO)
        (given,) = await take(server, "first")
        log.may = asyncio.Semaphore(0)
        server.service.post(live.id, [Signal("other")])
        await asyncio.sleep(0.01)
        ending = asyncio.create_task(report(server, "first", given, said(live, given)))
        await asyncio.sleep(0.01)
        server.worker_api.give_up("first")  # its report waits for what is being written
        log.may.release()
        log.may.release()
        await ending
        assert [one.order.step for one in await take(server, "second")] == ["b"]


async def test_what_was_withdrawn_is_let_go_of_though_no_worker_comes_for_it() -> None:
    async with station(MemoryLog()) as server:
        gone = [await start(server, "- {step: a, spec: {pool: gpu}, tool: {kind: noop}}\n") for _ in range(3)]
        urgent = "- {step: a, spec: {pool: gpu, priority: %d}, tool: {kind: noop}}\n"
        wanted = [await start(server, urgent % n) for n in (1, 3, 2)]
        for live in gone:
            await server.service.record(live.id, [Cancel()])
        await server._sweep()
        assert server.dispatcher.ready.length(["gpu"], [0]) == 3
        await server.worker_api.alive(Heartbeat("worker"))
        given = (await server.worker_api.serve(WorkerMessage("worker", pools=["gpu"], room=2))).assignments
        assert [one.execution_id for one in given] == [wanted[1].id, wanted[2].id]
        for live in wanted:
            await server.service.record(live.id, [Cancel()])
        await server._sweep()
        assert server.dispatcher.ready.pools() == []


async def test_who_had_what_of_an_execution_that_has_ended_elsewhere_is_forgotten() -> None:
    log = MemoryLog()
    async with station(log, "worker") as server:
        ended, back = await start(server, TWO), await start(server, TWO)
        given = await take(server, "worker")
        for live in (ended, back):
            server.service.give_up(live.id, StoreFailed("the store was away"))
        effects = server.effects
        await apply_request(
            log, ended.id, ended.net, Cancel(), server.catalog, clock=effects.clock, new_id=effects.new_id
        )
        await server._sweep()
        assert not server.dispatcher.orphans
        assert [one.fence for one in server.dispatcher.list_held()] == [
            one.fence for one in given if one.execution_id == back.id
        ]

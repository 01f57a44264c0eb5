"""What was ordered or reported, and overtaken before it took effect: nothing is run twice because of it, or taken from anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from noetl.model.events import Fact
from noetl.model.output import ok
from noetl.model.requests import Cancel, Pause, Resume, Signal
from noetl.model.wire import Assignment, Holding, Message, Report
from noetl.pipeline import facts, machine
from noetl.pipeline.frame import Frame, Moment
from noetl.ports import EventLog, StoreFailed
from noetl.server.aside import take_effect
from noetl.server.registry import MemoryRegistry
from noetl.server.service import Hot
from noetl.server.station import Beds, Station
from noetl.stores.memory import MemoryLog
from noetl.wiring import catalog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\nworkflow:\n"
TWO = "- {step: a, tool: {kind: shell, cmd: echo}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}\n"


class Slow(MemoryLog):
    """A log that writes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Semaphore(1000)

    async def append(self, *args: Any, **more: Any) -> None:
        await self.may.acquire()
        await super().append(*args, **more)


@asynccontextmanager
async def station(log: EventLog, *workers: str, beds: Beds | None = None) -> AsyncIterator[Station]:
    """A server that knows workers, which the test speaks for."""
    async with Station(log, catalog(), MemoryRegistry(30.0), lease_s=30.0, beds=beds) as made:
        for worker in workers:
            await made.counter.alive(Holding(worker))
        yield made


async def start(server: Station, workflow: str) -> Hot:
    source, loaded = server.catalog.read(Path("it.yaml"), (HEAD + workflow).encode())
    assert loaded.net is not None, loaded.diagnostics
    return await server.start(source, loaded.net, {})


async def take(server: Station, worker: str) -> list[Assignment]:
    """What a worker is given that asks for as much as there is."""
    found: list[Assignment] = []
    while more := (await server.counter.serve(Message(worker, pools=["default"], room=9))).assignments:
        found += more
    return found


def said(hot: Hot, given: Assignment, *, waits: str | None = None) -> list[Fact]:
    """What a worker says of a pipeline of one task, which comes to its end or waits for a signal."""
    order, moment = given.order, Moment(1.0, lambda: "u", 0.5)
    step, run, label = hot.net.steps[order.step], order.step_run_id, order.iteration
    frame = Frame(step, dict(order.scopes), run=run, iteration=label, max_payload=10**6)
    begun = machine.begin(frame, moment).facts
    about = {"wait": {"signal": waits, "until": None}} if waits is not None else {}
    started = facts.started_fact(frame, about)
    return [*begun, started, *([] if waits is not None else machine.advance(frame, ok(), moment).facts)]


async def report(server: Station, worker: str, given: Assignment, what: list[Fact]) -> None:
    """Say the last of a pipeline."""
    reply = await server.counter.serve(Message(worker, [Report(*given.key, given.fence, what, last=True)]))
    assert (reply.refused, reply.again) == ([], [])


async def test_a_pause_that_ends_before_a_worker_has_said_anything_makes_nothing_run_twice() -> None:
    async with station(MemoryLog(), "first", "second") as server:
        hot = await start(server, TWO)
        (given,) = await take(server, "first")
        await server.service.record(hot.id, [Pause(), Resume()])
        await report(server, "first", given, said(hot, given))
        assert hot.state.steps["a"].status == "done"
        assert [one.order.step for one in await take(server, "second")] == ["b"]


async def test_a_report_that_comes_twice_takes_nothing_from_who_went_on_behind_the_first() -> None:
    log = Slow()
    async with station(log, "first", "second") as server:
        hot = await start(server, "- {step: a, tool: {kind: wait, signal: go}}\n")
        await server.service.record(hot.id, [Signal("go")])  # it has come before anybody waits for it
        (given,) = await take(server, "first")
        what = said(hot, given, waits="go")
        log.may = asyncio.Semaphore(0)
        once = asyncio.create_task(report(server, "first", given, what))
        await asyncio.sleep(0.01)
        twice = asyncio.create_task(report(server, "first", given, what))  # the answer did not come
        await asyncio.sleep(0.01)
        server.service.post(
            hot.id, [Signal("other")]
        )  # what is decided with the second is written too, behind the first
        log.may.release()
        await once
        (going_on,) = await take(server, "second")
        assert not twice.done()
        log.may.release()
        await twice
        assert [(one.worker, one.fence) for one in server.board.held()] == [("second", going_on.fence)]


async def test_what_a_worker_ended_is_not_run_again_though_it_was_given_up_before_that_was_written() -> None:
    log = Slow()
    async with station(log, "first", "second") as server:
        hot = await start(server, TWO)
        (given,) = await take(server, "first")
        log.may = asyncio.Semaphore(0)
        server.service.post(hot.id, [Signal("other")])
        await asyncio.sleep(0.01)
        ending = asyncio.create_task(report(server, "first", given, said(hot, given)))
        await asyncio.sleep(0.01)
        server.board.died("first")  # its report waits for what is being written
        log.may.release()
        log.may.release()
        await ending
        assert [one.order.step for one in await take(server, "second")] == ["b"]


async def test_what_was_withdrawn_is_let_go_of_though_no_worker_comes_for_it() -> None:
    async with station(MemoryLog()) as server:
        gone = [await start(server, "- {step: a, spec: {pool: gpu}, tool: {kind: noop}}\n") for _ in range(3)]
        urgent = "- {step: a, spec: {pool: gpu, priority: %d}, tool: {kind: noop}}\n"
        wanted = [await start(server, urgent % n) for n in (1, 3, 2)]
        for hot in gone:
            await server.service.record(hot.id, [Cancel()])
        await server._sweep()
        assert server.board.waiting(["gpu"]) == 3
        await server.counter.alive(Holding("worker"))
        given = (await server.counter.serve(Message("worker", pools=["gpu"], room=2))).assignments
        assert [one.execution_id for one in given] == [wanted[1].id, wanted[2].id]
        for hot in wanted:
            await server.service.record(hot.id, [Cancel()])
        await server._sweep()
        assert server.board.pools() == []


async def test_who_had_what_of_an_execution_that_has_ended_elsewhere_is_forgotten() -> None:
    log = MemoryLog()
    async with station(log, "worker") as server:
        ended, back = await start(server, TWO), await start(server, TWO)
        given = await take(server, "worker")
        for hot in (ended, back):
            server.service.give_up(hot.id, StoreFailed("the store was away"))
        nature = server.nature
        await take_effect(log, ended.id, ended.net, Cancel(), server.catalog, clock=nature.clock, new_id=nature.new_id)
        await server._sweep()
        assert not server.board.inherited
        assert [one.fence for one in server.board.held()] == [one.fence for one in given if one.execution_id == back.id]

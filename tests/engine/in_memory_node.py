"""A whole house without a process: engine, pipelines, log and clock turned by hand, with faults from a seed.

The scheduler picks what happens next: a pipeline moves on, a report arrives, twice or late, time passes, the worker
dies, or the server. What a task does outside is written to a ledger under its idempotency key.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from memory_results import Shelf, at_once

from noetl.engine.decision import Decision
from noetl.engine.fold import apply, replay
from noetl.engine.net_index import NetIndex
from noetl.engine.reaction import find_pending_orders, react, start_execution as open_execution
from noetl.errors import TemplateError
from noetl.expr.values import failure_of, render
from noetl.lang.loader import load
from noetl.model.events import Event, Fact, decode, encode
from noetl.model.net import Net
from noetl.model.orders import RunPipeline, StartChild, StopChild, StopPipelines, WakeAt
from noetl.model.output import Output, failed, failure, ok
from noetl.model.requests import ChildEnded, Due, OpenExecution, Request, Signal
from noetl.model.state import Execution, parse_label
from noetl.pipeline import machine
from noetl.pipeline.frame import Frame, Moment, role_of, task_started_fact
from noetl.pipeline.machine import Finish, Move, RunTask, Sleep
from noetl.pipeline.replay import resume
from noetl.server.core.catalog import Catalog
from noetl.tools.registry import ToolKinds
from noetl.worker.payloads import ResultKeeper
from noetl.worker.tool_caller import call_of
from noetl.worker.undo_record import UndoneRun, recall_run

KINDS = ToolKinds()
CATALOG = Catalog(KINDS)
Tool = Callable[[Any], Output]


class Died(Exception):
    """The process died at a write."""


@dataclass
class Pipe:
    """A pipeline in the hands of a worker."""

    frame: Frame
    keeper: ResultKeeper
    move: Move
    iteration: int | str | None
    run: str
    #: facts that wait for a report
    waiting: list[Fact] = field(default_factory=list)
    until: float = 0.0


def net_of(text: str) -> Net:
    """The net of a playbook without errors."""
    loaded = load(text, KINDS)
    assert loaded.net is not None, loaded.diagnostics
    return loaded.net


class House:
    """One execution and all that works for it."""

    def __init__(
        self,
        net: Net,
        *,
        seed: int = 0,
        payload: dict[str, Any] | None = None,
        tool: Tool | None = None,
        faults: float = 0.0,
        die_at: int | None = None,
        after_write: bool = False,
        index: type[NetIndex] = NetIndex,
    ) -> None:
        self.net = net
        self.id = "x"
        self.random = random.Random(seed)
        self.tool = tool or (lambda call: ok({"key": call.key}))
        self.faults = faults
        self.now = 1_000_000.0
        self.ids = itertools.count(1)
        self.log: list[bytes] = []
        #: what is too large for the log; like it, it is not lost
        self.shelf = Shelf()
        self.ledger: list[tuple[str, str]] = []
        self.pipes: dict[tuple[str, Any], Pipe] = {}
        self.alarms: list[float] = []
        self.signals: list[Signal] = []
        #: whether children end by themselves: as soon as they start, some time later, or only when they are told to
        self.children_end = True
        self.children_take_time = False
        #: children whose end is awaited: what each yields
        self.awaited: dict[str, Output] = {}
        self.stopped: list[str] = []
        self.writes = 0
        self.die_at, self.after_write = die_at, after_write
        self.deaths = 0
        self.index = index
        self.net_index = index(net, CATALOG)
        self.state: Execution
        self.payload = payload or {}

    # --- the server --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        request = OpenExecution(self.id, "hash", self.payload)
        self.state, decision = open_execution(self.net_index, request, self.now, self.new_id)
        self.write(decision)

    def new_id(self) -> str:
        return f"id-{next(self.ids)}"

    def write(self, decision: Decision) -> None:
        """One durable write, before or after which the process may die."""
        self.writes += 1
        dies = self.writes == self.die_at
        if dies and not self.after_write:
            raise Died
        self.log += [encode(event) for event in decision.events]
        if dies:
            raise Died
        self.net_index = decision.net_index
        self.dispatch(decision)

    def happen(self, *happened: Fact | Request) -> None:
        self.write(react(self.net_index, self.state, happened, self.now, self.new_id))

    def dispatch(self, decision: Decision) -> None:
        for order in decision.orders:
            if isinstance(order, RunPipeline):
                self.begin(order)
            elif isinstance(order, StopPipelines):
                path = parse_label(order.iteration)
                for key in [k for k in self.pipes if k[0] == order.step_run_id]:
                    if parse_label(key[1])[: len(path)] == path:
                        del self.pipes[key]
            elif isinstance(order, WakeAt):
                self.alarms.append(order.at)
            elif isinstance(order, StopChild):
                self.stopped.append(order.execution_id)
                self.await_child(order.execution_id, failed(failure("cancelled", "it was told to end")))
            elif isinstance(order, StartChild) and self.children_end:
                self.await_child(order.child["execution_id"], ok({"child": order.child["path"]}))

    def await_child(self, child: str, output: Output) -> None:
        """Have the end of a child reported once, whoever waits for it."""
        if self.children_take_time:
            self.awaited.setdefault(child, output)
        else:
            self.happen(ChildEnded(child, output))

    def events(self) -> list[Event]:
        return [decode(body) for body in self.log]

    def restart(self) -> None:
        """Everything in memory is gone; the log is not."""
        self.deaths += 1
        self.pipes.clear()
        self.alarms.clear()
        self.awaited.clear()
        self.net_index = self.index(self.net, CATALOG)
        if not self.log:
            self.start()
            return
        self.state = replay(self.id, self.events())
        self.net_index = self.net_index.of(self.state)
        if not self.state.over:
            self.dispatch(find_pending_orders(self.net_index, self.state, self.now, self.new_id))
            self.happen(Due())

    # --- the worker --------------------------------------------------------------------------------------------------

    def moment(self) -> Moment:
        return Moment(self.now, self.new_id, 0.5)

    def begin(self, order: RunPipeline) -> None:
        key = (order.step_run_id, order.iteration)
        if key in self.pipes:
            return
        functions = {"now": lambda: self.now, "uuid": self.new_id}
        step = self.net_index.steps[order.step]
        frame = Frame(
            step, {**order.scopes, **functions}, run=order.step_run_id, iteration=order.iteration, role=role_of(order)
        )
        keeper = ResultKeeper(self.shelf, self.net.playbook, step, frame)
        move = self.first(order, frame, keeper)
        if move is not None:
            self.pipes[key] = Pipe(frame, keeper, move, order.iteration, order.step_run_id, list(move.facts))

    def first(self, order: RunPipeline, frame: Frame, keeper: ResultKeeper) -> Move | None:
        """The first move of a pipeline, as the worker's runner makes it."""
        if order.gather is not None:
            frame.output = at_once(keeper.gather_list(order.gather))
        if order.undoes:
            found = at_once(recall_run(self.events()[order.undoes - 1], frame.step, self.shelf))
            assert isinstance(found, UndoneRun)
            frame.body, frame.step_input = found.output, found.scopes["input"]
            frame.scopes |= {**found.scopes, "output": found.output}
        for row in order.rows:
            at = frame.scopes["iter"]
            for _ in range(row.up):
                at = at["parent"]
            at[row.iterator] = at_once(self.shelf.rows(row.ref, row.index, row.index + 1))[0]
        if order.unfolds:
            return machine.unfold(frame)
        if order.rows and frame.step.input is not None:
            frame.step_input = frame.scopes["input"] = render(frame.step.input, frame.scopes)
        if not order.begun:
            return machine.begin(frame, self.moment())
        key = (order.step_run_id, order.iteration)
        mine = [e for e in self.events() if (e.step_run_id, e.iteration) == key and e.seq >= order.since]
        events, missing = at_once(keeper.restore_events(mine))
        resume(frame, events)
        assert missing is None
        assert at_once(keeper.restore_outputs()) is None
        if order.answer is None:
            return machine.proceed(frame, self.moment())
        if frame.recorded_start is None or frame.number != order.number:
            return None
        return self.conclude(frame, keeper, order.answer)

    def conclude(self, frame: Frame, keeper: ResultKeeper, output: Output) -> Move:
        """What follows from a task's output."""
        brought = at_once(keeper.fetch_data(output, frame.task))
        output, recorded = at_once(keeper.store_output(machine.shape_output(frame, brought, self.moment())))
        return machine.conclude(frame, output, self.moment(), recorded)

    def report(self, pipe: Pipe) -> None:
        facts, pipe.waiting = pipe.waiting, []
        if not facts:
            return
        facts = [at_once(pipe.keeper.prepare_fact(fact)) for fact in facts]
        self.happen(*facts)
        if self.random.random() < self.faults:
            self.happen(*facts)  # a duplicate must change nothing

    def step(self, key: tuple[str, Any]) -> None:
        """A pipeline makes its next move."""
        pipe = self.pipes[key]
        move = pipe.move
        if isinstance(move, Finish):
            del self.pipes[key]
            self.report(pipe)
        elif isinstance(move, Sleep):
            self.report(pipe)
            if self.now < move.until:
                self.now = move.until
            self.goes_on(pipe, machine.proceed(pipe.frame, self.moment()))
        else:
            self.task(key, pipe, move)

    def goes_on(self, pipe: Pipe, move: Move) -> None:
        pipe.move = move
        pipe.waiting += move.facts

    def task(self, key: tuple[str, Any], pipe: Pipe, move: RunTask) -> None:
        again = pipe.frame.recorded_start == (move.task_run_id, move.attempt)
        kind = KINDS[move.task.kind]
        try:
            call = call_of(move, kind, step=pipe.frame.step.name, iteration=pipe.iteration)
        except TemplateError as error:
            if not again:
                pipe.waiting.append(task_started_fact(pipe.frame, {}))
            self.goes_on(pipe, machine.advance(pipe.frame, failed(failure_of(error)), self.moment()))
            return
        suspend = getattr(KINDS.module(kind.name), "suspend", None)
        if suspend is not None:
            wait = suspend(call, self.now)
            if "child" in wait:
                wait["child"]["execution_id"] = self.new_id()
            if not again:
                pipe.waiting.append(task_started_fact(pipe.frame, {"wait": wait}))
            del self.pipes[key]
            self.report(pipe)
            return
        if not again:
            pipe.waiting.append(task_started_fact(pipe.frame, {}))
        if not kind.effect_free:
            self.report(pipe)
            if key not in self.pipes:
                return
            self.ledger.append((call.key, f"{call.step}.{call.task}"))
        output = ok() if kind.name == "noop" else self.tool(call)
        self.goes_on(pipe, self.conclude(pipe.frame, pipe.keeper, output))

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Let one thing happen; whether there was anything."""
        if self.faults and self.random.random() < self.faults / 4:
            self.restart()
        if self.signals and (not self.pipes or self.random.random() < 0.2):
            self.happen(self.signals[0])  # should the server die of it, it comes again
            self.signals.pop(0)
            return True
        if self.awaited and (not self.pipes or self.random.random() < 0.3):
            child = self.random.choice(list(self.awaited))
            self.happen(ChildEnded(child, self.awaited.pop(child)))
            return True
        if self.pipes:
            self.step(self.random.choice(list(self.pipes)))
            return True
        if self.alarms:
            at = min(self.alarms)
            self.alarms = [one for one in self.alarms if one > at]
            self.now = max(self.now, at)
            self.happen(Due())
            return True
        return False

    def run(self, most: int = 20_000) -> Execution:
        """Run to the end; dying on the way means starting again."""
        self._alive(self.start)
        return self.run_on(most)

    def go_on(self, events: Iterable[Event]) -> Execution:
        """Run to its end what begins with these events."""
        self.log = [encode(event) for event in events]
        self.id = self.events()[0].execution_id
        self._alive(self.restart)
        return self.run_on()

    def run_on(self, most: int = 20_000) -> Execution:
        """Run to the end what has started."""
        for _ in range(most):
            if self.state.over or not self._alive(self.tick):
                break
        self.check()
        return self.state

    def _alive(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except Died:
            self.die_at = None
            self.restart()
            return True

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of a log."""
        events = self.events()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert msgspec.json.encode(replay(self.id, events)) == msgspec.json.encode(self.state)
        ends = [(e.task_run_id, e.attempt) for e in events if e.name == "task.done"]
        assert len(ends) == len(set(ends)), "an attempt ended twice"
        stamps = [event.timestamp for event in events]
        assert stamps == sorted(stamps)
        if self.state.over:
            assert not self.state.runs
            assert events[-1].name == "playbook.processed"
        half = Execution(self.id)
        for event in events[: len(events) // 2]:
            apply(half, event)
        copy = msgspec.json.decode(msgspec.json.encode(half), type=Execution)
        for event in events[len(events) // 2 :]:
            apply(copy, event)
        assert msgspec.json.encode(copy) == msgspec.json.encode(self.state), "a snapshot loses something"


def outcome(state: Execution) -> dict[str, Any]:
    """What an execution came to, without times and ids."""
    return {
        "status": state.status,
        "output": state.output,
        "ctx": state.ctx,
        "error": state.error,
        "stalled": state.stalled,
        "unmatched": sorted(state.unmatched),
        "steps": {name: (info.status, info.runs) for name, info in state.steps.items()},
    }


def flaky(call: Any) -> Output:
    """Requests fail on some first attempts, always the same ones."""
    if call.kind == "http" and call.attempt == 1 and sum(call.key.encode()) % 3 == 0:
        return failed(failure("http-status", "503", retryable=True), http={"status": 503, "headers": {}})
    return ok({"n": sum(call.key.encode()) % 7, "key": call.key}, http={"status": 200, "headers": {}})

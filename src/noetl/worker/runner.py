"""Runner: drives one pipeline with real tools, and reports what happens in order.

What a task is about to do is durable before it does it, unless its kind says that doing it twice changes nothing: then
its facts wait for the next report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from noetl.errors import NoetlError, TemplateError
from noetl.expr.assign import failure_of, render
from noetl.lang.fitting import misfit
from noetl.lang.layering import restrictions, tightened
from noetl.model.events import Event, Fact
from noetl.model.kinds import ToolKind
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure, Output, Spilled, failed, failure
from noetl.model.playbook import Playbook, Step
from noetl.pipeline import facts, machine
from noetl.pipeline.frame import Frame, Moment
from noetl.pipeline.machine import Finish, Move, RunTask, Sleep
from noetl.ports import Call, World
from noetl.worker.keeping import Keeper, unreadable
from noetl.worker.render import call_of
from noetl.worker.world import LocalWorld

#: facts that may wait for a later report
_PATIENCE = 64


class Tools(Protocol):
    """The installed tools."""

    def __getitem__(self, name: str) -> ToolKind:
        """What a kind says of itself."""

    def module(self, name: str) -> Any:
        """The module that runs it."""


class Surroundings(Protocol):
    """What a runner needs from its process."""

    tools: Tools

    def moment(self) -> Moment:
        """The time now, and chance."""

    def child_id(self) -> str:
        """The id of an execution that is to be started."""

    def paused(self) -> bool:
        """Whether nothing new may start."""

    async def sleep_until(self, when: float) -> None:
        """Sleep until a time in seconds since the epoch."""

    async def report(self, facts: list[Fact]) -> None:
        """Hand over facts; returns when they are durable."""

    def post(self, facts: list[Fact]) -> None:
        """Hand over facts, without waiting."""

    def recorded(self, order: RunPipeline) -> list[Event]:
        """What the log has of the order's pipeline."""


class Runner:
    """One pipeline."""

    def __init__(
        self, order: RunPipeline, step: Step, playbook: Playbook, around: Surroundings, world: LocalWorld
    ) -> None:
        self.order = order
        self.around = around
        self.world = world
        self.playbook = playbook
        moment = around.moment()
        functions = {"uuid": moment.new_id, "now": self._now}
        self.frame = Frame(
            step,
            {**order.scopes, **functions},
            run=order.step_run_id,
            iteration=order.iteration,
            max_payload=playbook.max_payload,
        )
        self.keeper = Keeper(world.results, playbook, step, self.frame)
        self.waiting: list[Fact] = []
        #: what the log has of it, when it goes on
        self.recorded: list[Event] = []
        #: it has made its first move
        self.ready = False
        #: an output that is to be stored before it is concluded
        self.shaped: Output | None = None
        self.move: Move | None = None

    def _now(self) -> str:
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.around.moment().now, UTC).isoformat()

    def _call(self, move: RunTask, kind: ToolKind, caller: Call | None = None) -> Call:
        """What a tool is told; whoever calls it can only tighten its spec."""
        order, progress = self.order, self.frame.progress if caller is None else None
        call = call_of(move, kind, step=order.step, iteration=order.iteration, progress=progress)
        outer = restrictions(caller.spec) if caller is not None else self.world.restrict
        return replace(call, spec=tightened(call.spec, outer)) if outer else call

    def _is_held(self, move: RunTask) -> bool:
        """Whether something may be forbidden to a task."""
        return bool(self.world.restrict) or any(key in move.task.spec for key in ("network", "allow_hosts"))

    def _unable(self, move: RunTask, kind: ToolKind, call: Call) -> Output | None:
        """Why a task must not be tried: what it asks for would be left out in silence."""
        if not kind.keeps_network and (call.spec.get("network") == "off" or "allow_hosts" in call.spec):
            key = "`network: off`" if call.spec.get("network") == "off" else "`allow_hosts`"
            return failed(failure("isolation", f"{key} cannot be kept by `kind: {kind.name}`; the task was not run"))
        if move.task.auth is None:
            return None
        message = "`auth` cannot be resolved by this version: the keychain is not there yet"
        return failed(failure("credential", message))

    def sprint(self) -> bool:
        """Run as far as plain functions go; whether that was to the end. Most short pipelines need no more."""
        if not self._is_ready():
            return False
        self.ready = True
        self.move = self._told(self._first())
        for _ in range(_PATIENCE):
            if self.move is None or isinstance(self.move, Finish):
                if not all(map(self.keeper.may_go, self.waiting)):
                    return False
                if self.waiting:
                    self.around.post(self.waiting)
                return True
            output = self._plainly(self.move) if isinstance(self.move, RunTask) else None
            if output is None:
                return False
            output = machine.shaped(self.frame, output, self.around.moment())
            if not self.keeper.is_light(output):
                self.shaped = output
                return False
            self.move = self._told(machine.conclude(self.frame, output, self.around.moment()))
        return False

    async def run(self) -> None:
        """Run the rest: to the end, or to a task that waits for something that holds no worker."""
        if not self.ready:
            self.move = self._told(await self._prepared())
        elif self.shaped is not None:
            self.move = self._told(await self._kept(self.shaped))
        while self.move is not None and not isinstance(self.move, Finish):
            move = self.move
            if isinstance(move, RunTask) and self.around.paused():
                break  # it is ordered anew when that is over, and goes on behind what it has reported
            self.move = self._told(await self._sleep(move) if isinstance(move, Sleep) else await self._task(move))
        await self._report()

    def _told(self, move: Move | None) -> Move | None:
        if move is not None:
            self.waiting.extend(move.facts)
        return move

    # --- the first move ----------------------------------------------------------------------------------------------

    def _is_ready(self) -> bool:
        """Whether it can begin without reading anything from the result store."""
        order = self.order
        if order.begun:
            self.recorded = self.around.recorded(order)
        external = any("kept" in one.payload or one.payload.get("output", {}).get("external") for one in self.recorded)
        heavy_answer = order.answer is not None and not self.keeper.is_light(order.answer)
        return not (order.rows or order.gather is not None or external or heavy_answer)

    def _first(self) -> Move | None:
        order, frame = self.order, self.frame
        if not order.begun:
            return machine.begin(frame, self.around.moment())
        machine.resume(frame, self.recorded)
        if order.answer is not None:
            if frame.recorded_start is None or frame.number != order.number:
                return None  # it has been answered already
            return machine.advance(frame, order.answer, self.around.moment())
        return machine.proceed(frame, self.around.moment())

    async def _prepared(self) -> Move | None:
        """The first move of a pipeline that needs something from the result store."""
        order, frame = self.order, self.frame
        if order.gather is not None:
            return machine.close(frame, await self.keeper.gathered(order.gather))
        problem = await self._rows()
        if problem is not None:
            return machine.spoil(frame, problem)
        if not order.begun:
            return machine.begin(frame, self.around.moment())
        machine.resume(frame, await self.keeper.refilled(self.recorded))
        await self.keeper.remembered()
        if order.answer is None:
            return machine.proceed(frame, self.around.moment())
        if frame.recorded_start is None or frame.number != order.number:
            return None  # it has been answered already
        return await self._conclude(order.answer)

    async def _rows(self) -> Failure | None:
        """Read the elements of loops over references, and evaluate the `input` that may read them."""
        frame, step = self.frame, self.frame.step
        try:
            for row in self.order.rows:
                at = frame.scopes["iter"]
                for _ in range(row.up):
                    at = at["parent"]
                at[row.iterator] = await self.world.row(row.ref, row.index)
            if self.order.rows and step.input is not None:
                frame.step_input = frame.scopes["input"] = render(step.input, frame.scopes)
                return misfit(step.spec, "input", frame.step_input, f"step `{step.name}`")
        except TemplateError as error:
            return failure_of(error)
        except NoetlError as error:
            return unreadable(error)
        return None

    async def _sleep(self, move: Sleep) -> Move:
        await self._report()
        await self.around.sleep_until(move.until)
        return machine.proceed(self.frame, self.around.moment())

    async def _conclude(self, output: Output) -> Move:
        """What follows from a task's output."""
        brought = await self.keeper.brought(output)
        return await self._kept(machine.shaped(self.frame, brought, self.around.moment()))

    async def _kept(self, shaped: Output) -> Move:
        output, recorded = await self.keeper.kept(shaped)
        return machine.conclude(self.frame, output, self.around.moment(), recorded)

    async def _report(self) -> None:
        facts, self.waiting = self.waiting, []
        if facts:
            await self.around.report([await self.keeper.written_down(fact) for fact in facts])

    async def _progress(self, said: Mapping[str, Any]) -> None:
        self.frame.progress = dict(said)
        self.waiting.append(facts.progress_fact(self.frame, self.frame.progress))
        await self._report()

    # --- one task ----------------------------------------------------------------------------------------------------

    def _plainly(self, move: RunTask) -> Output | None:
        """The output of a task whose tool is a plain function without effect; None: it is none."""
        kind = self.around.tools[move.task.kind]
        run = getattr(self.around.tools.module(kind.name), "run", None)
        if (
            not kind.effect_free
            or run is None
            or move.task.auth is not None
            or iscoroutinefunction(run)
            or "timeout" in move.task.spec
            or (not kind.keeps_network and self._is_held(move))
        ):
            return None
        if self.frame.recorded_start != (move.task_run_id, move.attempt):
            self.waiting.append(facts.started_fact(self.frame, {}))
        try:
            output: Output = run(self._call(move, kind), self.world)
        except TemplateError as error:
            return failed(failure_of(error))
        except Exception as error:  # noqa: BLE001  a tool that breaks is a failed task, and never a run that hangs
            return _broke(error)
        return output

    async def _task(self, move: RunTask) -> Move | None:
        """Run a task; None when it waits for something."""
        again = self.frame.recorded_start == (move.task_run_id, move.attempt)
        kind = self.around.tools[move.task.kind]
        try:
            call = self._call(move, kind)
        except TemplateError as error:
            return await self._ended(failed(failure_of(error)), again=again)
        unable = self._unable(move, kind, call)
        if unable is not None:
            return await self._ended(unable, again=again)
        suspend = getattr(self.around.tools.module(kind.name), "suspend", None)
        if suspend is not None:
            return await self._suspend(suspend(call, self.around.moment().now), call, again=again)
        if not again:
            self.waiting.append(facts.started_fact(self.frame, {}))
        if not kind.effect_free or len(self.waiting) > _PATIENCE:
            await self._report()
        return await self._conclude(await self._tool(kind, call))

    async def _ended(self, output: Output, *, again: bool) -> Move:
        """A task that ended before it started."""
        if not again:
            self.waiting.append(facts.started_fact(self.frame, {}))
        return machine.advance(self.frame, output, self.around.moment())

    async def _suspend(self, wait: dict[str, Any], call: Call, *, again: bool) -> Move | None:
        if "kind" in wait:
            return await self._ended(failed(wait), again=again)
        if "child" in wait:
            wait["child"]["execution_id"] = self.around.child_id()
            if forbidden := restrictions(call.spec):
                wait["child"]["restrict"] = forbidden
        if not again:
            self.waiting.append(facts.started_fact(self.frame, {"wait": wait}))
        await self._report()
        return None

    async def _tool(self, kind: ToolKind, call: Call) -> Output:
        if kind.name == "workbook":
            return _within(await self._workbook(call), call.spec.get("limits.output_bytes"))
        run: Callable[[Call, World], Awaitable[Output] | Output] | None
        run = getattr(self.around.tools.module(kind.name), "run", None)
        if run is None:
            return failed(failure("fail", f"`kind: {kind.name}` cannot be run by this version"))
        timeout = call.spec.get("timeout")
        self.world.listeners[call.key] = self._progress
        try:
            async with asyncio.timeout(None if timeout is None else float(timeout)):
                made = run(call, self.world)
                output: Output = await made if isawaitable(made) else made
                return _within(output, call.spec.get("limits.output_bytes"))
        except TimeoutError:
            layer = self.frame.task.spec.get("timeout")
            named = "spec.timeout" if layer is None or layer.origin == "task.spec" else _key_of(layer.origin)
            message = f"task `{call.task}` did not end within {float(timeout or 0):g} s (`{named}`)"
            return failed(failure("timeout", message, retryable=True))
        except Exception as error:  # noqa: BLE001  a tool that breaks is a failed task, and never a run that hangs
            return _broke(error)
        finally:
            del self.world.listeners[call.key]

    # --- the workbook ------------------------------------------------------------------------------------------------

    async def _workbook(self, call: Call) -> Output:
        """A task of the workbook: a pipeline of its own that sees nothing of its caller but `ctx` and its input."""
        tasks = self.playbook.workbook[str(call.config["task"])]
        scopes = {key: call.scopes[key] for key in ("workload", "ctx", "execution_id", "now", "uuid")}
        scopes |= {"input": dict(call.own_input), "step": {}}
        step = Step(name=call.step, at=tasks[0].at, tasks=tasks)
        frame = Frame(step, scopes, run=call.key.partition("/")[2], iteration=None)
        move = machine.begin(frame, self.around.moment())
        while not isinstance(move, Finish):
            if isinstance(move, Sleep):
                await self.around.sleep_until(move.until)
                move = machine.proceed(frame, self.around.moment())
                continue
            move = machine.advance(frame, await self._workbook_task(move, call), self.around.moment())
        output: Output = move.facts[-1].payload["output"]
        return output

    async def _workbook_task(self, move: RunTask, outer: Call) -> Output:
        kind = self.around.tools[move.task.kind]
        try:
            call = self._call(move, kind, outer)
        except TemplateError as error:
            return failed(failure_of(error))
        unable = self._unable(move, kind, call)
        if unable is not None:
            return unable
        if getattr(self.around.tools.module(kind.name), "suspend", None) is not None:
            return failed(failure("fail", f"`kind: {kind.name}` cannot stand in a workbook: call it from the step"))
        output = await self._tool(kind, replace(call, task=f"{outer.task}.{call.task}"))
        if isinstance(output["data"], Spilled):
            output = {**output, "data": await self.world.results.load(output["data"])}
        return output


def _within(output: Output, limit: float | None) -> Output:
    """An output, unless it has more bytes than it may have; tools that count themselves never get that far."""
    size = 0 if limit is None or output["data"] is None else len(msgspec.json.encode(output["data"]))
    if limit is None or size <= limit:
        return output
    return failed(failure("limit", f"the result has {size:,} bytes as JSON; the limit is {int(limit):,}"))


def _broke(error: Exception) -> Output:
    return failed(failure("tool-crashed", f"the tool broke: {type(error).__name__}: {error}"))


def _key_of(origin: str) -> str:
    """Where a timeout that a task has from elsewhere is written."""
    return origin if ".timeouts." in origin else f"{origin}.timeout"

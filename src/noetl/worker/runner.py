"""Runner: drives one pipeline with real tools, and reports what happens in order.

What a task is about to do is durable before it does it, unless its kind says that doing it twice changes nothing: then
its facts wait for the next report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol

from msgspec.structs import replace

from noetl.errors import TemplateError
from noetl.expr.assign import failure_of
from noetl.model.events import Event, Fact
from noetl.model.kinds import ToolKind
from noetl.model.orders import RunPipeline
from noetl.model.output import Output, failed, failure
from noetl.model.playbook import Playbook, Step, Task
from noetl.pipeline import machine
from noetl.pipeline.frame import Frame, Moment
from noetl.pipeline.machine import Finish, Move, RunTask, Sleep
from noetl.pipeline.replay import Replay
from noetl.ports import Call, NoCredential, World
from noetl.worker import auth
from noetl.worker.render import call_of
from noetl.worker.world import LocalWorld

#: facts that may wait for a later report
_PATIENCE = 64
_NO_SECRETS_IN_PAYLOADS = (
    "the `input` of a child playbook is recorded, and this one holds a secret: "
    "declare the credential in the child's own `keychain` instead"
)


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
        self.keychain = world.keychain
        scopes = {**order.scopes, **functions, "keychain": self.keychain.scope}
        self.frame = Frame(step, scopes, run=order.step_run_id, iteration=order.iteration)
        self.waiting: list[Fact] = []
        self.move: Move | None = None
        #: the way back to where the pipeline was, of one that has begun before
        self.replay: Replay | None = None
        #: the credentials that templates of the step read
        self.reading = auth.read_by(step, playbook) if self.keychain.declared else frozenset()

    def _now(self) -> str:
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.around.moment().now, UTC).isoformat()

    def sprint(self) -> bool:
        """Run as far as plain functions go; whether that was to the end. Most short pipelines need no more."""
        if self.order.begun:
            self.replay = Replay(self.frame, self.around.recorded(self.order))
        if self.keychain.declared or not (self.replay is None or self.replay.done):
            return False  # credentials have to be looked up first, or a task has to run again
        self.move = self._told(self._first())
        for _ in range(_PATIENCE):
            if self.move is None or isinstance(self.move, Finish):
                if self.waiting:
                    self.around.post(self.waiting)
                return True
            output = self._plainly(self.move) if isinstance(self.move, RunTask) else None
            if output is None:
                return False
            self.move = self._told(machine.advance(self.frame, output, self.around.moment()))
        return False

    async def run(self) -> None:
        """Run the rest: to the end, or to a task that waits for something that holds no worker."""
        if self.move is None:
            self.move = self._told(await self._set_out())
        while self.move is not None and not isinstance(self.move, Finish):
            move = self.move
            self.move = self._told(await self._sleep(move) if isinstance(move, Sleep) else await self._task(move))
        await self._report()

    async def _set_out(self) -> Move | None:
        """The first move of a pipeline that needs credentials, or values that were redacted when they were recorded."""
        await self._look_up()
        while self.replay is not None and not self.replay.done:
            if self._suspends(self.frame.task.kind):
                self.replay.keep()  # what it waited for has come, and comes only once
                continue
            move = self.replay.next()
            lost = self.replay.take(await self._again(move)) if isinstance(move, RunTask) else move
            if lost is not None:
                return machine.lose(self.frame, lost, self.around.moment())
        return self._first()

    async def _again(self, move: RunTask) -> Output:
        """Run a task that has run before, for its output alone."""
        kind = self.around.tools[move.task.kind]
        try:
            call = await auth.authorized(self._call(move, kind), move.task, self.keychain)
        except TemplateError as error:
            return failed(failure_of(error))
        except NoCredential as error:
            return failed(auth.failure_of(error))
        return await self._tool(kind, call, move.task)

    def _suspends(self, kind: str) -> Callable[[Call, float], dict[str, Any]] | None:
        """How a kind says what it waits for; None: it is one that runs."""
        return getattr(self.around.tools.module(kind), "suspend", None)

    async def _look_up(self) -> None:
        """Have the credentials that the next task may read; or know why there are none."""
        try:
            await self.keychain.ready(self.reading)
        except NoCredential as error:
            self.frame.problem = auth.failure_of(error)
        else:
            self.frame.problem = None

    async def _advance(self, output: Output) -> Move:
        if self.keychain.declared:
            await self._look_up()
        return machine.advance(self.frame, output, self.around.moment())

    def _told(self, move: Move | None) -> Move | None:
        if move is not None:
            self.waiting.extend(move.facts)
        return move

    def _first(self) -> Move | None:
        order, frame = self.order, self.frame
        if not order.begun:
            return machine.begin(frame, self.around.moment())
        if order.answer is not None:
            if frame.recorded_start is None or frame.number != order.number:
                return None  # it has been answered already
            return machine.advance(frame, order.answer, self.around.moment())
        return machine.proceed(frame, self.around.moment())

    async def _sleep(self, move: Sleep) -> Move:
        await self._report()
        await self.around.sleep_until(move.until)
        if self.keychain.declared:
            await self._look_up()
        return machine.proceed(self.frame, self.around.moment())

    async def _report(self) -> None:
        facts, self.waiting = self.waiting, []
        if facts:
            await self.around.report(facts)

    async def _progress(self, said: Mapping[str, Any]) -> None:
        self.frame.progress = dict(said)
        self.waiting.append(machine.progress_fact(self.frame, self.frame.progress))
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
        ):
            return None
        if self.frame.recorded_start != (move.task_run_id, move.attempt):
            self.waiting.append(machine.started_fact(self.frame, {}))
        try:
            output: Output = run(self._call(move, kind), self.world)
        except TemplateError as error:
            return failed(failure_of(error))
        except Exception as error:  # noqa: BLE001  a tool that breaks is a failed task, and never a run that hangs
            return _broke(error)
        return output

    def _call(self, move: RunTask, kind: ToolKind) -> Call:
        order, progress = self.order, self.frame.progress
        return call_of(move, kind, step=order.step, iteration=order.iteration, progress=progress)

    async def _task(self, move: RunTask) -> Move | None:
        """Run a task; None when it waits for something."""
        again = self.frame.recorded_start == (move.task_run_id, move.attempt)
        kind = self.around.tools[move.task.kind]
        try:
            call = await auth.authorized(self._call(move, kind), move.task, self.keychain)
        except TemplateError as error:
            return await self._ended(failed(failure_of(error)), again=again)
        except NoCredential as error:
            return await self._ended(failed(auth.failure_of(error)), again=again)
        suspend = self._suspends(kind.name)
        if suspend is not None:
            return await self._suspend(suspend(call, self.around.moment().now), again=again)
        if not again:
            self.waiting.append(machine.started_fact(self.frame, {}))
        if not kind.effect_free or len(self.waiting) > _PATIENCE:
            await self._report()
        return await self._advance(await self._tool(kind, call, move.task))

    async def _ended(self, output: Output, *, again: bool) -> Move:
        """A task that ended before it started."""
        if not again:
            self.waiting.append(machine.started_fact(self.frame, {}))
        return await self._advance(output)

    async def _suspend(self, wait: dict[str, Any], *, again: bool) -> Move | None:
        if "kind" in wait:
            return await self._ended(failed(wait), again=again)
        if "child" in wait:
            if self.keychain.redactor.clean(wait["child"]["payload"])[1]:
                return await self._ended(failed(failure("credential", _NO_SECRETS_IN_PAYLOADS)), again=again)
            wait["child"]["execution_id"] = self.around.child_id()
        if not again:
            self.waiting.append(machine.started_fact(self.frame, {"wait": wait}))
        await self._report()
        return None

    async def _tool(self, kind: ToolKind, call: Call, task: Task) -> Output:
        """Run the tool; once more with a new token if the one it had was refused."""
        output = await self._once(kind, call)
        try:
            renewed = await auth.with_new_token(call, task, output, self.keychain)
        except NoCredential as error:
            return failed(auth.failure_of(error))
        return output if renewed is None else await self._once(kind, renewed)

    async def _once(self, kind: ToolKind, call: Call) -> Output:
        if kind.name == "workbook":
            return await self._workbook(call)
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
                return output
        except TimeoutError:
            message = f"task `{call.task}` did not end within {float(timeout or 0):g} s (`spec.timeout`)"
            return failed(failure("timeout", message, retryable=True))
        except Exception as error:  # noqa: BLE001  a tool that breaks is a failed task, and never a run that hangs
            return _broke(error)
        finally:
            del self.world.listeners[call.key]
            self.world.wrote(call)

    # --- the workbook ------------------------------------------------------------------------------------------------

    async def _workbook(self, call: Call) -> Output:
        """A task of the workbook: a pipeline of its own that sees nothing of its caller but `ctx` and its input."""
        tasks = self.playbook.workbook[str(call.config["task"])]
        scopes = {key: call.scopes[key] for key in ("workload", "keychain", "ctx", "execution_id", "now", "uuid")}
        scopes |= {"input": dict(call.own_input), "step": {}}
        step = Step(name=call.step, at=tasks[0].at, tasks=tasks)
        frame = Frame(step, scopes, run=call.key.partition("/")[2], iteration=None)
        move = machine.begin(frame, self.around.moment())
        while not isinstance(move, Finish):
            if isinstance(move, Sleep):
                await self.around.sleep_until(move.until)
                move = machine.proceed(frame, self.around.moment())
                continue
            inner = await self._workbook_task(move, call)
            await self._look_up()
            move = machine.advance(frame, inner, self.around.moment())
        output: Output = move.facts[-1].payload["output"]
        return output

    async def _workbook_task(self, move: RunTask, outer: Call) -> Output:
        kind = self.around.tools[move.task.kind]
        try:
            call = call_of(move, kind, step=outer.step, iteration=outer.iteration)
            call = await auth.authorized(call, move.task, self.keychain)
        except TemplateError as error:
            return failed(failure_of(error))
        except NoCredential as error:
            return failed(auth.failure_of(error))
        if self._suspends(kind.name) is not None:
            return failed(failure("fail", f"`kind: {kind.name}` cannot stand in a workbook: call it from the step"))
        return await self._tool(kind, replace(call, task=f"{outer.task}.{call.task}"), move.task)


def _broke(error: Exception) -> Output:
    return failed(failure("tool-crashed", f"the tool broke: {type(error).__name__}: {error}"))

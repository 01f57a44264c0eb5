"""Runner: drives one pipeline with real tools, and reports what happens in order.

What a task is about to do is durable before it does it, unless its kind says that doing it twice changes nothing: then
its facts wait for the next report.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any

from msgspec.structs import replace

from noetl.errors import NoetlError, TemplateError
from noetl.expr import failure_of, render
from noetl.lang import restrictions, schema_failure
from noetl.model.events import Event, Fact
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure, Output, Spilled, failed, failure
from noetl.model.playbook import Playbook, Step
from noetl.pipeline import (
    OUTPUT,
    WHOLE,
    Finish,
    Frame,
    Move,
    Replay,
    RunTask,
    Sleep,
    machine,
    resume,
    role_of,
    task_progress_fact,
    task_started_fact,
)
from noetl.ports import Call
from noetl.worker.payloads import ResultKeeper, discard, unreadable_failure
from noetl.worker.tool_caller import ToolCaller
from noetl.worker.undo_record import UndoneRun, recall_run
from noetl.worker.world import LocalWorld, RunnerContext

#: facts that may wait for a later report, and moves made before other pipelines have a turn
_MOST_WAITING, _MOST_SYNC_MOVES = 64, 64
_is_coroutine = lru_cache(iscoroutinefunction)
_NO_SECRETS_IN_PAYLOADS = (
    "the `input` of a child playbook is recorded, and this one holds a secret: "
    "declare the credential in the child's own `keychain` instead"
)


class PipelineRunner:
    """One pipeline."""

    def __init__(
        self, order: RunPipeline, step: Step, playbook: Playbook, context: RunnerContext, world: LocalWorld
    ) -> None:
        self.order = order
        self.context = context
        self.world = world
        self.playbook = playbook
        functions = {"uuid": self._new_id, "now": self._now}
        self.keychain = world.keychain
        self.frame = Frame(
            step,
            {**order.scopes, **functions, "keychain": self.keychain.scope},
            run=order.step_run_id,
            iteration=order.iteration,
            max_payload=playbook.max_payload,
            role=WHOLE if order.gather is None and order.closing is None and not order.undoes else role_of(order),
        )
        self.keeper = ResultKeeper(world.results, playbook, step, self.frame)
        self.caller = ToolCaller(order, step, playbook, context, world, self._progress)
        self.waiting: list[Fact] = []
        #: what the log has of it, when it goes on
        self.recorded: list[Event] = []
        #: the elements of loops over references that are at hand
        self.rows: list[tuple[Any] | None] = []
        #: it has made its first move
        self.ready = False
        #: an output that is to be stored before it is concluded
        self.shaped: Output | None = None
        self.move: Move | None = None

    def _new_id(self) -> str:
        return self.context.moment().new_id()

    def _now(self) -> str:
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.context.moment().now, UTC).isoformat()

    def run_sync(self) -> bool:
        """Run as far as plain functions go; whether that was to the end. Most short pipelines need no more."""
        if not self._is_ready():
            return False
        self.ready = True
        self.move = self._collect_facts(self._first())
        for _ in range(_MOST_SYNC_MOVES):
            if self.move is None or isinstance(self.move, Finish):
                if not all(map(self.keeper.may_go, self.waiting)):
                    return False
                if self.waiting:
                    self.context.post(self.waiting)
                return True
            output = self._run_plain(self.move) if isinstance(self.move, RunTask) else None
            if output is None:
                return False
            moment = self.context.moment()
            output = machine.shape_output(self.frame, output, moment)
            if not self.keeper.is_light(output):
                self.shaped = output
                return False
            self.move = self._collect_facts(machine.conclude(self.frame, output, moment))
        return False

    async def run(self) -> None:
        """Run the rest: to the end, or to a task that waits for something that holds no worker."""
        if not self.ready:
            self.move = self._collect_facts(await self._prepare())
        elif self.shaped is not None:
            self.move = self._collect_facts(await self._store_and_conclude(self.shaped))
        while self.move is not None and not isinstance(self.move, Finish):
            move = self.move
            if isinstance(move, RunTask) and self.context.is_paused():
                break  # it is ordered anew when that is over, and goes on behind what it has reported
            self.move = self._collect_facts(
                await self._sleep(move) if isinstance(move, Sleep) else await self._task(move)
            )
        await self._report(last=True)

    def _collect_facts(self, move: Move | None) -> Move | None:
        if move is not None:
            self.waiting.extend(move.facts)
        return move

    # --- the first move ----------------------------------------------------------------------------------------------

    def _is_ready(self) -> bool:
        """Whether it can begin at once: nothing is to be read from the result store, and no credential looked up."""
        order = self.order
        if order.begun:
            self.recorded = self.context.read_recorded(order)
        elsewhere = bool(self.recorded) and any(
            "kept" in one.payload or "redacted" in one.payload or one.payload.get("output", {}).get("external")
            for one in self.recorded
        )
        heavy_answer = order.answer is not None and not self.keeper.is_light(order.answer)
        if order.gather is not None or order.undoes or elsewhere or heavy_answer or self.keychain.declared:
            return False
        if order.rows:
            self.rows = [self.world.row_at_hand(row.ref, row.index) for row in order.rows]
        return None not in self.rows

    def _first(self) -> Move | None:
        order, frame = self.order, self.frame
        problem = self._take([found[0] for found in self.rows if found is not None]) if self.rows else None
        if order.unfolds:
            return self._unfold(problem)
        if problem is not None:
            return machine.abort(frame, problem, self.context.moment())
        if not order.begun:
            return machine.begin(frame, self.context.moment())
        resume(frame, self.recorded)
        if order.answer is not None:
            if frame.recorded_start is None or frame.number != order.number:
                return None  # it has been answered already
            return machine.advance(frame, order.answer, self.context.moment())
        return machine.proceed(frame, self.context.moment())

    async def _prepare(self) -> Move | None:
        """The first move of a pipeline that needs credentials, or something that the log does not have."""
        order, frame = self.order, self.frame
        if order.gather is not None:
            self._take_list(await self.keeper.gather_list(order.gather))
        await self._look_up()
        problem = await (self._recall() if order.undoes else self._rows())
        if order.unfolds:
            return self._unfold(problem)
        if order.begun:
            problem = await self._replay_recorded(problem)
        if problem is not None:
            return machine.abort(frame, problem, self.context.moment())
        if not order.begun:
            return machine.begin(frame, self.context.moment())
        if order.answer is None:
            return machine.proceed(frame, self.context.moment())
        if frame.recorded_start is None or frame.number != order.number:
            return None  # it has been answered already
        return await self._conclude(order.answer)

    def _unfold(self, problem: Failure | None) -> Move:
        """Read what the loop inside of this iteration goes over."""
        return machine.unfold(self.frame) if problem is None else machine.fail_unfolding(self.frame, problem)

    async def _replay_recorded(self, problem: Failure | None) -> Failure | None:
        """Bring the frame to where the log ends; tasks whose values were redacted there run again on the way."""
        events, missing = await self.keeper.restore_events(self.recorded)
        replay, problem = Replay(self.frame, events), problem or missing
        while not replay.done:
            # What a task waited for has come, and comes only once; with a problem nothing runs any more.
            if problem is not None or self.caller.suspends(self.frame.task.kind) or self._is_enough(replay.recorded):
                replay.keep()
                continue
            problem = await self.keeper.restore_outputs()
            if problem is None:
                problem = await self._rerun_task(replay)
        if self.frame.failure is not None:
            return None  # it had failed already, and says why itself
        return problem or await self.keeper.restore_outputs()

    def _is_enough(self, recorded: Event) -> bool:
        """Whether nobody is going to see what was redacted of the end of a task: its data alone, which nobody reads."""
        stored = bool(recorded.payload["output"].get("external")) and recorded.payload["redacted"] == [OUTPUT]
        return stored and self.keeper.spill(self.frame.task) is not None

    async def _rerun_task(self, replay: Replay) -> Failure | None:
        """Run a task that has run before, for its output alone."""
        move = replay.next()
        if not isinstance(move, RunTask):
            return move
        call = await self.caller.ready(move, None)
        if not isinstance(call, Call):
            return replay.take(call)
        call = replace(call, spill=self.keeper.spill(move.task))
        output = await self._shape(await self.caller.run(call, move.task))
        if isinstance(output["data"], Spilled):  # nobody reads it: what was recorded of it will do
            discard(output)
            recorded = replay.recorded.payload["output"]
            output = {**output, "data": recorded["data"], "external": bool(recorded.get("external"))}
        return replay.take(output)

    def _take_list(self, output: Output) -> None:
        """Take the list that a loop has made as what the body yields, or know why there is none."""
        if output["error"] is None:
            self.frame.output = output
        else:
            self.frame.scopes["output"] = output
            self.frame.failure = output["error"]

    async def _recall(self) -> Failure | None:
        """Put the run in sight that is to be undone: its end is the first of what was recorded."""
        record, *self.recorded = self.recorded
        found = await recall_run(record, self.frame.step, self.world.results)
        if not isinstance(found, UndoneRun):
            return found
        self.frame.body = found.output
        self.frame.step_input = found.scopes["input"]
        self.frame.scopes |= {**found.scopes, "output": found.output}
        return None

    async def _look_up(self) -> None:
        """Have the credentials that the next task may read, or know why it cannot start."""
        self.frame.problem = await self.caller.problem()

    async def _rows(self) -> Failure | None:
        """Read the elements of loops over references."""
        try:
            return self._take([await self.world.row(row.ref, row.index) for row in self.order.rows])
        except NoetlError as error:
            return unreadable_failure(error)

    def _take(self, rows: list[Any]) -> Failure | None:
        """Put the elements of loops over references in sight, and evaluate the `input` that may read them."""
        frame, step = self.frame, self.frame.step
        for row, value in zip(self.order.rows, rows, strict=True):
            at = frame.scopes["iter"]
            for _ in range(row.up):
                at = at["parent"]
            at[row.iterator] = value
        if not rows or step.input is None or self.order.unfolds:
            return None
        try:
            frame.step_input = frame.scopes["input"] = render(step.input, frame.scopes)
        except TemplateError as error:
            return failure_of(error)
        return schema_failure(step.spec, "input", frame.step_input, f"step `{step.name}`")

    async def _sleep(self, move: Sleep) -> Move:
        """Wait, once the decision to do so is durable; after a kill, `pipeline.replay` waits for what is left."""
        await self._report()
        await self.context.sleep_until(move.until)
        await self._look_up()
        return machine.proceed(self.frame, self.context.moment())

    async def _conclude(self, output: Output) -> Move:
        """What follows from a task's output."""
        return await self._store_and_conclude(await self._shape(output))

    async def _shape(self, output: Output) -> Output:
        """A task's output as its `output:` makes it; a file that it was left in is gone if that does not want it."""
        try:
            brought = await self.keeper.fetch_data(output, self.frame.task)
            shaped = machine.shape_output(self.frame, brought, self.context.moment())
        except BaseException:
            discard(output)
            raise
        if shaped["data"] is not output["data"]:
            discard(output)
        return shaped

    async def _store_and_conclude(self, shaped: Output) -> Move:
        try:
            output, recorded = await self.keeper.store_output(shaped)
        except BaseException:
            discard(shaped)
            raise
        await self._look_up()
        return machine.conclude(self.frame, output, self.context.moment(), recorded)

    async def _report(self, *, last: bool = False) -> None:
        facts, self.waiting = self.waiting, []
        if facts:
            await self.context.report([await self.keeper.prepare_fact(fact) for fact in facts], last=last)

    async def _progress(self, said: Mapping[str, Any]) -> None:
        self.frame.progress = dict(said)
        self.waiting.append(task_progress_fact(self.frame, self.frame.progress))
        await self._report()

    # --- one task ----------------------------------------------------------------------------------------------------

    def _run_plain(self, move: RunTask) -> Output | None:
        """The output of a task whose tool is a plain function without effect; None: it is none."""
        kind = self.context.tools[move.task.kind]
        run = getattr(self.context.tools.module(kind.name), "run", None)
        if (
            not kind.effect_free
            or run is None
            or move.task.auth is not None
            or _is_coroutine(run)
            or "timeout" in move.task.spec
            or (not kind.keeps_network and self.caller.is_held(move.task))
        ):
            return None
        if self.frame.recorded_start != (move.task_run_id, move.attempt):
            self.waiting.append(task_started_fact(self.frame, {}))
        try:
            call = self.caller.call(move, self.frame.progress)
        except TemplateError as error:
            return failed(failure_of(error))
        return self.caller.run_plain(run, call)

    async def _task(self, move: RunTask) -> Move | None:
        """Run a task; None when it waits for something."""
        again = self.frame.recorded_start == (move.task_run_id, move.attempt)
        kind = self.context.tools[move.task.kind]
        call = await self.caller.ready(move, self.frame.progress)
        if not isinstance(call, Call):
            return await self._end_unstarted(call, again=again)
        call = replace(call, spill=self.keeper.spill(move.task))
        suspend = self.caller.suspends(kind.name)
        if suspend is not None:
            wait = self.caller.suspend(suspend, call, self.context.moment().now)
            return await self._suspend(wait, call, again=again)
        if not again:
            self.waiting.append(task_started_fact(self.frame, {}))
        if not kind.effect_free or len(self.waiting) > _MOST_WAITING:
            await self._report()
        return await self._conclude(await self.caller.run(call, move.task))

    async def _end_unstarted(self, output: Output, *, again: bool) -> Move:
        """A task that ended before it started."""
        if not again:
            self.waiting.append(task_started_fact(self.frame, {}))
        await self._look_up()
        return machine.advance(self.frame, output, self.context.moment())

    async def _suspend(self, wait: dict[str, Any], call: Call, *, again: bool) -> Move | None:
        if "kind" in wait:
            return await self._end_unstarted(failed(wait), again=again)
        if "child" in wait:
            if self.keychain.redactor.clean(wait["child"]["payload"])[1]:
                return await self._end_unstarted(failed(failure("credential", _NO_SECRETS_IN_PAYLOADS)), again=again)
            wait["child"]["execution_id"] = self.context.child_id()
            if forbidden := restrictions(call.spec):
                wait["child"]["restrict"] = forbidden
        if not again:
            self.waiting.append(task_started_fact(self.frame, {"wait": wait}))
        await self._report(last=True)
        return None

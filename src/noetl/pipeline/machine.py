"""begin, advance, proceed: a pipeline from task to task.

    begin ──► RunTask ──(output)──► advance ──► RunTask | Sleep | Finish

Every move carries the facts that must be recorded with it. Facts that a move makes before an effect are to be durable
before the effect; that is the driver's duty. What was recorded is enough to stand there again: see `pipeline.replay`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.errors import TemplateError
from noetl.expr import failure_of, keep_undo_scopes, loop_items, patch_of, render
from noetl.lang import schema_failure
from noetl.model.events import Fact
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.model.playbook import Directive, Task
from noetl.model.scope import Patch, combine_patches
from noetl.model.state import parse_label
from noetl.pipeline.frame import (
    BEFORE,
    BODY,
    FINALLY,
    LOOP,
    WHOLE,
    Frame,
    Moment,
    pipeline_fact,
    task_done_fact,
    task_started_fact,
)

# How long to wait before the next attempt.


#: no retry waits longer than a day, whatever it asks for
LONGEST = 86_400.0


def delay_before(attempt: int, *, backoff: str, delay: float, max_delay: float, chance: float | None = None) -> float:
    """Seconds before attempt `attempt + 1`, after `attempt` failed ones; `chance` (0…1) spreads it where asked for."""
    if backoff == "linear":
        delay = delay * attempt
    elif backoff == "exponential":
        delay = delay * 2.0 ** min(attempt - 1, 60)
    wait = max(0.0, min(delay, max_delay, LONGEST))
    return wait if chance is None else wait * (0.5 + chance / 2)


# The first rule that matches an output, as a directive with its numbers.


_CONTINUE, _FAIL = Directive(do="continue"), Directive(do="fail")


class ChosenDirective(msgspec.Struct, frozen=True):
    """A directive and where it came from."""

    directive: Directive
    #: the number of the rule, from 0; None: no rule matched
    rule: int | None


def choose(task: Task, scopes: dict[str, Any], *, good: bool) -> ChosenDirective:
    """What a task's policy says to the output in the scopes."""
    if task.policy is None:
        return ChosenDirective(_CONTINUE if good else _FAIL, None)
    for number, rule in enumerate(task.policy.rules):
        if rule.when is None or rule.when.evaluate(scopes):
            return ChosenDirective(rule.then, number)
    return ChosenDirective(_FAIL if not good and task.policy.on_unmatched == "fail" else _CONTINUE, None)


def evaluate_number(value: Any, scopes: dict[str, Any], what: str) -> float:
    """A number of a directive, which may be a template."""
    found = render(value, scopes)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise TemplateError(f"`{what}` must be a number, not {found!r}")
    return float(found)


class RunTask(msgspec.Struct, frozen=True):
    """Run the task at which the frame stands."""

    task: Task
    scopes: dict[str, Any]
    #: the evaluated `input`, laid over the step's
    input: dict[str, Any]
    #: the task's own, without the step's
    own_input: dict[str, Any]
    task_run_id: str
    attempt: int
    facts: tuple[Fact, ...]


class Sleep(msgspec.Struct, frozen=True):
    """Nothing to do before a time; then ask `proceed`."""

    until: float
    facts: tuple[Fact, ...]


class Finish(msgspec.Struct, frozen=True):
    """The pipeline has ended."""

    facts: tuple[Fact, ...]


Move = RunTask | Sleep | Finish


class _Next(msgspec.Struct, frozen=True):
    """The task at which the frame stands comes next."""

    facts: tuple[Fact, ...]


def begin(frame: Frame, moment: Moment) -> Move:
    """The first move."""
    begins = frame.iteration is None and frame.role is WHOLE
    facts = [pipeline_fact(frame, "step.started", {}, status="in_progress")] if begins else []
    if frame.first == frame.stop:  # without tasks, or of a loop whose list is there
        return _go_on(frame, _end_empty(frame, facts), moment)
    if not frame.sections:
        frame.visit(0)
    return _run(frame, facts, moment)


def _end_empty(frame: Frame, facts: list[Fact]) -> Finish | _Next:
    """The end of a body without tasks; that of a loop may have failed."""
    problem, frame.failure = frame.failure, None
    return _finish(frame, facts) if problem is None else _fail(frame, problem, facts)


def unfold(frame: Frame) -> Finish:
    """Say what the loop inside of an iteration goes over, or why that cannot be told."""
    declared = frame.step.loop
    for _ in parse_label(frame.iteration):
        declared = declared.inner if declared is not None else None
    assert declared is not None
    try:
        payload = {"items": loop_items(declared.items, frame.scopes), "mode": declared.mode}
    except TemplateError as error:
        return fail_unfolding(frame, failure_of(error))
    return Finish((pipeline_fact(frame, "loop.started", payload, status="in_progress"),))


def fail_unfolding(frame: Frame, problem: Failure) -> Finish:
    """The end of an iteration whose inner loop cannot begin."""
    payload = {"error": problem, "stop": frame.step.failure_mode != "best_effort"}
    return Finish((pipeline_fact(frame, "loop.iteration.failed", payload, status="error"),))


def abort(frame: Frame, problem: Failure, moment: Moment) -> Move:
    """The end of a pipeline that could not begin, or go on; an attempt that was under way ends with it."""
    facts = []
    frame.step_back()
    if frame.recorded_start is not None:
        facts.append(task_done_fact(frame, {"output": failed(problem), "do": "fail", "error": problem}))
        frame.recorded_start = None
    return _go_on(frame, _fail(frame, problem, facts), moment)


def proceed(frame: Frame, moment: Moment) -> Move:
    """The move after a sleep, or the first one after a replay."""
    if frame.failure is not None:
        return _go_on(frame, _fail(frame, frame.failure, []), moment)
    if frame.at_end:
        return _go_on(frame, _finish(frame, []), moment)
    if frame.not_before is not None and frame.not_before > moment.now:
        return Sleep(frame.not_before, ())
    return _run(frame, [], moment)


def advance(frame: Frame, output: Output, moment: Moment) -> Move:
    """The move after a task has ended with an output."""
    return conclude(frame, shape_output(frame, output, moment), moment)


def shape_output(frame: Frame, output: Output, moment: Moment) -> Output:
    """A task's output as its own `output:` makes it, held against its schema."""
    task = frame.task
    output = _with_meta(frame, output, moment)
    if output["error"] is not None:
        return output
    if task.output is not None:
        try:
            output = {**output, "data": render(task.output, {**frame.scopes, "output": output})}
        except TemplateError as error:
            return failed(failure_of(error), **_helpers(output))
    wrong = schema_failure(task.spec, "output", output["data"], f"task `{task.name}`")
    return output if wrong is None else failed(wrong, **_helpers(output))


def conclude(frame: Frame, output: Output, moment: Moment, recorded: Output | None = None) -> Move:
    """The move after a shaped output; `recorded` is what the log gets of one whose data lies elsewhere."""
    move = _judge(frame, output, moment, recorded)
    return _run(frame, list(move.facts), moment) if isinstance(move, _Next) else move


def _go_on(frame: Frame, move: Sleep | Finish | _Next, moment: Moment) -> Move:
    return _run(frame, list(move.facts), moment) if isinstance(move, _Next) else move


def _judge(frame: Frame, output: Output, moment: Moment, recorded: Output | None = None) -> Sleep | Finish | _Next:
    """What follows from an output, by the policy of its task."""
    task = frame.task
    frame.recorded_start = None
    good = output["error"] is None
    patch: Patch = {}
    try:
        if good:
            patch = patch_of(task.set, {**frame.scopes, "output": output}, most=frame.max_payload) if task.set else {}
    except TemplateError as error:
        output, good, recorded = failed(failure_of(error), **_helpers(output)), False, None
    frame.write(patch)
    frame.scopes["output"] = output
    noted = recorded or output
    try:
        chosen = choose(task, frame.scopes, good=good)
        return _follow(frame, output, noted, chosen, patch, moment)
    except TemplateError as error:
        problem = failure_of(error)
        payload = {"output": noted, "do": "fail", "error": problem} | ({"set": patch} if patch else {})
        return _fail(frame, problem, [task_done_fact(frame, payload)])


@lru_cache(maxsize=16)
def _timestamp(milliseconds: int) -> str:
    """A time as outputs show it; many short tasks share one."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _with_meta(frame: Frame, output: Output, moment: Moment) -> Output:
    started, finished = _timestamp(int((frame.since or moment.now) * 1000)), _timestamp(int(moment.now * 1000))
    took = int((moment.now - (frame.since or moment.now)) * 1000)
    meta = {"attempt": frame.attempt, "duration_ms": took, "started_at": started, "finished_at": finished}
    return {**output, "meta": {**meta, **output.get("meta", {})}}


def _helpers(output: Output) -> dict[str, Any]:
    return {key: value for key, value in output.items() if key not in ("status", "data", "ref", "error")}


# --- what follows an output --------------------------------------------------------------------------------------------


def _follow(
    frame: Frame, output: Output, noted: Output, chosen: ChosenDirective, patch: Patch, moment: Moment
) -> Sleep | Finish | _Next:
    """Do what the chosen rule says."""
    directive = chosen.directive
    payload: dict[str, Any] = {"output": noted, "do": directive.do}
    if chosen.rule is not None:
        payload["rule"] = chosen.rule
    delay, problem = _check_directive(frame, directive, output, moment)
    if problem is None and directive.set:
        extra = patch_of(directive.set, frame.scopes, most=frame.max_payload)
        patch = combine_patches(patch, extra)
        frame.write(extra)
    if directive.do == "fail":
        problem = _rule_failure(frame, directive, output)
    if patch:
        payload["set"] = patch
    if problem is not None:
        payload |= {"do": "fail", "error": problem}
        return _fail(frame, problem, [task_done_fact(frame, payload)])
    if directive.do == "jump":
        payload["to"] = directive.to
    elif directive.do == "retry":
        payload["delay"] = delay
    elif frame.section == BEFORE and frame.sections[frame.at + 1].name == LOOP and _leads_out(frame, directive):
        payload["ends"] = BEFORE
    return _move(frame, directive, output, task_done_fact(frame, payload), delay, moment)


def _leads_out(frame: Frame, directive: Directive) -> bool:
    """Whether a directive that is neither a jump nor a retry ends the part of the pipeline."""
    return directive.do == "break" or frame.counter + 1 == frame.stop


def _check_directive(
    frame: Frame, directive: Directive, output: Output, moment: Moment
) -> tuple[float, Failure | None]:
    """Whether a directive can be followed: seconds to wait first, or the error with which the pipeline ends."""
    if directive.do == "retry":
        return _retry(frame, directive, output, moment)
    if directive.do == "jump":
        frame.jumps += 1
        limit = frame.step.max_jumps
        if frame.jumps > limit:
            return 0.0, failure("jump-limit", f"the pipeline jumped more than {limit:,} times (`max_jumps`)")
    return 0.0, None


def _move(
    frame: Frame, directive: Directive, output: Output, fact: Fact, delay: float, moment: Moment
) -> Sleep | Finish | _Next:
    """Move the program counter."""
    if frame.task.silent or directive.do == "skip":
        frame.discard_output()
    elif directive.do != "retry":
        frame.yield_output(output)
    if directive.do == "retry":
        frame.attempt += 1
        frame.not_before = moment.now + delay
        return Sleep(frame.not_before, (fact,)) if delay > 0 else _Next((fact,))
    if directive.do == "break":
        return _finish(frame, [fact])
    frame.visit(frame.positions[str(directive.to)] if directive.do == "jump" else frame.counter + 1)
    return _finish(frame, [fact]) if frame.at_end else _Next((fact,))


def _retry(frame: Frame, directive: Directive, output: Output, moment: Moment) -> tuple[float, Failure | None]:
    """Seconds until the next attempt, or the error when there is none left."""
    attempts = evaluate_number(directive.attempts, frame.scopes, "attempts")
    failures = frame.count_failed_attempt()
    if failures >= attempts:
        return 0.0, output["error"] or failure("retry-exhausted", f"after {frame.attempt} attempts it is still not so")
    wait = delay_before(
        failures,
        backoff=directive.backoff,
        delay=evaluate_number(directive.delay, frame.scopes, "delay"),
        max_delay=evaluate_number(directive.max_delay, frame.scopes, "max_delay"),
        chance=moment.chance if directive.jitter else None,
    )
    return wait, None


def _rule_failure(frame: Frame, directive: Directive, output: Output) -> Failure:
    message = render(directive.message, frame.scopes) if directive.message is not None else None
    error: Failure | None = output["error"]
    if error is None:
        return failure("fail", str(message) if message is not None else f"a rule of task `{frame.task.name}` says so")
    return {**error, "message": f"{message}: {error['message']}"} if message is not None else error


def replay_end(frame: Frame, problem: Failure | None = None) -> None:
    """Let the recorded end of a part of the pipeline take effect once more."""
    frame.failure = problem or frame.failure
    _end_empty(frame, [])


# --- running and ending --------------------------------------------------------------------------------------------


def _run(frame: Frame, facts: list[Fact], moment: Moment) -> Move:
    """Start the task at which the frame stands; when its input cannot be evaluated, that is its output."""
    frame.since = moment.now
    prepared = prepare(frame, tuple(facts))
    return prepared if isinstance(prepared, RunTask) else _advance_failed_start(frame, prepared, facts, moment)


def prepare(frame: Frame, facts: tuple[Fact, ...] = ()) -> RunTask | Failure:
    """The task at which the frame stands, with its input evaluated, after some facts; or why it cannot be run."""
    task, scopes = frame.task, frame.scopes
    if frame.problem is not None:
        return frame.problem
    scopes |= {"input": frame.step_input, "_task": task.name, "_attempt": frame.attempt}
    if frame.body is not None and (frame.role.undoes or frame.section == FINALLY):
        scopes["output"] = frame.body
    scopes["task_key"] = f"{scopes['execution_id']}/{frame.task_run_id}"
    try:
        own = render(task.input, scopes) if task.input is not None else {}
    except TemplateError as error:
        return failure_of(error)
    if not isinstance(own, dict):
        return failure("type", f"the `input` of task `{task.name}` must be a map, not {type(own).__name__}")
    scopes["input"] = {**frame.step_input, **own} if own else frame.step_input
    wrong = schema_failure(task.spec, "input", scopes["input"], f"task `{task.name}`")
    if wrong is not None:
        return wrong
    return RunTask(task, scopes, scopes["input"], own, frame.task_run_id, frame.attempt, facts)


def _advance_failed_start(frame: Frame, problem: Failure, facts: list[Fact], moment: Moment) -> Move:
    """A task that could not even start has failed; it is recorded like any other.

    Whatever comes next is left to the next move: one that fails so again and again must not do it all in one.
    """
    if frame.recorded_start is None:
        facts = [*facts, task_started_fact(frame, {})]
    move = _judge(frame, shape_output(frame, failed(problem), moment), moment)
    facts += move.facts
    # A wait that is due at once ends this move and nothing else.
    return Sleep(moment.now, tuple(facts)) if isinstance(move, _Next) else replace(move, facts=tuple(facts))


def _fail(frame: Frame, problem: Failure, facts: list[Fact]) -> Finish | _Next:
    error = {**problem, "task": frame.task.name if frame.first < frame.stop else None}
    if frame.attempt > 1:
        error["attempts"] = frame.attempt
    output = {**failed(error), **_helpers(frame.scopes.get("output") or {})}
    if frame.sections:
        frame.take_failure(output)
        return _leave(frame, facts)
    if frame.iteration is None:
        facts.append(pipeline_fact(frame, "step.failed", {"output": output}, status="error"))
    else:
        stop = frame.step.failure_mode != "best_effort" or _was_last(frame, output)
        facts.append(pipeline_fact(frame, "loop.iteration.failed", {"error": error, "stop": stop}, status="error"))
    return Finish(tuple(facts))


def _leave(frame: Frame, facts: list[Fact]) -> Finish | _Next:
    """A part of the pipeline has ended: the next one that is to run follows, or the end of the step."""
    if frame.leave():
        if frame.section == LOOP:
            return Finish(tuple(facts))  # the server goes on with it
        return _finish(frame, facts) if frame.at_end else _Next(tuple(facts))
    output = frame.outcome or ok()
    if output["error"] is None:
        # In a replay this is not the last time: nothing of it stays.
        output = _reshape(frame, output, {**frame.scopes})
    name, status = ("step.done", "success") if output["error"] is None else ("step.failed", "error")
    return Finish((*facts, pipeline_fact(frame, name, {"output": output}, status=status)))


def _reshape(frame: Frame, output: Output, scopes: dict[str, Any]) -> Output:
    """A step's own `output:` over what its body yields, held against its schema."""
    scopes |= {"output": output, "input": frame.step_input}
    try:
        if frame.step.output is not None:
            output = {**output, "data": render(frame.step.output, scopes)}
        wrong = schema_failure(frame.step.spec, "output", output["data"], f"step `{frame.step.name}`")
    except TemplateError as error:
        wrong = failure_of(error)
    return output if wrong is None else {**failed(wrong), **_helpers(output)}


def _finish(frame: Frame, facts: list[Fact]) -> Finish | _Next:
    """The tasks ended well: the step's output is that of the last task of its body that counted."""
    if frame.section != BODY:
        return Finish(tuple(facts)) if frame.section == LOOP else _leave(frame, facts)
    if frame.role.undoes:
        return Finish((*facts, pipeline_fact(frame, "step.done", {"output": ok()})))
    output = frame.output or ok()
    if output["error"] is not None:
        output = {**output, "status": "ok", "data": None, "error": None}
    if frame.sections:
        frame.body = frame.outcome = output
        return _leave(frame, facts)
    if frame.iteration is not None:
        return _finish_iteration(frame, output, facts)
    shaped = _reshape(frame, output, frame.scopes)
    if shaped["error"] is not None:
        return _fail_at_end(frame, shaped["error"], facts)
    facts.append(pipeline_fact(frame, "step.done", {"output": shaped}))
    return Finish(tuple(facts))


def _finish_iteration(frame: Frame, output: Output, facts: list[Fact]) -> Finish | _Next:
    scopes = frame.scopes
    scopes |= {"output": output, "input": frame.step_input}
    try:
        end: dict[str, Any] = {"until": True} if _is_last(frame, output) else {}
        if frame.step.compensation is not None:
            end["compensation"] = keep_undo_scopes(frame.step, scopes, most=frame.max_payload)
    except TemplateError as error:
        return _fail_at_end(frame, failure_of(error), facts)
    facts.append(pipeline_fact(frame, "loop.iteration.done", {"data": output["data"], **end}))
    return Finish(tuple(facts))


def _fail_at_end(frame: Frame, problem: Failure, facts: list[Fact]) -> Finish | _Next:
    """All tasks have run, and what the step makes of them is wrong."""
    frame.step_back()
    return _fail(frame, problem, facts)


def _is_last(frame: Frame, output: Output) -> bool:
    """Whether the loop's `until` wants no iteration after one with this output."""
    innermost = frame.step.loop
    while innermost is not None and innermost.inner is not None:
        innermost = innermost.inner
    if innermost is None or innermost.until is None:
        return False
    return innermost.until.evaluate({**frame.scopes, "output": output})


def _was_last(frame: Frame, output: Output) -> bool:
    """The same of an iteration that has failed, perhaps because its `until` cannot be told."""
    try:
        return _is_last(frame, output)
    except TemplateError:
        return False

"""OlderRun: runs an older text by the semantics of older engines, on made-up answers.

It knows nothing of how migration rewrites a text. A step that it does not cover ends the comparison there, by name.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from typing import Any

from noetl.errors import TemplateError
from noetl.model.output import Output, failed, failure, ok
from noetl.testing.verification.code_runs import CodeRunner, answer_code, find_parameters, with_modules
from noetl.testing.verification.made_up_answers import MADE_UP, MadeUpAnswers
from noetl.testing.verification.older_document import (
    NotUnderstood,
    OlderDocument,
    OlderRule,
    OlderStep,
    OlderTask,
)
from noetl.testing.verification.older_names import (
    EXECUTION,
    OlderNames,
    OlderOutput,
    holds,
    holds_after,
    render_value,
    take_results,
    to_plain,
)
from noetl.testing.verification.older_results import (
    publish_answer,
    publish_loop,
    publish_pipeline,
    publish_value,
)
from noetl.testing.verification.run_trace import RunTrace, TracedCall, view_call

_MOST_STEPS = 300
_MOST_MOVES = 300
#: calls and iterations of a run
MOST_CALLS = 300
_FAILED = object()
#: what values of any shape in any place of an older text may lead to
_UNFORESEEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class OlderFailure(Exception):
    """A task or a step failed; a response that says so is its result all the same."""

    def __init__(self, error: Mapping[str, Any], result: Any = None) -> None:
        super().__init__(error)
        self.error = dict(error)
        self.result = result


class OlderRun:
    """One run of one document."""

    def __init__(
        self,
        document: OlderDocument,
        answers: MadeUpAnswers,
        code: CodeRunner,
        payload: Mapping[str, Any],
        ends: float = math.inf,
    ) -> None:
        self.document = document
        #: when it is to stop
        self.ends = ends
        self._passes = 0
        self.answers = answers
        self.code = code
        self.names = OlderNames(document, payload)
        self.trace = RunTrace({}, {}, {})
        self._numbers: dict[tuple[str, str, str], int] = {}
        #: status and headers, if the last task of the step that ended was a request
        self._http: Mapping[str, Any] | None = None
        #: steps with a token, and the arguments that it carries
        self._waiting: dict[str, Mapping[str, Any]] = {document.first: {}}

    def run(self) -> RunTrace:
        """Run to the end, or to the first step that is not understood."""
        for _ in range(_MOST_STEPS):
            if not self._waiting or self.trace.stopped:
                break
            name = self._pick()
            step = self.document.steps[name]
            try:
                self._step(step, self._waiting.pop(name))
            except NotUnderstood as error:
                self.trace.stopped = f"`{name}`: {error}"
            except _UNFORESEEN as error:
                self.trace.stopped = f"`{name}`: it cannot be followed ({type(error).__name__})"
        else:
            self.trace.stopped = f"it takes more than {_MOST_STEPS} steps"
        self.trace.ctx = {**self.names.results, **self.names.ctx}
        return self.trace

    def _pick(self) -> str:
        """The step to run next: one that no other waiting step leads to, since branches that meet are waited for."""
        for name in self._waiting:
            others = [other for other in self._waiting if other != name]
            if not any(self._leads_to(other, name) for other in others):
                return name
        return next(iter(self._waiting))

    def _leads_to(self, start: str, goal: str) -> bool:
        seen, left = {start}, [start]
        while left:
            step = self.document.steps.get(left.pop())
            for arc in step.arcs if step is not None else ():
                if arc.step == goal:
                    return True
                if arc.step not in seen:
                    seen.add(arc.step)
                    left.append(arc.step)
        return False

    # --- steps -------------------------------------------------------------------------------------------------------

    def _step(self, step: OlderStep, args: Mapping[str, Any]) -> None:
        if step.unknown:
            raise NotUnderstood(step.unknown)
        if step.when is not None and not holds(step.when, self.names.scope(args=args)):
            return  # its token waits for ever, or until something changes, which `when` is not often used for
        self._http = None
        try:
            result, data = self._loop(step, args) if step.loop is not None else self._pipeline(step, args, "", {})
            failed_with = None
        except OlderFailure as error:
            result, data, failed_with = error.result, None, error.error
        self._end(step, args, result, data, failed_with)

    def _loop(self, step: OlderStep, args: Mapping[str, Any]) -> tuple[Any, Any]:
        loop = step.loop
        assert loop is not None
        items = self._render(loop.items, self.names.scope(args=args))
        items = getattr(items, "rows", None) if not isinstance(items, list) else items
        if items is None:
            raise OlderFailure(failure("type", "the items of the loop are no list"))
        values: list[Any] = []
        failures = 0
        error: OlderFailure | None = None
        variables: dict[str, Any] = {}
        for index, item in enumerate(items):
            # After a failure none is started; those that run then are let end.
            if error is not None and index >= loop.at_a_time:
                break
            iteration = {loop.element: item, "index": index}
            self.count_pass()
            try:
                _, data = self._pipeline(step, args, str(index), iteration, variables)
            except OlderFailure as found:
                data, failures = None, failures + 1
                if not step.best_effort:
                    error = found if error is None else error
                    if loop.at_a_time == 1:
                        break
            values.append(data)
            names = self.names.scope(args=args, iter=iteration, names={loop.element: item}, output=ok(data))
            if loop.until is not None and holds(loop.until, names):
                break
        if error is not None:
            raise OlderFailure(error.error)
        return publish_loop(values, failures), values

    def _end(
        self, step: OlderStep, args: Mapping[str, Any], result: Any, data: Any, error: Mapping[str, Any] | None
    ) -> None:
        names = self.names
        try:
            for one in step.output if error is None else ():
                data = self._render(one, names.scope(args=args, output=_after(ok(data), result)))
                result = publish_value(data)
            words = _words_after(step, result, data, error, self._http)
            own = {name: result for name in (step.name, *step.results) if error is None}
            written = self._step_writes(step, names.scope(args=args, names=own, **words), failed=error is not None)
        except OlderFailure as found:
            error, result, written = found.error, None, {}
            words = _words_after(step, None, None, error, None)
        self.trace.steps.setdefault(step.name, []).append("failed" if error else "done")
        names.states[step.name] = {
            "status": {"done": True, "ok": error is None, "running": False, "error": error and error["message"]}
        }
        if error is None or result is not None:
            names.results[step.name] = result
            names.failed.difference_update((step.name, *step.results))
        else:
            names.failed.update((step.name, *step.results))
        if error is None:
            names.ctx.update(dict.fromkeys(step.results, result))
        names.ctx.update(written)
        try:
            self._route(step, args, words, failed=error is not None)
        except (OlderFailure, TemplateError):
            self._fail()

    def _step_writes(self, step: OlderStep, scope: Mapping[str, Any], *, failed: bool) -> dict[str, Any]:
        written = {}
        for target, name, value in step.writes:
            if target != "ctx":
                raise NotUnderstood(f"`{target}.{name}` in the `set` of a step")
            rendered = self._render(value, scope, missing_is=_FAILED if failed else None)
            if rendered is not _FAILED:
                written[name] = rendered
        return written

    def _fail(self) -> None:
        """Fail: steps that run meanwhile are let end, those that wait for them never start."""
        self.trace.status = "failed"
        names = list(self._waiting)
        for name in names:
            if any(self._leads_to(other, name) for other in names if other != name):
                del self._waiting[name]

    def _route(self, step: OlderStep, args: Mapping[str, Any], words: Mapping[str, Any], *, failed: bool) -> None:
        taken = 0
        branch: int | None = None
        for arc in step.arcs if self.trace.status == "completed" else ():
            scope = self.names.scope(args=args, **words)
            if taken and not step.inclusive and arc.branch != branch:
                break
            if not holds_after(arc.when, scope, failed=failed):
                continue
            taken += 1
            branch = arc.branch
            if arc.step not in self.document.steps:
                raise NotUnderstood(f"there is no step `{arc.step}`")
            for _, name, value in arc.writes:
                self.names.ctx[name] = self._render(value, scope)
            carried = {key: self._render(value, scope) for key, value in arc.args.items()}
            self._waiting.setdefault(arc.step, carried)
            if not step.inclusive and branch is None:
                break
        if failed and not taken:
            self._fail()

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _pipeline(
        self,
        step: OlderStep,
        args: Mapping[str, Any],
        iteration: str,
        element: dict[str, Any],
        variables: dict[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        run = _Pipeline(self, step, args, iteration, element, variables if variables is not None else {})
        return run.run()

    def _render(self, value: Any, names: Mapping[str, Any], *, missing_is: Any = None) -> Any:
        if self.names.failed:
            self.names.check_known(value)
        try:
            return render_value(value, names)
        except TemplateError as error:
            if missing_is is not None:
                return missing_is
            raise OlderFailure(failure("template", str(error))) from None

    def count_call(self, call: tuple[str, str, str]) -> int:
        """The number of this call among those of the same task."""
        self.count_pass()
        number = self._numbers.get(call, 0)
        self._numbers[call] = number + 1
        return number

    def count_pass(self) -> None:
        """Count a call or an iteration. NotUnderstood: there were enough, or time is up."""
        self._passes += 1
        if self._passes > MOST_CALLS:
            raise NotUnderstood(f"it takes more than {MOST_CALLS:,} calls")
        if time.monotonic() > self.ends:
            raise NotUnderstood("it takes too long")


class _Pipeline:
    """One pass through the tasks of a step."""

    def __init__(
        self, owner: OlderRun, step: OlderStep, args: Mapping[str, Any], iteration: str, element: dict[str, Any],
        variables: dict[str, Any],
    ) -> None:  # fmt: skip
        self.owner, self.step, self.args, self.iteration = owner, step, args, iteration
        self.element = element
        #: what `set_vars` and targets without a scope wrote
        self.variables = variables
        self.prev: Any = None
        self.results: dict[str, Any] = {}
        self.named: dict[str, Any] = {}
        self.result: Any = None
        self.data: Any = None
        self.step_input: Mapping[str, Any] = {}

    def run(self) -> tuple[Any, Any]:
        """The result as it is published, and the data as they are today."""
        owner, tasks = self.owner, self.step.tasks
        self.step_input = owner._render(self.step.input, self._names())  # noqa: SLF001  one of us
        places = {task.name: place for place, task in enumerate(tasks)}
        at = moves = attempt = 0
        while at < len(tasks):
            moves += 1
            if moves > _MOST_MOVES:
                raise NotUnderstood(f"it takes more than {_MOST_MOVES} calls")
            attempt += 1
            rule = self._task(tasks[at], attempt)
            if rule.do == "retry":
                continue
            attempt = 0
            if rule.do == "break":
                break
            at = places[rule.to] if rule.do == "jump" else at + 1
        if self.step.is_pipeline and tasks:
            return publish_pipeline(self.results, self.result), self.data
        return self.result, self.data

    def _names(self, **words: Any) -> dict[str, Any]:
        loop = self.step.loop
        index = self.element.get("index")
        element = {"loop_index": index, "_loop_index": index} if loop is not None else {}
        element |= {loop.element: self.element[loop.element]} if loop is not None else {}
        return self.owner.names.scope(
            args=self.args or words.get("input", {}), step=self.variables, iter={**self.element}, _prev=self.prev,
            names={**self.variables, **self.named, **self.results, **element}, **words,
        )  # fmt: skip

    def _task(self, task: OlderTask, attempt: int) -> OlderRule:
        """Run a task once; the rule that decides what comes next."""
        owner = self.owner
        given: Mapping[str, Any] = self.step_input
        try:
            given = {**given, **owner._render(task.input, self._names(input=given))}  # noqa: SLF001
            output, result = self._call(task, given, self._names(input=given, _task=task.name, _attempt=attempt))
        except OlderFailure as error:
            # A value that is missing is an error of the task, which its rules may pass over.
            output, result = failed(error.error), None
        raw = _after(output, result)
        words = {"output": raw, "outcome": _outcome(raw), "this": result, "result": result, "response": result}
        words |= {"error": output["error"], "input": given, "_task": task.name, "_attempt": attempt}
        if output["error"] is None:
            for one in task.picks:
                data = owner._render(one, self._names(**words))  # noqa: SLF001
                result = publish_value(data)
                output = {**output, "data": to_plain(data)}
                words["output"] = raw = _after(output, result)
            self._write(task.writes, words)
        rule = self._choose(task, words, failed=output["error"] is not None)
        self._write(rule.writes, words)
        if rule.do == "fail" or (rule.do == "retry" and attempt >= rule.attempts):
            raise OlderFailure(output["error"] or failure("fail", "a rule says so"), result)
        if rule.do in ("continue", "jump", "break"):
            self._keep(task, output, result, rule, words)
        return rule

    def _keep(self, task: OlderTask, output: Output, result: Any, rule: OlderRule, words: Mapping[str, Any]) -> None:
        failed_task = output["error"] is not None
        self.result, self.data = result, output["data"]
        for one in () if failed_task else rule.prev:
            self.data = to_plain(self.owner._render(one, self._names(**words)))  # noqa: SLF001
            self.result = publish_value(self.data)
        self.prev = self.data
        if not failed_task:
            self.results[task.name] = self.result
            if task.result:
                self.named[task.result] = self.result
                self.owner.names.ctx[task.result] = self.result

    def _call(self, task: OlderTask, given: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[Output, Any]:
        """What a task yields, and its result as older engines published it."""
        if task.kind == "noop":
            return ok(None), None
        owner, call = self.owner, (self.step.name, task.name, self.iteration)
        shown = {key: part for key, part in task.config.items() if key != "code"}
        config = owner._render(shown, names)  # noqa: SLF001
        key = (*call, owner.count_call(call))
        if task.kind in MADE_UP:
            answer = owner.answers.make_answer(task.kind, call, key[3])
            output = answer.to_output()
            url = config.get("url", config.get("endpoint"))
            result = publish_answer(answer, url, body="body" if owner.document.reads_bodies else "data")
            config = _place_parameters(config)
        else:
            code = with_modules(_code_of(task), given)
            given = self._given_to_code(code, given)
            output = answer_code(owner.code, owner.answers, code, take_results(given, code), call, key[3])
            result = publish_value(output["data"])
        owner._http = output.get("http") if self.step.loop is None else None  # noqa: SLF001
        message = output["error"]["message"] if output["error"] else ""
        read = view_call(task.kind, config, given)
        owner.trace.calls[key] = TracedCall(task.kind, read, output["status"], output["data"], message)
        return output, result

    def _given_to_code(self, code: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What code gets beside its arguments: what an arc brought, and what it asks for by a name of the document."""
        names, step = self.owner.names, self.step
        brought = {key: part for key, part in self.args.items() if re.search(rf"\b{re.escape(key)}\b", code)}
        known = {
            **names.document.workload,
            **names.workload,
            **names.results,
            **names.ctx,
            **self.named,
            **self.results,
        }
        known |= {"workload": names.workload, "execution_id": EXECUTION}
        known |= {step.loop.element: self.element[step.loop.element]} if step.loop is not None else {}
        asked = {name: known[name] for name in find_parameters(code) if name in known and name not in given}
        return {**asked, **given, **brought}

    def _choose(self, task: OlderTask, words: Mapping[str, Any], *, failed: bool) -> OlderRule:
        names = self._names(**words)
        for rule in task.rules:
            try:
                if holds(rule.when, names):
                    return rule
            except TemplateError as error:
                raise OlderFailure(failure("template", str(error))) from None
        return OlderRule(None, "fail" if failed and task.strict else "continue")

    def _write(self, writes: tuple[tuple[str, str, Any], ...], words: Mapping[str, Any]) -> None:
        names = self._names(**words)
        values = [self.owner._render(value, names) for _, _, value in writes]  # noqa: SLF001
        for (scope, name, _), value in zip(writes, values, strict=True):
            if scope == "ctx":
                self.owner.names.ctx[name] = value
            elif scope == "iter" and self.element:
                self.element[name] = value
            else:
                self.variables[name] = value


def _words_after(
    step: OlderStep, result: Any, data: Any, error: Mapping[str, Any] | None, http: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What templates of a step that has ended read beside the names of the document."""
    helpers = {"http": http} if http is not None else {}
    output = _after(ok(data, **helpers) if error is None else failed(dict(error), **helpers), result)
    event = {"name": "", "status": "", "step": step.name, "error": error, "output": output}
    whole = {"this": result, "result": result, "response": result}
    return {"output": output, "outcome": _outcome(output), "event": event, "error": error, **whole}


def _place_parameters(config: dict[str, Any]) -> dict[str, Any]:
    """`$1` and a list of values: each at its place, as the one that binds them shows them."""
    listed = next((config[word] for word in ("parameters", "params") if isinstance(config.get(word), list)), None)
    if listed is None:
        return config
    made = dict(config)
    for word in ("query", "command"):
        if isinstance(text := made.get(word), str):
            made[word] = re.sub(r"\$(\d+)", lambda place: _spell(to_plain(listed), int(place[1])), text)
    return made


def _spell(values: list[Any], place: int) -> str:
    value = values[place - 1] if place <= len(values) else ""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _code_of(task: OlderTask) -> str:
    code = task.config.get("code")
    if not isinstance(code, str):
        raise NotUnderstood("a python task without `code`")
    return code


def _after(output: Output, result: Any) -> Any:
    """`output` as templates read it after a task: its data can be read in today's form and in the older one."""
    sql = result is not None and getattr(result, "rows", None) is not None
    after = OlderOutput({**output, "data": result if sql else output["data"]})
    after.result = result
    return after


def _outcome(output: Output) -> dict[str, Any]:
    """`outcome` of version 10: of a request, the whole response is its result."""
    data = output["data"]
    result = data
    if output.get("http") is not None:
        result = {"data": data, **output["http"], "status_code": output["http"]["status"]}
    return {**output, "status": OlderStatus(output["status"]), "result": result}


class OlderStatus(str):
    """`ok`, which the oldest dialect calls `success`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, "ok" if other == "success" else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

"""Calls of tools, with their credentials and within their limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from inspect import isawaitable
from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.drivers.exhaustion import translating_exhaustion
from noetl.errors import MachineExhausted, TemplateError
from noetl.expr import Template, TemplateValue, compile_command, failure_of, has_template, render
from noetl.lang import restrict_spec, restrictions
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure, Output, Spilled, failed, failure
from noetl.model.playbook import Playbook, Step, Task
from noetl.pipeline import Finish, Frame, RunTask, Sleep, machine
from noetl.ports import Call, Keychain, NoCredential, StoreFailed, World
from noetl.worker.output_check import check_output, crash_output, find_problem, format_crash
from noetl.worker.world import LocalWorld, RunnerContext

#: a tool that breaks is a failed task, and never a run that hangs, nor the end of this process
_CRASHES = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)
#: seconds before a task is tried again for which the machine had too little
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 8.0

# A task's own fields, rendered: SQL to statements with parameters, shell to safe text, everything else to values.


def call_of(
    move: RunTask,
    kind: ToolKind,
    *,
    step: str,
    iteration: int | str | None,
    progress: Mapping[str, Any] | None = None,
) -> Call:
    """What a tool is told. A TemplateError says that the task cannot be rendered."""
    task, scopes = move.task, move.scopes
    config = {name: _field(name, value, kind, scopes) for name, value in task.config.items()}
    if kind.input is InputRole.CONFIGURES:
        config = {**config, **move.own_input}
    if kind.sql:
        given = move.input if kind.input is InputRole.ARGUMENTS else {}
        config = _bind_sql(config, kind.sql, scopes, given)
        config |= {name: _bind_sql(part, kind.sql, scopes, {}) for name in kind.late if (part := config.get(name))}
    return Call(
        kind.name,
        scopes["execution_id"],
        step,
        task.name,
        config,
        move.input,
        move.own_input,
        spec_of(task, kind, scopes),
        scopes["task_key"],
        move.attempt,
        scopes,
        iteration,
        progress,
    )


#: layers of a spec whose timeout is a task's own
_OWN_LAYERS = frozenset({"task.spec", "loop.spec", "step.spec"})


def spec_of(task: Task, kind: ToolKind, scopes: Mapping[str, Any]) -> dict[str, Any]:
    """The effective spec, rendered. Schemas are no templates, and no tool's business."""
    return {
        name: render(layered.value, scopes)
        for name, layered in task.spec.items()
        if not name.startswith("validate.")
        and not (name == "timeout" and kind.own_timeout and layered.origin not in _OWN_LAYERS)
    }


def _field(name: str, value: Any, kind: ToolKind, scopes: Mapping[str, Any]) -> Any:
    if name in kind.shell and isinstance(value, TemplateValue):
        return _command(value.tree, scopes)
    if name in kind.sql and isinstance(value, TemplateValue):
        return value.tree
    if name in kind.literal or not isinstance(value, TemplateValue):
        return value
    found = value.evaluate(scopes)
    if name in kind.paths and not value.constant and _leads_out(str(found)):
        said = f"`{name}` leads out of the playbook's folder: {found}; only a path without a template may"
        raise TemplateError(said, expression=str(getattr(value.tree, "source", "")))
    return found


def _leads_out(path: str) -> bool:
    """Whether a path, told from its text alone, ends outside of the folder at which it starts."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return path.startswith(("/", "\\", "~")) or "\0" in path


def _command(tree: Any, scopes: Mapping[str, Any]) -> Any:
    """Shell text, or a list of it; each template in it stands for one word."""
    if isinstance(tree, list):
        return [_command(part, scopes) for part in tree]
    source = getattr(tree, "source", tree)
    return compile_command(source).render(scopes) if isinstance(source, str) else source


def _bind_sql(config: Any, keys: frozenset[str], scopes: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """A map with the SQL under some of its keys bound to its values; `params` beside it wins over what is given."""
    if not isinstance(config, Mapping) or not keys & config.keys():
        return config
    params = config.get("params")
    names = {**given, **params} if isinstance(params, Mapping) else given
    return {name: _query(part, scopes, names) if name in keys else part for name, part in config.items()}


def _query(text: Any, scopes: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    from noetl.expr import compile_sql  # few playbooks need to know SQL

    if isinstance(text, Template):
        return compile_sql(text.source).bind(scopes, names)
    if not isinstance(text, str):
        return text
    if has_template(text):
        raise TemplateError("a statement that comes out of data cannot hold templates", expression=text)
    return compile_sql(text).bind(scopes, names)


Suspend = Callable[[Call, float], dict[str, Any]]


# The credentials that a task uses: those that its `auth`, and parts of its configuration, name.


_UNAUTHORIZED = 401


async def _authorize(call: Call, task: Task, keychain: Keychain) -> Call:
    """The call with its credentials. NoCredential: one of them is missing."""
    named = {name: await keychain.credential(name) for name in sorted(set(_names(call.config)))}
    auth = await _auth(call, task, keychain)
    if not named and not auth:
        return call
    return replace(call, auth=auth, auths=named, auth_name=_name(call, task))


async def _renew_token(call: Call, task: Task, output: Output, keychain: Keychain) -> Call | None:
    """The call with another token, when the one it had was refused; None: there is nothing to be gained by it."""
    if call.auth is None or output.get("http", {}).get("status") != _UNAUTHORIZED:
        return None
    name = _evaluate_auth(call, task)
    auth = await keychain.renew_credential(name, call.auth) if isinstance(name, str) else None
    return replace(call, auth=auth) if auth is not None else None


def _credential_failure(error: NoCredential) -> Failure:
    """A missing credential as data."""
    return failure("credential", str(error), retryable=error.retryable)


def _keychain_reads(step: Step, playbook: Playbook) -> frozenset[str]:
    """The keychain entries that templates of a step's tasks read, those of the workbook included if it calls any."""
    tasks = list(step.all_tasks)
    if any(task.kind == "workbook" for task in tasks):
        tasks += [task for pipeline in playbook.workbook.values() for task in pipeline]
    return frozenset(name for task in tasks for name in _reads(task))


async def _auth(call: Call, task: Task, keychain: Keychain) -> dict[str, Any] | None:
    named = _evaluate_auth(call, task)
    if isinstance(named, Mapping):
        return {"kind": "generic", **named}
    if _is_secret_itself(task):
        return {"kind": "bearer", "token": str(named)}
    if named in (None, ""):
        return None
    return await keychain.credential(str(named))


def _is_secret_itself(task: Task) -> bool:
    """`auth: "{{ keychain.api.token }}"`"""
    return task.auth is not None and any(read.path[0] == "keychain" for read in _reads_of(task.auth))


def _name(call: Call, task: Task) -> str | None:
    """The name of the credential, for messages; None: it has none that may be told."""
    named = None if _is_secret_itself(task) else _evaluate_auth(call, task)
    return named if isinstance(named, str) and named else None


def _evaluate_auth(call: Call, task: Task) -> Any:
    return task.auth.evaluate(call.scopes) if task.auth is not None else None


def _names(config: Mapping[str, Any]) -> Iterator[str]:
    """Every `auth` of the ends of a transfer."""
    targets = config.get("targets")
    for end in [config.get("source"), *(targets if isinstance(targets, list) else [])]:
        if isinstance(end, Mapping) and isinstance(end.get("auth"), str):
            yield end["auth"]


def _reads(task: Task) -> Iterator[str]:
    values = [*task.config.values(), task.auth]
    values += list(task.input.values()) if isinstance(task.input, Mapping) else [task.input]
    for value in values:
        yield from (read.path[1] for read in _reads_of(value) if read.path[0] == "keychain" and len(read.path) > 1)


def _reads_of(value: Any) -> tuple[Any, ...]:
    facts = getattr(value, "facts", None)
    return facts.reads if facts is not None else ()


class ToolCaller:
    """Calls tools for one pipeline; `hear` is told how far a long task is."""

    def __init__(
        self,
        order: RunPipeline,
        step: Step,
        playbook: Playbook,
        context: RunnerContext,
        world: LocalWorld,
        hear: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        self.order = order
        self.playbook = playbook
        self.context = context
        self.world = world
        self.keychain = world.keychain
        self._on_progress = hear
        #: the credentials that templates of the step read
        self._reading: frozenset[str] = frozenset()
        if self.keychain.declared:
            if step.name not in world.reading:
                world.reading[step.name] = _keychain_reads(step, playbook)
            self._reading = world.reading[step.name]

    async def problem(self) -> Failure | None:
        """Why no task can start: a credential that templates may read is missing. None: they are all there."""
        if not self.keychain.declared:
            return None
        try:
            await self.keychain.ready(self._reading)
        except NoCredential as error:
            return _credential_failure(error)
        return None

    def suspends(self, kind: str) -> Suspend | None:
        """How a kind says what it waits for; None: it is one that runs."""
        found: Suspend | None = getattr(self.context.tools.module(kind), "suspend", None)
        return found

    def is_held(self, task: Task) -> bool:
        """Whether something may be forbidden to a task."""
        return bool(self.world.restrict) or any(key in task.spec for key in ("network", "allow_hosts"))

    def call(self, move: RunTask, progress: Mapping[str, Any] | None, outer: Call | None = None) -> Call:
        """What a tool is told; whoever calls it can only tighten its spec."""
        order, kind = self.order, self.context.tools[move.task.kind]
        call = call_of(move, kind, step=order.step, iteration=order.iteration, progress=progress)
        bounds = restrictions(outer.spec) if outer is not None else self.world.restrict
        return replace(call, spec=restrict_spec(call.spec, bounds)) if bounds else call

    async def ready(
        self, move: RunTask, progress: Mapping[str, Any] | None, outer: Call | None = None
    ) -> Call | Output:
        """The same with its credentials; or the output of a task that cannot, or must not, be tried."""
        try:
            call = self.call(move, progress, outer)
            unable = _check_supported(self.context.tools[move.task.kind], call)
            return unable or await _authorize(call, move.task, self.keychain)
        except TemplateError as error:
            return failed(failure_of(error))
        except NoCredential as error:
            return failed(_credential_failure(error))

    async def run(self, call: Call, task: Task) -> Output:
        """Run the tool; once more with a new token if the one it had was refused."""
        output = await self._run_once(call, task)
        try:
            renewed = await _renew_token(call, task, output, self.keychain)
        except NoCredential as error:
            return failed(_credential_failure(error))
        return output if renewed is None else await self._run_once(renewed, task)

    async def _run_once(self, call: Call, task: Task) -> Output:
        if call.kind == "workbook":
            called = await _within_timeout(call, task, lambda: self._workbook(call))
            return _check_size(called, call.spec.get("limits.output_bytes"))
        run: Callable[[Call, World], Any] | None
        run = getattr(self.context.tools.module(call.kind), "run", None)
        if run is None:
            return failed(failure("fail", f"`kind: {call.kind}` cannot be run by this version"))
        self.world.listeners[call.key] = self._on_progress
        try:
            return await self._call_tool(run, call, task)
        except StoreFailed:  # no failure of the task: when the store can be written again, it runs again
            raise
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            return self.report_crash(call, error)
        except _CRASHES as error:
            return self.report_crash(call, error)
        finally:
            del self.world.listeners[call.key]
            self.world.flush_lines(call)

    async def _call_tool(self, run: Callable[[Call, World], Any], call: Call, task: Task) -> Output:
        async def attempt() -> Output:
            output = self._check_output(call, await self._run_when_possible(run, call))
            return _check_size(output, call.spec.get("limits.output_bytes"))

        return await _within_timeout(call, task, attempt)

    async def _run_when_possible(self, run: Callable[[Call, World], Any], call: Call) -> Any:
        """Run a tool, again and again while this machine has too little for it to begin."""
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                with translating_exhaustion():
                    made = run(call, self.world)
                    return await made if isawaitable(made) else made
            except MachineExhausted as error:
                if wait_s == _FIRST_WAIT_S:
                    self.world.log(call, "stderr", f"warning: {error}; the task waits until it can run\n")
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def run_plain(self, run: Callable[[Call, World], Any], call: Call) -> Output:
        """Run a tool that is a plain function."""
        try:
            return self._check_output(call, run(call, self.world))
        except (*_CRASHES, asyncio.CancelledError) as error:  # nothing is awaited here, so it is the tool's own
            return self.report_crash(call, error)

    def _check_output(self, call: Call, made: object) -> Output:
        own = getattr(self.context.tools.module(call.kind), "__name__", "noetl.").startswith("noetl.")
        return check_output(call.kind, made, own=own)

    def suspend(self, suspend: Suspend, call: Call, now: float) -> dict[str, Any]:
        """Return what a task waits for; or the failure of a tool that cannot say so."""
        try:
            wait = suspend(call, now)
        except _CRASHES as error:
            return dict(self.report_crash(call, error)["error"])
        problem = find_problem(wait, "wait")
        return wait if problem is None else failure("result-not-json", problem)

    def report_crash(self, call: Call, error: BaseException) -> Output:
        """Write where a tool broke to the lines of its task; return the output of one that did."""
        self.world.log(call, "stderr", format_crash(error))
        return crash_output(error)

    # --- the workbook ------------------------------------------------------------------------------------------------

    async def _workbook(self, call: Call) -> Output:
        """A task of the workbook: a pipeline of its own that sees nothing of its caller but `ctx` and its input."""
        tasks = self.playbook.workbook[str(call.config["task"])]
        scopes = {key: call.scopes[key] for key in ("workload", "keychain", "ctx", "execution_id", "now", "uuid")}
        scopes |= {"input": dict(call.own_input), "step": {}}
        step = Step(name=call.step, at=tasks[0].at, tasks=tasks)
        frame = Frame(step, scopes, run=call.key.partition("/")[2], iteration=None)
        move = machine.begin(frame, self.context.moment())
        while not isinstance(move, Finish):
            if isinstance(move, Sleep):
                await self.context.sleep_until(move.until)
                frame.problem = await self.problem()
                move = machine.proceed(frame, self.context.moment())
                continue
            output = await self._workbook_task(move, call)
            frame.problem = await self.problem()
            move = machine.advance(frame, output, self.context.moment())
        ended: Output = move.facts[-1].payload["output"]
        return _name_workbook_task(ended, str(call.config["task"]))

    async def _workbook_task(self, move: RunTask, outer: Call) -> Output:
        call = await self.ready(move, None, outer)
        if not isinstance(call, Call):
            return call
        if self.suspends(call.kind) is not None:
            return failed(failure("fail", f"`kind: {call.kind}` cannot stand in a workbook: call it from the step"))
        output = await self.run(replace(call, task=f"{outer.task}.{call.task}"), move.task)
        if isinstance(output["data"], Spilled):
            output = {**output, "data": await self.world.results.load(output["data"])}
        return output


async def _within_timeout(call: Call, task: Task, attempt: Callable[[], Awaitable[Output]]) -> Output:
    """The output of an attempt, or the failure of one that takes longer than its `spec.timeout`."""
    timeout = call.spec.get("timeout")
    limit = asyncio.timeout(None if timeout is None else float(timeout))
    try:
        async with limit:
            return await attempt()
    except TimeoutError:
        if not limit.expired():  # the tool's own
            raise
        message = f"task `{call.task}` did not end within {float(timeout or 0):g} s (`{_timeout_key(task)}`)"
        return failed(failure("timeout", message, retryable=True))


def _name_workbook_task(output: Output, name: str) -> Output:
    """An output whose error says which task of the workbook it comes from; the caller's own name is laid over the rest."""
    error = output["error"]
    if error is None or "workbook" in error:
        return output
    inner = error.get("task")
    return {**output, "error": {**error, "workbook": name if inner in (None, name) else f"{name}.{inner}"}}


def _timeout_key(task: Task) -> str:
    """Where the timeout of a task is written: it may have it from its step or from the executor's defaults."""
    layer = task.spec.get("timeout")
    if layer is None or layer.origin == "task.spec":
        return "spec.timeout"
    return layer.origin if ".timeouts." in layer.origin else f"{layer.origin}.timeout"


def _check_size(output: Output, limit: float | None) -> Output:
    """An output, unless it has more bytes than it may have; tools that count themselves never get that far."""
    size = 0 if limit is None or output["data"] is None else len(msgspec.json.encode(output["data"]))
    if limit is None or size <= limit:
        return output
    return failed(failure("limit", f"the result has {size:,} bytes as JSON; the limit is {int(limit):,}"))


def _check_supported(kind: ToolKind, call: Call) -> Output | None:
    """Why a task must not be tried: what it asks for would be left out in silence."""
    if not kind.keeps_network and (call.spec.get("network") == "off" or "allow_hosts" in call.spec):
        key = "`network: off`" if call.spec.get("network") == "off" else "`allow_hosts`"
        return failed(failure("isolation", f"{key} cannot be kept by `kind: {kind.name}`; the task was not run"))
    return None

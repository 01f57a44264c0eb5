"""The tools of a test: mocked tasks yield what their mocks say, others run only where the case allows it.

The runner does not know of it: it asks for tools by kind, and gets ours. A mocked task has a kind of its own, `mock
http`, which declares itself as `http` does, so that it is rendered alike; it neither suspends nor calls a workbook.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from inspect import isawaitable, iscoroutinefunction
from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from noetl.errors import TemplateError
from noetl.expr import BoundQuery, Template, TemplateValue, template
from noetl.lang import KnownValues
from noetl.model.diagnostics import Span
from noetl.model.kinds import ToolKind
from noetl.model.net import Net
from noetl.model.output import Output, Spilled
from noetl.model.playbook import Credential, Playbook, Step, Task
from noetl.model.state import parse_label
from noetl.ports import Call, Keychain, World
from noetl.testing.mocks import CallCounts, Cassette, Mock, NoMockOutput, delay_of, output_of, pick
from noetl.testing.test_file import Case
from noetl.testing.virtual_time import VirtualTimeLoop
from noetl.tools import ToolKinds

# Masking: a task that is not run needs no secrets; where its fields read some, their names stand instead.


# Which credentials a case needs: those of the tasks that run for real, as far as they can be told before.


#: the ends of a transfer, each with a credential of its own
ENDS = ("source", "targets")


def select_credentials(keychain: tuple[Credential, ...], tasks: Iterable[Task]) -> tuple[Credential, ...]:
    """The entries that these tasks use; all of them where a name is known only when a task runs."""
    used = {name for task in tasks for name in _credential_names(task)}
    return keychain if None in used else tuple(entry for entry in keychain if entry.name in used)


def _credential_names(task: Task) -> Iterator[str | None]:
    """The names of the credentials of a task; None: one that nobody can tell yet."""
    for part in (task.auth, task.input, *task.config.values()):
        yield from _read(part)
    yield from _auth_name(task.auth)
    for end in ENDS:
        yield from _of_ends(task.config.get(end))


def _read(part: Any) -> Iterator[str | None]:
    facts = getattr(part, "facts", None)
    for read in facts.reads if facts is not None else ():
        if read.path[0] == "keychain":
            yield read.path[1] if len(read.path) > 1 else None
    if isinstance(part, Mapping):
        for inner in part.values():
            yield from _read(inner)


def _of_ends(part: Any) -> Iterator[str | None]:
    tree = part.tree if isinstance(part, TemplateValue) else part
    for end in tree if isinstance(tree, list | tuple) else (tree,):
        if isinstance(end, Mapping):
            yield from _auth_name(end.get("auth"))


def _auth_name(auth: Any) -> Iterator[str | None]:
    if isinstance(auth, TemplateValue):
        auth = auth.tree
    if isinstance(auth, Template):
        # One that reads the keychain is the secret itself, and was counted with what is read.
        if not any(read.path[0] == "keychain" for read in auth.facts.reads):
            yield None
    elif isinstance(auth, str):
        yield auth


_NOWHERE = KnownValues({})


def mask_secrets(task: Task) -> Task:
    """The task without its credentials: `Bearer {{ keychain.api.token }}` is `Bearer ‹secret: keychain.api.token›`."""
    config = {name: _mask(_anonymous(part) if name in ENDS else part) for name, part in task.config.items()}
    return replace(task, config=config, input=_mask(task.input), auth=None)


def _anonymous(ends: Any) -> Any:
    """The source or the targets of a transfer, which have credentials of their own, without those."""
    if isinstance(ends, TemplateValue):
        return ends.with_tree(_anonymous(ends.tree))
    if isinstance(ends, list | tuple):
        return [_anonymous(end) for end in ends]
    return {key: part for key, part in ends.items() if key != "auth"} if isinstance(ends, Mapping) else ends


def _mask(part: Any) -> Any:
    if isinstance(part, TemplateValue):
        return part.with_tree(_mask(part.tree)) if any(map(_reads_secrets, part.templates)) else part
    if isinstance(part, Template):
        return _without_secrets(part)
    if isinstance(part, Mapping):
        return {key: _mask(inner) for key, inner in part.items()}
    return [_mask(inner) for inner in part] if isinstance(part, list | tuple) else part


def _reads_secrets(one: Template) -> bool:
    return any(read.path[0] == "keychain" for read in one.facts.reads)


def _without_secrets(one: Template) -> Any:
    if not _reads_secrets(one):
        return one
    if one.parts is None or one.is_expression:
        return _NOWHERE.mark(one.source, one.facts)
    texts = [part if isinstance(part, str) else _expression(part[0].source) for part in one.parts]
    return template("".join(texts))


def _expression(source: str) -> str:
    whole = template(f"{{{{ {source} }}}}")
    return _NOWHERE.mark(source, whole.facts) if _reads_secrets(whole) else whole.source


PREFIX = "mock "
#: kinds whose effects are those of the tasks they call, which are looked at one by one
_CALLERS = frozenset({"playbook", "workbook"})
_VISIT = re.compile(r"\.(\d+)$")


class ObservedCall(msgspec.Struct, frozen=True):
    """A call that was made, and what with."""

    playbook: str
    step: str
    task: str
    #: the rendered keys, with `input`, `attempt` and `iteration`
    view: dict[str, Any]


class CaseError(msgspec.Struct, frozen=True):
    """Why a run cannot go on under test."""

    message: str
    fix: str
    at: Span | None = None


class MockedTools:
    """What a case makes of the tools. It outlives the death of the node: the world outside does."""

    def __init__(self, case: Case, cassette: Cassette, *, recording: bool) -> None:
        self.case = case
        self.cassette = cassette
        self.recording = recording
        self.kinds = MockedKinds(self)
        #: by the key of the task and the attempt: what is called again under the same name is the same call
        self.made: dict[tuple[str, int], ObservedCall] = {}
        self._numbers: dict[str, dict[tuple[str, int], int]] = {}
        #: set for the time of a run
        self.loop: VirtualTimeLoop
        self.playbook_of: Callable[[str], Playbook | None]
        self.stop: Callable[[CaseError], None]
        self.load: Callable[[Spilled], Awaitable[Any]]
        self.root = ""

    # --- the net -----------------------------------------------------------------------------------------------------

    def mock_net(self, net: Net, *, is_root: bool) -> Net:
        """A net whose mocked tasks are of kinds that are mocked."""
        playbook = net.playbook

        def tasks(step: str | None, given: tuple[Task, ...]) -> tuple[Task, ...]:
            return tuple(self._task(playbook, step, task, is_root=is_root) for task in given)

        def mock_step(step: Step) -> Step:
            undo = tasks(step.name, (step.compensation,)) if step.compensation is not None else (None,)
            parts = {part: tasks(step.name, getattr(step, part)) for part in ("tasks", "before", "after", "cleanup")}
            return replace(step, **parts, compensation=undo[0])

        steps: dict[str, Step] = {name: mock_step(step) for name, step in net.steps.items()}
        workbook = {name: tasks(None, given) for name, given in playbook.workbook.items()}
        # What is not run for real was masked: nobody has to have its credentials.
        running = [
            task for given in (*(step.all_tasks for step in steps.values()), *workbook.values()) for task in given
        ]
        keychain = select_credentials(playbook.keychain, running)
        order = tuple(steps[step.name] for step in playbook.steps)
        made = replace(playbook, steps=order, workbook=workbook, keychain=keychain)
        return replace(net, playbook=made, steps=steps)

    def _task(self, playbook: Playbook, step: str | None, task: Task, *, is_root: bool) -> Task:
        names = names_of_task(playbook, step, task.name, is_root=is_root)
        if step is None:
            # Which step calls it is known at the call: what one of them lets run must be able to.
            names = [*self._real_calls(task.name), *names]
        ruling = self.case.find_mode(task.kind, names)
        if ruling is not None and ruling.mock is not None:
            return mask_secrets(replace(task, kind=PREFIX + task.kind))
        return task if ruling is not None or self.recording else mask_secrets(task)

    def _real_calls(self, task: str) -> list[str]:
        """The longer names by which a task of the workbook is let run for real."""
        return [name for said in self.case.tasks for name in said.real if name.endswith(f".{task}")]

    # --- calls -------------------------------------------------------------------------------------------------------

    def note(self, kind: ToolKind, call: Call, world: World | None = None) -> dict[str, Any]:
        """Remember a call; what it was made with, secrets apart."""
        view = view_of(kind, call)
        view = view if world is None else _clean(view, world)
        playbook = self.playbook_of(call.execution_id)
        path = playbook.path if playbook is not None and call.execution_id != self.root else ""
        self.made[call.key, call.attempt] = ObservedCall(path, call.step, call.task, view)
        return view

    async def run(self, kind: ToolKind, module: Any, call: Call, world: World) -> Output:
        """What a task yields."""
        view = self.note(kind, call, world)
        ruling = self.case.find_mode(kind.name.removeprefix(PREFIX), self._names(call))
        if ruling is not None and ruling.mock is not None:
            name, mock = ruling.name, ruling.mock
            try:
                return await self._mock_output(name, mock, kind, call, view)
            except (NoMockOutput, TemplateError) as error:
                at = error.at if isinstance(error, NoMockOutput) else mock.at
                await self._stop(CaseError(f"the mock of `{name}` has no answer: {error}", "add it to the mock", at))
        if ruling is not None or kind.effect_free or kind.name in _CALLERS:
            return await self._run_for_real(module, call, world)
        return await self._play_or_record(kind, module, call, world, view)

    def _names(self, call: Call) -> list[str]:
        playbook = self.playbook_of(call.execution_id)
        return names_of_task(playbook, call.step, call.task, is_root=call.execution_id == self.root)

    async def _mock_output(self, name: str, mock: Mock, kind: ToolKind, call: Call, view: dict[str, Any]) -> Output:
        numbers = self._numbers.setdefault(name, {})
        number = numbers.setdefault((call.key, call.attempt), len(numbers))
        visit = _VISIT.search(call.key)
        asked = CallCounts(number, call.attempt - 1, int(visit[1]) - 1 if visit else 0, parse_label(call.iteration))
        scopes = {**call.scopes, "call": view}
        chosen = pick(mock, asked, scopes)
        await asyncio.sleep(delay_of(chosen, scopes))
        return output_of(chosen, call, kind.name.removeprefix(PREFIX), scopes)

    async def _run_for_real(self, module: Any, call: Call, world: World) -> Output:
        with self.loop.real():
            made = module.run(call, world)
            output: Output = await made if isawaitable(made) else made
            return output

    async def _play_or_record(
        self, kind: ToolKind, module: Any, call: Call, world: World, view: dict[str, Any]
    ) -> Output:
        """From the cassette, or into it."""
        playbook = self.playbook_of(call.execution_id)
        run = f"{playbook.path if playbook is not None else ''}:{call.key.partition('/')[2]}"
        if self.recording:
            output = await self._run_for_real(module, call, world)
            if isinstance(output["data"], Spilled):
                output = {**output, "data": await self.load(output["data"])}
            self.cassette.record(run, f"{call.step}.{call.task}", view, _clean(output, world))
            return output
        found = self.cassette.find(run, view)
        if isinstance(found, dict):
            return found
        place = f"`{call.step}.{call.task}` (kind {kind.name})"
        if found is None:
            fix = f"write a mock for it, run it with `real: [{call.step}.{call.task}]`, or record it with --record"
            await self._stop(CaseError(f"{place} has no mock, and would run for real", fix))
        message = f"{place} asks for something else than what was recorded: {found}"
        return await self._stop(CaseError(message, "record it again with --record, or correct the playbook"))

    async def _stop(self, trouble: CaseError) -> NoReturn:
        """End the run. The task never ends: nothing that follows from it would be true."""
        self.stop(trouble)
        await asyncio.get_running_loop().create_future()
        raise AssertionError


class MockedKinds(ToolKinds):
    """The installed kinds, each with a tool of ours in front of its own; and each once more, mocked."""

    def __init__(self, stage: MockedTools) -> None:
        super().__init__()
        self._stage = stage
        self._modules: dict[str, Any] = {}

    def __getitem__(self, name: str) -> ToolKind:
        if name.startswith(PREFIX):
            return replace(super().__getitem__(name.removeprefix(PREFIX)), name=name, effect_free=False)
        return super().__getitem__(name)

    def module(self, name: str) -> Any:
        """Our tool for a kind."""
        known = self._modules.get(name)
        if known is None:
            known = self._modules[name] = self._make_module(name)
        return known

    def _make_module(self, name: str) -> Any:
        stage, kind = self._stage, self[name]
        if name.startswith(PREFIX):
            return SimpleNamespace(KIND=kind, run=lambda call, world: stage.run(kind, None, call, world))
        own = super().module(name)
        made = SimpleNamespace(KIND=kind)
        if hasattr(own, "suspend"):
            made.suspend = lambda call, now: (stage.note(kind, call), own.suspend(call, now))[1]
        if not hasattr(own, "run"):
            return made
        if kind.effect_free and not iscoroutinefunction(own.run):
            made.run = lambda call, world: (stage.note(kind, call, world), own.run(call, world))[1]
            return made

        async def run(call: Call, world: World) -> Output:
            return await stage.run(kind, own, call, world)

        made.run = run
        return made


def names_of_task(playbook: Playbook | None, step: str | None, task: str, *, is_root: bool) -> list[str]:
    """What a task may be called in a test file, the most exact name first.

    Inside of the workbook a task goes by the name of the call and its own: `clean.clean_name`.
    """
    plain = [*([f"{step}.{task}"] if step is not None else []), task, task.rpartition(".")[2]]
    if is_root:
        return plain
    owners = dict.fromkeys((playbook.path, playbook.name)) if playbook is not None else {}
    return [f"{owner}:{name}" for name in plain for owner in owners]


def view_of(kind: ToolKind, call: Call) -> dict[str, Any]:
    """What a call is made with, as plain data; code stays where it is written."""
    view: dict[str, Any] = {key: _render_sql(value) for key, value in call.config.items() if key not in kind.literal}
    view |= {"input": dict(call.input), "attempt": call.attempt}
    if call.iteration is not None:
        view["iteration"] = call.iteration
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view, enc_hook=_plain))
    return plain


def _render_sql(value: Any) -> Any:
    """SQL as the text that the database gets, with a number for each value; `source` of a transfer has some inside."""
    if isinstance(value, BoundQuery):
        return value.render("$1")[0]
    return {key: _render_sql(part) for key, part in value.items()} if isinstance(value, dict) else value


def _clean(value: Any, world: World) -> Any:
    """Data without the secrets that the execution's keychain has given out."""
    keychain: Keychain = world.keychain  # type: ignore[attr-defined]  # of ours, which has one
    return keychain.redactor.clean(value)[0]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)

"""MigratedRun: runs the migrated text by the real engine, on the same made-up answers as the older one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.expr import BoundQuery
from noetl.model.kinds import ToolKind
from noetl.model.output import Output
from noetl.model.playbook import Playbook, Task
from noetl.ports import Call, World
from noetl.testing.case_runner import CaseOutcome, CaseRunner
from noetl.testing.mocked_tools import PREFIX, CaseError, MockedTools, mask_secrets
from noetl.testing.mocks import Cassette
from noetl.testing.test_file import NOW, Case
from noetl.testing.verification.code_runs import NOWHERE, CodeRunner, answer_code
from noetl.testing.verification.made_up_answers import MadeUpAnswers
from noetl.testing.verification.older_run import MOST_CALLS
from noetl.testing.verification.run_trace import RunTrace, TracedCall, view_call

#: kinds that have no effects outside of the run; of all others, those of plugins too, no task runs
_REAL = frozenset({"noop", "wait", "workbook"})
#: calls of a run; an older text is followed for fewer of them
_MOST_CALLS = 2 * MOST_CALLS


def run_migrated(
    runner: CaseRunner, answers: MadeUpAnswers, code: CodeRunner, payload: Mapping[str, Any], ends: float
) -> RunTrace:
    """Run a migrated playbook, until `ends` at most; what it read and published."""
    left = max(1.0, ends - time.monotonic())
    case = Case("verification", NOWHERE, dict(payload), (), (), NOW, left, None)
    stage = AnsweringTools(case, answers, code)
    done = runner.run_case(case, stage)
    trace = stage.trace
    trace.ctx = dict(done.state.ctx)
    trace.status = done.state.status
    trace.stopped = done.trouble.message if done.trouble is not None else ""
    trace.steps = _step_ends(done)
    return trace


def _step_ends(done: CaseOutcome) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in done.events:
        if event.name in ("step.done", "step.failed"):
            found.setdefault(event.entity_id, []).append(event.name.removeprefix("step."))
    return found


class AnsweringTools(MockedTools):
    """Tools that answer what is made up, and run only code that has no effects."""

    def __init__(self, case: Case, answers: MadeUpAnswers, code: CodeRunner) -> None:
        super().__init__(case, Cassette([]), recording=False)
        self.answers = answers
        self.code = code
        self.trace = RunTrace({}, {}, {})
        self._counts: dict[tuple[str, str, str], int] = {}
        self._made = 0

    def _task(self, playbook: Playbook, step: str | None, task: Task, *, is_root: bool) -> Task:  # noqa: ARG002
        return mask_secrets(task if task.kind in _REAL else replace(task, kind=PREFIX + task.kind))

    def note(self, kind: ToolKind, call: Call, world: World | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Count a call of a tool that runs; nobody asks what it was made with."""
        self._count_call()
        return {}

    def _count_call(self) -> None:
        self._made += 1
        if self._made > _MOST_CALLS:
            self.stop(CaseError(f"it takes more than {_MOST_CALLS:,} calls", ""))

    async def run(self, kind: ToolKind, module: Any, call: Call, world: World) -> Output:
        """What a task yields."""
        name = kind.name.removeprefix(PREFIX)
        if name in _REAL:
            return await self._run_for_real(module, call, world)
        self._count_call()
        place = (call.step, call.task, "" if call.iteration is None else str(call.iteration))
        number = self._counts.get(place, 0)
        self._counts[place] = number + 1
        if name == "python":
            output = await self._answer_code(call, place, number)
        else:
            output = self.answers.make_answer(name, place, number).to_output()
        message = output["error"]["message"] if output["error"] else ""
        read = view_call(name, _show_values(call.config), call.input)
        self.trace.calls[(*place, number)] = TracedCall(name, read, output["status"], output["data"], message)
        return dict(output)

    async def _answer_code(self, call: Call, place: tuple[str, str, str], number: int) -> Output:
        asked = (self.code, self.answers, str(call.config.get("code")), dict(call.input), place, number)
        if not self.code.blocks:
            return answer_code(*asked)
        with self.loop.real():
            return await asyncio.to_thread(answer_code, *asked)


def _show_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with its SQL as text, the values in their places."""
    return {key: _spell(value) if isinstance(value, BoundQuery) else value for key, value in config.items()}


def _spell(query: BoundQuery) -> str:
    return query.render("$1", _text)[0]


def _text(value: Any) -> str:

    if value is None or isinstance(value, str):
        return value or ""
    return (
        str(value).lower()
        if isinstance(value, bool | int | float)
        else msgspec.json.encode(value, order="sorted").decode()
    )

"""The steps of running executions as a tree: state, duration, bars for loops, retries, waits, children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from noetl.cli.output.printing import duration, rate, seconds_of
from noetl.cli.output.progress_lines import TaskProgress
from noetl.cli.output.state_lines import (
    describe_afterwork,
    describe_warnings,
    error_words,
    place,
    signal_hint,
    wait_words,
    waits,
)

if TYPE_CHECKING:
    from noetl.model.events import Event
    from noetl.model.state import Execution, LoopRun, StepInfo, StepRun
    from noetl.server.core import LiveExecution

_SIGNS = {"done": "✓", "failed": "✗", "cancelled": "■", "skipped": "–", "scheduled": "·", "running": "▶"}
_BAR = 24
#: retries, waits and children told of one step
_MOST = 4


class TreeRow(NamedTuple):
    """A line of the tree."""

    depth: int
    #: of its first two words
    style: str
    head: str
    rest: str = ""


class Retry(NamedTuple):
    """An attempt that is to come."""

    task: str
    attempt: int
    at: float
    why: str


class TreeView:
    """What the tree is drawn from. Watching only notes; everything else is in the states themselves."""

    def __init__(self) -> None:
        self.executions: dict[str, LiveExecution] = {}
        self.retries: dict[tuple[str, str, int | str | None], Retry] = {}
        self.pace = TaskProgress()
        #: loop → when it was first drawn and how far it was then
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def watch(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        """Note what the states do not show: who is there, and which attempts are to come."""
        if live.id not in self.executions:
            self.executions[live.id] = live
        for event in events:
            if event.name in ("task.progress", "task.done"):
                self.pace.record(live.id, event)
            if event.name == "task.done" and event.payload["do"] == "retry":
                self._retry(live, event)
            elif self.retries and event.name in ("task.started", "task.done"):
                self.retries.pop((live.id, event.step_run_id or "", event.iteration), None)
            elif self.retries and event.name in ("step.failed", "step.cancelled", "loop.done"):
                self._forget(live.id, event.step_run_id)
            elif event.name == "playbook.processed" and live.state.depth:
                self.executions.pop(live.id)  # a loop may have thousands of children

    def _forget(self, execution_id: str, run_id: str | None) -> None:
        """Of a run that has ended, no attempt is to come."""
        self.retries = {key: retry for key, retry in self.retries.items() if key[:2] != (execution_id, run_id)}

    def _retry(self, live: LiveExecution, event: Event) -> None:
        error = event.payload["output"]["error"]
        why = error_words(error) if error else "not yet as wished"
        task, attempt = event.entity_id.partition(".")[2], (event.attempt or 1) + 1
        at = seconds_of(event.timestamp) + event.payload["delay"]
        self.retries[live.id, event.step_run_id or "", event.iteration] = Retry(task, attempt, at, why)

    # --- drawing -----------------------------------------------------------------------------------------------------

    def rows(self, roots: list[LiveExecution], now: float) -> list[TreeRow]:
        """The tree of some executions, as they stand."""
        return [row for live in roots for row in self._execution(live.state, 0, now)]

    def _execution(self, state: Execution, depth: int, now: float) -> Iterator[TreeRow]:
        took = duration((seconds_of(state.timestamp) if state.over else now) - state.started) if state.started else ""
        status = state.shown_status
        yield TreeRow(depth, status, f"{state.path} {status}", f"{took}  {state.execution_id}")
        for name, info in state.steps.items():
            yield from self._step(state, name, info, depth + 1, now)

    def _step(self, state: Execution, name: str, info: StepInfo, depth: int, now: float) -> Iterator[TreeRow]:
        parts = [_took(info, now)] if info.started_at is not None else []
        if info.runs > 1:
            parts.append(f"run {info.runs}")
        run = state.runs.get(info.run_id or "")
        if run is not None and run.loop is not None:
            parts.append(self._bar(state, run, run.loop, now))
        elif info.loop is not None:
            failed = f", {info.loop['failed']:,} failed" if info.loop["failed"] else ""
            parts.append(f"{info.loop['completed']:,}/{info.loop['total']:,}{failed}")
        if info.status == "failed" and info.error is not None:
            parts.append(error_words(info.error))
        if info.warning is not None:
            parts.append(describe_warnings(info))
        parts += describe_afterwork(state, name)
        status = info.status
        parked = name in state.parked and run is None and not state.over
        if parked:
            parts.append("not admitted yet")
        yield TreeRow(depth, status, f"{_SIGNS.get(status, '·')} {name}", "  ".join(parts))
        if run is not None:
            yield from self._details(state, run, depth + 1, now)

    def _details(self, state: Execution, run: StepRun, depth: int, now: float) -> Iterator[TreeRow]:
        """How far long tasks are, retries, waits and children of a run."""
        shown = 0
        for task, iteration, words in self.pace.of(state.execution_id, run.id)[:_MOST]:
            shown += 1
            yield TreeRow(depth, "running", f"→ {place(task, iteration)}", words)
        for (execution_id, run_id, iteration), retry in self.retries.items():
            if execution_id == state.execution_id and run_id == run.id and shown < _MOST:
                shown += 1
                head = f"↻ {place(retry.task, iteration)}"
                again = f"attempt {retry.attempt} in {duration(max(0.0, retry.at - now))}"
                yield TreeRow(depth, "paused", head, f"{again}  ({retry.why})")
        for other, iteration, wait in waits(state):
            if other is not run:
                continue
            if shown == _MOST:
                yield TreeRow(depth, "dim", "…", "")
                return
            shown += 1
            child = self.executions.get(wait.child["execution_id"]) if wait.child is not None else None
            if child is not None:
                yield from self._execution(child.state, depth, now)
            else:
                what = f"{wait_words(wait)}{signal_hint(state.execution_id, wait)}"
                yield TreeRow(
                    depth, "waiting", f"… {what}" if iteration is None else f"… {place('', iteration)} {what}"
                )

    def _bar(self, state: Execution, run: StepRun, loop: LoopRun, now: float) -> str:
        """A loop's bar, with the rate since it was first drawn and the time that is left at that rate."""
        total, completed = loop.total, loop.completed
        since, before = self._seen.setdefault((state.execution_id, run.id), (now, completed))
        filled = _BAR * completed // total if total else _BAR
        parts = [f"{'━' * filled}{'╌' * (_BAR - filled)} {completed:,}/{total:,}"]
        if loop.failed:
            parts.append(f"{loop.failed:,} failed")
        if now - since > 0.5 and completed > before:
            speed = (completed - before) / (now - since)
            parts += [rate(speed), f"{duration((total - completed) / speed)} left"]
        return "  ".join(parts)


def _took(info: StepInfo, now: float) -> str:
    assert info.started_at is not None
    end = seconds_of(info.finished_at) if info.finished_at is not None else now
    return duration(end - seconds_of(info.started_at))


def fit_rows(rows: list[TreeRow], height: int) -> list[TreeRow]:
    """The rows that fit on a screen: what is done gives way first."""
    if len(rows) <= height:
        return rows
    surplus = len(rows) - height + 1
    hidden = [index for index, row in enumerate(rows) if row.style in ("done", "skipped")][:surplus]
    kept = [row for index, row in enumerate(rows) if index not in set(hidden)]
    more = TreeRow(1, "dim", f"… {len(hidden):,} steps done")
    return [*kept[:1], more, *kept[1:]][:height] if hidden else kept[:height]

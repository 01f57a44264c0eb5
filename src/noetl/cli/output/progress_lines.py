"""Progress as plain lines: one for each event that matters, with the time since the run was asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.cli.output.printing import duration, items, rate, seconds_of
from noetl.cli.output.state_lines import (
    describe_warnings,
    error_words,
    find_parked_tokens,
    place,
    signal_hint,
    wait_words,
)

if TYPE_CHECKING:
    from noetl.model.events import Event
    from noetl.server.core import LiveExecution


# How far a long task is, out of what it says of its progress: rows, the rate, the time that is left.


#: which task: the execution, the step run, the iteration
Key = tuple[str, str, int | str | None]
#: seconds before a rate means anything
_SOON = 0.5


class _Sample(NamedTuple):
    task: str
    at: float
    part: float | None
    rows: int


class TaskProgress:
    """The tasks under way that say how far they are."""

    def __init__(self) -> None:
        #: what was heard of each first; the rate is counted from there
        self._first: dict[Key, _Sample] = {}
        self._last: dict[Key, tuple[_Sample, dict[str, Any]]] = {}

    def record(self, execution_id: str, event: Event) -> None:
        """Note an event of a task; its end is forgotten with it."""
        key = execution_id, event.step_run_id or "", event.iteration
        if event.name != "task.progress":
            if self._last:
                self._first.pop(key, None)
                self._last.pop(key, None)
            return
        said = event.payload["progress"]
        if not isinstance(said.get("rows"), int):
            return
        seen = _Sample(event.entity_id.partition(".")[2], seconds_of(event.timestamp), _part(said), said["rows"])
        self._first.setdefault(key, seen)
        self._last[key] = seen, said

    def of(self, execution_id: str, run_id: str) -> list[tuple[str, int | str | None, str]]:
        """The tasks of a step run: name, iteration, and how far it is in words."""
        return [
            (self._last[key][0].task, key[2], self.words(key))
            for key in self._last
            if key[0] == execution_id and key[1] == run_id
        ]

    def words(self, key: Key) -> str:
        """`340,000 of 1,000,000 rows  120,000/s  5.5 s left`; empty: nothing is known."""
        if key not in self._last:
            return ""
        seen, said = self._last[key]
        total = said.get("total")
        parts = [f"{seen.rows:,} of {total:,} rows" if total else f"{seen.rows:,} rows"]
        if not total and seen.part is not None:
            parts[0] += f" ({seen.part:.0%})"
        first = self._first[key]
        took = seen.at - first.at
        if took > _SOON and seen.rows > first.rows:
            parts.append(rate((seen.rows - first.rows) / took))
            if seen.part is not None and first.part is not None and first.part < seen.part < 1:
                parts.append(f"{duration((1 - seen.part) * took / (seen.part - first.part))} left")
        return "  ".join(parts)


def _part(said: dict[str, Any]) -> float | None:
    """What part of the whole is done, where that can be known."""
    if not said["rows"]:
        return 0.0
    if said.get("total"):
        return min(1.0, float(said["rows"]) / float(said["total"]))
    part = said.get("part")
    return float(part) if part is not None else None


#: seconds between two lines about a loop that goes on
_REPORT = 10.0
#: seconds between two lines about how far a long task is
_PACE = 2.0
#: lines about the iterations of one step run; what comes beyond is in the log
_MOST = 5
#: seconds of a wait that is worth a line
_LONG = 1.0


class ProgressLines:
    """Writes lines to stderr as events come."""

    def __init__(self) -> None:
        self._began: float | None = None
        #: step run → when it started or was gone on with, and how many iterations were over then
        self._since: dict[tuple[str, str], tuple[float, int]] = {}
        self._told: dict[tuple[str, str], int] = {}
        self._next = time.monotonic() + _REPORT
        self._pace = TaskProgress()
        #: task → when there was last a line about how far it is
        self._paced: dict[Key, float] = {}

    def watch(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        """Tell of what has happened."""
        for event in events:
            tell = _TELL.get(event.name)
            said = tell(self, live, event) if tell is not None else None
            if said is not None:
                self._write(live, seconds_of(event.timestamp), said)
        if time.monotonic() > self._next:
            self._next = time.monotonic() + _REPORT
            self._report(live)

    def on_resume(self, live: LiveExecution) -> None:
        """Tell of an execution that another process has left, and count from here on."""
        state, now = live.state, time.time()
        self._began = now if self._began is None else self._began
        self._write(live, now, f"playbook {state.path}  {live.id} goes on behind event {state.seq}")
        for run in state.runs.values():
            over = run.loop.completed if run.loop is not None else 0
            self._since[live.id, run.id] = now, over
            at = f" at {over:,}/{run.loop.total:,}" if run.loop is not None else ""
            self._write(live, now, f"{run.step} goes on{at}")

    def _write(self, live: LiveExecution, at: float, said: str) -> None:
        if self._began is None:
            self._began = at
        # Children may run side by side: each of their lines says whose it is.
        whose = f"{'  ' * live.state.depth}{live.id}  " if live.state.depth else ""
        sys.stderr.write(f"{at - self._began:9.3f}s  {whose}{said}\n")

    def _report(self, live: LiveExecution) -> None:
        """How far the loops of an execution are."""
        now = time.time()
        for run in live.state.runs.values():
            if run.loop is None:
                continue
            total, over = run.loop.total, run.loop.completed
            since, before = self._since.setdefault((live.id, run.id), (now, over))
            if over > before and now > since:
                speed = (over - before) / (now - since)
                left = f", {rate(speed)}, {duration((total - over) / speed)} left"
                self._write(live, now, f"{run.step} {over:,}/{total:,}{left}")

    def _is_flood(self, live: LiveExecution, event: Event) -> bool:
        """Whether there has been enough about the iterations of a run."""
        if event.iteration is None:
            return False
        key = live.id, event.step_run_id or ""
        self._told[key] = self._told.get(key, 0) + 1
        return self._told[key] > _MOST

    # --- what is said ------------------------------------------------------------------------------------------------

    def _on_requested(self, live: LiveExecution, event: Event) -> str:
        return f"playbook {event.entity_id}  {live.id}"

    def _on_started(self, live: LiveExecution, event: Event) -> str:
        self._since[live.id, event.step_run_id or ""] = seconds_of(event.timestamp), 0
        return f"{event.entity_id} started"

    def _on_loop(self, _live: LiveExecution, event: Event) -> str:
        return f"{event.entity_id} goes over {items(event.payload['items'])}, {event.payload['mode']}"

    def _on_ended(self, live: LiveExecution, event: Event) -> str:
        key = live.id, event.step_run_id or ""
        since = self._since.pop(key, None)
        self._told.pop(key, None)
        took = f" in {duration(seconds_of(event.timestamp) - since[0])}" if since is not None else ""
        output = event.payload["output"]
        loop = output.get("loop")
        counts = f", {loop['succeeded']:,} of {loop['total']:,} went well" if loop else ""
        if event.name == "step.done":
            info = live.state.steps[event.entity_id]
            but = f", but {describe_warnings(info)}" if info.warning is not None else ""
            return f"{event.entity_id} done{took}{counts}{but}"
        return f"{event.entity_id} failed{took}{counts}: {error_words(output['error'])}"

    def _on_iteration_failed(self, live: LiveExecution, event: Event) -> str | None:
        if self._is_flood(live, event):
            return None
        return f"{place(event.entity_id, event.iteration)} failed: {error_words(event.payload['error'])}"

    def _on_task_started(self, live: LiveExecution, event: Event) -> str | None:
        wait = event.payload.get("wait")
        if wait is None or "child" in wait:
            return None
        if "signal" not in wait and wait["until"] < seconds_of(event.timestamp) + _LONG:
            return None
        if self._is_flood(live, event):
            return None
        from noetl.model.state import Wait

        wait = Wait("", wait.get("until"), wait.get("signal"), title=wait.get("title"))
        words = f"{wait_words(wait)}{signal_hint(live.id, wait)}"
        return f"{place(event.entity_id.partition('.')[0], event.iteration)} {words}"

    def _on_task_done(self, live: LiveExecution, event: Event) -> str | None:
        self._pace.record(live.id, event)
        payload = event.payload
        if payload["do"] != "retry" or self._is_flood(live, event):
            return None
        error = payload["output"]["error"]
        why = f" failed ({error_words(error)})" if error else " is not yet as wished"
        again = f"attempt {(event.attempt or 1) + 1} in {duration(payload['delay'])}"
        return f"{place(event.entity_id, event.iteration)}{why}, {again}"

    def _on_task_progress(self, live: LiveExecution, event: Event) -> str | None:
        self._pace.record(live.id, event)
        key, now = (live.id, event.step_run_id or "", event.iteration), time.monotonic()
        if now - self._paced.setdefault(key, now) < _PACE:
            return None
        self._paced[key] = now
        words = self._pace.words(key)
        return f"{place(event.entity_id.partition('.')[0], event.iteration)} {words}" if words else None

    def _on_parked(self, live: LiveExecution, event: Event) -> str | None:
        step, source = event.entity_id, event.payload["from"] or "the start"
        if step not in find_parked_tokens(live.state):
            return None  # it went on at once
        if event.payload.get("join"):
            return f"{step} has a token from {source} and waits for the others"
        return f"{step} is not admitted yet; a token from {source} is parked"

    def _on_skipped(self, _live: LiveExecution, event: Event) -> str | None:
        return f"{event.entity_id} was never admitted" if event.payload["why"] == "stalled" else None

    def _on_routed(self, _live: LiveExecution, event: Event) -> str | None:
        return f"{event.entity_id}: no arc matched" if event.payload.get("unmatched") else None

    def _on_cancelled(self, _live: LiveExecution, event: Event) -> str:
        follows = "; its `finally` tasks follow" if "closing" in event.payload else ""
        return f"{event.entity_id} cancelled: {event.payload['why']}{follows}"

    def _on_closing(self, _live: LiveExecution, event: Event) -> str:
        error = error_words(event.payload["closing"]["error"])
        return f"{event.entity_id} is failing: {error}; its `finally` tasks follow"

    def _on_closed(self, _live: LiveExecution, event: Event) -> str | None:
        error = event.payload.get("error")
        return f"{event.entity_id}: a `finally` task failed: {error_words(error)}" if error is not None else None

    def _on_compensating(self, live: LiveExecution, event: Event) -> str | None:
        self._since[live.id, event.step_run_id or ""] = seconds_of(event.timestamp), 0
        return f"undoing {place(event.entity_id, event.iteration)}"

    def _on_compensated(self, live: LiveExecution, event: Event) -> str:
        since = self._since.pop((live.id, event.step_run_id or ""), None)
        took = f" in {duration(seconds_of(event.timestamp) - since[0])}" if since is not None else ""
        where, error = place(event.entity_id, event.iteration), event.payload.get("error")
        return f"{where} undone{took}" if error is None else f"{where}: compensation failed{took}: {error_words(error)}"

    def _on_signal(self, _live: LiveExecution, event: Event) -> str:
        return f"signal `{event.payload['signal']}` received"

    def _on_paused(self, live: LiveExecution, _event: Event) -> str:
        return f"paused; `noetl unpause {live.id}` lets it go on"

    def _on_resumed(self, _live: LiveExecution, _event: Event) -> str:
        return "goes on"


_TELL: dict[str, Callable[[ProgressLines, LiveExecution, Event], str | None]] = {
    "playbook.execution.requested": ProgressLines._on_requested,  # noqa: SLF001  a table of its own methods
    "step.started": ProgressLines._on_started,  # noqa: SLF001
    "step.done": ProgressLines._on_ended,  # noqa: SLF001
    "step.failed": ProgressLines._on_ended,  # noqa: SLF001
    "step.parked": ProgressLines._on_parked,  # noqa: SLF001
    "step.skipped": ProgressLines._on_skipped,  # noqa: SLF001
    "next.evaluated": ProgressLines._on_routed,  # noqa: SLF001
    "step.cancelled": ProgressLines._on_cancelled,  # noqa: SLF001
    "step.closing": ProgressLines._on_closing,  # noqa: SLF001
    "step.closed": ProgressLines._on_closed,  # noqa: SLF001
    "step.compensating": ProgressLines._on_compensating,  # noqa: SLF001
    "step.compensated": ProgressLines._on_compensated,  # noqa: SLF001
    "step.compensation.failed": ProgressLines._on_compensated,  # noqa: SLF001
    "loop.started": ProgressLines._on_loop,  # noqa: SLF001
    "loop.iteration.failed": ProgressLines._on_iteration_failed,  # noqa: SLF001
    "task.started": ProgressLines._on_task_started,  # noqa: SLF001
    "task.progress": ProgressLines._on_task_progress,  # noqa: SLF001
    "task.done": ProgressLines._on_task_done,  # noqa: SLF001
    "signal.received": ProgressLines._on_signal,  # noqa: SLF001
    "execution.paused": ProgressLines._on_paused,  # noqa: SLF001
    "execution.resumed": ProgressLines._on_resumed,  # noqa: SLF001
}

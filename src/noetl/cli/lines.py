"""Progress as plain lines: one for each event that matters, with the time since the run was asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from noetl.cli.pace import Key, Pace
from noetl.cli.telling import error_words, held_tokens, place, signal_hint, wait_words, warning_words
from noetl.cli.words import duration, items, rate, seconds_of

if TYPE_CHECKING:
    from noetl.model.events import Event
    from noetl.server.service import Hot

#: seconds between two lines about a loop that goes on
_REPORT = 10.0
#: seconds between two lines about how far a long task is
_PACE = 2.0
#: lines about the iterations of one step run; what comes beyond is in the log
_MOST = 5
#: seconds of a wait that is worth a line
_LONG = 1.0


class Lines:
    """Writes lines to stderr as events come."""

    def __init__(self) -> None:
        self._began: float | None = None
        #: step run → when it started or was gone on with, and how many iterations were over then
        self._since: dict[tuple[str, str], tuple[float, int]] = {}
        self._told: dict[tuple[str, str], int] = {}
        self._next = time.monotonic() + _REPORT
        self._pace = Pace()
        #: task → when there was last a line about how far it is
        self._paced: dict[Key, float] = {}

    def watch(self, hot: Hot, events: tuple[Event, ...]) -> None:
        """Tell of what has happened."""
        for event in events:
            tell = _TELL.get(event.name)
            said = tell(self, hot, event) if tell is not None else None
            if said is not None:
                self._write(hot, seconds_of(event.timestamp), said)
        if time.monotonic() > self._next:
            self._next = time.monotonic() + _REPORT
            self._report(hot)

    def goes_on(self, hot: Hot) -> None:
        """Tell of an execution that another process has left, and count from here on."""
        state, now = hot.state, time.time()
        self._began = now if self._began is None else self._began
        self._write(hot, now, f"playbook {state.path}  {hot.id} goes on behind event {state.seq}")
        for run in state.runs.values():
            over = run.loop.completed if run.loop is not None else 0
            self._since[hot.id, run.id] = now, over
            at = f" at {over:,}/{run.loop.total:,}" if run.loop is not None else ""
            self._write(hot, now, f"{run.step} goes on{at}")

    def _write(self, hot: Hot, at: float, said: str) -> None:
        if self._began is None:
            self._began = at
        # Children may run side by side: each of their lines says whose it is.
        whose = f"{'  ' * hot.state.depth}{hot.id}  " if hot.state.depth else ""
        sys.stderr.write(f"{at - self._began:9.3f}s  {whose}{said}\n")

    def _report(self, hot: Hot) -> None:
        """How far the loops of an execution are."""
        now = time.time()
        for run in hot.state.runs.values():
            if run.loop is None:
                continue
            total, over = run.loop.total, run.loop.completed
            since, before = self._since.setdefault((hot.id, run.id), (now, over))
            if over > before and now > since:
                speed = (over - before) / (now - since)
                left = f", {rate(speed)}, {duration((total - over) / speed)} left"
                self._write(hot, now, f"{run.step} {over:,}/{total:,}{left}")

    def _is_flood(self, hot: Hot, event: Event) -> bool:
        """Whether there has been enough about the iterations of a run."""
        if event.iteration is None:
            return False
        key = hot.id, event.step_run_id or ""
        self._told[key] = self._told.get(key, 0) + 1
        return self._told[key] > _MOST

    # --- what is said ------------------------------------------------------------------------------------------------

    def _requested(self, hot: Hot, event: Event) -> str:
        return f"playbook {event.entity_id}  {hot.id}"

    def _started(self, hot: Hot, event: Event) -> str:
        self._since[hot.id, event.step_run_id or ""] = seconds_of(event.timestamp), 0
        return f"{event.entity_id} started"

    def _loop(self, _hot: Hot, event: Event) -> str:
        return f"{event.entity_id} goes over {items(event.payload['items'])}, {event.payload['mode']}"

    def _ended(self, hot: Hot, event: Event) -> str:
        key = hot.id, event.step_run_id or ""
        since = self._since.pop(key, None)
        self._told.pop(key, None)
        took = f" in {duration(seconds_of(event.timestamp) - since[0])}" if since is not None else ""
        output = event.payload["output"]
        loop = output.get("loop")
        counts = f", {loop['succeeded']:,} of {loop['total']:,} went well" if loop else ""
        if event.name == "step.done":
            info = hot.state.steps[event.entity_id]
            but = f", but {warning_words(info)}" if info.warning is not None else ""
            return f"{event.entity_id} done{took}{counts}{but}"
        return f"{event.entity_id} failed{took}{counts}: {error_words(output['error'])}"

    def _iteration_failed(self, hot: Hot, event: Event) -> str | None:
        if self._is_flood(hot, event):
            return None
        return f"{place(event.entity_id, event.iteration)} failed: {error_words(event.payload['error'])}"

    def _task_started(self, hot: Hot, event: Event) -> str | None:
        wait = event.payload.get("wait")
        if wait is None or "child" in wait:
            return None
        if "signal" not in wait and wait["until"] < seconds_of(event.timestamp) + _LONG:
            return None
        if self._is_flood(hot, event):
            return None
        from noetl.model.state import Wait

        wait = Wait("", wait.get("until"), wait.get("signal"))
        words = f"{wait_words(wait)}{signal_hint(hot.id, wait)}"
        return f"{place(event.entity_id.partition('.')[0], event.iteration)} {words}"

    def _task_done(self, hot: Hot, event: Event) -> str | None:
        self._pace.hear(hot.id, event)
        payload = event.payload
        if payload["do"] != "retry" or self._is_flood(hot, event):
            return None
        error = payload["output"]["error"]
        why = f" failed ({error_words(error)})" if error else " is not yet as wished"
        again = f"attempt {(event.attempt or 1) + 1} in {duration(payload['delay'])}"
        return f"{place(event.entity_id, event.iteration)}{why}, {again}"

    def _task_progress(self, hot: Hot, event: Event) -> str | None:
        self._pace.hear(hot.id, event)
        key, now = (hot.id, event.step_run_id or "", event.iteration), time.monotonic()
        if now - self._paced.setdefault(key, now) < _PACE:
            return None
        self._paced[key] = now
        words = self._pace.words(key)
        return f"{place(event.entity_id.partition('.')[0], event.iteration)} {words}" if words else None

    def _parked(self, hot: Hot, event: Event) -> str | None:
        step, source = event.entity_id, event.payload["from"] or "the start"
        if step not in held_tokens(hot.state):
            return None  # it went on at once
        if event.payload.get("join"):
            return f"{step} has a token from {source} and waits for the others"
        return f"{step} is not admitted yet; a token from {source} is parked"

    def _skipped(self, _hot: Hot, event: Event) -> str | None:
        return f"{event.entity_id} was never admitted" if event.payload["why"] == "stalled" else None

    def _cancelled(self, _hot: Hot, event: Event) -> str:
        return f"{event.entity_id} cancelled: {event.payload['why']}"

    def _signal(self, _hot: Hot, event: Event) -> str:
        return f"signal `{event.payload['signal']}` received"

    def _paused(self, hot: Hot, _event: Event) -> str:
        return f"paused; `noetl unpause {hot.id}` lets it go on"

    def _resumed(self, _hot: Hot, _event: Event) -> str:
        return "goes on"


_TELL: dict[str, Callable[[Lines, Hot, Event], str | None]] = {
    "playbook.execution.requested": Lines._requested,  # noqa: SLF001  a table of its own methods
    "step.started": Lines._started,  # noqa: SLF001
    "step.done": Lines._ended,  # noqa: SLF001
    "step.failed": Lines._ended,  # noqa: SLF001
    "step.parked": Lines._parked,  # noqa: SLF001
    "step.skipped": Lines._skipped,  # noqa: SLF001
    "step.cancelled": Lines._cancelled,  # noqa: SLF001
    "loop.started": Lines._loop,  # noqa: SLF001
    "loop.iteration.failed": Lines._iteration_failed,  # noqa: SLF001
    "task.started": Lines._task_started,  # noqa: SLF001
    "task.progress": Lines._task_progress,  # noqa: SLF001
    "task.done": Lines._task_done,  # noqa: SLF001
    "signal.received": Lines._signal,  # noqa: SLF001
    "execution.paused": Lines._paused,  # noqa: SLF001
    "execution.resumed": Lines._resumed,  # noqa: SLF001
}

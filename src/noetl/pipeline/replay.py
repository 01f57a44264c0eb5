"""Replay: brings a new frame to where the recorded events of its pipeline end.

Nothing recorded is decided again. One thing cannot be read from the log: a value that was redacted there. A task that
yielded one, and whose value is still in sight, is run again at its place, with the scopes it had; what it decided stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from noetl.errors import TemplateError
from noetl.expr import failure_of, patch_of
from noetl.model.events import Event
from noetl.model.output import Failure, Output
from noetl.model.scope import Patch, combine_patches
from noetl.pipeline.frame import Frame
from noetl.pipeline.machine import RunTask, prepare, replay_end

#: the place in a list of redacted ones that stands for the output; the others are targets of `set`
OUTPUT = "output"


class Replay:
    """The way back."""

    def __init__(self, frame: Frame, recorded: Iterable[Event]) -> None:
        self.frame = frame
        if not frame.sections:
            frame.visit(0)
        elif frame.at_end:  # of a loop whose list is there
            replay_end(frame)
        self._events = list(recorded)
        self._wanted = ends_to_rerun(self._events, goes_on=bool(frame.sections))
        self._at = 0
        self._advance()

    @property
    def done(self) -> bool:
        """Whether the frame stands where the log ends."""
        return self._at >= len(self._events)

    @property
    def recorded(self) -> Event:
        """How the task that has to run again ended."""
        return self._events[self._at]

    def next(self) -> RunTask | Failure:
        """The task that has to run again before it goes on; or why it cannot be run."""
        return prepare(self.frame)

    def take(self, output: Output) -> Failure | None:
        """The shaped output of that task; the failure that ends the way back, if it does not go well any more."""
        event = self._events[self._at]
        if output["error"] is not None:
            return self._rerun_failure(output["error"])
        try:
            output, patch = self._values(event, output)
        except TemplateError as error:
            return self._rerun_failure(failure_of(error))
        _apply(self.frame, event, output, patch)
        self._at += 1
        self._advance()
        return None

    def _rerun_failure(self, error: Failure) -> Failure:
        """What is told of a task that had gone well and does not any more."""
        why = "had to run again, for what it yielded is secret and not recorded, and failed"
        return {**error, "message": f"task `{self.frame.task.name}` {why}: {error['message']}"}

    def keep(self) -> None:
        """Go on with what was recorded of that task: it cannot be run again."""
        event = self._events[self._at]
        _apply(self.frame, event, event.payload["output"], event.payload.get("set", {}))
        self._at += 1
        self._advance()

    def _advance(self) -> None:
        """As far as the log alone leads."""
        frame = self.frame
        while not self.done:
            event = self._events[self._at]
            if event.name == "task.started":
                frame.number += 1
                frame.recorded_start = (event.task_run_id or "", event.attempt or 1)
                frame.since = datetime.fromisoformat(event.timestamp).timestamp()
            elif event.name == "task.progress":
                frame.progress = event.payload["progress"]
            elif event.name == "task.done":
                if event.seq in self._wanted:
                    return
                _apply(frame, event, event.payload["output"], event.payload.get("set", {}))
            self._at += 1

    def _values(self, event: Event, output: Output) -> tuple[Output, Patch]:
        """What the task yields and writes, with recorded values wherever those are the real ones."""
        frame, payload = self.frame, event.payload
        recorded = payload["output"]
        output = {**output, "ref": recorded["ref"], "meta": recorded.get("meta", {})}
        fresh = patch_of(frame.task.set, {**frame.scopes, "output": output})
        policy, rule = frame.task.policy, payload.get("rule")
        if policy is not None and rule is not None:
            frame.write(fresh)
            fresh = combine_patches(fresh, patch_of(policy.rules[rule].then.set, {**frame.scopes, "output": output}))
        redacted = payload["redacted"]
        patch = payload.get("set", {})
        return output, {key: fresh.get(key, value) if key in redacted else value for key, value in patch.items()}


def resume(frame: Frame, recorded: Iterable[Event]) -> Frame:
    """Bring a frame to where the log ends, of a pipeline that saw no secrets."""
    assert Replay(frame, recorded).done
    return frame


def ends_to_rerun(events: Sequence[Event], *, goes_on: bool = False) -> set[int]:
    """The ends of tasks whose redacted values are still in sight where the log ends, or of a task that runs again.

    `goes_on`: other tasks follow the failure of one.
    """
    found: set[int] = set()
    output_in_sight, overwritten = True, set[str]()
    for event in reversed(events):
        if event.name != "task.done":
            continue
        payload = event.payload
        if payload["do"] == "fail" and not goes_on:
            return set()  # the pipeline has ended, and nobody reads anything any more
        keeps = payload["do"] not in ("skip", "retry")
        redacted = set(payload.get("redacted", ())) if payload["output"]["error"] is None else set()
        if not (keeps and output_in_sight):
            redacted.discard(OUTPUT)
        if redacted - overwritten:
            found.add(event.seq)
            output_in_sight, overwritten = True, set()  # it may read whatever was there before
        else:
            output_in_sight = output_in_sight and not keeps
            overwritten |= payload.get("set", {}).keys()
    return found


def _apply(frame: Frame, event: Event, output: dict[str, Any], patch: Patch) -> None:
    """What the end of a task did to the frame."""
    payload = event.payload
    frame.recorded_start = None
    frame.write(patch)
    do = payload["do"]
    if do == "retry":
        frame.scopes["output"] = output
        frame.count_failed_attempt()
        frame.attempt += 1
        frame.not_before = datetime.fromisoformat(event.timestamp).timestamp() + payload["delay"]
        return
    if frame.task.silent or do == "skip":
        frame.discard_output()
    else:
        frame.yield_output(output)
    if do == "fail":
        if frame.sections:
            replay_end(frame, payload["error"])
        else:
            frame.failure = payload["error"]
        return
    if do == "jump":
        frame.jumps += 1
        frame.visit(frame.positions[payload["to"]])
    elif do == "break":
        frame.counter = frame.stop
    else:
        frame.visit(frame.counter + 1)
    if frame.sections and frame.at_end:
        replay_end(frame)

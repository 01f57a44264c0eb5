"""Crash everywhere: a case killed at every write and resumed must end as it does when nothing happens to it.

A log is only ever seen as it is between two writes, so these are all the places where a process can die: before a write
(what it was to record is lost, though its effects are not), and after it (nothing has followed from it yet).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.model.events import Event
from noetl.testing.case_runner import CaseOutcome, CrashPoint
from noetl.testing.expectations import ABSENT, render_value, same

#: ids that are made anew when what made them is done again
_ID = re.compile(r"00000000-0000-4000-8000-\d{12}|\btrial-\d+\b")


class CrashDifference(msgspec.Struct, frozen=True):
    """A death after which the run ends otherwise."""

    #: the last event that was recorded; None: nothing was
    event: Event | None
    after: bool
    message: str

    @property
    def where(self) -> str:
        """The place of the death in words."""
        if self.event is None:
            return "killed before the first event"
        what = f"event {self.event.seq} ({self.event.name} of {self.event.entity_id})"
        return f"killed behind {what}" if self.after else f"killed at the write behind {what}"


class CrashReport(msgspec.Struct, frozen=True):
    """What came of killing a run wherever it can be."""

    points: int
    differences: tuple[CrashDifference, ...]


def crash_everywhere(calm: CaseOutcome, again: Callable[[CrashPoint], CaseOutcome]) -> CrashReport:
    """Kill a run at every write; `again` performs it anew with a death."""
    expected = outcome(calm)
    found = []
    deaths = [CrashPoint(write, after) for write in range(1, calm.writes + 1) for after in (False, True)]
    for death in deaths:
        done = again(death)
        message = done.trouble.message if done.trouble is not None else _difference(expected, outcome(done))
        if message is not None:
            found.append(CrashDifference(done.died_at, death.after, message))
    return CrashReport(len(deaths), tuple(found))


def outcome(done: CaseOutcome) -> dict[str, Any]:
    """What a run came to, without what differs between any two runs."""
    state = done.state
    made: dict[str, Any] = _mask_ids(
        {
            "status": state.status,
            "output": done.output,
            "ctx": state.ctx,
            "error": state.error,
            "stalled": state.stalled,
            "unmatched": sorted(state.unmatched),
            "steps": {name: {"status": info.status, "runs": info.runs} for name, info in state.steps.items()},
        }
    )
    return made


def _mask_ids(value: Any) -> Any:
    if isinstance(value, str):
        return _ID.sub("‹id›", value)
    if isinstance(value, Mapping):
        return {key: _mask_ids(part) for key, part in value.items()}
    return [_mask_ids(part) for part in value] if isinstance(value, list | tuple) else value


def _difference(expected: Any, got: Any, name: str = "") -> str | None:
    """The first thing that is not the same."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in [*expected, *(key for key in got if key not in expected)]:
            inner = f"{name}.{key}" if name else str(key)
            found = _difference(expected.get(key, ABSENT), got.get(key, ABSENT), inner)
            if found is not None:
                return found
        return None
    return (
        None
        if same(expected, got)
        else f"`{name}` is {render_value(got)}, and {render_value(expected)} when nothing happens"
    )

"""Where to fork a log: the last event that is kept, found by its number or by the step that is to run anew."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from noetl.errors import UsageError
from noetl.model.events import Event
from noetl.model.nearest import nearest

_PLACE = re.compile(r"(?P<step>[A-Za-z_][A-Za-z0-9_-]*)(?:\[(?P<iteration>\d+(?:\.\d+)*)\])?")


class Place(msgspec.Struct, frozen=True):
    """A step, or one iteration of its loop, that is to run anew."""

    step: str
    iteration: str | None = None

    def __str__(self) -> str:
        return self.step if self.iteration is None else f"{self.step}[{self.iteration}]"


def parse(text: str) -> int | Place:
    """What `--from` names: the number of an event, a step, or an iteration as `step[3]`."""
    if text.isascii() and text.isdecimal():
        return int(text)
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(f"--from {text}: name a step, an iteration such as `step[3]`, or the number of an event")
    return Place(found["step"], found["iteration"])


def last_kept(events: Iterable[Event], wanted: int | Place, *, run: int | None, known: Iterable[str]) -> int:
    """The last event to keep; `known` are the steps of the playbook, for whoever misspells one."""
    if isinstance(wanted, Place):
        return _before(list(events), wanted, run, list(known)) - 1
    if run is not None:
        raise UsageError("--run says which run of a step: name one with --from STEP")
    length = over = 0
    for event in events:
        length = event.seq
        if event.name in ("workflow.finished", "playbook.processed"):
            over = over or event.seq
    if wanted > length:
        raise UsageError(f"--from {wanted}: the log ends at event {length}")
    if over and wanted >= over:
        raise UsageError(f"--from {wanted}: at that event it is over; {over - 1} is the last one to go on from")
    return wanted


def _before(events: list[Event], place: Place, run: int | None, known: list[str]) -> int:
    """The event with which the place began to run."""
    fired = [one for one in events if one.name == "step.scheduled" and one.entity_id == place.step]
    if not fired:
        raise UsageError(_never_ran(events, place.step, known))
    if run is not None and not 1 <= run <= len(fired):
        raise UsageError(f"--run {run}: {place.step} ran {len(fired)} times" if len(fired) > 1 else f"--run {run}: {place.step} ran once")  # fmt: skip
    chosen = fired[(run or len(fired)) - 1]
    if place.iteration is None:
        return chosen.seq
    for one in events:
        begins = one.name == "loop.iteration.started" and one.step_run_id == chosen.step_run_id
        if begins and str(one.iteration) == place.iteration:
            return one.seq
    raise UsageError(f"--from {place}: {chosen.step_run_id} has not started an iteration {place.iteration}")


def _never_ran(events: list[Event], step: str, known: list[str]) -> str:
    ran = list(dict.fromkeys(one.entity_id for one in events if one.name == "step.scheduled"))
    if step in known:
        return f"--from {step}: it never ran; these did: {', '.join(ran[:20])}"
    meant = nearest(step, [*ran, *known])
    hint = f"did you mean `{meant}`?" if meant else f"these ran: {', '.join(ran[:20])}"
    return f"--from {step}: there is no such step; {hint}"

"""How far a long task is, out of what it says of its progress: rows, the rate, the time that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.cli.words import duration, rate, seconds_of

if TYPE_CHECKING:
    from noetl.model.events import Event

#: which task: the execution, the step run, the iteration
Key = tuple[str, str, int | str | None]
#: seconds before a rate means anything
_SOON = 0.5


class _Seen(NamedTuple):
    task: str
    at: float
    part: float | None
    rows: int


class Pace:
    """The tasks under way that say how far they are."""

    def __init__(self) -> None:
        #: what was heard of each first; the rate is counted from there
        self._first: dict[Key, _Seen] = {}
        self._last: dict[Key, tuple[_Seen, dict[str, Any]]] = {}

    def hear(self, execution_id: str, event: Event) -> None:
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
        seen = _Seen(event.entity_id.partition(".")[2], seconds_of(event.timestamp), _part(said), said["rows"])
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

"""Progress of commands that go through long logs, for people at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.model.events import Event
    from noetl.ports import EventLog

#: events that are gone through in no time
_FEW = 50_000
#: between two words about it
_EVERY = 10_000


class CountingLog:
    """A log that says, while it is read, how much of it is behind; to a terminal, and only if there is much."""

    def __init__(self, log: EventLog, total: int) -> None:
        self._log = log
        self._total = total
        self._read = self._told = 0
        self._shows = total > _FEW and sys.stderr.isatty()

    def __getattr__(self, name: str) -> Any:
        """All else as it is."""
        return getattr(self._log, name)

    def read(self, execution_id: str, **which: Any) -> Sequence[Event]:
        """See `EventLog`."""
        found = self._log.read(execution_id, **which)
        self._count(len(found))
        return found

    def raw_events(self, execution_id: str) -> Iterator[Any]:
        """See `stores.verify`."""
        for one in self._log.raw_events(execution_id):  # type: ignore[attr-defined]  # of the logs that can be verified
            self._count(1)
            yield one

    def _count(self, more: int) -> None:
        self._read += more
        if self._shows and self._read - self._told >= _EVERY:
            self._told = self._read
            share = min(99, 100 * self._read // self._total)
            sys.stderr.write(f"\r{share:3} %  {self._read:,} of {self._total:,} events\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Leave nothing behind."""
        if self._told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

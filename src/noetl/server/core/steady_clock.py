"""SteadyClock: the time by which waits, retries and deadlines are measured while a process lives."""

from __future__ import annotations

from collections.abc import Callable

#: a wall clock that is behind by less was only read late
_NOISE_S = 0.2


class SteadyClock:
    """Seconds since the epoch that never go back, and pass at least as fast as the monotonic clock.

    A wall clock that is set forward is followed: the machine was suspended, or its date was wrong. One that is set back is
    not: whoever waits for a time would wait for the difference as well. What begins after that has the new date, see
    `LiveExecution.ahead`.
    """

    def __init__(self, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        #: the date
        self.date = clock
        self._monotonic = monotonic
        #: by how much the wall clock was set back, in all
        self._added = 0.0
        self._last = self._raw = clock()
        self._at = monotonic()

    def __call__(self) -> float:
        """The time now."""
        raw, at = self.date() + self._added, self._monotonic()
        if raw < self._raw + (at - self._at) - _NOISE_S:
            raw, at = self.date() + self._added, self._monotonic()  # the process may have been held up in between
            behind = self._raw + (at - self._at) - raw
            if behind > _NOISE_S:
                self._added += behind
                raw += behind
        self._raw, self._at = raw, at
        self._last = max(self._last, raw)
        return self._last

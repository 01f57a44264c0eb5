"""Virtual time: an event loop whose clock moves only when nothing else can."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar, TypeVarTuple, Unpack

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_Ready = list[tuple[selectors.SelectorKey, int]]


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, in seconds since the epoch."""

    def __init__(self, start: float, *, limit: float) -> None:
        self._now = start
        self._held = 0
        self._selector_of_ours = _Selector(self)
        #: the last moment, of real time
        self._last = time.monotonic() + limit
        #: called once when real time has run out
        self.on_late: Callable[[], None] | None = None
        #: called once when nothing is left that could ever happen
        self.on_stuck: Callable[[], None] | None = None
        super().__init__(self._selector_of_ours)
        # Seconds since the epoch are too large for the nanoseconds by which the loop takes a timer to be due.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """The clock."""
        return self._now

    @contextmanager
    def real(self) -> Iterator[None]:
        """Inside of this, time passes as it does: something is going on that the loop does not see."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """What threads do takes the time that it takes."""
        made = super().run_in_executor(executor, func, *args)
        self._held += 1
        made.add_done_callback(self._release)
        return made

    def _release(self, _made: asyncio.Future[Any]) -> None:
        self._held -= 1

    def finish(self) -> None:
        """From now on time is real: what is left to do is to close what is open."""
        self._held += 1

    def wait(self, timeout: float | None, look: Callable[[float | None], _Ready]) -> _Ready:
        """What became ready until the timeout; the selector's own `select` is `look`."""
        left = self._last - time.monotonic()
        if left <= 0 and self.on_late is not None:
            tell, self.on_late = self.on_late, None
            tell()
            return []
        ready = look(0)
        if ready or timeout == 0:
            return ready
        if self._held:
            return self._wait_in_real_time(timeout, left, look)
        if timeout is not None:
            self._now += timeout
            return []
        if self.on_stuck is not None:
            tell, self.on_stuck = self.on_stuck, None
            tell()
            return []
        return look(None)

    def _wait_in_real_time(self, timeout: float | None, left: float, look: Callable[[float | None], _Ready]) -> _Ready:
        most = max(0.001, left)
        began = time.monotonic()
        ready = look(most if timeout is None else min(timeout, most))
        self._now += time.monotonic() - began
        return ready


class _Selector(selectors.DefaultSelector):
    """The system's selector, which asks the loop how to wait."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        """What is ready."""
        return self._loop.wait(timeout, super().select)

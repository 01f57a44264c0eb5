"""The watchdog: a thread beside the event loop that ends a decision which takes too long.

A decision runs in the thread of the event loop, and while it does, nothing else there moves. Templates, patterns and
schemas are bounded by what they cost, so that a decision takes milliseconds; the watchdog is for what these bounds miss.
It counts the processor time of the thread, not the time on the wall, so that a busy machine ends nothing.

A decision that ends the process itself, because memory runs out, is found by the mark that the watchdog leaves in a file
while a long decision is under way: after two such ends, the execution is set aside instead of being tried again.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from noetl.errors import ExecutionStuck

#: seconds of processor time that a decision may take, and after which it is marked as a long one
BOUND_S: Final = 5.0
_LONG_S: Final = 1.0
#: the folder in NOETL_HOME for the marks
MARKS: Final = "deciding"
#: how often the watchdog looks, in seconds
_LOOK_S: Final = 0.25
#: ends of the process during a long decision of one execution, after which it is not tried again
_MOST_ENDS: Final = 2
_set_exception: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc
#: a null pointer: nothing is raised
_NOTHING: Final = ctypes.py_object()
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)

Of = TypeVar("Of")


class _Overdue(BaseException):
    """Raised in the thread that decides; not an `Exception`, so that nothing on the way takes it for a failure of its own."""


class Watchdog:
    """Watches the decisions of one thread; marks of long ones are files in a folder."""

    def __init__(self, folder: Path | None = None, *, bound_s: float = BOUND_S) -> None:
        self._folder = folder
        self._bound_s = bound_s
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        #: the decision under way: its number and execution; None: there is none
        self._under_way: tuple[int, str] | None = None
        self._count = 0
        self._raised = False
        self._marked = False

    def run(self, execution_id: str, decide: Callable[[], Of]) -> Of:
        """Return what `decide` returns. ExecutionStuck: it took too long and was ended."""
        if self._thread is None:
            self._start()
        try:
            self._count += 1
            self._under_way = (self._count, execution_id)
            try:
                return decide()
            finally:
                self._end()
        except _Overdue:
            self._end()
            raise ExecutionStuck(
                f"deciding what follows took more than {self._bound_s:g} s of processor time"
            ) from None

    def check(self, execution_id: str) -> None:
        """ExecutionStuck: the process ended repeatedly while it decided for this execution."""
        mark = self._mark_of(execution_id)
        if mark is not None and _count_ends(mark) >= _MOST_ENDS:
            _remove(mark)
            raise ExecutionStuck(f"the process ended {_MOST_ENDS} times while it decided what follows")

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _end(self) -> None:
        """The decision is over; what was raised for it and has not arrived yet never will."""
        with self._lock:
            ended, self._under_way = self._under_way, None
            if self._raised:
                self._raised = False
                _set_exception(threading.get_ident(), _NOTHING)
            marked, self._marked = self._marked, False
        if marked and ended is not None and (mark := self._mark_of(ended[1])) is not None:
            _remove(mark)

    # --- the thread ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, args=(watched,), name="noetl-watchdog", daemon=True)
        self._thread.start()

    def _watch(self, watched: int) -> None:
        clock = time.pthread_getcpuclockid(watched)
        seen, since = 0, 0.0
        while not self._closed.wait(_LOOK_S):
            under_way = self._under_way
            if under_way is None:
                continue
            now = time.clock_gettime(clock)
            if under_way[0] != seen:
                seen, since = under_way[0], now
            elif now - since > self._bound_s:
                self._interrupt(under_way, watched)
            elif now - since > _LONG_S and not self._marked:
                self._mark(under_way)

    def _interrupt(self, under_way: tuple[int, str], watched: int) -> None:
        with self._lock:
            if self._under_way == under_way and not self._raised:
                self._raised = True
                _set_exception(watched, ctypes.py_object(_Overdue))

    def _mark(self, under_way: tuple[int, str]) -> None:
        with self._lock:
            mark = self._mark_of(under_way[1])
            if mark is None or self._under_way != under_way:
                return
            self._marked = True
            with contextlib.suppress(OSError):
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.write_text(f"{_count_ends(mark) + 1}\n", encoding="utf-8")

    def _mark_of(self, execution_id: str) -> Path | None:
        return self._folder / execution_id if self._folder is not None and execution_id.isalnum() else None


def _remove(mark: Path) -> None:
    with contextlib.suppress(OSError):
        mark.unlink()


def _count_ends(mark: Path) -> int:
    try:
        return int(mark.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0

"""The signals that ask a process to end, and the deadline by which it does."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from threading import Timer

#: seconds beyond the grace that connections and stores get to be closed
CLOSE_S = 5.0
#: the same after a second signal
_AT_ONCE_S = 2.0


def list_end_signals() -> list[signal.Signals]:
    """Return SIGTERM, and SIGHUP (a terminal was closed) unless the process was started to ignore it, as `nohup` does."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]


class EndDeadline:
    """Ends the process when its time is over, whatever it still waits for: a store that does not answer holds up nobody."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._timer: Timer | None = None

    def on_signal(self) -> None:
        """Hear that the process is to end; the second time, at once."""
        seconds = self._grace_s + CLOSE_S if self._timer is None else _AT_ONCE_S
        timer = Timer(seconds, _end, (seconds,))
        timer.daemon = True
        timer.start()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


def _end(seconds: float) -> None:
    line = f"ended after {seconds:g} s without waiting any longer, perhaps for the store; nothing that was recorded is lost\n"
    with suppress(OSError):
        os.set_blocking(2, False)
        os.write(2, line.encode())
    os._exit(1)

"""The signals that ask a process to end."""

from __future__ import annotations

import signal


def list_end_signals() -> list[signal.Signals]:
    """Return SIGTERM, and SIGHUP (a terminal was closed) unless the process was started to ignore it, as `nohup` does."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]

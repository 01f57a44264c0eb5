"""What this machine has too little of: open files, processes, memory. That is no failure of a task; it runs when there is more."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from noetl.errors import MachineExhausted

_WHAT: Final = {
    errno.EMFILE: "this process may open no more files (`ulimit -n`)",
    errno.ENFILE: "this machine may open no more files",
    errno.ENOMEM: "this machine has no more memory",
    errno.ENOBUFS: "this machine has no more memory for connections",
}
#: the same number means something else where no process is started
_NO_PROCESS: Final = "this user may start no more processes (`ulimit -u`)"


def check_machine(error: BaseException, *, starting: bool = False) -> None:
    """Raise MachineExhausted if an error says that the machine lacks something; `starting`: a process was to be started."""
    number = getattr(error, "errno", None)
    what = _WHAT.get(number) if isinstance(number, int) else _find_in_text(str(error))
    if what is None and starting and number == errno.EAGAIN:
        what = _NO_PROCESS
    if what is not None:
        raise MachineExhausted(what) from error


@contextmanager
def translating_exhaustion() -> Iterator[None]:
    """MachineExhausted for an error of the system that says so; others are passed on."""
    try:
        yield
    except OSError as error:
        check_machine(error)
        raise


def _find_in_text(text: str) -> str | None:
    """Clients written in C report a number of the system as its text."""
    return next((what for number, what in _WHAT.items() if os.strerror(number) in text), None)

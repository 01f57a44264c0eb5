"""Supervision of a test run: whatever way the run ends, none of its processes outlives it.

`supervise()` splits the calling process into three. The caller's own process only waits and forwards signals. Its child
supervises: the kernel makes it the parent of every orphan of the run, so it finds daemons and killed tests' processes as well.
The grandchild returns from the call and is the program. When the program or the waiting process ends, by `kill -9` too, the
supervisor ends all that is left. It has a process group of its own, so that a kill of the run's group leaves it alive. A kill
of the supervisor itself is not covered: then only the program ends. Only Linux can do this; elsewhere `supervise()` does nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

#: how long processes may take to end by themselves when the program has ended
GRACE_S = 5.0
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)
_FROM_KERNEL = 0x80  # si_code of the signals that a terminal sends to a whole process group
_HANDLED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}


def supervise() -> None:
    """Return in a process whose descendants all end when it ends. Call this before any thread is started."""
    # A worker of pytest-xdist has threads, which a fork would lose; it is a descendant of a supervised process anyway.
    if sys.platform != "linux" or "PYTEST_XDIST_WORKER" in os.environ:
        return
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("supervise() was called after a thread was started")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    waiting = os.getpid()
    supervisor = os.fork()
    if supervisor:
        _wait(supervisor)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    program = os.fork()
    if program:
        os.setpgid(0, 0)  # after the fork: the program stays in the group that a terminal sends its signals to
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGHUP)
        os._exit(_supervise(program, waiting))
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    # By default the program would end without stopping its servers; and SIGINT is ignored in the background of a shell.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def children(pid: int) -> Iterator[int]:
    """Yield the processes that a process is the parent of."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            yield from map(int, (task / "children").read_text().split())


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process is there and has not ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(supervisor: int) -> NoReturn:
    """Forward signals until the supervisor ends, and exit with its code."""
    while True:
        came = signal.sigwaitinfo(_HANDLED)
        if came.si_signo != signal.SIGCHLD:
            if came.si_code != _FROM_KERNEL:  # the program received that one itself
                os.kill(supervisor, came.si_signo)
            continue
        ended, status = os.waitpid(supervisor, os.WNOHANG)
        if ended:
            os._exit(_exit_code(status))


def _supervise(program: int, waiting: int) -> int:
    """Wait for the end of the program, or of the process that waits for us; the exit code."""
    while os.getppid() == waiting:
        came = signal.sigwaitinfo(_HANDLED)
        if came.si_signo == signal.SIGCHLD:
            status = _reap().get(program)
            if status is not None:
                _end_children(GRACE_S)
                return _exit_code(status)
        elif came.si_pid == waiting:
            os.kill(program, came.si_signo)
    os.kill(program, signal.SIGKILL)
    _end_children(GRACE_S)
    return 128 + signal.SIGKILL


def _reap() -> dict[int, int]:
    """Collect the children that have ended; the status of each."""
    found: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found[ended[0]] = ended[1]
    return found


def _end_children(grace: float) -> None:
    """Wait for all descendants for a while, and kill the rest: the children of a killed one become ours and are next."""
    end = time.monotonic() + grace
    while any(children(os.getpid())):
        left = end - time.monotonic()
        if left <= 0:
            for pid in children(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, max(0.05, left))
        _reap()


def _exit_code(status: int) -> int:
    """Return the code a shell reports for a status."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")

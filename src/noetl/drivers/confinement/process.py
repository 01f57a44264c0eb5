"""Confining this process: the last thing that happens in it before the author's code begins.

It is also a program: `launch` confines itself and becomes the command that it is given.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Mapping
from typing import Any

from noetl.drivers.confinement import REASON, REFUSED, landlock, seccomp

_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 24, 47, 4
_CAPABILITIES = 64
_OPEN_FILES = 4_096


def confine(bounds: Mapping[str, Any]) -> None:
    """Put this process into its bounds, for good. OSError: it cannot be done."""
    strict = bool(bounds["strict"])
    if strict:
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
        _drop_capabilities()
        landlock.restrict_files(bounds["read"], bounds["write"])
    else:
        landlock.enter_domain()
    body = seccomp.program(
        strict=strict,
        network=bool(bounds["network"]),
        signals=landlock.version() < landlock.KEEPS_SIGNALS,
    )
    seccomp.install(body)


def launch(bounds: str, command: list[str]) -> None:
    """Confine this process, and become the command."""
    import json

    try:
        confine(json.loads(bounds))
    except OSError as error:
        os.write(2, f"{REASON}{error}\n".encode())
        sys.exit(REFUSED)
    try:
        os.execv(command[0], command)  # noqa: S606  to run what the author says is what this is for
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        sys.exit(126 if isinstance(error, PermissionError) else 127)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def _drop_capabilities() -> None:
    """A process of root keeps nothing of it but its files."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # who may not, has none to drop
    head = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0), 8)
    if libc.capset(head, ctypes.create_string_buffer(24)) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")

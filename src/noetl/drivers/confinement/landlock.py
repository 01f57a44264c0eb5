"""Landlock: which files this process and all that it starts may see. Needs no privilege, cannot be undone."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_MAKE_BLOCK, _REFER, _TRUNCATE, _IOCTL_DEV = 1 << 11, 1 << 13, 1 << 14, 1 << 15
_FIRST_ALL = (1 << 13) - 1
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SCOPES = 0b11  # signals and abstract sockets stay inside
#: the first version that keeps files from being cut
ENOUGH = 3
#: the first version that keeps signals in
KEEPS_SIGNALS = 6


def version() -> int:
    """The version of Landlock of this kernel; 0: it has none, or it is switched off."""
    if os.uname().sysname != "Linux":
        return 0
    return max(0, int(_call(_CREATE, None, 0, _ASK_VERSION)))


def restrict_files(read: Iterable[str], write: Iterable[str]) -> None:
    """Let files beneath some paths be read and executed, beneath others everything; no other file is there any more."""
    abi = version()
    everything = _all_rights(abi)
    ruleset = _ruleset(abi, everything)
    try:
        for path in read:
            _allow(ruleset, path, _READ)
        for path in write:
            _allow(ruleset, path, everything & ~_EXECUTE if _is_device(path) else everything)
        _restrict(ruleset)
    finally:
        os.close(ruleset)


def enter_domain() -> None:
    """Forbid next to nothing, but be in a domain: who is in one can look into no process outside of it."""
    abi = version()
    if abi:
        # Files may not be moved from one folder to another in any domain that does not say they may.
        moving = _REFER if abi >= 2 else 0
        ruleset = _ruleset(abi, _MAKE_BLOCK | moving, scoped=False)
        try:
            if moving:
                _allow(ruleset, "/", moving)
            _restrict(ruleset)
        finally:
            os.close(ruleset)


def _all_rights(abi: int) -> int:
    rights = _FIRST_ALL
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        rights |= right if abi >= since else 0
    return rights


def _ruleset(abi: int, handled: int, *, scoped: bool = True) -> int:
    attributes = struct.pack("QQQ", handled, 0, _SCOPES if scoped and abi >= KEEPS_SIGNALS else 0)
    size = 24 if abi >= KEEPS_SIGNALS else 16 if abi >= 4 else 8
    return _check_result(_call(_CREATE, ctypes.create_string_buffer(attributes, 24), size, 0), "a ruleset")


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be allowed
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights & _all_rights(version()), descriptor)
        _check_result(_call(_ADD, ruleset, _BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0), path)
    finally:
        os.close(descriptor)


def _is_device(path: str) -> bool:
    return path.startswith("/dev/")


def _restrict(ruleset: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _check_result(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _check_result(_call(_RESTRICT, ruleset, 0), "the restriction")


def _check_result(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock refuses {what}")
    return result


def _call(*arguments: object) -> int:
    made = ctypes.CDLL(None, use_errno=True).syscall
    made.restype = ctypes.c_long
    return int(made(*(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)))

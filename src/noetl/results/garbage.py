"""What may be removed of a result store: payloads, wherever they lie, and files of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from noetl.results.backends.backend import DRAFTS, BackendEntry, PayloadBackend


class Removable(msgspec.Struct, frozen=True):
    """Something that may be removed."""

    #: within the folder of its execution
    name: str
    display_name: str
    bytes: int
    remove: Callable[[], None]


def removable_file(path: Path, folder: Path) -> Removable:
    """A file or a folder of this machine, below the folder of the store."""
    return Removable(path.name, path.relative_to(folder).as_posix(), _size(path), lambda: _remove(path))


def removable_payload(backend: PayloadBackend, one: BackendEntry) -> Removable:
    """A payload in a backend."""
    name = str(one.place).partition("/")[2]
    return Removable(name, backend.display_name(one.place), one.bytes, lambda: backend.remove(one.place))


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in ([path] if path.is_file() else path.rglob("*")) if one.is_file())


def _remove(path: Path) -> None:
    """Remove something of the folder, and the folder of an execution with the last of it."""
    with contextlib.suppress(FileNotFoundError):  # somebody else removes them, too
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if path.parent.name != DRAFTS:  # others are about to write there
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def is_alive(draft: Path) -> bool:
    """Whether the process that a draft is of may still go on with it."""
    pid = draft.name.partition("-")[0]
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

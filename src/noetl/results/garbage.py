"""What may be removed of a result store: expired payloads, payloads that no log names, and files of this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from noetl.errors import NoetlError
from noetl.results.backends.backend import DRAFTS, BackendEntry, PayloadBackend


class Removable(msgspec.Struct, frozen=True):
    """Something that may be removed."""

    #: within the folder of its execution
    name: str
    display_name: str
    bytes: int
    remove: Callable[[], None]
    #: the execution that it belongs to
    owner: str = ""


def removable_file(path: Path, folder: Path) -> Removable:
    """A file or a folder of this machine, below the folder of the store."""
    return Removable(path.name, path.relative_to(folder).as_posix(), _size(path), lambda: _remove(path))


def removable_payload(backend: PayloadBackend, one: BackendEntry) -> Removable:
    """A payload in a backend."""
    name = str(one.place).partition("/")[2]
    return Removable(
        name, backend.display_name(one.place), one.bytes, lambda: backend.remove(one.place), one.place.owner
    )


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


# Payloads that were stored and never recorded, because the process was killed in between. No reference leads to them. That
# is certain only of an execution that is over: its log gets no more events.


def find_unrecorded(
    parts_of: Callable[[str], Iterable[bytes]], execution_id: str, lying: Iterable[Removable], log: Iterable[bytes]
) -> list[Removable]:
    """Which of the things of an execution neither its log, given as text, leads to, nor a list that the log leads to."""
    waiting = _file_names(execution_id, log)
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        known.add(name)
        try:
            parts = parts_of(f"{execution_id}/{name}")
        except NoetlError:
            return []  # what a list leads to cannot be told any more
        waiting |= _file_names(execution_id, parts) - known
    return [one for one in lying if one.name not in known]


_PAYLOAD = re.compile(rb"([\w-]+)/([0-9a-f]{32}[.\w]*)")


def find_needed(parts_of: Callable[[str], Iterable[bytes]], texts: Iterable[bytes]) -> set[tuple[str, str]]:
    """The payloads that texts name, by execution and name; with them those that a list consists of."""
    waiting = {pair for text in texts for pair in _payloads_in(text)}
    known: set[tuple[str, str]] = set()
    while waiting:
        owner, name = waiting.pop()
        known.add((owner, name))
        with contextlib.suppress(NoetlError):
            waiting |= {pair for text in parts_of(f"{owner}/{name}") for pair in _payloads_in(text)} - known
    return known


def _payloads_in(text: bytes) -> list[tuple[str, str]]:
    return [(owner.decode(), name.decode()) for owner, name in _PAYLOAD.findall(text)]


def _file_names(execution_id: str, texts: Iterable[bytes]) -> set[str]:
    """The files that texts name; one too many does no harm."""
    name = re.compile(re.escape(execution_id).encode() + rb"/([0-9a-f]{32}[.\w]*)")
    return {found.decode() for text in texts for found in name.findall(text)}

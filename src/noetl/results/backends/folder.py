"""Folder: payloads as files, one folder of it an execution."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from noetl.ports import ResultGone, StoreFailed
from noetl.results.backends.backend import (
    DRAFTS,
    BackendEntry,
    PartialPayload,
    PayloadPlace,
    parse_place,
    read_locator,
    require_place,
)


class FolderBackend:
    """The backend of one machine."""

    kind = "blob"
    auth_reference = None

    def __init__(self, folder: Path, *, sync: bool = False) -> None:
        self.folder = folder
        self.sync = sync

    def locator(self, place: PayloadPlace) -> dict[str, Any]:
        """A path within the folder."""
        return {"path": str(place)}

    def place(self, reference: Mapping[str, Any]) -> PayloadPlace | None:
        """Where a reference leads."""
        said = read_locator(reference.get("locator"), "path")
        return require_place(said, said)

    def put(self, draft: Path, place: PayloadPlace) -> None:
        """Move a file there."""
        target = self.folder / str(place)
        try:
            draft.chmod(0o600)
            make_folder(target.parent)
            try:
                _move(draft, target)
            except FileNotFoundError:  # whoever removes what has expired took the empty folder away
                make_folder(target.parent)
                _move(draft, target)
            if self.sync:
                _sync(target.parent)
        except OSError as error:
            raise StoreFailed(f"the result store in {self.folder} cannot be written: {error.strerror}") from error

    def local(self, place: PayloadPlace) -> Path:
        """The file itself."""
        path = self.folder / str(place)
        if not path.is_file():
            raise ResultGone(
                f"the payload {place} is no longer there: its time had run out, it was removed, or NOETL_RESULTS is another where it was stored"
            )
        return path

    def list_entries(self) -> Iterator[BackendEntry]:
        """Every payload in the folder."""
        for path in sorted(self.folder.glob("*/*")):
            place = parse_place(f"{path.parent.name}/{path.name}") if path.parent.name != DRAFTS else None
            if place is not None:
                with contextlib.suppress(FileNotFoundError):
                    stat = path.stat()
                    yield BackendEntry(place, stat.st_size, stat.st_mtime)

    def list_partial(self, before: float) -> Iterator[PartialPayload]:  # noqa: ARG002  the port's
        """What is half written lies among the drafts of the store."""
        return iter(())

    def display_name(self, place: PayloadPlace) -> str:
        """Its path within the folder."""
        return str(place)

    def remove(self, place: PayloadPlace) -> None:
        """Remove a file, and its folder with the last one."""
        path = self.folder / str(place)
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()

    def close(self) -> None:
        """There is nothing to let go of."""


def make_folder(folder: Path) -> None:
    """Make a folder of the store for its user alone, and the store itself as well."""
    if not folder.parent.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)


def _move(draft: Path, target: Path) -> None:
    """Drafts may lie on another disk; then the file is copied beside its place first, so that it is never seen in part."""
    try:
        draft.replace(target)
    except OSError as error:
        import errno
        import shutil

        if error.errno != errno.EXDEV:
            raise
        beside = target.with_name(f".{draft.name}")
        try:
            beside.touch(mode=0o600)
            shutil.copyfile(draft, beside)
            _sync(beside)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        draft.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

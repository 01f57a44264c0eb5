"""Rows to objects: written to files of this machine first, by the same rules as files, and uploaded when the last chunk is in.

The files lie beside the notes, so that a later attempt goes on with them; nothing is seen in the bucket before the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from noetl.drivers.datahost import HostCall
from noetl.drivers.object_stores import Bucket, NoObject, ObjectAddress
from noetl.tools.transfer.mapping import Projection, render_tree
from noetl.tools.transfer.object_source import bucket_of, locate_object, translate_bucket_errors
from noetl.tools.transfer.targets.file_formats import Format, schema_of
from noetl.tools.transfer.targets.file_target import FileTarget, digest_of
from noetl.tools.transfer.targets.target import TargetChunk, TargetContext

#: a name of a file has so many characters, and something is put around it
_LONGEST = 150
#: ends the name of a folder in which names go on; `quote` never writes it
_MORE = "+"
#: objects that are uploaded side by side
_AT_ONCE = 8


class ObjectTarget(FileTarget):
    """The objects of one target."""

    def __init__(self, given: Mapping[str, Any], around: TargetContext) -> None:
        super().__init__(given, around)
        self._folder = Path(f"{around.notes}.objects")
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def open(self, running: HostCall) -> int:
        self._address_of_all()  # what is wrong with it is told before anything is read
        return super().open(running)

    def _address_of_all(self) -> ObjectAddress | None:
        path = self.given["path"]
        address = locate_object(self.given, path) if isinstance(path, str) else None
        if address is not None:
            self._bucket(address)
        return address

    def _bucket(self, address: ObjectAddress) -> Bucket:
        named = (address.scheme, address.bucket)
        if named not in self._buckets:
            self._buckets[named] = bucket_of(self.given, address)
        return self._buckets[named]

    # --- files that stand for objects ----------------------------------------------------------------------------------

    def _place(self, named: str) -> str:
        return str(self._folder / file_of(locate_object(self.given, named)))

    def _address(self, path: str) -> ObjectAddress:
        return address_in(Path(path).relative_to(self._folder))

    def _appends(self) -> bool:
        return False  # nothing is seen of it before the end

    def _new_format(self, path: str) -> Format:
        if "body" in self.given:
            return TemplateFormat(Path(path), self.context.token, self.given["body"], self.context.scopes)
        return super()._new_format(path)

    def _begin(self, path: str) -> int:
        self._make_folder()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if self.mode == "append":
            address = self._address(path)
            try:
                with translate_bucket_errors(but_absence=True):
                    self._bucket(address).get(address.key, Path(path))
            except NoObject:
                Path(path).unlink(missing_ok=True)
        return super()._begin(path)

    def write(self, running: HostCall, given: TargetChunk) -> tuple[dict[str, Any], bytes]:
        self._make_folder()
        os.utime(self._folder)  # what has lain there for a day is taken for forgotten
        return super().write(running, given)

    def _make_folder(self) -> None:
        """It lies in the result store, where only its user may look."""
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    # --- the end -------------------------------------------------------------------------------------------------------

    def finish(self, running: HostCall) -> dict[str, Any] | None:
        path = self.given["path"]
        if not self._notes.files and isinstance(path, str):
            self._begin(self._place(path))
        self._publish(running)
        paths = [path for path in self._written if Path(path).is_file()]
        addresses = [self._address(path) for path in paths]
        with translate_bucket_errors(), ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(self._upload, *one, running) for one in zip(paths, addresses, strict=True)]:
                done.result()
        self.bytes = sum(Path(path).stat().st_size for path in paths)
        meta: dict[str, Any] = {"schema": schema_of([self._format(path) for path in paths])}
        meta["stored_sha256"] = digest_of(Path(paths[0])) if len(paths) == 1 else None
        return self._reference(addresses, meta) if paths else None

    def forget(self) -> None:
        super().forget()
        self._clear()

    def _upload(self, path: str, address: ObjectAddress, running: HostCall) -> None:
        running.check()
        self._bucket(address).put(address.key, Path(path))

    def _reference(self, addresses: list[ObjectAddress], more: dict[str, Any]) -> dict[str, Any]:
        first = addresses[0]
        where: dict[str, Any] = {"key": first.key} if len(addresses) == 1 else {"keys": [one.key for one in addresses]}
        if first.scheme != "s3":
            where["scheme"] = first.scheme
        content_type = self._new_format(self._place(str(first))).content_type
        meta: dict[str, Any] = {"content_type": content_type, "stored_bytes": self.bytes, "rows": self.rows}
        meta |= {key: value for key, value in more.items() if value}
        entry = self.given.get("auth")
        return {
            "type": "object_store",
            "locator": {"bucket": first.bucket, **where},
            "auth_reference": f"keychain/{entry}" if entry else None,
            "meta": meta,
        }

    def restart(self, running: HostCall) -> bool:
        super().restart(running)
        self._clear()
        return True

    def abort(self, running: HostCall) -> bool:
        removed = super().abort(running)
        self._clear()
        return removed

    def _clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # something else of the execution is there
            self._folder.parent.rmdir()


class TemplateFormat(Format):
    """What a template makes of each chunk: text as it is, anything else as JSON; one behind the other."""

    def __init__(self, path: Path, token: str, body: Any, scopes: Mapping[str, Any]) -> None:
        super().__init__(path, token, append=False)
        self._template, self._scopes = body, scopes

    def _body(self, given: TargetChunk, projection: Projection, start: int) -> bytes:  # noqa: ARG002  there are no rows
        content = render_tree(self._template, {**self._scopes, "chunk": given.about})
        body = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
        return b"\n" + body if start else body


def file_of(address: ObjectAddress) -> Path:
    """A file for an object, below a folder. No two objects have the same, and none is where another has a folder."""
    name = quote(address.key, safe="")
    pieces = [name[max(0, end - _LONGEST) : end] for end in range(len(name), 0, -_LONGEST)][::-1]
    folders = [f"{piece}{_MORE}" for piece in pieces[:-1]]
    return Path(f"{address.scheme}-{address.bucket}", *folders, pieces[-1])


def address_in(file: Path) -> ObjectAddress:
    """The object that a file stands for."""
    first, *pieces = file.parts
    scheme, _, bucket = first.partition("-")
    return ObjectAddress(scheme, bucket, unquote("".join(piece.removesuffix(_MORE) for piece in pieces)))

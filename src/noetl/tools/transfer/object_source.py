"""Objects of object stores, in the data host: the bucket of a source or a target, and a source that is an object."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from noetl.drivers.datahost import DataHostFailed, HostCall
from noetl.drivers.object_stores import Bucket, BucketFailed, NoObject, ObjectAddress, address_of
from noetl.tools.transfer.file_sources import ChunkRead, RowSource, source_of


@contextlib.contextmanager
def translate_bucket_errors(*, but_absence: bool = False) -> Iterator[None]:
    """What a bucket refuses is a failure of the task; that an object is not there may be none."""
    try:
        yield
    except BucketFailed as error:
        if but_absence and isinstance(error, NoObject):
            raise
        raise DataHostFailed(error.kind, str(error), retryable=error.retryable) from None


def locate_object(given: Mapping[str, Any], path: str) -> ObjectAddress:
    """Where an object lies: the bucket is given beside it, by the keychain entry, or in front of its name."""
    credential = given.get("credential") or {}
    named = given.get("bucket") or (None if "://" in path else credential.get("bucket"))
    with translate_bucket_errors():
        return address_of(path, named)


def bucket_of(given: Mapping[str, Any], address: ObjectAddress) -> Bucket:
    """The bucket of an address, opened with the credential that goes with a source or a target."""
    with translate_bucket_errors():
        return Bucket(address.scheme, address.bucket, given.get("credential"), str(given.get("auth") or ""))


class ObjectSource(RowSource):
    """An object that was written to a file first, and is read as one. It is called by its own name."""

    def __init__(self, given: Mapping[str, Any], running: HostCall, scratch: Path, size: int) -> None:
        self._address = locate_object(given, str(given["path"]))
        bucket = bucket_of(given, self._address)
        folder = scratch / "object"
        folder.mkdir()
        # The end of its name says how it is written.
        self._file = folder / PurePosixPath(self._address.key).name[-100:]
        with translate_bucket_errors():
            seen = bucket.get(self._address.key, self._file)
        running.check()
        with self._name_object_in_errors():
            self._source = source_of({**given, "kind": "file", "path": str(self._file)}, running, scratch, size)
        self.identity = [seen.etag, seen.size]
        self.total = self._source.total
        self.whole = getattr(self._source, "whole", None)

    def chunks(self, running: HostCall, position: Mapping[str, Any], *, together: bool) -> Iterator[ChunkRead]:
        with self._name_object_in_errors():
            yield from self._source.chunks(running, position, together=together)

    @contextlib.contextmanager
    def _name_object_in_errors(self) -> Iterator[None]:
        try:
            yield
        except DataHostFailed as error:
            message = str(error).replace(str(self._file), str(self._address))
            raise DataHostFailed(**{**error.failure, "message": message}) from None

    def interrupt(self) -> None:
        self._source.interrupt()

    def close(self) -> None:
        self._source.close()

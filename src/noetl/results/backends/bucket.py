"""Objects: payloads in a bucket of an object store, read through a cache; and rows that a transfer has put into any bucket."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from noetl.drivers.object_stores import Bucket, BucketFailed, NoObject
from noetl.ports import NoCredential, ResultGone, StoreFailed
from noetl.results.backends.backend import (
    BackendEntry,
    PartialPayload,
    PayloadPlace,
    parse_place,
    read_locator,
    require_place,
)
from noetl.results.backends.file_cache import FileCache

_KEYCHAIN = "keychain/"
#: objects of one reference that are fetched side by side
_AT_ONCE = 8


class BucketBackend:
    """The backend of a bucket, below a prefix. The bucket is opened when it is first needed."""

    kind = "object_store"

    def __init__(
        self, open_: Callable[[], Bucket], name: str, prefix: str, *, cache: FileCache, entry: str = ""
    ) -> None:
        self._open, self._name = open_, name
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._cache = cache
        self._bucket: Bucket | None = None
        self._lock = Lock()
        self.auth_reference = f"{_KEYCHAIN}{entry}" if entry else None

    @property
    def bucket(self) -> Bucket:
        """The bucket itself."""
        with self._lock:
            if self._bucket is None:
                self._bucket = self._open()
            return self._bucket

    def locator(self, place: PayloadPlace) -> dict[str, Any]:
        """The bucket and the key."""
        return {"bucket": self._name, "key": self._key(place)}

    def _key(self, place: PayloadPlace) -> str:
        return f"{self._prefix}{place}"

    def place(self, reference: Mapping[str, Any]) -> PayloadPlace | None:
        """Where a reference leads."""
        locator = reference.get("locator")
        bucket, key = read_locator(locator, "bucket"), read_locator(locator, "key")
        if bucket != self._name or not key.startswith(self._prefix):
            return None
        return require_place(key[len(self._prefix) :], key)

    def put(self, draft: Path, place: PayloadPlace) -> None:
        """Upload a file; it is here for reading as well."""
        with _translate_errors():
            self.bucket.put(self._key(place), draft)
        self._cache.put(self._cache_name(place), draft)

    def local(self, place: PayloadPlace) -> Path:
        """The file in the cache, fetched if it is not there."""
        key = self._key(place)
        try:
            with _translate_errors():
                return self._cache.get(self._cache_name(place), lambda path: self.bucket.get(key, path))
        except NoObject:
            said = f"the payload {self.display_name(place)} is no longer there: its time had run out, it was removed, or NOETL_RESULTS is another where it was stored"
            raise ResultGone(said) from None

    def _cache_name(self, place: PayloadPlace) -> str:
        return f"{_folder(self._name, self._prefix)}/{place}"

    def list_entries(self) -> Iterator[BackendEntry]:
        """Every payload below the prefix."""
        with _translate_errors():
            for one in self.bucket.list_entries(self._prefix.rstrip("/")):
                place = parse_place(one.key.removeprefix(self._prefix))
                if place is not None:
                    yield BackendEntry(place, one.size, one.since)

    def list_partial(self, before: float) -> Iterator[PartialPayload]:  # noqa: ARG002  the port's
        """What is half sent is not seen; services remove it by rules of their own."""
        return iter(())

    def display_name(self, place: PayloadPlace) -> str:
        """Its address."""
        return f"{self.bucket}/{self._key(place)}"

    def remove(self, place: PayloadPlace) -> None:
        """Delete an object, and what is here of it."""
        with _translate_errors():
            self.bucket.delete(self._key(place))
        self._cache.forget(self._cache_name(place))

    def close(self) -> None:
        """There is nothing to let go of."""


def _folder(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """What a bucket refuses is a failure of the store."""
    try:
        yield
    except NoObject:
        raise
    except BucketFailed as error:
        raise StoreFailed(f"the result store: {error}") from None


class ObjectFetcher:
    """Brings what references to objects lead to that are not of the store. Each version of an object is fetched once."""

    def __init__(self, cache: FileCache, credential: Callable[[str], Mapping[str, Any]]) -> None:
        self._cache, self._credential = cache, credential

    def __call__(self, reference: Mapping[str, Any], auth: Mapping[str, Any] | None) -> list[Path]:
        """The files, in order."""
        locator, entry = reference["locator"], entry_of(reference)
        scheme, name = str(locator.get("scheme") or "s3"), str(locator["bucket"])
        keys = locator.get("keys") or [locator["key"]]
        try:
            bucket = Bucket(scheme, name, auth or (self._credential(entry) if entry else None), entry)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                return list(pool.map(lambda key: self._one(bucket, str(key)), keys))
        except NoObject as error:
            raise ResultGone(str(error)) from None
        except (BucketFailed, NoCredential) as error:
            raise StoreFailed(f"the rows cannot be fetched: {error}") from None

    def _one(self, bucket: Bucket, key: str) -> Path:
        seen = bucket.head(key)
        folder = _folder(str(bucket), bucket.entry, key, seen.etag, str(seen.size))
        return self._cache.get(f"{folder}/{PurePosixPath(key).name[-100:]}", lambda path: bucket.get(key, path))


def entry_of(reference: Mapping[str, Any]) -> str:
    """The keychain entry that opens what a reference leads to; empty: none."""
    said = reference.get("auth_reference")
    return said.removeprefix(_KEYCHAIN) if isinstance(said, str) and said.startswith(_KEYCHAIN) else ""

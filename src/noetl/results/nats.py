"""Payloads in an object store of NATS JetStream, read through a cache.

Objects are those that every client of NATS knows. They are written by the library; chunks are read one by one, which is
faster than its own way, holds one in memory and waits for no chunk for ever.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from noetl.ports import ResultDamaged, ResultGone, StoreFailed
from noetl.results.cache import Cache
from noetl.results.names import Place, believed, named, place_of
from noetl.results.natsline import ANSWER_S, Line
from noetl.results.shelf import Half, Lying
from noetl.tools.jetstream import Address, NatsFailed

T = TypeVar("T")

BUCKET = "noetl"
_CHUNK = 256 << 10
#: a server that does not answer is asked again for so many seconds
PATIENCE_S = 30.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_PAGE = 500
_DIGEST = "SHA-256="
#: of a stream that is there with other settings
_IN_USE = 10058


class _Object(NamedTuple):
    """An object as its bucket describes it."""

    #: of the message that describes it
    seq: int
    since: float
    name: str
    #: where its chunks are
    nuid: str
    size: int
    chunks: int
    digest: str
    deleted: bool


class NatsObjects:
    """The shelf of a bucket. It is connected to when it is first needed, by a thread of its own: the library wants one."""

    kind = "nats"

    def __init__(
        self, address: Callable[[], Address], shown: str, bucket: str, *, cache: Cache, entry: str = ""
    ) -> None:
        #: `shown` is what people are told of the servers, without a password
        self._at, self.bucket = shown, bucket
        self._entry, self._cache = entry, cache
        self._line = Line(address, self._prepared)
        self.auth_reference = f"keychain/{entry}" if entry else None

    @property
    def _stream(self) -> str:
        return f"OBJ_{self.bucket}"

    def locator(self, place: Place) -> dict[str, Any]:
        """The bucket and the object in it."""
        return {"bucket": self.bucket, "object": str(place)}

    def place(self, reference: Mapping[str, Any]) -> Place | None:
        """Where a reference leads."""
        locator = reference.get("locator")
        if named(locator, "bucket") != self.bucket:
            return None
        name = named(locator, "object")
        return believed(name, name)

    def shown(self, place: Place) -> str:
        """Its address."""
        return f"nats://{self.bucket}/{place}"

    def _cached(self, place: Place) -> str:
        return f"nats-{self.bucket}/{place}"

    # --- payloads ----------------------------------------------------------------------------------------------------

    def put(self, draft: Path, place: Place) -> None:
        """Send a file in chunks; what describes it comes last, and makes it seen. It is here for reading as well."""

        size = draft.stat().st_size

        async def send(js: Any) -> None:
            from nats.js import api
            from nats.js.object_store import ObjectStore

            found = await self._found(js, place)
            if found is not None and found.size == size:
                return  # perhaps we were cut off behind the end
            options = api.ObjectMetaOptions(max_chunk_size=_CHUNK)
            store = ObjectStore(self.bucket, self._stream, js)
            with draft.open("rb") as file:
                await store.put(str(place), file, meta=api.ObjectMeta(name=str(place), options=options))

        self._try(send)
        self._cache.put(self._cached(place), draft)

    def local(self, place: Place) -> Path:
        """The file in the cache, fetched if it is not there."""
        return self._cache.get(self._cached(place), lambda path: self._try(lambda js: self._fetched(js, place, path)))

    async def _fetched(self, js: Any, place: Place, path: Path) -> None:
        found = await self._found(js, place)
        if found is None:
            raise self._gone(place)
        digest, behind = hashlib.sha256(), 0
        with path.open("wb") as file:
            for _ in range(found.chunks):
                message = await self._next(js, f"$O.{self.bucket}.C.{found.nuid}", behind)
                if message is None:
                    raise self._gone(place)
                behind = message.seq
                digest.update(message.data)
                file.write(message.data)
        if base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=") != found.digest.rstrip("="):
            raise ResultDamaged(f"the payload {self.shown(place)} is not what was stored: its sha256 is another one")

    async def _next(self, js: Any, subject: str, behind: int) -> Any:
        """The next message; None: there is none. Any server of a cluster gives it, but the one that leads knows best."""
        from nats.errors import NoRespondersError
        from nats.js.errors import NotFoundError

        for direct in (True, False):
            with contextlib.suppress(NotFoundError, NoRespondersError):
                return await js.get_msg(self._stream, seq=behind + 1, subject=subject, next=True, direct=direct)
        return None

    def _gone(self, place: Place) -> ResultGone:
        said = f"the payload {self.shown(place)} is no longer there: its time had run out, it was removed, or NOETL_RESULTS is another where it was stored"
        return ResultGone(said)

    async def _found(self, js: Any, place: Place) -> _Object | None:
        from nats.js.errors import NotFoundError

        try:
            found = _object(await js.get_last_msg(self._stream, self._described(str(place))))
        except NotFoundError:
            return None
        return None if found is None or found.deleted else found

    def _described(self, name: str) -> str:
        """The subject of what describes an object."""
        return f"$O.{self.bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def remove(self, place: Place) -> None:
        """Delete an object, and what is here of it."""

        async def delete(js: Any) -> None:
            found = await self._found(js, place)
            if found is not None:
                # Not as the library does it, which leaves a word about each that was there.
                await js.purge_stream(self._stream, subject=self._described(str(place)))
                await js.purge_stream(self._stream, subject=f"$O.{self.bucket}.C.{found.nuid}")

        self._try(delete)
        self._cache.forget(self._cached(place))

    # --- what lies there ---------------------------------------------------------------------------------------------

    def listed(self) -> Iterator[Lying]:
        """Every payload in the bucket."""
        for one in self._objects():
            place = place_of(one.name)
            if place is not None and not one.deleted:
                yield Lying(place, one.size, one.since)

    def _objects(self) -> Iterator[_Object]:
        behind = 0
        while page := self._try(lambda js, after=behind: self._page(js, after)):  # type: ignore[misc]
            yield from page
            behind = page[-1].seq

    async def _page(self, js: Any, behind: int) -> list[_Object]:
        page: list[_Object] = []
        while len(page) < _PAGE:
            message = await self._next(js, f"$O.{self.bucket}.M.>", behind)
            if message is None:
                break
            behind = message.seq
            found = _object(message)
            if found is not None:
                page.append(found)
        return page

    def halves(self, before: float) -> Iterator[Half]:
        """Chunks that no object has: whoever sent them was killed."""
        # First the chunks, then the objects: one that is finished meanwhile has its object by then.
        sent = self._try(lambda _: self._sent())
        whole = {one.nuid for one in self._objects()}
        for subject, chunks in sent.items():
            if subject.rpartition(".")[2] in whole:
                continue
            first = self._try(lambda js, at=subject: self._next(js, at, 0))  # type: ignore[misc]
            if first is not None and first.time.timestamp() < before:
                shown = f"nats://{self.bucket}/{subject}"
                yield Half(shown, chunks * len(first.data), lambda at=subject: self._purged(at))  # type: ignore[misc]

    def _purged(self, subject: str) -> None:
        self._try(lambda js: js.purge_stream(self._stream, subject=subject))

    async def _sent(self) -> dict[str, int]:
        """Where there are chunks, and how many; servers tell a page at a time, the library the first one only."""
        found: dict[str, int] = {}
        while True:
            asked = {"subjects_filter": f"$O.{self.bucket}.C.>", "offset": len(found)}
            request = f"$JS.API.STREAM.INFO.{self._stream}"
            answer = await self._line.client.request(request, json.dumps(asked).encode(), timeout=ANSWER_S)
            told = json.loads(answer.data)
            page = told.get("state", {}).get("subjects") or {}
            found |= page
            if not page or len(found) >= told.get("total", 0):
                return found

    # --- the connection ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close what is connected."""
        self._line.close()

    async def _prepared(self, js: Any) -> None:
        """Have a bucket. One that is there is used as it is."""
        from nats.js.errors import BadRequestError

        try:
            await js.create_object_store(self.bucket, description="results of noetl")
        except BadRequestError as error:
            if error.err_code != _IN_USE:
                raise

    def _try(self, action: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do something with the bucket: again, with another connection, while the servers may come back."""
        until, wait = time.monotonic() + PATIENCE_S, _FIRST_WAIT_S
        while True:
            try:
                return self._line.run(action)
            except NatsFailed as error:
                if not error.retryable or time.monotonic() + wait > until:
                    raise self._told(error) from None
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _told(self, error: Exception) -> StoreFailed:
        whose = f" (keychain entry `{self._entry}`)" if self._entry else ""
        return StoreFailed(f"the result store nats://{self.bucket} at {self._at}{whose}: {error}")


def _object(message: Any) -> _Object | None:
    """What a message describes; None: nothing that can be made sense of."""
    try:
        told = json.loads(message.data)
        digest = str(told.get("digest") or "").removeprefix(_DIGEST)
        counted = (int(told.get("size") or 0), int(told.get("chunks") or 0))
        since = message.time.timestamp()
        return _Object(message.seq, since, told["name"], told["nuid"], *counted, digest, bool(told.get("deleted")))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None

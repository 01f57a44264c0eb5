"""Payloads in an object store of NATS JetStream, read through a cache.

Objects are those that every client of NATS knows. They are written by the library; chunks are read one by one, which is
faster than its own way, holds one in memory and waits for no chunk for ever.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, TypeVar

from noetl.drivers.nats import (
    MISSING,
    NatsAddress,
    NatsFailed,
    close_quietly,
    connect_nats,
    describe_nats_error,
    wait_until_closed,
)
from noetl.ports import ResultDamaged, ResultGone, StoreFailed
from noetl.results.backends.backend import (
    BackendEntry,
    PartialPayload,
    PayloadPlace,
    parse_place,
    read_locator,
    require_place,
)
from noetl.results.backends.file_cache import FileCache

# A connection to NATS in a thread of its own, for those who wait: the library lives on one event loop.


ANSWER_S = 10.0
#: of a stream that is not there
_NO_STREAM = 10059
#: a limit of the account, of the disk or of the bucket is reached
_FULL = frozenset({10002, 10023, 10047, 10077})


class NatsConnection:
    """A connection that is made when it is needed, and made anew when it is broken. Any thread may use it."""

    def __init__(self, address: Callable[[], NatsAddress], prepare: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        #: who is called; `prepare` makes what must be there
        self._address, self._prepare = address, prepare
        self.client: Any = None
        self._lock = Lock()
        self._life: _LoopThread | None = None
        self._ready = False

    def run(self, action: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do something with JetStream, and wait for it. NatsFailed: it did not work."""
        with self._lock:
            if self._life is None:
                self._life = _LoopThread(self._drop)
            life = self._life
        return asyncio.run_coroutine_threadsafe(self._run_in_loop(life, action), life.loop).result()

    def close(self) -> None:
        """Close the connection and end the thread."""
        with self._lock:
            life, self._life = self._life, None
        if life is not None:
            life.end()

    # --- in the thread -----------------------------------------------------------------------------------------------

    async def _run_in_loop(self, life: _LoopThread, action: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        try:
            import nats.errors
            from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError
        except ImportError:
            raise NatsFailed(MISSING, retryable=False) from None
        client = None
        try:
            async with life.turn:
                client = await self._connect()
            return await _run_unless_broken(client, action(client.jetstream(timeout=ANSWER_S)))
        except (APIError, NoStreamResponseError) as error:
            # The bucket may be gone: it is made again.
            self._ready = False
            raise _translate_error(
                error, may_pass=isinstance(error, NoStreamResponseError | ServiceUnavailableError)
            ) from None
        except (nats.errors.Error, ConnectionError, TimeoutError) as error:
            if client is self.client:  # others may have another one by now
                await self._drop()
            raise NatsFailed(describe_nats_error(error)) from None

    async def _connect(self) -> Any:
        if self.client is None or self.client.is_closed:
            self.client, self._ready = await connect_nats(self._address()), False
        client = self.client
        if not self._ready:
            await _run_unless_broken(client, self._prepare(client.jetstream(timeout=ANSWER_S)))
            self._ready = True
        return client

    async def _drop(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            await close_quietly(client)


async def _run_unless_broken(client: Any, work: Coroutine[Any, Any, T]) -> T:
    """Have something done. The library lets those wait whose connection breaks, until their time is over."""
    doing, breaking = asyncio.ensure_future(work), asyncio.ensure_future(wait_until_closed(client))
    try:
        await asyncio.wait({doing, breaking}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
    finally:
        doing.cancel()
        breaking.cancel()
        await asyncio.gather(doing, breaking, return_exceptions=True)
    raise NatsFailed("the connection is broken")


def _translate_error(error: Any, *, may_pass: bool) -> NatsFailed:
    """What the servers said no to."""
    code, said = getattr(error, "err_code", None), getattr(error, "description", None) or describe_nats_error(error)
    return NatsFailed(str(said), retryable=code == _NO_STREAM or (may_pass and code not in _FULL))


class _LoopThread:
    """A thread with an event loop, from its first use to its end."""

    def __init__(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop: asyncio.AbstractEventLoop
        #: who connects
        self.turn: asyncio.Lock
        self._over: asyncio.Event
        begun = Event()

        async def live() -> None:
            self.loop, self.turn, self._over = asyncio.get_running_loop(), asyncio.Lock(), asyncio.Event()
            begun.set()
            await self._over.wait()
            await last()

        self._thread = Thread(target=lambda: asyncio.run(live()), name="noetl-results-nats", daemon=True)
        self._thread.start()
        begun.wait()

    def end(self) -> None:
        """Do what comes last, and end."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join()


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


class NatsBackend:
    """The backend of a NATS bucket. It is connected to when it is first needed, by a thread of its own: the library wants one."""

    kind = "nats"

    def __init__(
        self, address: Callable[[], NatsAddress], shown: str, bucket: str, *, cache: FileCache, entry: str = ""
    ) -> None:
        #: `shown` is what people are told of the servers, without a password
        self._at, self.bucket = shown, bucket
        self._entry, self._cache = entry, cache
        self._connection = NatsConnection(address, self._prepare)
        self.auth_reference = f"keychain/{entry}" if entry else None

    @property
    def _stream(self) -> str:
        return f"OBJ_{self.bucket}"

    def locator(self, place: PayloadPlace) -> dict[str, Any]:
        """The bucket and the object in it."""
        return {"bucket": self.bucket, "object": str(place)}

    def place(self, reference: Mapping[str, Any]) -> PayloadPlace | None:
        """Where a reference leads."""
        locator = reference.get("locator")
        if read_locator(locator, "bucket") != self.bucket:
            return None
        name = read_locator(locator, "object")
        return require_place(name, name)

    def display_name(self, place: PayloadPlace) -> str:
        """Its address."""
        return f"nats://{self.bucket}/{place}"

    def _cache_name(self, place: PayloadPlace) -> str:
        return f"nats-{self.bucket}/{place}"

    # --- payloads ----------------------------------------------------------------------------------------------------

    def put(self, draft: Path, place: PayloadPlace) -> None:
        """Send a file in chunks; what describes it comes last, and makes it seen. It is here for reading as well."""

        size = draft.stat().st_size

        async def send(js: Any) -> None:
            from nats.js import api
            from nats.js.object_store import ObjectStore

            found = await self._find(js, place)
            if found is not None and found.size == size:
                return  # perhaps we were cut off behind the end
            options = api.ObjectMetaOptions(max_chunk_size=_CHUNK)
            store = ObjectStore(self.bucket, self._stream, js)
            with draft.open("rb") as file:
                await store.put(str(place), file, meta=api.ObjectMeta(name=str(place), options=options))

        self._try(send)
        self._cache.put(self._cache_name(place), draft)

    def local(self, place: PayloadPlace) -> Path:
        """The file in the cache, fetched if it is not there."""
        return self._cache.get(self._cache_name(place), lambda path: self._try(lambda js: self._fetch(js, place, path)))

    async def _fetch(self, js: Any, place: PayloadPlace, path: Path) -> None:
        found = await self._find(js, place)
        if found is None:
            raise self._make_gone_error(place)
        digest, behind = hashlib.sha256(), 0
        with path.open("wb") as file:
            for _ in range(found.chunks):
                message = await self._next(js, f"$O.{self.bucket}.C.{found.nuid}", behind)
                if message is None:
                    raise self._make_gone_error(place)
                behind = message.seq
                digest.update(message.data)
                file.write(message.data)
        if base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=") != found.digest.rstrip("="):
            raise ResultDamaged(
                f"the payload {self.display_name(place)} is not what was stored: its sha256 is another one"
            )

    async def _next(self, js: Any, subject: str, behind: int) -> Any:
        """The next message; None: there is none. Any server of a cluster gives it, but the one that leads knows best."""
        from nats.errors import NoRespondersError
        from nats.js.errors import NotFoundError

        for direct in (True, False):
            with contextlib.suppress(NotFoundError, NoRespondersError):
                return await js.get_msg(self._stream, seq=behind + 1, subject=subject, next=True, direct=direct)
        return None

    def _make_gone_error(self, place: PayloadPlace) -> ResultGone:
        said = f"the payload {self.display_name(place)} is no longer there: its time had run out, it was removed, or NOETL_RESULTS is another where it was stored"
        return ResultGone(said)

    async def _find(self, js: Any, place: PayloadPlace) -> _Object | None:
        from nats.js.errors import NotFoundError

        try:
            found = _object(await js.get_last_msg(self._stream, self._description_subject(str(place))))
        except NotFoundError:
            return None
        return None if found is None or found.deleted else found

    def _description_subject(self, name: str) -> str:
        """The subject of what describes an object."""
        return f"$O.{self.bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def remove(self, place: PayloadPlace) -> None:
        """Delete an object, and what is here of it."""

        async def delete(js: Any) -> None:
            found = await self._find(js, place)
            if found is not None:
                # Not as the library does it, which leaves a word about each that was there.
                await js.purge_stream(self._stream, subject=self._description_subject(str(place)))
                await js.purge_stream(self._stream, subject=f"$O.{self.bucket}.C.{found.nuid}")

        self._try(delete)
        self._cache.forget(self._cache_name(place))

    # --- what lies there ---------------------------------------------------------------------------------------------

    def list_entries(self) -> Iterator[BackendEntry]:
        """Every payload in the bucket."""
        for one in self._objects():
            place = parse_place(one.name)
            if place is not None and not one.deleted:
                yield BackendEntry(place, one.size, one.since)

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

    def list_partial(self, before: float) -> Iterator[PartialPayload]:
        """Chunks that no object has: whoever sent them was killed."""
        # First the chunks, then the objects: one that is finished meanwhile has its object by then.
        sent = self._try(lambda _: self._count_chunks())
        whole = {one.nuid for one in self._objects()}
        for subject, chunks in sent.items():
            if subject.rpartition(".")[2] in whole:
                continue
            first = self._try(lambda js, at=subject: self._next(js, at, 0))  # type: ignore[misc]
            if first is not None and first.time.timestamp() < before:
                shown = f"nats://{self.bucket}/{subject}"
                yield PartialPayload(shown, chunks * len(first.data), lambda at=subject: self._purge(at))  # type: ignore[misc]

    def _purge(self, subject: str) -> None:
        self._try(lambda js: js.purge_stream(self._stream, subject=subject))

    async def _count_chunks(self) -> dict[str, int]:
        """Where there are chunks, and how many; servers tell a page at a time, the library the first one only."""
        found: dict[str, int] = {}
        while True:
            asked = {"subjects_filter": f"$O.{self.bucket}.C.>", "offset": len(found)}
            request = f"$JS.API.STREAM.INFO.{self._stream}"
            answer = await self._connection.client.request(request, json.dumps(asked).encode(), timeout=ANSWER_S)
            told = json.loads(answer.data)
            page = told.get("state", {}).get("subjects") or {}
            found |= page
            if not page or len(found) >= told.get("total", 0):
                return found

    # --- the connection ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close what is connected."""
        self._connection.close()

    async def _prepare(self, js: Any) -> None:
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
                return self._connection.run(action)
            except NatsFailed as error:
                if not error.retryable or time.monotonic() + wait > until:
                    raise self._store_error(error) from None
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _store_error(self, error: Exception) -> StoreFailed:
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

"""A connection to NATS in a thread of its own, for those who wait: the library lives on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from noetl.tools.jetstream import MISSING, Address, NatsFailed, broken, connected, in_words, let_go

T = TypeVar("T")

ANSWER_S = 10.0
#: of a stream that is not there
_NO_STREAM = 10059
#: a limit of the account, of the disk or of the bucket is reached
_FULL = frozenset({10002, 10023, 10047, 10077})


class Line:
    """A connection that is made when it is needed, and made anew when it is broken. Any thread may use it."""

    def __init__(self, address: Callable[[], Address], prepare: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        #: who is called; `prepare` makes what must be there
        self._address, self._prepare = address, prepare
        self.client: Any = None
        self._lock = Lock()
        self._life: _Life | None = None
        self._ready = False

    def run(self, action: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do something with JetStream, and wait for it. NatsFailed: it did not work."""
        with self._lock:
            if self._life is None:
                self._life = _Life(self._dropped)
            life = self._life
        return asyncio.run_coroutine_threadsafe(self._done(life, action), life.loop).result()

    def close(self) -> None:
        """Close the connection and end the thread."""
        with self._lock:
            life, self._life = self._life, None
        if life is not None:
            life.end()

    # --- in the thread -----------------------------------------------------------------------------------------------

    async def _done(self, life: _Life, action: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        try:
            import nats.errors
            from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError
        except ImportError:
            raise NatsFailed(MISSING, retryable=False) from None
        client = None
        try:
            async with life.turn:
                client = await self._connected()
            return await _unless_broken(client, action(client.jetstream(timeout=ANSWER_S)))
        except (APIError, NoStreamResponseError) as error:
            # The bucket may be gone: it is made again.
            self._ready = False
            raise _told(error, may_pass=isinstance(error, NoStreamResponseError | ServiceUnavailableError)) from None
        except (nats.errors.Error, ConnectionError, TimeoutError) as error:
            if client is self.client:  # others may have another one by now
                await self._dropped()
            raise NatsFailed(in_words(error)) from None

    async def _connected(self) -> Any:
        if self.client is None or self.client.is_closed:
            self.client, self._ready = await connected(self._address()), False
        client = self.client
        if not self._ready:
            await _unless_broken(client, self._prepare(client.jetstream(timeout=ANSWER_S)))
            self._ready = True
        return client

    async def _dropped(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            await let_go(client)


async def _unless_broken(client: Any, work: Coroutine[Any, Any, T]) -> T:
    """Have something done. The library lets those wait whose connection breaks, until their time is over."""
    doing, breaking = asyncio.ensure_future(work), asyncio.ensure_future(broken(client))
    try:
        await asyncio.wait({doing, breaking}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
    finally:
        doing.cancel()
        breaking.cancel()
        await asyncio.gather(doing, breaking, return_exceptions=True)
    raise NatsFailed("the connection is broken")


def _told(error: Any, *, may_pass: bool) -> NatsFailed:
    """What the servers said no to."""
    code, said = getattr(error, "err_code", None), getattr(error, "description", None) or in_words(error)
    return NatsFailed(str(said), retryable=code == _NO_STREAM or (may_pass and code not in _FULL))


class _Life:
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

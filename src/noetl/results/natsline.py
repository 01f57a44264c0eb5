"""A connection to NATS in a thread of its own, for those who wait: the library lives on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from noetl.tools.jetstream import MISSING, Address, NatsFailed, connected, in_words, let_go

T = TypeVar("T")

ANSWER_S = 10.0
#: of a stream that is not there
_NO_STREAM = 10059


class Line:
    """A connection that is made when it is needed, and made anew when it is broken. Any thread may use it."""

    def __init__(self, address: Callable[[], Address], prepare: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        #: who is called; `prepare` makes what must be there
        self._address, self._prepare = address, prepare
        self.client: Any = None
        self._lock = Lock()
        self._life: _Life | None = None
        self._ready = False
        self._gone = asyncio.Event()

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
        try:
            async with life.turn:
                await self._connected()
            return await self._unless_gone(action(self._jetstream()))
        except (APIError, NoStreamResponseError) as error:
            # The bucket may be gone: it is made again.
            self._ready = False
            missing = isinstance(error, NoStreamResponseError) or error.err_code == _NO_STREAM
            raise NatsFailed(in_words(error), retryable=missing or isinstance(error, ServiceUnavailableError)) from None
        except (nats.errors.Error, ConnectionError, TimeoutError) as error:
            await self._dropped()
            raise NatsFailed(in_words(error)) from None

    def _jetstream(self) -> Any:
        return self.client.jetstream(timeout=ANSWER_S)

    async def _connected(self) -> None:
        if self.client is None or self.client.is_closed:
            gone = asyncio.Event()
            self.client = await connected(self._address(), gone.set)
            self._gone, self._ready = gone, False
        if not self._ready:
            await self._unless_gone(self._prepare(self._jetstream()))
            self._ready = True

    async def _unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """The library lets those wait whose connection breaks, until their time is over."""
        doing = asyncio.ensure_future(work)
        breaking = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({doing, breaking}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
        finally:
            for task in (doing, breaking):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await breaking
        raise NatsFailed("the connection is broken")

    async def _dropped(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            await let_go(client)


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

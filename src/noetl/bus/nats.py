"""NATS JetStream as the bus: a work-queue stream for each pool, a plain subject for each worker.

Streams and consumers are made when they are first needed on a connection, and again when they have vanished: whoever wipes the
servers' store takes nothing away but hints. A stream that is there already is used as it is, whatever its settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self

from noetl.cluster_ports import HINT_BYTES, Hint
from noetl.tools.jetstream import Address, NatsFailed, connected, in_words, let_go, token_of

PREFIX = "noetl"
_CONSUMER = "workers"
#: what `open` waits for, so that whoever starts hears at once of a server that will not do
_OPEN_S = 3.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
#: hints that nobody took: whoever starts later finds its work in the log
_KEPT_S = 120.0
_KEPT = 10_000
#: a hint that is not acknowledged comes again, some times
_ACK_S = 5.0
_DELIVERIES = 5
#: what waits here while there is no connection; the oldest go first
MOST_WAITING = 1_000
_ANSWER_S = 2.0
#: a request for hints is made anew after this: it may have been lost without a word
_LINGER_S = 10.0
_GRACE_S = 0.5
_MOMENT_S = 0.01
_PAUSE_S = 0.2
_FAREWELL_S = 1.0
#: of a stream that is there with other settings
_IN_USE = 10058
_NO_MORE = ("404", "408")


class _Vanished(Exception):
    """There is no consumer to ask: it, or its stream, is gone."""


class _Said(NamedTuple):
    """What waits to be said."""

    #: None: it is for one worker
    pool: str | None
    subject: str
    body: bytes


class NatsBus:
    """One connection at a time, replaced for ever when it breaks."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.prefix = ".".join(token_of(part) for part in (address.path or PREFIX).split("."))
        self.trouble = f"{address} has not been connected to yet"
        self._client: Any = None
        self._there = asyncio.Event()
        #: pools whose stream and consumer are there, as far as this connection knows
        self._made: set[str] = set()
        self._waiting: dict[_Said, None] = {}
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._heard: dict[str, Callable[[bytes], None]] = {}
        self._asking: set[_Inbox] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def subject(self, pool: str) -> str:
        """Where hints for a pool are published."""
        return f"{self.prefix}.work.{token_of(pool)}"

    def stream(self, pool: str) -> str:
        """The stream that keeps them."""
        return f"{self.prefix.replace('.', '_')}_work_{token_of(pool)}"

    async def open(self) -> None:
        """Connect, now or later."""
        first: asyncio.Future[NatsFailed | None] = asyncio.get_running_loop().create_future()
        self._start(self._keep(first))
        self._start(self._send())
        await asyncio.wait([first], timeout=_OPEN_S)
        refused = first.result() if first.done() else None
        if refused is not None:
            await self.close()
            raise refused

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Say what waits, and let go."""
        if self._client is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _FAREWELL_S)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            await let_go(client)

    # --- the connection ----------------------------------------------------------------------------------------------

    async def _keep(self, first: asyncio.Future[NatsFailed | None]) -> None:
        """Have a connection, for ever."""
        loop, wait = asyncio.get_running_loop(), _FIRST_WAIT_S
        while True:
            since, refused = loop.time(), None
            try:
                await self._use(first)
            except NatsFailed as error:
                self.trouble = str(error)
                refused = None if error.retryable else error
            if not first.done():
                first.set_result(refused)
            if loop.time() - since > _LONGEST_WAIT_S:
                wait = _FIRST_WAIT_S
            # Many processes lose the same server at the same moment, and should not come back to it all at once.
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311
            wait = min(2 * wait, _LONGEST_WAIT_S)

    async def _use(self, first: asyncio.Future[NatsFailed | None]) -> None:
        """Have one connection, until it breaks."""
        gone = asyncio.Event()
        client = await connected(self.address, gone.set)
        try:
            self._client, self.trouble = client, ""
            with self._passing():
                for worker in self._heard:
                    await self._attend(worker)
            self._there.set()
            if not first.done():
                first.set_result(None)
            await gone.wait()
            self.trouble = f"the connection to {self.address} is broken"
        finally:
            self._client = None
            self._there.clear()
            self._made.clear()
            for inbox in self._asking:
                inbox.put(None)
            await let_go(client)

    async def _connection(self, within: float | None = None) -> Any:
        """The connection; None: there is none within that time."""
        if self._client is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._there.wait(), within)
        return self._client

    @contextlib.contextmanager
    def _passing(self) -> Iterator[None]:
        """What goes wrong is remembered and no more: whatever was not said or heard is found in the log."""
        import nats.errors

        try:
            yield
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self.trouble = f"{self.address}: {in_words(error)}"
        else:
            self.trouble = "" if self._client is not None else self.trouble

    async def _ensure(self, client: Any, pool: str) -> None:
        """Have a stream and a consumer for a pool."""
        if pool in self._made:
            return
        from nats.js import api
        from nats.js.errors import BadRequestError

        manager = client.jsm(timeout=_ANSWER_S)
        stream = api.StreamConfig(
            name=self.stream(pool),
            subjects=[self.subject(pool)],
            retention=api.RetentionPolicy.WORK_QUEUE,
            storage=api.StorageType.FILE,
            discard=api.DiscardPolicy.OLD,
            max_age=_KEPT_S,
            max_msgs=_KEPT,
            max_bytes=_KEPT * 2 * HINT_BYTES,
        )
        try:
            await manager.add_stream(stream)
        except BadRequestError as error:
            if error.err_code != _IN_USE:
                raise
        consumer = api.ConsumerConfig(
            name=_CONSUMER,
            durable_name=_CONSUMER,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=_ACK_S,
            max_deliver=_DELIVERIES,
            # Those who died with hints in their hands must not keep the others from theirs.
            max_ack_pending=_KEPT,
        )
        await manager.add_consumer(self.stream(pool), consumer)
        if client is self._client:
            self._made.add(pool)

    # --- saying ------------------------------------------------------------------------------------------------------

    async def wake(self, pool: str, hint: bytes) -> None:
        """Leave a hint for a pool."""
        self._say(_Said(pool, self.subject(pool), hint))

    async def tell(self, worker: str, body: bytes) -> None:
        """Leave a word for a worker."""
        self._say(_Said(None, self._ear(worker), body))

    def _ear(self, worker: str) -> str:
        return f"{self.prefix}.worker.{token_of(worker)}"

    def _say(self, said: _Said) -> None:
        assert len(said.body) < HINT_BYTES, "ids travel, never data"
        self._waiting[said] = None  # what waits already is not said twice
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._idle.clear()
        self._some.set()

    async def _send(self) -> None:
        """Say what waits, for ever."""
        while True:
            await self._some.wait()
            client = await self._connection()
            if client is None:
                continue
            batch = sorted(self._waiting, key=lambda said: said.pool or "")
            self._waiting.clear()
            self._some.clear()
            pools = [(pool, list(some)) for pool, some in groupby(batch, key=lambda said: said.pool)]
            await asyncio.gather(*(self._publish(client, pool, some) for pool, some in pools))
            if not self._waiting:
                self._idle.set()

    async def _publish(self, client: Any, pool: str | None, batch: Sequence[_Said]) -> None:
        """Publish what is for one pool. The stream confirms the last, and that is how one is missed that has vanished."""
        from nats.js.errors import NoStreamResponseError

        with self._passing():
            if pool is None:
                return await _published(client, batch)
            await self._ensure(client, pool)
            await _published(client, batch[:-1])
            stream, last = client.jetstream(timeout=_ANSWER_S), batch[-1]
            try:
                await stream.publish(last.subject, last.body)
            except NoStreamResponseError:
                self._made.discard(pool)
                await self._ensure(client, pool)
                await _published(client, batch)
        return None

    # --- hearing -----------------------------------------------------------------------------------------------------

    def listen(self, worker: str, heard: Callable[[bytes], None]) -> None:
        """Hear what a worker is told."""
        self._heard[worker] = heard
        if self._client is not None:
            self._start(self._attending(worker))

    async def _attending(self, worker: str) -> None:
        with self._passing():
            await self._attend(worker)

    async def _attend(self, worker: str) -> None:
        async def hear(message: Any) -> None:
            self._heard[worker](message.data)

        await self._client.subscribe(self._ear(worker), cb=hear)

    async def next(self, pools: Sequence[str], most: int, timeout: float) -> list[Hint]:  # noqa: ASYNC109  the port's
        """Ask the streams of these pools."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            left = until - loop.time()
            client = await self._connection(max(left, 0))
            found: list[Hint] | None = None
            if client is not None:
                with self._passing():
                    found = await self._asked(client, pools, most, until - loop.time())
            if found or until <= loop.time():
                return found or []
            if found is None:
                await asyncio.sleep(min(_PAUSE_S, max(until - loop.time(), 0)))

    async def _asked(self, client: Any, pools: Sequence[str], most: int, left: float) -> list[Hint] | None:
        """What there is, or comes within a while; None: there is nobody to ask."""
        for pool in pools:
            await self._ensure(client, pool)
        found: list[Any] = []
        async with _Inbox(client, self._asking) as inbox:
            try:
                # One pool after the other, so that none yields more than is wanted.
                for pool in pools:
                    if len(found) < most:
                        await inbox.ask(self._request(pool), {"batch": most - len(found), "no_wait": True})
                        found += await inbox.answers(_ANSWER_S)
                if not found and left > _MOMENT_S:
                    for_s = min(left, _LINGER_S)
                    for pool in pools:
                        await inbox.ask(self._request(pool), {"batch": 1, "expires": int(for_s * 1e9)})
                    found = await inbox.answers(for_s + _GRACE_S, first=True)
            except _Vanished:
                self._made.difference_update(pools)
                return None
            for message in found[most:]:
                await message.nak()
        return [Hint(message.data, _heeded(message)) for message in found[:most]]

    def _request(self, pool: str) -> str:
        return f"$JS.API.CONSUMER.MSG.NEXT.{self.stream(pool)}.{_CONSUMER}"


async def _published(client: Any, batch: Iterable[_Said]) -> None:
    for said in batch:
        await client.publish(said.subject, said.body)


def _heeded(message: Any) -> Callable[[], Awaitable[None]]:
    async def ack() -> None:
        import nats.errors

        with contextlib.suppress(nats.errors.Error, OSError):
            await message.ack()

    return ack


class _Inbox:
    """Where the answers to requests for hints come in. Servers forget the requests of an inbox that is closed."""

    def __init__(self, client: Any, asking: set[_Inbox]) -> None:
        self._client, self._asking = client, asking
        self._name = client.new_inbox()
        self._came: asyncio.Queue[Any] = asyncio.Queue()
        self._subscription: Any = None
        self._asked = 0
        #: requests that are not answered: their own subject, and how many hints they may yield
        self._open: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        async def came(message: Any) -> None:
            self.put(message)

        self._subscription = await self._client.subscribe(f"{self._name}.*", cb=came)
        self._asking.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        import nats.errors

        self._asking.discard(self)
        with contextlib.suppress(nats.errors.Error, OSError):
            await self._subscription.unsubscribe()

    def put(self, message: Any) -> None:
        """A message came; None: the connection is gone."""
        self._came.put_nowait(message)

    async def ask(self, request: str, how: dict[str, Any]) -> None:
        """Ask for hints."""
        self._asked += 1
        reply = f"{self._name}.{self._asked}"
        self._open[reply] = how["batch"]
        await self._client.publish(request, json.dumps(how).encode(), reply=reply)

    async def answers(self, within: float, *, first: bool = False) -> list[Any]:
        """The hints that come until every request is answered; or the first alone, and what came with it."""
        loop, found = asyncio.get_running_loop(), list[Any]()
        until = loop.time() + within
        while self._open and not (first and found and self._came.empty()):
            try:
                message = await asyncio.wait_for(self._came.get(), until - loop.time())
            except TimeoutError:
                break
            if message is None:
                break
            if message.subject in self._open:
                self._ended(message)
            elif not message.subject.startswith(self._name):
                found.append(message)
                if sum(self._open.values()) == len(found):
                    break
        self._open.clear()
        return found

    def _ended(self, message: Any) -> None:
        """A request is answered without a hint."""
        status = (message.headers or {}).get("Status")
        if status not in _NO_MORE:
            raise _Vanished
        del self._open[message.subject]

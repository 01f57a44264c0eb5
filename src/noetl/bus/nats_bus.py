"""NATS JetStream as the bus: a work-queue stream for each pool, a plain subject for each worker.

Streams and consumers are made when they are first needed on a connection, and again when they have vanished: whoever wipes the
servers' store takes nothing away but hints. A stream that is there already is used as it is, whatever its settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from noetl.drivers.nats import (
    NatsAddress,
    NatsFailed,
    close_quietly,
    connect_nats,
    describe_nats_error,
    run_shielded,
    token_of,
    wait_until_closed,
)
from noetl.ports import HINT_BYTES, ReceivedHint

# Requests for hints to the consumers of NATS streams, and their answers.


#: how a consumer says that it has no more, or not in time
_NO_MORE = ("404", "408")


class ConsumerGone(Exception):
    """There is no consumer to ask: it, or its stream, is gone."""


class HintInbox:
    """Where the answers to requests for hints come in. Servers forget the requests of an inbox that is closed."""

    def __init__(self, client: Any, asking: set[HintInbox]) -> None:
        self._client, self._asking = client, asking
        self._name = client.new_inbox()
        self._came: asyncio.Queue[Any] = asyncio.Queue()
        self._subscription: Any = None
        self._asked = 0
        #: hints; those that are left at the end go back
        self.found: list[Any] = []
        #: requests that are not answered: their own subject, and how many hints they may yield
        self._open: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        async def came(message: Any) -> None:
            self.put(message)

        self._subscription = await run_shielded(self._client.subscribe(f"{self._name}.*", cb=came))
        self._asking.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        import nats.errors

        self._asking.discard(self)
        with contextlib.suppress(nats.errors.Error, OSError):
            await run_shielded(self._subscription.unsubscribe())
            # What nobody takes from here is for others.
            for message in (*self.found, *(self._came.get_nowait() for _ in range(self._came.qsize()))):
                if self._is_hint(message):
                    await run_shielded(message.nak())

    def _is_hint(self, message: Any) -> bool:
        return message is not None and not message.subject.startswith(self._name)

    def put(self, message: Any) -> None:
        """A message came; None: the connection is gone."""
        self._came.put_nowait(message)

    async def ask(self, request: str, how: dict[str, Any]) -> None:
        """Ask for hints."""
        self._asked += 1
        reply = f"{self._name}.{self._asked}"
        self._open[reply] = how["batch"]
        await run_shielded(self._client.publish(request, json.dumps(how).encode(), reply=reply))

    async def wait_for_answers(self, within: float, *, first: bool = False) -> None:
        """Find hints until every request is answered; or the first alone, and what came with it."""
        loop, before = asyncio.get_running_loop(), len(self.found)
        until = loop.time() + within
        while self._open and not (first and self.found and self._came.empty()):
            try:
                async with asyncio.timeout_at(until):
                    message = await self._came.get()
            except TimeoutError:
                break
            if message is None:
                break
            if self._is_hint(message):
                self.found.append(message)
                if sum(self._open.values()) == len(self.found) - before:
                    break
            elif message.subject in self._open:
                self._end_request(message)
        self._open.clear()

    def _end_request(self, message: Any) -> None:
        """A request is answered without a hint."""
        status = (message.headers or {}).get("Status")
        if status not in _NO_MORE:
            raise ConsumerGone
        del self._open[message.subject]


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
_CLOSE_S = 1.0
#: of a stream that is there with other settings
_IN_USE = 10058


class _OutgoingMessage(NamedTuple):
    """What waits to be said."""

    #: None: it is for one worker
    pool: str | None
    subject: str
    body: bytes


class NatsBus:
    """One connection at a time, replaced for ever when it breaks."""

    def __init__(self, address: NatsAddress) -> None:
        self.address = address
        self.prefix = ".".join(token_of(part) for part in (address.path or PREFIX).split("."))
        self.trouble = f"{address} has not been connected to yet"
        self._client: Any = None
        self._there = asyncio.Event()
        #: pools whose stream and consumer are there, as far as this connection knows
        self._made: set[str] = set()
        #: what is to be said, and who says it, by pool: one that cannot be reached holds up no other
        self._waiting: dict[str | None, deque[_OutgoingMessage]] = {}
        self._saying: dict[str | None, asyncio.Task[None]] = {}
        self._closed = False
        self._heard: dict[str, Callable[[bytes], None]] = {}
        #: the subscriptions of this connection, by worker
        self._ears: dict[str, Any] = {}
        self._asking: set[HintInbox] = set()
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
        self._start(self._maintain_connection(first))
        await asyncio.wait([first], timeout=_OPEN_S)
        refused = first.result() if first.done() else None
        if refused is not None:
            await self.close()
            raise refused

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Say what waits, and let go."""
        self._closed = True
        if self._client is not None and self._saying:
            await asyncio.wait(self._saying.values(), timeout=_CLOSE_S)
        # The library may keep it to itself that somebody was cancelled.
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=_MOMENT_S)
        client, self._client = self._client, None
        if client is not None:
            await close_quietly(client)

    # --- the connection ----------------------------------------------------------------------------------------------

    async def _maintain_connection(self, first: asyncio.Future[NatsFailed | None]) -> None:
        """Have a connection, for ever."""
        loop, wait = asyncio.get_running_loop(), _FIRST_WAIT_S
        while True:
            since, refused = loop.time(), None
            try:
                await self._use_connection(first)
            except NatsFailed as error:
                self.trouble = str(error)
                refused = None if error.retryable else error
            except Exception as error:  # noqa: BLE001  whatever it is: nobody else connects again
                self.trouble = f"{self.address}: {describe_nats_error(error)}"
            if not first.done():
                first.set_result(refused)
            if loop.time() - since > _LONGEST_WAIT_S:
                wait = _FIRST_WAIT_S
            # Many processes lose the same server at the same moment, and should not come back to it all at once.
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311
            wait = min(2 * wait, _LONGEST_WAIT_S)

    async def _use_connection(self, first: asyncio.Future[NatsFailed | None]) -> None:
        """Have one connection, until it breaks."""
        client = await connect_nats(self.address)
        try:
            self._client, self.trouble = client, ""
            with self._record_trouble():
                for worker in list(self._heard):  # more may come meanwhile, and attend to themselves
                    await self._subscribe(worker)
            self._there.set()
            if not first.done():
                first.set_result(None)
            await wait_until_closed(client)
            self.trouble = f"the connection to {self.address} is broken"
        finally:
            self._client = None
            self._there.clear()
            self._made.clear()
            self._ears.clear()
            for inbox in self._asking:
                inbox.put(None)
            await close_quietly(client)

    async def _connection(self, within: float | None = None) -> Any:
        """The connection, as soon as there is one; None: there is none within that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._client is None:
                    await self._there.wait()
        return self._client

    @contextlib.contextmanager
    def _record_trouble(self) -> Iterator[None]:
        """What goes wrong is remembered and no more: whatever was not said or heard is found in the log."""
        import nats.errors

        try:
            yield
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self.trouble = f"{self.address}: {describe_nats_error(error)}"
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
            await run_shielded(manager.add_stream(stream))
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
        await run_shielded(manager.add_consumer(self.stream(pool), consumer))
        if client is self._client:
            self._made.add(pool)

    # --- saying ------------------------------------------------------------------------------------------------------

    async def wake(self, pool: str, hint: bytes) -> None:
        """Leave a hint for a pool."""
        self._enqueue(_OutgoingMessage(pool, self.subject(pool), hint))

    async def notify(self, worker: str, body: bytes) -> None:
        """Leave a word for a worker."""
        self._enqueue(_OutgoingMessage(None, self._worker_subject(worker), body))

    def _worker_subject(self, worker: str) -> str:
        return f"{self.prefix}.worker.{token_of(worker)}"

    def _enqueue(self, outgoing: _OutgoingMessage) -> None:
        assert len(outgoing.body) < HINT_BYTES, "ids travel, never data"
        if self._closed:
            return
        # The same may wait twice: it is for two workers.
        self._waiting.setdefault(outgoing.pool, deque(maxlen=MOST_WAITING)).append(outgoing)
        if outgoing.pool not in self._saying:
            self._saying[outgoing.pool] = self._start(self._send(outgoing.pool))

    async def _send(self, pool: str | None) -> None:
        """Say what waits for a pool, until nothing does."""
        waiting = self._waiting[pool]
        try:
            while waiting:
                client = await self._connection()
                batch = list(waiting)
                waiting.clear()
                await self._publish(client, pool, batch)
        finally:
            del self._saying[pool]

    async def _publish(self, client: Any, pool: str | None, batch: Sequence[_OutgoingMessage]) -> None:
        """Publish what is for one pool. The stream confirms the last, and that is how one is missed that has vanished."""
        from nats.js.errors import NoStreamResponseError

        with self._record_trouble():
            if pool is None:
                return await _publish_plainly(client, batch)
            await self._ensure(client, pool)
            await _publish_plainly(client, batch[:-1])
            stream, last = client.jetstream(timeout=_ANSWER_S), batch[-1]
            try:
                await run_shielded(stream.publish(last.subject, last.body))
            except NoStreamResponseError:
                self._made.discard(pool)
                await self._ensure(client, pool)
                await _publish_plainly(client, batch)
        return None

    # --- hearing -----------------------------------------------------------------------------------------------------

    def listen(self, worker: str, heard: Callable[[bytes], None]) -> None:
        """Hear what a worker is told."""
        is_new = worker not in self._heard
        self._heard[worker] = heard
        if is_new and self._client is not None:
            self._start(self._try_subscribe(worker))

    def stop_listening(self, worker: str) -> None:
        """Hear that no longer."""
        self._heard.pop(worker, None)
        ear = self._ears.pop(worker, None)
        if ear is not None:
            self._start(self._unsubscribe(ear))

    async def _try_subscribe(self, worker: str) -> None:
        with self._record_trouble():
            await self._subscribe(worker)

    async def _subscribe(self, worker: str) -> None:
        async def hear(message: Any) -> None:
            if worker in self._heard:
                self._heard[worker](message.data)

        client = self._client
        if client is None:
            return  # the next one attends to all
        ear = await run_shielded(client.subscribe(self._worker_subject(worker), cb=hear))
        if worker not in self._heard:
            await run_shielded(ear.unsubscribe())
        elif client is self._client:
            self._ears[worker] = ear

    async def _unsubscribe(self, ear: Any) -> None:
        with self._record_trouble():
            await run_shielded(ear.unsubscribe())

    async def next(self, pools: Sequence[str], most: int, timeout: float) -> list[ReceivedHint]:  # noqa: ASYNC109  the port's
        """Ask the streams of these pools."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        if not pools or most < 1:
            await asyncio.sleep(timeout)
            return []
        while True:
            left = until - loop.time()
            client = await self._connection(max(left, 0))
            found: list[ReceivedHint] | None = None
            if client is not None:
                with self._record_trouble():
                    found = await self._request_hints(client, pools, most, until - loop.time())
            if found or until <= loop.time():
                return found or []
            if found is None:
                await asyncio.sleep(min(_PAUSE_S, max(until - loop.time(), 0)))

    async def _request_hints(
        self, client: Any, pools: Sequence[str], most: int, left: float
    ) -> list[ReceivedHint] | None:
        """What there is, or comes within a while; None: there is nobody to ask."""
        for pool in pools:
            await self._ensure(client, pool)
        async with HintInbox(client, self._asking) as inbox:
            try:
                # One pool after the other, so that none yields more than is wanted.
                for pool in pools:
                    if len(inbox.found) < most:
                        await inbox.ask(self._request(pool), {"batch": most - len(inbox.found), "no_wait": True})
                        await inbox.wait_for_answers(_ANSWER_S)
                if not inbox.found and left > _MOMENT_S:
                    for_s = min(left, _LINGER_S)
                    for pool in pools:
                        await inbox.ask(self._request(pool), {"batch": 1, "expires": int(for_s * 1e9)})
                    await inbox.wait_for_answers(for_s + _GRACE_S, first=True)
            except ConsumerGone:
                self._made.difference_update(pools)
                return None
            taken, inbox.found = inbox.found[:most], inbox.found[most:]
            return [ReceivedHint(message.data, _make_ack(message)) for message in taken]

    def _request(self, pool: str) -> str:
        return f"$JS.API.CONSUMER.MSG.NEXT.{self.stream(pool)}.{_CONSUMER}"


async def _publish_plainly(client: Any, batch: Iterable[_OutgoingMessage]) -> None:
    for outgoing in batch:
        await run_shielded(client.publish(outgoing.subject, outgoing.body))


def _make_ack(message: Any) -> Callable[[], Awaitable[None]]:
    async def ack() -> None:
        import nats.errors

        with contextlib.suppress(nats.errors.Error, OSError):
            await message.ack()

    return ack

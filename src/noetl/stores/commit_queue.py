"""A thread that writes for its callers, in order; everything that waits at the same time goes in one commit.

Callers queue up while it works, and are the next group. Each of them still succeeds or fails alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import RLock, Thread
from typing import Any

from noetl.ports import StoreFailed
from noetl.stores.appends import Append

#: something to be done inside of a transaction, other than appending; it is given the connection
Job = Callable[[Any], Any]
#: None: nobody waits
Reply = asyncio.Future[Any] | futures.Future[Any] | None
Ticket = tuple[Append | Job, Reply]

#: so that a flood does not make the first of a group wait for all of it
_MOST = 1024


def no_op(connection: Any) -> None:
    """To wait for what was wanted before, or to have the thread look around."""


def _stop(connection: Any) -> None:
    """End the thread."""


class CommitQueue:
    """Takes work from any thread, does it in order, and answers. Who inherits says how a group is written."""

    def __init__(self, name: str) -> None:
        #: of what is written to, for messages
        self._name = name
        self._queue: SimpleQueue[Any] = SimpleQueue()
        #: how much the thread has to do: while that is anything, the connection is the thread's
        self._queued = 0
        #: what is wanted in the present turn of an event loop
        self._wanted: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
        #: to be held for all of the above, and for writing without the thread
        self._gate = RLock()
        self._thread: Thread | None = None
        self._closed = False

    # --- how ---------------------------------------------------------------------------------------------------------

    def _write(self, tickets: list[Ticket]) -> None:
        """Do it, and `answer`; in the thread."""
        raise NotImplementedError

    def _write_inline(self, tickets: list[Ticket], loop: asyncio.AbstractEventLoop) -> list[Ticket]:  # noqa: ARG002
        """Do what can be done without the thread; what is left is for the thread to do."""
        return tickets

    def _maintain(self) -> None:
        """Do what is due between groups; in the thread."""

    def _on_stop(self) -> None:
        """Let go of everything; in the thread, at its end."""

    # --- asking ------------------------------------------------------------------------------------------------------

    def submit(self, work: Append | Job) -> asyncio.Future[Any]:
        """Have something done; await what comes of it."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        with self._gate:
            self._want(loop, (work, reply))
        return reply

    def put(self, work: Job) -> futures.Future[Any]:
        """Have something done behind all that was wanted before, where it is worth to block for it."""
        reply: futures.Future[Any] = futures.Future()
        with self._gate:
            self._check_open()
            self._hand_over()
            self._enqueue([(work, reply)])
        return reply

    def defer(self, work: Job) -> None:
        """Have something done along with the next that is wanted; nobody waits for it."""
        with self._gate:
            try:
                self._want(asyncio.get_running_loop(), (work, None))
            except RuntimeError:  # outside of an event loop
                self._check_open()
                self._enqueue([(work, None)])

    def _want(self, loop: asyncio.AbstractEventLoop, ticket: Ticket) -> None:
        self._check_open()
        wanted = self._wanted.get(loop)
        if wanted is None:
            wanted = self._wanted[loop] = []
            loop.call_soon(self._end_turn, loop)
        wanted.append(ticket)

    def _hand_over(self) -> None:
        """Give the thread what is wanted in turns that have not ended."""
        for loop in list(self._wanted):
            self._enqueue(self._wanted.pop(loop))

    def _check_open(self) -> None:
        if self._closed:
            raise StoreFailed(f"{self._name} is closed")

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            left = self._write_inline(self._wanted.pop(loop, []), loop)
            if left:
                self._enqueue(left)

    def _enqueue(self, tickets: list[Ticket]) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="noetl-store", daemon=True)
            self._thread.start()
        self._queued += len(tickets)
        for ticket in tickets:
            self._queue.put(ticket)

    async def close(self) -> None:
        """Do what waits, and end."""
        done = asyncio.get_running_loop().create_future()
        with self._gate:
            self._closed = True
            self._hand_over()
            self._enqueue([(_stop, done)])
            thread = self._thread
        await done
        if thread is not None:
            thread.join()

    # --- doing -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        stopped: Reply = None
        while stopped is None:
            taken = self._take()
            tickets = [ticket for ticket in taken if ticket[0] is not _stop]
            stopped = next((reply for work, reply in taken if work is _stop), None)
            if tickets:
                self._write(tickets)
            self._maintain()
            with self._gate:
                self._queued -= len(taken)
        self._on_stop()
        answer([(stopped, None)])

    def _take(self) -> list[Any]:
        """Everything that waits, or the next thing that comes."""
        taken = [self._queue.get()]
        with suppress(Empty):
            while len(taken) < _MOST:
                taken.append(self._queue.get_nowait())
        return taken


def answer(answers: list[tuple[Reply, Any]]) -> None:
    """Wake those who wait, from another thread: each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[Reply, Any]]] = {}
    for reply, outcome in answers:
        if isinstance(reply, asyncio.Future):
            loops.setdefault(reply.get_loop(), []).append((reply, outcome))
        else:
            settle([(reply, outcome)])
    for loop, waiting in loops.items():
        with suppress(RuntimeError):  # a loop that is closed waits for nothing
            loop.call_soon_threadsafe(settle, waiting)


def settle(answers: list[tuple[Reply, Any]]) -> None:
    """Wake those who wait, in this thread."""
    for reply, outcome in answers:
        if reply is None or reply.done():  # nobody waits, or not any more
            continue
        if isinstance(outcome, Exception):
            reply.set_exception(outcome)
        else:
            reply.set_result(outcome)

"""Requests for hints to the consumers of NATS streams, and their answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, Self

from noetl.tools.jetstream import minded

#: how a consumer says that it has no more, or not in time
_NO_MORE = ("404", "408")


class Vanished(Exception):
    """There is no consumer to ask: it, or its stream, is gone."""


class Inbox:
    """Where the answers to requests for hints come in. Servers forget the requests of an inbox that is closed."""

    def __init__(self, client: Any, asking: set[Inbox]) -> None:
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

        self._subscription = await minded(self._client.subscribe(f"{self._name}.*", cb=came))
        self._asking.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        import nats.errors

        self._asking.discard(self)
        with contextlib.suppress(nats.errors.Error, OSError):
            await minded(self._subscription.unsubscribe())
            # What nobody takes from here is for others.
            for message in (*self.found, *(self._came.get_nowait() for _ in range(self._came.qsize()))):
                if self._is_hint(message):
                    await minded(message.nak())

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
        await minded(self._client.publish(request, json.dumps(how).encode(), reply=reply))

    async def answered(self, within: float, *, first: bool = False) -> None:
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
                self._ended(message)
        self._open.clear()

    def _ended(self, message: Any) -> None:
        """A request is answered without a hint."""
        status = (message.headers or {}).get("Status")
        if status not in _NO_MORE:
            raise Vanished
        del self._open[message.subject]

"""The HTTP protocol of the server: uvicorn's, within limits on connections and on the head of a request."""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import Any, ClassVar, Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: connections at a time, whatever the limit on open files is
_MOST: Final = 10_000
#: open files that connections leave to the rest of the process: at least so many, and this share of all
_RESERVE, _RESERVED_SHARE = 128, 0.25
#: seconds between two looks at heads that are under way
_LOOK_S: Final = 1.0
#: seconds after which an unfinished head gives way to a new connection when there are no more
_YIELD_S: Final = 0.5


class ConnectionLimits(msgspec.Struct, frozen=True):
    """What clients may do before anything is known of them."""

    connections: int
    #: of the request line and the headers of one request
    head_bytes: int = 65_536
    headers: int = 256
    #: seconds from the first byte of a request, or from the connection, to the end of its headers
    head_s: float = 10.0


def read_limits() -> ConnectionLimits:
    """Return the limits that fit what this process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return ConnectionLimits(_MOST)
    return ConnectionLimits(max(16, min(_MOST, files - max(_RESERVE, int(files * _RESERVED_SHARE)))))


class ConnectionGate:
    """All connections of a server; those that wait for a request, or for the rest of a head, in the order of their waiting.

    When there are no more, a new connection takes the place of one that waits: a client that only holds connections
    open keeps nobody out.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open = 0
        self._idle: dict[BoundedProtocol, None] = {}
        self._heading: dict[BoundedProtocol, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, connection: BoundedProtocol) -> bool:
        """Admit a connection; false: there are too many."""
        now = connection.loop.time()
        if self._open >= self.limits.connections and not self._make_room(now):
            return False
        self._open += 1
        self.on_head_begun(connection)
        return True

    def leave(self, connection: BoundedProtocol) -> None:
        """Forget a connection that was admitted."""
        self._open -= 1
        self._idle.pop(connection, None)
        self._heading.pop(connection, None)

    def on_head_begun(self, connection: BoundedProtocol) -> None:
        """A head is to come, or has begun to."""
        self._idle.pop(connection, None)
        self._heading.pop(connection, None)
        self._heading[connection] = connection.loop.time()
        if self._timer is None:
            self._timer = connection.loop.call_later(_LOOK_S, self._look, connection.loop)

    def on_head_ended(self, connection: BoundedProtocol) -> None:
        """A head is complete."""
        self._heading.pop(connection, None)

    def on_idle(self, connection: BoundedProtocol) -> None:
        """A request was answered, and another one may follow."""
        self._idle[connection] = None

    def _make_room(self, now: float) -> bool:
        idle = next(iter(self._idle), None)
        if idle is not None:
            idle.transport.abort()
            self._give_up(idle)
            return True
        connection, since = next(iter(self._heading.items()), (None, now))
        if connection is None or now - since < _YIELD_S:
            return False
        connection.refuse(HTTPStatus.REQUEST_TIMEOUT, "the server needs the connection for another request")
        self._give_up(connection)
        return True

    def _give_up(self, connection: BoundedProtocol) -> None:
        """Forget a connection now, and not when its end is reported."""
        connection.admitted = False
        self.leave(connection)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections whose head takes too long; the oldest is the first."""
        since = loop.time() - self.limits.head_s
        for connection, begun in list(self._heading.items()):
            if begun > since:
                break
            connection.refuse(
                HTTPStatus.REQUEST_TIMEOUT, f"the head of a request takes at most {self.limits.head_s:g} s"
            )
            self._heading.pop(connection, None)
        self._timer = loop.call_later(_LOOK_S, self._look, loop) if self._heading else None


class BoundedProtocol(HttpToolsProtocol):
    """A connection within limits, which sends the head of an answer with its body: the client is woken once."""

    gate: ClassVar[ConnectionGate]
    transport: Any
    admitted = False
    #: bytes and headers of the head under way; None: its end has come
    head_bytes: int | None = 0

    def connection_made(self, transport: Any) -> None:
        """Begin, unless there are too many connections."""
        self.transport = transport
        if not self.gate.enter(self):
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections: try again in a second")
            return
        self.admitted = True
        batching: Any = BatchingTransport(transport)
        super().connection_made(batching)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end of a connection."""
        if self.admitted:
            self.gate.leave(self)
        if self.flow is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come; a head that is too large is refused before all of it is here."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.head_bytes is not None:
            self.head_bytes += len(data)
            self._check_head()

    def on_message_begin(self) -> None:
        """A request begins."""
        self.head_bytes = 0
        self.gate.on_head_begun(self)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head of a request is here."""
        self.gate.on_head_ended(self)
        self.head_bytes = sum(len(name) + len(value) for name, value in self.headers) + len(self.url)
        self._check_head()
        self.head_bytes = None
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body is here; of a request that was refused nothing is taken."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """All of a request is here."""
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request was answered."""
        super().on_response_complete()
        if self.admitted and not self.pipeline and not self.transport.is_closing():
            self.gate.on_idle(self)

    def refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer with an error and close the connection."""
        if self.transport.is_closing():
            return
        body = msgspec.json.encode({"type": "about:blank", "title": status.phrase, "status": status, "detail": detail})
        head = (
            f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _check_head(self) -> None:
        limits, size = self.gate.limits, self.head_bytes or 0
        if size > limits.head_bytes or len(self.headers or ()) > limits.headers:
            told = f"the head of a request has at most {limits.head_bytes:,} bytes and {limits.headers} headers"
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, told)


def make_protocol(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """Return the protocol of one server."""
    return type("ServerProtocol", (BoundedProtocol,), {"gate": ConnectionGate(limits)})


class BatchingTransport:
    """A transport that writes at the end of a turn of the event loop what was written in it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, soon."""
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._flush)
        self._parts.append(data)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts) if len(parts) > 1 else parts[0])

    def close(self) -> None:
        """Close, after what was written."""
        self._flush()
        self._transport.close()

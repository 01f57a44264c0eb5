"""A connection to a server that blocks its thread. Time limits are deadlines: a server that sends a byte now and then gains nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from time import monotonic
from typing import Self

from noetl.client.address import ServerAddress
from noetl.client.http1 import ResponseHead, ResponseParser

_BLOCK = 1 << 18
#: seconds after which a kept connection is not used again: a router may have forgotten it without a sign
_MOST_IDLE_S = 30.0


class BlockingConnection:
    """One request at a time, and its answer. Deadlines are times of `monotonic`."""

    def __init__(self, address: ServerAddress, tls: ssl.SSLContext | None, deadline: float) -> None:
        self.address = address
        #: when the answer must be complete, and when the server last sent something
        self._deadline, self._last = deadline, monotonic()
        self._parser = ResponseParser()
        #: what of the body arrived together with the head
        self._first = b""
        plain = socket.create_connection((address.host, address.port), _seconds_left(deadline))
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.settimeout(_seconds_left(deadline))
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=address.host)
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def is_stale(self) -> bool:
        """Return whether a kept connection is of no more use: idle for long, closed, or with data that nobody asked for."""
        if monotonic() - self._last > _MOST_IDLE_S:
            return True
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        return True

    @property
    def is_reusable(self) -> bool:
        """Whether it can carry another request: the last answer was read to its end."""
        return self._parser.done and self._parser.reusable

    def send(self, request: bytes, deadline: float, most_bytes: int | None = None) -> ResponseHead:
        """Send a request; return the head of its answer. OSError, UnexpectedAnswer: the connection is closed."""
        self._deadline = deadline
        try:
            return self._send(request, ResponseParser(most_bytes))
        except BaseException:
            self.close()
            raise

    def _send(self, request: bytes, parser: ResponseParser) -> ResponseHead:
        self._parser, self._first = parser, b""
        self._socket.settimeout(_seconds_left(self._deadline))
        # A server that refuses a large body answers and closes before it has read all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(request)
        while parser.head is None:
            self._first = self._receive(self._deadline)
        return parser.head

    def read(self) -> bytes:
        """Return the body of the answer, all of it, before the deadline of the request."""
        parts = [self._first]
        while not self._parser.done:
            parts.append(self._receive(self._deadline))
        return b"".join(parts)

    def blocks(self, idle_s: float) -> Iterator[bytes]:
        """Yield the body as it arrives; between two pieces may lie so many seconds."""
        if self._first:
            yield self._first
        while not self._parser.done:
            if part := self._receive(monotonic() + idle_s):
                yield part

    def _receive(self, deadline: float) -> bytes:
        self._socket.settimeout(_seconds_left(deadline))
        data = self._socket.recv(_BLOCK)
        self._last = monotonic()
        if not data:
            self._parser.finish()
        return self._parser.feed(data) if data else b""


def _seconds_left(deadline: float) -> float:
    if (seconds := deadline - monotonic()) <= 0:
        raise TimeoutError
    return seconds

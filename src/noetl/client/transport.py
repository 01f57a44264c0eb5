"""Transport: requests to one of several servers, from any thread, over blocking connections that are kept for the next request."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple, Self

from noetl.client.address import ServerAddress, choose_tls
from noetl.client.http1 import ResponseHead, ResponseParser, format_headers, format_request
from noetl.client.responses import ServerResponse, explain_break, failure_of
from noetl.config import Secret
from noetl.errors import ServerUnavailable, UnexpectedAnswer

# Time limits are deadlines: a server that sends a byte now and then gains nothing.


_BLOCK = 1 << 18


class BlockingConnection:
    """One request at a time, and its answer."""

    def __init__(self, address: ServerAddress, tls: ssl.SSLContext | None, seconds: float) -> None:
        self.address = address
        self._parser = ResponseParser()
        #: what of the body arrived together with the head
        self._first = b""
        deadline = monotonic() + seconds
        plain = socket.create_connection((address.host, address.port), seconds)
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
        """Return whether a connection that was kept is of no more use: the server closed it, or sent what nobody asked for."""
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

    def send(self, request: bytes, seconds: float, most_bytes: int | None = None) -> ResponseHead:
        """Send a request; return the head of its answer. OSError, UnexpectedAnswer: the connection is closed."""
        try:
            return self._send(request, monotonic() + seconds, ResponseParser(most_bytes))
        except BaseException:
            self.close()
            raise

    def _send(self, request: bytes, deadline: float, parser: ResponseParser) -> ResponseHead:
        self._parser, self._first = parser, b""
        self._socket.settimeout(_seconds_left(deadline))
        # A server that refuses a large body answers and closes before it has read all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(request)
        while parser.head is None:
            self._first = self._receive(deadline)
        return parser.head

    def read(self, seconds: float) -> bytes:
        """Return the body of the answer, all of it."""
        deadline = monotonic() + seconds
        parts = [self._first]
        while not self._parser.done:
            parts.append(self._receive(deadline))
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
        if not data:
            self._parser.finish()
        return self._parser.feed(data) if data else b""


def _seconds_left(deadline: float) -> float:
    if (seconds := deadline - monotonic()) <= 0:
        raise TimeoutError
    return seconds


#: bytes of an answer that is held in memory
_MOST_BYTES: Final = 1 << 30


class Request(NamedTuple):
    """What is asked of a server."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    #: whether asking twice does no harm, so that another server may be asked when an answer is lost
    repeatable: bool = True
    #: seconds that the server was asked to wait before it answers
    wait_s: float = 0.0


class StreamedResponse(NamedTuple):
    """An answer whose body is read as it arrives."""

    head: ResponseHead
    blocks: Iterator[bytes]


class Transport:
    """The first of some servers that answers; the next one when it does not."""

    def __init__(
        self,
        addresses: Sequence[ServerAddress],
        token: Secret | None = None,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._addresses, self._token, self._tls = list(addresses), token, tls
        self._timeout_s, self._most = timeout_s, most_bytes
        self._headers = {one: one.format_headers(token) for one in self._addresses}
        self._turn = 0
        self._free: list[BlockingConnection] = []
        self._lock = Lock()

    @property
    def address(self) -> ServerAddress:
        """The server that answered last."""
        return self._addresses[self._turn % len(self._addresses)]

    def others(self, timeout_s: float) -> list[Transport]:
        """Return a transport for each of the other servers, with a time limit of its own."""
        others = [one for one in self._addresses if one != self.address]
        return [Transport([one], self._token, timeout_s=timeout_s, tls=self._tls) for one in others]

    def call(self, request: Request) -> ServerResponse:
        """Return an answer that is a success. ClientError: there is none."""
        seconds = self._timeout_s + request.wait_s
        with self._exchange(request, self._most) as (connection, head), _translate_break(connection):
            return ServerResponse(head, connection.read(seconds))

    @contextmanager
    def stream(self, request: Request, *, idle_s: float | None = None) -> Iterator[StreamedResponse]:
        """Yield an answer of any length; between two pieces of it may lie so many seconds."""
        with self._exchange(request, None) as (connection, head):
            yield StreamedResponse(head, _blocks(connection, self._timeout_s if idle_s is None else idle_s))

    def close(self) -> None:
        """Close the connections that are kept. Calls that are under way close theirs."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    @contextmanager
    def _exchange(self, request: Request, most: int | None) -> Iterator[tuple[BlockingConnection, ResponseHead]]:
        """Yield a connection whose answer is a success and has its body still to be read."""
        connection, head = self._send(request, most)
        try:
            if not 200 <= head.status < 300:
                with _translate_break(connection):
                    body = connection.read(self._timeout_s) if head.status >= 400 else b""
                failure = failure_of(connection.address.url, ServerResponse(head, body))
                assert failure is not None
                raise failure
            yield connection, head
        finally:
            self._release(connection)

    def _send(self, request: Request, most: int | None) -> tuple[BlockingConnection, ResponseHead]:
        """Send a request to the first server that answers, to another only where that does no harm."""
        failure: OSError | None = None
        seconds = self._timeout_s + request.wait_s
        # A kept connection may be dead without a sign of it, so each server is tried a second time over a new one.
        for attempt in range(2 * len(self._addresses)):
            address, fresh = self.address, attempt % 2 == 1 or not request.repeatable
            message = self._format(address, request)
            try:
                connection = self._connect(address, fresh=fresh)
            except OSError as error:  # nothing was sent, so that another server may be asked in any case
                failure = error
            else:
                try:
                    return connection, connection.send(message, seconds, most)
                except OSError as error:
                    failure = error
                    if not request.repeatable:
                        break
                except UnexpectedAnswer as error:
                    raise UnexpectedAnswer(f"{address.url}: {error}") from None
            if attempt % 2 == 1:
                self._turn += 1
        urls = ", ".join(one.url for one in self._addresses)
        raise ServerUnavailable(f"no server answers at {urls}: {explain_break(failure)}") from failure

    def _format(self, address: ServerAddress, request: Request) -> bytes:
        headers = self._headers[address].reveal() + format_headers(request.headers)
        return format_request(request.method, address.base + request.path, headers, request.body)

    def _connect(self, address: ServerAddress, *, fresh: bool) -> BlockingConnection:
        while not fresh:
            with self._lock:
                kept = next((one for one in self._free if one.address == address), None)
                if kept is None:
                    break
                self._free.remove(kept)
            if not kept.is_stale():
                return kept
            kept.close()
        return BlockingConnection(address, choose_tls(address, self._tls), self._timeout_s)

    def _release(self, connection: BlockingConnection) -> None:
        if not connection.is_reusable:
            connection.close()
            return
        with self._lock:
            self._free.append(connection)


@contextmanager
def _translate_break(connection: BlockingConnection) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServerUnavailable(f"the connection to {connection.address.url} broke: {explain_break(error)}") from error


def _blocks(connection: BlockingConnection, idle_s: float) -> Iterator[bytes]:
    # Only what is read is translated: an error of the caller, such as a full disk, is not one of the connection.
    blocks = connection.blocks(idle_s)
    while True:
        with _translate_break(connection):
            block = next(blocks, None)
        if block is None:
            return
        yield block

"""Transport: requests to one of several servers, from any thread. Connections are kept for the next request."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from time import monotonic, sleep
from typing import Final, NamedTuple

from noetl.client.address import ServerAddress, choose_tls
from noetl.client.blocking import BlockingConnection
from noetl.client.http1 import ResponseHead, format_headers, format_request
from noetl.client.owner_token import TokenSource
from noetl.client.responses import ServerResponse, explain_break, failure_of
from noetl.errors import ServerUnavailable, TooManyRequests, UnexpectedAnswer

#: bytes of an answer that is held in memory
_MOST_BYTES: Final = 1 << 30
#: connections that are kept
_MOST_FREE: Final = 8
#: seconds for which a call is tried again that a server's limits refuse
_BUSY_S: Final = 60.0
_UNKNOWN: Final = 401


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
        tokens: TokenSource,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        report: Callable[[str], None] | None = None,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._addresses, self._tokens, self._tls = list(addresses), tokens, tls
        self._timeout_s, self._most = timeout_s, most_bytes
        self._report = report or _log
        #: where each address leads, and the headers of every request there
        self._heads = {one: tokens.format_headers(one) for one in self._addresses}
        #: the server that answered last
        self.address = self._addresses[0]
        self._closed = False
        self._free: list[BlockingConnection] = []
        self._lock = Lock()

    def others(self, timeout_s: float) -> list[Transport]:
        """Return a transport for each of the other servers, with a time limit of its own."""
        others = [one for one in self._addresses if one != self.address]
        return [
            Transport([one], self._tokens, timeout_s=timeout_s, tls=self._tls, report=self._report) for one in others
        ]

    def call(self, request: Request) -> ServerResponse:
        """Return an answer that is a success. ClientError: there is none."""
        with self._exchange(request, self._most) as (connection, head), _translate_break(connection):
            return ServerResponse(head, connection.read())

    @contextmanager
    def stream(self, request: Request, *, idle_s: float | None = None) -> Iterator[StreamedResponse]:
        """Yield an answer of any length; between two pieces of it may lie so many seconds."""
        with self._exchange(request, None) as (connection, head):
            yield StreamedResponse(head, _blocks(connection, self._timeout_s if idle_s is None else idle_s))

    def close(self) -> None:
        """Close the connections that are kept. Calls that are under way close theirs."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    @contextmanager
    def _exchange(self, request: Request, most: int | None) -> Iterator[tuple[BlockingConnection, ResponseHead]]:
        """Yield a connection whose answer is a success and has its body still to be read."""
        until, is_new = monotonic() + _BUSY_S, True
        while True:
            connection, head = self._send(request, most)
            try:
                if 200 <= head.status < 300:
                    yield connection, head
                    return
                with _translate_break(connection):
                    body = connection.read() if head.status >= 400 else b""
            finally:
                self._release(connection, request)
            if head.status == _UNKNOWN and is_new and self._renew_headers(self.address):
                is_new = False  # the server was restarted, and has another token for its owner
                continue
            failure = failure_of(connection.address.url, ServerResponse(head, body))
            assert failure is not None
            if not isinstance(failure, TooManyRequests) or monotonic() + failure.retry_after_s > until:
                raise failure
            self._report(f"{connection.address.url} limits its calls: trying again in {failure.retry_after_s:g} s")
            sleep(failure.retry_after_s)  # it was not done, so asking again does no harm

    def _renew_headers(self, address: ServerAddress) -> bool:
        """Look for the token of a server again; whether it is another."""
        before = self._heads[address]
        self._heads[address] = self._tokens.format_headers(address)
        return self._heads[address] != before

    def _send(self, request: Request, most: int | None) -> tuple[BlockingConnection, ResponseHead]:
        """Send a request to the first server that answers, to another only where that does no harm."""
        failure: OSError | None = None
        first = self._addresses.index(self.address)
        for address in (*self._addresses[first:], *self._addresses[:first]):
            try:
                answer = self._send_to(address, request, most)
            except OSError as error:
                failure = error
            except UnexpectedAnswer as error:
                raise UnexpectedAnswer(f"{address.url}: {error}") from None
            else:
                self.address = address
                return answer
        urls = ", ".join(one.url for one in self._addresses)
        raise ServerUnavailable(f"no server answers at {urls}: {explain_break(failure)}") from failure

    def _send_to(
        self, address: ServerAddress, request: Request, most: int | None
    ) -> tuple[BlockingConnection, ResponseHead]:
        """Send a request to one server. OSError: another may be asked."""
        deadline = monotonic() + self._timeout_s + request.wait_s
        where, headers = self._heads[address]
        head = headers.reveal() + format_headers(request.headers)
        message = format_request(request.method, address.base + request.path, head, request.body)
        if request.repeatable and (kept := self._take_kept(where)) is not None:
            with suppress(OSError):  # it broke after it was kept, which says nothing about a new one
                return kept, kept.send(message, deadline, most)
        connection = BlockingConnection(where, choose_tls(where, self._tls), deadline)
        try:
            return connection, connection.send(message, deadline, most)
        except OSError as error:
            if request.repeatable:
                raise
            raise ServerUnavailable(f"{address.url} does not answer: {explain_break(error)}") from error

    def _take_kept(self, address: ServerAddress) -> BlockingConnection | None:
        while True:
            with self._lock:
                kept = next((one for one in self._free if one.address == address), None)
                if kept is None:
                    return None
                self._free.remove(kept)
            if not kept.is_stale():
                return kept
            kept.close()

    def _release(self, connection: BlockingConnection, request: Request) -> None:
        # A request that is sent once never uses a kept connection, so keeping its own would only collect them.
        if connection.is_reusable and request.repeatable:
            with self._lock:
                if not self._closed and len(self._free) < _MOST_FREE:
                    self._free.append(connection)
                    return
        connection.close()


def _log(message: str) -> None:
    import logging

    logging.getLogger("noetl.client").warning(message)


@contextmanager
def _translate_break(connection: BlockingConnection) -> Iterator[None]:
    try:
        yield
    except UnexpectedAnswer as error:
        raise UnexpectedAnswer(f"{connection.address.url}: {error}") from None
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

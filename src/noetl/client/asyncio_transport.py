"""AsyncTransport: kept connections to one server, for asyncio. Workers report through it, so it does no more than it must.

A general HTTP client takes as long for a short message as all the rest of a worker does for a short pipeline (decision 0039).
"""

from __future__ import annotations

import asyncio
import ssl

from noetl.client.address import ServerAddress, choose_tls
from noetl.client.http1 import ResponseParser, format_request
from noetl.client.owner_token import TokenSource
from noetl.client.responses import ServerResponse, explain_break
from noetl.errors import ServerUnavailable, UnexpectedAnswer

#: bytes of an answer that is held in memory
MOST_BYTES = 1 << 30
_UNKNOWN = 401


class AsyncTransport:
    """One server. Each request that is under way has a connection of its own; afterwards it is kept for the next."""

    def __init__(
        self,
        address: ServerAddress,
        tokens: TokenSource | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.address, self._tokens = address, tokens or TokenSource(None, None)
        self._where, self._headers = self._tokens.format_headers(address)
        self._tls, self._most = tls, most_bytes
        self._free: list[_Channel] = []
        self._closed = False

    async def request(self, method: str, path: str, body: bytes | None, seconds: float) -> ServerResponse:
        """Send a request; return its answer, whatever its status. ServerUnavailable, UnexpectedAnswer."""
        response = await self._request(method, path, body, seconds)
        if (
            response.status == _UNKNOWN and self._renew_headers()
        ):  # the server was restarted: it has another token for its owner
            response = await self._request(method, path, body, seconds)
        return response

    def _renew_headers(self) -> bool:
        """Look for the server's token again; whether it is another."""
        before = self._where, self._headers
        self._where, self._headers = self._tokens.format_headers(self.address)
        return (self._where, self._headers) != before

    async def _request(self, method: str, path: str, body: bytes | None, seconds: float) -> ServerResponse:
        request = format_request(method, self.address.base + path, self._headers.reveal(), body)
        try:
            async with asyncio.timeout(seconds):
                channel = self._take() or await self._connect()
                try:
                    response = await channel.send(request, self._most)
                except BaseException:  # an answer that is no longer waited for must not be left to the next request
                    channel.close()
                    raise
        except OSError as error:  # TimeoutError is one of them
            raise ServerUnavailable(f"{self.address.url} does not answer: {explain_break(error)}") from error
        except UnexpectedAnswer as error:
            raise UnexpectedAnswer(f"{self.address.url}: {error}") from None
        if self._closed:
            channel.close()
        elif not channel.closed:
            self._free.append(channel)
        return response

    def close(self) -> None:
        """Close the connections that are kept. Requests that are under way close theirs."""
        self._closed = True
        for channel in self._free:
            channel.close()
        self._free.clear()

    def _take(self) -> _Channel | None:
        while self._free:
            channel = self._free.pop()
            if not channel.closed:
                return channel
        return None

    async def _connect(self) -> _Channel:
        address, loop = self._where, asyncio.get_running_loop()
        tls = choose_tls(address, self._tls)
        return (await loop.create_connection(_Channel, address.host, address.port, ssl=tls))[1]


class _Channel(asyncio.Protocol):
    """One request at a time, and its answer."""

    def __init__(self) -> None:
        self.closed = False
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[ServerResponse] | None = None
        self._parser = ResponseParser()
        self._parts: list[bytes] = []

    def send(self, request: bytes, most_bytes: int) -> asyncio.Future[ServerResponse]:
        """Send a request; its answer is the result of the future."""
        self._answer = asyncio.get_running_loop().create_future()
        self._parser, self._parts = ResponseParser(most_bytes), []
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self.closed = True
        answer = self._answer
        if answer is None or answer.done():
            return
        if exc is not None:
            answer.set_exception(exc)
            return
        try:
            self._parser.finish()
        except ConnectionResetError as error:
            answer.set_exception(error)
        else:
            self._settle(answer)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        answer = self._answer
        if answer is None or answer.done():  # nothing was asked
            self.close()
            return
        try:
            if part := self._parser.feed(data):
                self._parts.append(part)
        except UnexpectedAnswer as error:
            answer.set_exception(error)
            return
        if self._parser.done:
            self._settle(answer)

    def _settle(self, answer: asyncio.Future[ServerResponse]) -> None:
        parser, parts = self._parser, self._parts
        assert parser.head is not None
        if not parser.reusable:
            self.close()
        self._parts = []
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        answer.set_result(ServerResponse(parser.head, body))

"""Phone: connections to one server that are kept, and know no more of HTTP than messages and answers of known length.

A client for all of HTTP takes as long for a short message as all the rest of a worker does for a short pipeline.
"""

from __future__ import annotations

import asyncio
import ssl
import urllib.parse

_HEAD_BYTES = 64 << 10
_END = b"\r\n\r\n"


class Unplain(Exception):
    """An answer that this does not understand: it is for a client that knows all of HTTP."""


class Phone:
    """One server."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._parts = urllib.parse.urlsplit(url)
        self._secure = self._parts.scheme == "https"
        self._context: ssl.SSLContext | None = None
        told = {"Host": self._parts.netloc, "Content-Type": "application/json", **headers}
        self._path = self._parts.path.rstrip("/")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self._free: list[_Connection] = []

    @property
    def is_plain(self) -> bool:
        """Whether the address is one that needs nothing else."""
        return self._parts.scheme in ("http", "https") and bool(self._parts.hostname) and self._parts.username is None

    async def post(self, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Say something, and hear the status and the body of the answer. OSError, TimeoutError; Unplain."""
        async with asyncio.timeout(seconds):
            connection = self._kept() or await self._made()
            try:
                head = f"POST {self._path}{path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n"
                answer = await connection.say(head.encode() + body)
            except BaseException:  # whoever does not wait for the answer must not leave it to the next
                connection.close()
                raise
        if not connection.closed:
            self._free.append(connection)
        return answer

    def _kept(self) -> _Connection | None:
        while self._free:
            connection = self._free.pop()
            if not connection.closed:
                return connection
        return None

    async def _made(self) -> _Connection:
        if self._secure and self._context is None:
            self._context = ssl.create_default_context()
        host, port = self._parts.hostname or "", self._parts.port or (443 if self._secure else 80)
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(_Connection, host, port, ssl=self._context))[1]

    def close(self) -> None:
        """Hang up."""
        for connection in self._free:
            connection.close()
        self._free.clear()


class _Connection(asyncio.Protocol):
    """One message at a time, and its answer."""

    def __init__(self) -> None:
        self.closed = False
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._came = bytearray()
        #: where the body begins and ends, and what the head says
        self._body: tuple[int, int, int, bool] | None = None

    def say(self, message: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Say something; the answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        return self._answer

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self.closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError(str(exc or "the server hung up")))

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._answer is None or self._answer.done():  # nobody asked
            self.close()
            return
        self._came += data
        try:
            self._read(self._answer)
        except (ValueError, IndexError, Unplain):
            self._answer.set_exception(Unplain(bytes(self._came[:200])))

    def _read(self, answer: asyncio.Future[tuple[int, bytes]]) -> None:
        if self._body is None:
            end = self._came.find(_END)
            if end < 0:
                if len(self._came) > _HEAD_BYTES:
                    raise Unplain
                return
            self._body = _understood(bytes(self._came[:end]), end + len(_END))
        status, start, stop, last = self._body
        if len(self._came) < stop:
            return
        body = bytes(memoryview(self._came)[start:stop])
        if last or len(self._came) > stop:
            self.close()
        self._came, self._body = bytearray(), None
        answer.set_result((status, body))


def _understood(head: bytes, start: int) -> tuple[int, int, int, bool]:
    """Status, where the body begins and ends, and whether nothing follows it."""
    first, *lines = head.lower().split(b"\r\n")
    version, status = first.split(b" ", 2)[:2]
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if version != b"http/1.1" or len(status) != 3 or b"transfer-encoding" in headers or b"content-encoding" in headers:
        raise Unplain
    return int(status), start, start + int(headers[b"content-length"]), headers.get(b"connection") == b"close"

"""Answers go out at once, and whole."""

from __future__ import annotations

import asyncio
import socket

from noetl.app.http_protocol import BatchingTransport
from noetl.app.http_server import bind_socket


def test_a_socket_is_known_to_be_tcp() -> None:
    """Else asyncio does not send answers at once, and each waits 40 ms for an acknowledgement."""
    with bind_socket("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True


def test_what_is_written_in_one_turn_is_sent_together() -> None:
    async def written() -> list[bytes]:
        gathered = BatchingTransport(transport)
        gathered.write(b"head ")
        gathered.write(b"body")
        before = list(transport.sent)
        await asyncio.sleep(0)
        return before

    transport = _Transport()
    assert asyncio.run(written()) == []
    assert transport.sent == [b"head body"]


def test_what_was_written_is_sent_before_the_end() -> None:
    async def closed() -> None:
        gathered = BatchingTransport(transport)
        gathered.write(b"last words")
        gathered.close()

    transport = _Transport()
    asyncio.run(closed())
    assert (transport.sent, transport.closed) == ([b"last words"], True)

"""Connections to a server: how many there are, and how long and how large the head of a request may be."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from noetl.app import http_protocol
from noetl.app.http_protocol import ConnectionLimits, read_limits
from noetl.app.http_server import _server, bind_socket

GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


async def health(request: Request) -> PlainTextResponse:
    return PlainTextResponse("fine")


async def held(request: Request) -> PlainTextResponse:
    await asyncio.sleep(3600)
    return PlainTextResponse("never")


@asynccontextmanager
async def serving(limits: ConnectionLimits) -> AsyncIterator[Callable[[], Coroutine[Any, Any, Client]]]:
    app = Starlette(routes=[Route("/health", health), Route("/held", held)])
    with bind_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        server = _server(app, limits)
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        clients: list[Client] = []

        async def connect() -> Client:
            clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return clients[-1]

        try:
            yield connect
        finally:
            for client in clients:
                client.writer.close()
            server.should_exit = server.force_exit = True
            await task


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        """The status of the next answer; its body is read, too. 0: the connection was closed."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        self.body = await self.reader.readexactly(length)
        return int(head.split()[1])

    async def get(self) -> int:
        await self.send(GET)
        return await self.status()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 120))


def test_heads_that_do_not_end_are_closed_after_their_time() -> None:
    async def main() -> None:
        async with serving(ConnectionLimits(100, head_s=0.2)) as connect:
            silent, slow, good = await connect(), await connect(), await connect()
            await slow.send(GET[:10])
            assert await good.get() == 200
            assert await slow.status() == 408
            assert "0.2 s" in json.loads(slow.body)["detail"]
            assert await silent.status() == 408
            assert await good.get() == 200  # it may be idle for longer

    run(main())


def test_a_head_that_comes_byte_by_byte_has_no_more_time_than_any_other() -> None:
    async def main() -> None:
        async with serving(ConnectionLimits(100, head_s=0.2)) as connect:
            client = await connect()

            async def drip() -> None:
                while True:
                    await client.send(b"G")
                    await asyncio.sleep(0.02)

            with pytest.raises(ConnectionError):
                await drip()

    run(main())


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"X: a\r\n" * 300 + b"\r\n",
        b"GET /health HTTP/1.1\r\nX: " + b"a" * 400_000,  # without an end
    ],
    ids=["address", "header", "number of headers", "no end"],
)
def test_a_head_that_is_too_large_is_refused(head: bytes) -> None:
    async def main() -> None:
        async with serving(ConnectionLimits(100)) as connect:
            client = await connect()
            client.writer.write(head)
            assert await client.status() in (431, 0)  # 0: what it still sends resets the connection
            assert await (await connect()).get() == 200

    run(main())


def test_connections_that_only_wait_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_YIELD_S", 0.0)

    async def main() -> None:
        async with serving(ConnectionLimits(8, head_s=3600)) as connect:
            for _ in range(30):
                await (await connect()).send(GET[:10])
            for _ in range(30):
                assert await (await connect()).get() == 200  # and stays open

    run(main())


def test_more_requests_at_a_time_than_connections_are_told_to_come_again() -> None:
    async def main() -> None:
        async with serving(ConnectionLimits(4)) as connect:
            holding = [await connect() for _ in range(4)]
            for client in holding:
                await client.send(GET.replace(b"health", b"held"))
            await asyncio.sleep(0)
            refused = await connect()
            while (status := await refused.status()) != 503:  # the server may not have read the others yet
                assert status == 0
                refused = await connect()
            assert "too many connections" in json.loads(refused.body)["detail"]
            holding[0].writer.close()
            await holding[0].writer.wait_closed()
            status = 503
            while status == 503:
                status = await (await connect()).get()
            assert status == 200

    run(main())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        async with serving(ConnectionLimits(4)) as connect:
            client = await connect()
            await client.send(GET * 5)
            assert [await client.status() for _ in range(5)] == [200] * 5

    run(main())


def test_connections_leave_open_files_to_the_rest_of_the_process() -> None:
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        assert read_limits().connections == 1024 - 256
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, 200), hard))
        assert read_limits().connections == min(files, 200) - 128
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))

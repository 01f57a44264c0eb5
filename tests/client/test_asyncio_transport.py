"""A worker's connections to its server: kept, quick, and honest about what they do not understand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from peers import OK, nobody, peer, plain, self_signed

from noetl.client.address import parse_address
from noetl.client.asyncio_transport import AsyncTransport
from noetl.client.owner_token import TokenSource
from noetl.config import Secret
from noetl.errors import (
    AccessDenied,
    ClientError,
    NotFound,
    RequestInvalid,
    ServerUnavailable,
    UnexpectedAnswer,
    UsageError,
)
from noetl.model.wire import ServerReply, WorkerMessage, encode
from noetl.worker.link import ServerLink

Answering = Callable[[bytes], bytes]


@asynccontextmanager
async def server(answer: Answering, came: list[int]) -> AsyncIterator[str]:
    """Answers whole requests; `came` gets the number of requests of each connection."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        at = len(came)
        came.append(0)
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            body = await reader.readexactly(length)
            came[at] += 1
            for byte in (said := answer(body)):
                writer.write(bytes([byte])) if len(said) < 400 else None
            if len(said) >= 400:
                writer.write(said)
            if not said or b"Connection: close" in said:
                writer.close()
                return

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/under"
    finally:
        running.close()
        for writer in writers:
            writer.close()


def transport_to(url: str, **more: int) -> AsyncTransport:
    return AsyncTransport(parse_address(url), TokenSource(Secret("noetl_x"), None), **more)


async def post(transport: AsyncTransport, body: bytes, seconds: float = 60) -> tuple[int, bytes]:
    answer = await transport.request("POST", "/x", body, seconds)
    return answer.status, answer.body


def trial(work: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(within())


def test_messages_go_over_one_connection_and_at_the_same_time_over_several() -> None:
    async def work() -> None:
        came: list[int] = []
        async with server(lambda body: plain(body.upper()), came) as url:
            transport = transport_to(url)
            for text in (b"one", b"two" * 100_000):
                assert await post(transport, text) == (200, text.upper())
            assert came == [2]
            answers = await asyncio.gather(*(post(transport, b"%d" % one) for one in range(3)))
            assert answers == [(200, b"0"), (200, b"1"), (200, b"2")]
            assert len(came) == 3
            transport.close()

    trial(work)


@pytest.mark.parametrize("more", ["Connection: close\r\n", ""])
def test_a_connection_that_the_server_ended_is_made_anew(more: str) -> None:
    async def work() -> None:
        came: list[int] = []
        said = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nit"
        async with server(lambda body: plain(body, more=more) if more else said, came) as url:
            transport = transport_to(url)
            for _ in range(2):
                assert await post(transport, b"it") == (200, b"it")
            assert came == [1, 1]

    trial(work)


def test_a_body_in_chunks_is_understood_and_the_connection_kept() -> None:
    async def work() -> None:
        came: list[int] = []
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        async with server(lambda _body: chunked, came) as url:
            transport = transport_to(url)
            for _ in range(2):
                assert await post(transport, b"x") == (200, b"{}")
            assert came == [2]
            transport.close()

    trial(work)


def test_an_answer_that_does_not_come_is_told_and_not_left_to_the_next_message() -> None:
    async def work() -> None:
        came: list[int] = []
        slow = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
        async with server(lambda body: slow if body == b"slow" else plain(body), came) as url:
            transport = transport_to(url)
            with pytest.raises(ServerUnavailable, match="no answer in time"):
                await post(transport, b"slow", 0.2)
            assert await post(transport, b"new") == (200, b"new")
            assert came == [1, 1]
            transport.close()

    trial(work)


def test_a_request_that_is_under_way_when_its_transport_is_closed_keeps_no_connection() -> None:
    async def work() -> None:
        came: list[int] = []

        def answer(body: bytes) -> bytes:
            transport.close()
            return plain(body)

        async with server(answer, came) as url:
            transport = transport_to(url)
            for _ in range(2):
                assert await post(transport, b"it") == (200, b"it")
            assert came == [1, 1]

    trial(work)


def test_a_server_that_closes_the_connection_or_is_not_there_is_unavailable() -> None:
    async def work() -> None:
        async with server(lambda _body: b"", []) as url:
            with pytest.raises(ServerUnavailable, match="without an answer"):
                await post(transport_to(url), b"1")
        async with server(
            lambda _body: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nab", []
        ) as url:
            with pytest.raises(ServerUnavailable, match="before the answer was complete"):
                await post(transport_to(url), b"1")
        with nobody() as url, pytest.raises(ServerUnavailable, match="does not answer"):
            await post(transport_to(url), b"1")

    trial(work)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n",
    ],
)
def test_what_is_not_clear_or_too_large_is_refused(said: bytes) -> None:
    async def work() -> None:
        async with server(lambda _body: said, []) as url:
            with pytest.raises(UnexpectedAnswer, match=url):
                await post(transport_to(url, most_bytes=1_000), b"1")

    trial(work)


def test_a_certificate_that_nobody_vouches_for_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    server_tls, client_tls = self_signed(tmp_path)

    async def work() -> None:
        with peer(OK, tls=server_tls) as there:
            with pytest.raises(ServerUnavailable, match=r"certificate is not trusted .*SSL_CERT_FILE"):
                await post(transport_to(there.url), b"1")
            assert there.requests == []
            transport = AsyncTransport(parse_address(there.url), tls=client_tls)
            assert await post(transport, b"1") == (200, b"{}")
            transport.close()

    trial(work)


def test_a_token_is_not_shown_and_one_that_would_break_out_of_its_header_is_refused() -> None:
    assert "noetl_x" not in repr(vars(transport_to("http://127.0.0.1:1")))
    with pytest.raises(UsageError, match="does not allow"):
        ServerLink("http://127.0.0.1:1", TokenSource(Secret("noetl_x\r\nHost: other"), None))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (plain(b"no", "401 No"), AccessDenied),
        (plain(b"no", "413 Too Large"), RequestInvalid),
        (plain(b"no", "503 Away"), ServerUnavailable),
        (plain(b"no", "404 Not Found"), NotFound),
        (plain(b"<html>"), UnexpectedAnswer),
        (plain(b"", "204 No Content"), UnexpectedAnswer),
        (plain(b"", "302 Found", "Location: http://127.0.0.1:1/\r\n"), UnexpectedAnswer),
    ],
)
def test_a_link_knows_what_an_answer_means(answer: bytes, kind: type[ClientError]) -> None:
    async def work() -> None:
        async with server(lambda _body: answer, []) as url:
            link = ServerLink(url, TokenSource(None, None))
            with pytest.raises(kind) as refused:
                await link.exchange(WorkerMessage("me"))
            assert type(refused.value) is kind
            link.close()

    trial(work)


def test_a_link_says_its_message_and_hears_the_reply() -> None:
    async def work() -> None:
        async with server(lambda _body: plain(encode(ServerReply(lost=True))), []) as url:
            link = ServerLink(f"{url}/", TokenSource(Secret("noetl_x"), None))
            assert (await link.exchange(WorkerMessage("me"))).lost
            link.close()

    trial(work)

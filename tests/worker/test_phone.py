"""A worker's connections to its server: kept, quick, and honest about what they do not understand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from noetl.worker.link import Link, Rejected, Unreachable
from noetl.worker.phone import Phone, Unplain

Answer = Callable[[bytes], bytes]


def plain(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


@asynccontextmanager
async def server(answer: Answer, came: list[int]) -> AsyncIterator[str]:
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


def trial(work: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(within())


def test_messages_go_over_one_connection_and_at_the_same_time_over_several() -> None:
    async def work() -> None:
        came: list[int] = []
        async with server(lambda body: plain(body.upper()), came) as url:
            phone = Phone(url, {"Authorization": "Bearer 100%"})
            for text in (b"one", b"two" * 100_000):
                assert await phone.post("/x", text, 5) == (200, text.upper())
            assert came == [2]
            answers = await asyncio.gather(*(phone.post("/x", b"%d" % one, 5) for one in range(3)))
            assert answers == [(200, b"0"), (200, b"1"), (200, b"2")]
            assert len(came) == 3
            phone.close()

    trial(work)


def test_a_connection_that_the_server_ended_is_made_anew() -> None:
    async def work() -> None:
        came: list[int] = []
        async with server(lambda body: plain(body, more="Connection: close\r\n"), came) as url:
            phone = Phone(url, {})
            assert await phone.post("/x", b"1", 5) == (200, b"1")
            assert await phone.post("/x", b"2", 5) == (200, b"2")
            assert came == [1, 1]

    trial(work)


def test_an_answer_that_does_not_come_is_told_and_not_left_to_the_next_message() -> None:
    async def work() -> None:
        came: list[int] = []
        slow = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
        async with server(lambda body: slow if body == b"slow" else plain(body), came) as url:
            phone = Phone(url, {})
            with pytest.raises(TimeoutError):
                await phone.post("/x", b"slow", 0.2)
            assert await phone.post("/x", b"new", 5) == (200, b"new")
            assert came == [1, 1]
            phone.close()

    trial(work)


def test_a_server_that_hangs_up_is_unreachable() -> None:
    async def work() -> None:
        async with server(lambda _body: b"", []) as url:
            with pytest.raises(OSError, match="hung up"):
                await Phone(url, {}).post("/x", b"1", 5)

    trial(work)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"SSH-2.0-server\r\n\r\n",
    ],
)
def test_what_is_not_plain_is_not_guessed_at(said: bytes) -> None:
    async def work() -> None:
        async with server(lambda _body: said, []) as url:
            with pytest.raises(Unplain):
                await Phone(url, {}).post("/x", b"1", 5)

    trial(work)


def test_a_link_turns_to_a_client_that_knows_all_of_http_where_answers_are_not_plain() -> None:
    async def work() -> None:
        import aiohttp

        came: list[int] = []
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        async with server(lambda _body: chunked, came) as url, aiohttp.ClientSession() as session:
            link = Link(url, None, lambda: session)
            for _ in range(2):
                assert await link._said("/x", b"{}", 5) == b"{}"
            assert came == [1, 2]

    trial(work)


@pytest.mark.parametrize(("status", "kind"), [("413 Too Large", Rejected), ("503 Away", Unreachable)])
def test_a_link_knows_what_a_status_means(status: str, kind: type[Exception]) -> None:
    async def work() -> None:
        async with server(lambda _body: plain(b"no", status), []) as url:
            link = Link(url, None, lambda: pytest.fail("plain answers need no other client"))
            with pytest.raises(kind):
                await link._said("/x", b"{}", 5)
            link.close()

    trial(work)

"""Calling servers that answer, break off, are slow, redirect, or are not there."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from peers import OK, nobody, peer, plain, self_signed
from waiting import wait_until

from noetl.client import blocking
from noetl.client.address import parse_address
from noetl.client.owner_token import TokenSource
from noetl.client.transport import Request, Transport
from noetl.config import Secret
from noetl.errors import (
    AccessDenied,
    NotFound,
    RequestConflict,
    RequestInvalid,
    RequestRefused,
    ServerUnavailable,
    UnexpectedAnswer,
    UsageError,
)

GET = Request("GET", "/x")
POST = Request("POST", "/x", b"{}", repeatable=False)


@contextmanager
def calling(
    *servers: str, timeout_s: float = 60.0, tls: ssl.SSLContext | None = None, most_bytes: int = 1 << 20
) -> Iterator[Transport]:
    addresses = [parse_address(url) for url in servers]
    one = Transport(
        addresses, TokenSource(Secret("noetl_x"), None), timeout_s=timeout_s, tls=tls, most_bytes=most_bytes
    )
    try:
        yield one
    finally:
        one.close()


def drip(line: socket.socket, _request: bytes) -> None:
    """Never come to an end, a byte at a time."""
    while True:
        line.sendall(b"H")
        time.sleep(0.01)


def swallow(line: socket.socket, _request: bytes) -> None:
    """Never answer."""
    line.settimeout(60)
    line.recv(1)


def call(transport: Transport) -> None:
    transport.call(GET)


def open_stream(transport: Transport) -> None:
    with transport.stream(GET):
        pass


def call_from_threads(transport: Transport, count: int) -> None:
    """Call from so many threads at once; each gets an answer."""
    with ThreadPoolExecutor(count) as pool:
        calls = [pool.submit(transport.call, GET) for _ in range(count)]
        assert [one.result().status for one in calls] == [200] * count


def test_requests_go_over_one_connection() -> None:
    with peer(OK) as server, calling(server.url) as transport:
        for _ in range(3):
            assert transport.call(GET).body == b"{}"
        assert server.connections == 1
        assert server.requests[0].startswith(b"GET /x HTTP/1.1\r\n")
        assert b"\r\nAuthorization: Bearer noetl_x\r\n" in server.requests[0]


def test_a_question_is_asked_again_of_another_server() -> None:
    with peer(b"") as broken, peer(OK) as whole, calling(broken.url, whole.url) as transport:
        assert transport.call(GET).body == b"{}"
        assert transport.address.url == whole.url


def test_what_changes_something_is_sent_once() -> None:
    with peer(b"") as broken, peer(OK) as whole, calling(broken.url, whole.url) as transport:
        with pytest.raises(ServerUnavailable, match="without an answer"):
            transport.call(POST)
        assert (len(broken.requests), whole.requests) == (1, [])
        assert transport.call(POST._replace(repeatable=True)).status == 200


def test_a_server_that_is_not_there_is_passed_over() -> None:
    with nobody() as url:
        with peer(OK) as whole, calling(url, whole.url) as transport:
            assert transport.call(POST).status == 200
        with calling(url) as transport, pytest.raises(ServerUnavailable, match=f"no server answers at {url}"):
            transport.call(GET)


def test_a_server_that_was_restarted_is_called_over_a_new_connection() -> None:
    with peer(OK) as before, calling(before.url) as transport:
        transport.call(GET)
        before.close()
        with peer(OK, port=before.port) as after:
            assert transport.call(GET).status == 200
            assert transport.call(POST).status == 200
            assert after.connections == 2


def test_a_kept_connection_that_the_server_has_closed_is_not_used() -> None:
    with peer(OK) as server, calling(server.url) as transport:
        transport.call(GET)
        server.drop()
        assert transport.call(GET).status == 200
        assert (len(server.requests), server.connections) == (2, 2)


def test_a_kept_connection_that_breaks_is_replaced_by_a_new_one() -> None:
    with peer(OK, b"", OK) as server, calling(server.url) as transport:
        transport.call(GET)
        assert transport.call(GET).status == 200
        assert (len(server.requests), server.connections) == (3, 2)


def test_a_kept_connection_that_is_dead_without_a_sign_costs_one_time_limit() -> None:
    with peer(OK, swallow, OK) as server, calling(server.url, timeout_s=0.3) as transport:
        transport.call(GET)
        with pytest.raises(ServerUnavailable, match="no answer in time"):
            transport.call(GET)
        assert server.connections == 1
        assert transport.call(GET).status == 200


def test_a_connection_that_was_idle_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "_MOST_IDLE_S", -1.0)
    with peer(OK) as server, calling(server.url) as transport:
        for _ in range(2):
            assert transport.call(GET).status == 200
        assert server.connections == 2


def test_calls_that_are_sent_once_leave_no_connection() -> None:
    with peer(OK) as server, calling(server.url) as transport:
        for _ in range(20):
            transport.call(POST)
        wait_until(lambda: len(server.ended) == 20)


def test_of_the_connections_of_many_threads_a_few_are_kept() -> None:
    together = threading.Barrier(12)

    def answer(line: socket.socket, _request: bytes) -> None:
        together.wait(60)
        line.sendall(OK)

    with peer(answer) as server, calling(server.url) as transport:
        call_from_threads(transport, 12)
        wait_until(lambda: len(server.ended) == 4)


def test_a_call_that_is_under_way_when_its_transport_is_closed_keeps_no_connection() -> None:
    def answer(line: socket.socket, _request: bytes) -> None:
        transport.close()
        line.sendall(OK)

    with peer(answer) as server, calling(server.url) as transport:
        assert transport.call(GET).status == 200
        wait_until(lambda: len(server.ended) == 1)


def test_threads_that_leave_a_broken_server_together_reach_the_next_one() -> None:
    together = threading.Barrier(2)

    def break_off(line: socket.socket, _request: bytes) -> None:
        with suppress(threading.BrokenBarrierError):
            together.wait(5)
        line.close()

    with peer(break_off) as broken, peer(OK) as whole, calling(broken.url, whole.url) as transport:
        call_from_threads(transport, 2)
        assert (len(broken.requests), len(whole.requests)) == (2, 2)
        assert transport.address.url == whole.url


def test_a_question_without_an_answer_is_asked_once_of_each_server() -> None:
    with peer(swallow) as one, peer(swallow) as other, calling(one.url, other.url, timeout_s=0.3) as transport:
        with pytest.raises(ServerUnavailable, match="no answer in time"):
            transport.call(GET)
        assert (len(one.requests), len(other.requests)) == (1, 1)


def test_the_time_limit_holds_for_the_head_and_the_body_together() -> None:
    def pause_between(line: socket.socket, _request: bytes) -> None:
        time.sleep(1.2)
        line.sendall(OK[:-1])
        time.sleep(1.2)
        line.sendall(OK[-1:])

    with (
        peer(pause_between) as server,
        calling(server.url, timeout_s=2.0) as transport,
        pytest.raises(ServerUnavailable, match="no answer in time"),
    ):
        transport.call(GET)


@pytest.mark.parametrize("ask", [call, open_stream], ids=["call", "stream"])
def test_an_error_that_is_too_large_is_refused(ask: Callable[[Transport], None]) -> None:
    large = plain(b"x" * (2 << 20), "500 Error")
    with (
        peer(large) as server,
        calling(server.url, most_bytes=1 << 30) as transport,
        pytest.raises(UnexpectedAnswer, match=f"{server.url}: the answer is larger"),
    ):
        ask(transport)


@pytest.mark.parametrize("slow", [drip, plain(b"abc")[:-1]], ids=["headers", "body"])
def test_a_server_that_is_too_slow_is_given_up(slow: bytes) -> None:
    with peer(slow) as server, calling(server.url, timeout_s=0.3) as transport:
        with pytest.raises(ServerUnavailable, match="no answer in time"):
            transport.call(POST)
        assert len(server.requests) == 1


def test_an_answer_that_is_cut_short_is_not_taken_for_a_whole_one() -> None:
    with (
        peer(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\nabc") as server,
        calling(server.url) as transport,
        pytest.raises(ServerUnavailable, match="before the answer was complete"),
    ):
        transport.call(GET)


def test_an_answer_that_is_too_large_for_memory_is_refused_but_can_be_streamed() -> None:
    large = plain(b"x" * 2_000)
    with peer(large) as server, calling(server.url, most_bytes=1_000) as transport:
        with pytest.raises(UnexpectedAnswer, match=f"{server.url}: the answer is larger"):
            transport.call(GET)
        with transport.stream(GET) as answer:
            assert sum(map(len, answer.blocks)) == 2_000


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_is_not_followed_and_no_other_host_sees_the_token(status: str) -> None:
    with peer(OK) as other:
        moved = plain(b"", status, f"Location: {other.url}/x\r\n")
        with peer(moved) as server, calling(server.url) as transport:
            for request in (GET, POST):
                with pytest.raises(UnexpectedAnswer, match="redirects to") as refused:
                    transport.call(request)
                assert other.url in str(refused.value)
        assert (other.connections, other.requests) == (0, [])


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestInvalid),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, NotFound),
        (409, RequestConflict),
        (413, RequestInvalid),
        (422, RequestInvalid),
        (410, RequestRefused),
        (500, RequestRefused),
    ],
)
def test_a_refusal_says_why(status: int, kind: type[RequestRefused]) -> None:
    answer = plain(b'{"detail": "not today", "more": [1]}', f"{status} No")
    with peer(answer) as server, calling(server.url) as transport:
        with pytest.raises(kind, match="the server: not today") as refused:
            transport.call(GET)
        assert type(refused.value) is kind
        assert (refused.value.status, refused.value.problem["more"]) == (status, [1])
        with pytest.raises(kind):
            transport.call(GET)
        assert server.connections == 1


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Away", "504 Gateway Timeout"])
def test_a_server_that_cannot_now_is_told_from_one_that_will_not(status: str) -> None:
    with (
        peer(plain(b"<html>busy", status)) as server,
        calling(server.url) as transport,
        pytest.raises(ServerUnavailable, match="the server: <html>busy"),
    ):
        transport.call(GET)


def test_a_certificate_that_nobody_vouches_for_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    server_tls, client_tls = self_signed(tmp_path)
    with peer(OK, tls=server_tls) as server:
        with calling(server.url) as transport:
            with pytest.raises(ServerUnavailable, match=r"certificate is not trusted .*SSL_CERT_FILE"):
                transport.call(GET)
            assert server.requests == []
        with calling(server.url, tls=client_tls) as transport:
            for _ in range(3):
                assert transport.call(GET).body == b"{}"
            assert len(server.requests) == 3


def test_a_server_without_tls_is_told_from_one_that_is_away() -> None:
    def hang_up(line: socket.socket, _request: bytes) -> None:
        line.close()

    with peer(hang_up) as server:
        # What a client of TLS says first has no end that this server would know: it answers at once.
        server._serve = lambda line: line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")  # type: ignore[method-assign]
        with (
            calling(server.url.replace("http:", "https:")) as transport,
            pytest.raises(ServerUnavailable, match="does not speak TLS"),
        ):
            transport.call(GET)


def test_a_stream_has_its_connection_for_itself() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    with peer(chunked, OK, OK) as server, calling(server.url) as transport:
        with transport.stream(GET) as answer:
            assert next(answer.blocks) == b"abc"
            assert transport.call(GET).body == b"{}"
        assert transport.call(GET).body == b"{}"
        assert server.connections == 2


def test_an_error_of_whoever_reads_a_stream_is_not_one_of_the_connection() -> None:
    def read(transport: Transport) -> None:
        with transport.stream(GET) as answer:
            next(answer.blocks)
            raise OSError(errno.ENOSPC, "the disk is full")

    with peer(OK) as server, calling(server.url) as transport, pytest.raises(OSError, match="the disk is full"):
        read(transport)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:1", "ftp://here", "http://", "http://[x", "http://here:99999999", "http://here/?a=1"]
)
def test_what_is_no_address_is_said_to_be_none(url: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        parse_address(url)


def test_a_password_in_an_address_is_sent_and_never_shown() -> None:
    with peer(b"") as server:
        url = server.url.replace("http://", "http://ann:s3cret@")
        transport = Transport([parse_address(url)], TokenSource(None, None), timeout_s=60)
        with pytest.raises(ServerUnavailable) as refused:
            transport.call(GET)
        assert b"\r\nAuthorization: Basic YW5uOnMzY3JldA==\r\n" in server.requests[0]
        assert "s3cret" not in str(refused.value) + repr(parse_address(url))


def test_a_token_is_not_shown_by_a_transport() -> None:
    with calling("http://127.0.0.1:1") as transport:
        assert "noetl_x" not in repr(vars(transport))

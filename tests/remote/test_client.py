"""Calling servers that answer, break off, or are not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from noetl.config import Secret
from noetl.errors import UsageError
from noetl.remote.client import Client, Refused, ServerGone

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NO = b'HTTP/1.1 403 No\r\nContent-Length: 22\r\n\r\n{"detail": "not today"}'[:-1]


class Listener:
    """Answers each connection once, with the next of some answers; an empty one breaks off."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while self._answers:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            with line:
                self.heard.append(line.recv(65_536))
                line.sendall(self._answers.pop(0))

    def close(self) -> None:
        self._socket.close()
        self._thread.join(5)


@contextmanager
def listening(*answers: bytes) -> Iterator[Listener]:
    one = Listener(*answers)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def calling(*servers: str) -> Iterator[Client]:
    client = Client(servers, Secret("noetl_x"))
    try:
        yield client
    finally:
        client.close()


def test_a_question_is_asked_again_of_another_server() -> None:
    with listening(b"", b"", b"") as broken, listening(OK) as whole, calling(broken.url, whole.url) as client:
        assert client.get("/x", {"a": True, "b": None}).body == b"{}"
        assert whole.heard[0].startswith(b"GET /x?a=true HTTP/1.1")
        assert b"Authorization: Bearer noetl_x" in whole.heard[0]
        assert client.server == whole.url


def test_what_changes_something_is_sent_once_unless_it_has_a_key() -> None:
    with listening(b"", OK) as broken, listening(OK) as whole, calling(broken.url, whole.url) as client:
        with pytest.raises(ServerGone):
            client.post("/x", {})
        assert whole.heard == []
        assert client.post("/x", {}, key="k").status == 200


def test_a_server_that_is_not_there_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with listening(OK) as whole, calling(nobody, whole.url) as client:
        assert client.post("/x", {}).status == 200
    with calling(nobody) as client, pytest.raises(ServerGone, match="no server answers"):
        client.get("/x")


def test_a_refusal_says_why() -> None:
    with listening(NO) as one, calling(one.url) as client, pytest.raises(Refused, match="the server: ") as refused:
        client.get("/x")
    assert refused.value.status == 403


def test_an_address_with_more_than_a_host_is_none() -> None:
    with calling("http://127.0.0.1:1/api") as client, pytest.raises(UsageError, match="no address"):
        client.get("/x")


def test_a_token_is_not_shown_by_a_client() -> None:
    with calling("http://127.0.0.1:1") as client:
        assert "noetl_x" not in repr(vars(client))

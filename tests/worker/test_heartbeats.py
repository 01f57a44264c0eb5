"""A worker says that it lives, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from waiting import until

from noetl.client.owner_token import TokenSource
from noetl.config import Secret
from noetl.model.wire import Heartbeat, ServerReply, encode
from noetl.worker.heartbeats import Heartbeats

#: a host that nobody may call: what goes wrong does so before
NOWHERE = "http://127.0.0.1:9"


class Hearing(BaseHTTPRequestHandler):
    """Answers every beat."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = encode(ServerReply())
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.mark.parametrize(
    ("url", "token"), [(NOWHERE, "noetl_\u2026"), ("http://127.0.0.1:99999", None), ("http://[x", None)]
)
def test_what_cannot_even_be_sent_is_a_beat_that_nobody_heard(url: str, token: str | None) -> None:
    alone: list[str] = []

    async def whole() -> None:
        missed = asyncio.Event()
        tokens = TokenSource(Secret(token) if token else None, None)
        pulse = Heartbeats([url], tokens, 0.2, lambda: Heartbeat("w"), lambda: 0.05, lambda *_: None, missed.set)
        pulse.alone = alone.append
        pulse.start()
        await asyncio.wait_for(missed.wait(), 60)
        await until(lambda: len(alone) > 1)
        await asyncio.to_thread(pulse.stop)

    asyncio.run(whole())
    assert len(alone) > 1
    assert all(why.startswith("no server answers at") for why in alone)


@pytest.mark.parametrize(
    ("status", "why"), [(401, "%s does not admit this worker (401): check NOETL_TOKEN"), (503, "")]
)
def test_a_server_that_refuses_a_worker_is_told_from_one_that_is_away(status: int, why: str) -> None:
    class Answering(Hearing):
        def send_response(self, code: int, message: str | None = None) -> None:
            super().send_response(status if code == 200 else code, message)

    server = HTTPServer(("127.0.0.1", 0), Answering)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"

    async def whole() -> str:
        said: asyncio.Queue[str] = asyncio.Queue()
        pulse = Heartbeats(
            [url], TokenSource(None, None), 5.0, lambda: Heartbeat("w"), lambda: 1.0, lambda *_: None, lambda: None
        )
        pulse.alone = said.put_nowait
        pulse.start()
        try:
            return await asyncio.wait_for(said.get(), 60)
        finally:
            await asyncio.to_thread(pulse.stop)

    try:
        assert asyncio.run(whole()) == why.replace("%s", url)
    finally:
        server.shutdown()
        server.server_close()


def test_a_beat_that_could_not_be_made_is_followed_by_others() -> None:
    server = HTTPServer(("127.0.0.1", 0), Hearing)
    Thread(target=server.serve_forever, daemon=True).start()
    asked = 0

    def holding() -> Heartbeat:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return Heartbeat("w")

    async def whole() -> None:
        pulse = Heartbeats(
            [f"http://127.0.0.1:{server.server_port}"],
            TokenSource(None, None),
            1.0,
            holding,
            lambda: 0.3,
            lambda *_: None,
            lambda: None,
        )
        pulse.start()
        await asyncio.wait_for(pulse.first.wait(), 60)
        await asyncio.to_thread(pulse.stop)

    try:
        asyncio.run(whole())
    finally:
        server.shutdown()
        server.server_close()

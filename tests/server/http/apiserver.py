"""The API on a real socket, in a thread of its own, over a house with a store in a folder."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from noetl.app.http_server import _server, bind_socket
from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.results.download import PayloadSender
from noetl.server.core.control_plane import resume_unowned
from noetl.server.http.api_tokens import ApiTokens
from noetl.server.http.app import build_app
from noetl.server.http.routes import Route
from noetl.stores.sqlite_log import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkload: {n: 3}\nworkflow:\n"
DOUBLE = HEAD % "double" + '  - {step: end, tool: {kind: noop, output: "{{ workload.n * 2 }}"}}\n'
APPROVAL = HEAD % "approval" + "  - {step: end, tool: {kind: wait, signal: ok}}\n"
OVER = ("completed", "failed", "cancelled")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.raw)


class Api:
    """A server; again and again on the same home."""

    def __init__(self, home: Path, *, hosts: Sequence[str] = (), more: Sequence[Route] = ()) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.tokens = ApiTokens(home / "tokens.json", time.time)
        self._hosts, self._more = hosts, more
        self.port = 0
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._up.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._up.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        listening = bind_socket("127.0.0.1", self.port)
        self.port = listening.getsockname()[1]
        async with LocalNode(Settings(self.home), SqliteLog(self.home / "noetl.db")) as node:
            made = build_app(
                node, tokens=self.tokens, hosts=self._hosts, more=self._more, results=PayloadSender(node.results)
            )  # fmt: skip
            await resume_unowned(node)
            server = _server(made)
            serving = asyncio.ensure_future(server.serve(sockets=[listening]))
            while not server.started:
                await asyncio.sleep(0.005)
            self._up.set()
            await self._stop.wait()
            made.state.context.drain()
            server.should_exit = True
            await serving
            made.state.context.close()

    # --- calling -----------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None or method == "POST":
            sent = {"Content-Type": "application/json", **sent}
            data = b"{}" if data is None else data
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def start(self, text: str, **more: Any) -> str:
        answer = self.call("POST", "/api/executions", {"playbook": text, **more})
        assert answer.status == 201, answer.raw
        execution_id: str = answer.data["execution_id"]
        return execution_id

    def ended(self, execution_id: str) -> dict[str, Any]:
        """How an execution stands when it is over."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found: dict[str, Any] = self.get(f"/api/executions/{execution_id}").data
            if found["status"] in OVER:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{execution_id} is not over")

    def run(self, text: str, **more: Any) -> dict[str, Any]:
        return self.ended(self.start(text, **more))

    def stream(self, path: str, **headers: str) -> Iterator[tuple[str, str]]:
        """The lines of a stream of events: field and value, without the empty ones between them."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection.request("GET", path, None, sent)
        response = connection.getresponse()
        try:
            if response.status != 200:
                yield "status", str(response.status)
            while line := response.readline():
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field or value:
                    yield field or "comment", value
        finally:
            connection.close()

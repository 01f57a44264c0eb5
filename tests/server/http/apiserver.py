"""The API on a real socket, in a thread of its own, over a house with a store in a folder."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from noetl.app.http_server import _server, bind_socket
from noetl.app.local import LocalNode
from noetl.client import OwnerToken, publish_owner_token
from noetl.config import Settings
from noetl.model.access import Role, TokenRequest
from noetl.results.download import PayloadSender
from noetl.server.core.control_plane import resume_unowned
from noetl.server.http.access import TokenFile, add_token, make_owner_token, new_token, remove_token
from noetl.server.http.app import AccessSettings, build_app
from noetl.server.http.routes import Route
from noetl.stores.sqlite_log import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkload: {n: 3}\nworkflow:\n"
DOUBLE = HEAD % "double" + '  - {step: end, tool: {kind: noop, output: "{{ workload.n * 2 }}"}}\n'
APPROVAL = HEAD % "approval" + "  - {step: end, tool: {kind: wait, signal: ok}}\n"
T = TypeVar("T")
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

    def __init__(self, home: Path, *, more: Sequence[Route] = (), **access: Any) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.file = TokenFile(home / "tokens.json")
        #: the owner's token, which every call shows unless another is named; a new one at each start
        self.owner = ""
        self._access, self._more = access, more
        self.node: LocalNode
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
        log = SqliteLog(self.home / "noetl.db")
        async with LocalNode(Settings(self.home), log) as node, contextlib.AsyncExitStack() as stack:
            self.node, self.owner = node, new_token()
            access = AccessSettings(self.file, make_owner_token(self.owner), **self._access)
            stack.enter_context(publish_owner_token(self.home, OwnerToken("127.0.0.1", self.port, self.owner)))
            made = build_app(node, access, more=self._more, results=PayloadSender(node.results))
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
            await made.state.context.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something where the server does."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def add_token(self, name: str, role: Role, **more: Any) -> str:
        store = self.node.log.access()  # type: ignore[attr-defined]
        return self.do(add_token(store, self.file, TokenRequest(name, role, **more), time.time))[0]

    def remove_token(self, name: str) -> None:
        store = self.node.log.access()  # type: ignore[attr-defined]
        assert self.do(remove_token(store, self.file, name)) is not None

    # --- calling -----------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None or method == "POST":
            sent = {"Content-Type": "application/json", **sent}
            data = b"{}" if data is None else data
        if token != "" and "Authorization" not in sent:  # empty: none at all
            sent["Authorization"] = f"Bearer {self.owner if token is None else token}"
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
        owner = {"Authorization": f"Bearer {self.owner}"}
        sent = {
            "Accept": "text/event-stream",
            **owner,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
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

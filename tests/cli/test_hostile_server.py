"""A server whose answers are anything: no command ends in a traceback, or writes what a terminal would obey."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from server.http.apiserver import APPROVAL, DOUBLE, Api
from thorough import up_to

if TYPE_CHECKING:
    from cli.conftest import Noetl

#: values that no field has
STRANGE = (
    None, True, False, -1, 0, 2**63, 1e308, "", "\x1b[2J\x1b]0;owned\x07", "x" * 5_000, "../../etc", [], {}, [[]], [None],
    {"": {}}, {"a": [1, "b"]}, "2026-13-45T99:99:99", "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
)  # fmt: skip
#: answers that are no JSON of any kind
BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"0",
    b'"x"',
    b"\xff\xfe",
    b"<html>",
    b'{"a":' + b"[" * 3_000 + b"]" * 3_000 + b"}",
)
MOST_REQUESTS = 40
COMMANDS = [
    ["ps"], ["ps", "--json"], ["show", "last"], ["show", "last", "--json"], ["why", "last"], ["why", "last", "end"], ["events", "last"],
    ["events", "last", "--json"], ["logs", "last"], ["state", "last"], ["state", "last", "--at", "3"], ["diff", "last", "last"],
    ["result", "last"], ["result", "last", "--json"], ["graph", "--run", "last"], ["cancel", "last"], ["pause", "last"], ["unpause", "last"],
    ["signal", "last", "ok", "1"], ["run", "double.yaml"], ["run", "double.yaml", "--json"], ["run", "double"], ["run", "double.yaml", "--detach"],
    ["worker", "list"], ["worker", "dead"], ["token", "list"], ["token", "add", "ann", "--role", "viewer"], ["token", "remove", "ann"],
    ["audit"], ["audit", "--json"],
]  # fmt: skip


class Liar(ThreadingHTTPServer):
    """Passes requests on to a real server, and changes its answers."""

    daemon_threads = True

    def __init__(self, api: Api) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api
        self.chance = random.Random(0)
        self.asked = 0
        #: how many answers are left as they are, and how likely one is changed from then on
        self.honest, self.share = 0, 0.0
        self.gate = threading.Lock()

    def begin(self, seed: str) -> None:
        self.chance, self.asked = random.Random(seed), 0
        self.honest, self.share = self.chance.randrange(8), self.chance.choice((0.3, 1.0))

    def change(self, status: int, body: bytes) -> tuple[int, bytes]:
        with self.gate:
            self.asked += 1
            if self.asked > MOST_REQUESTS:
                return 404, b'{"detail": "enough"}'
            if self.asked <= self.honest or self.chance.random() >= self.share:
                return status, body
            if self.chance.random() < 0.1:
                return self.chance.choice((200, 200, 201, 204, 301, 400, 404, 409, 418, 500)), self.chance.choice(
                    BODIES
                )
            try:
                found = json.loads(body)
            except ValueError:
                return status, body[: self.chance.randrange(len(body) + 1)]
            for _ in range(self.chance.choice((1, 1, 1, 3, 10))):
                found = self.mutate(found)
            return status, json.dumps(found).encode()

    def mutate(self, value: Any) -> Any:
        """A value with something in it that is not as it should be."""
        if isinstance(value, dict) and value and self.chance.random() < 0.9:
            name = self.chance.choice(list(value))
            if self.chance.random() < 0.25:
                return {key: one for key, one in value.items() if key != name}
            return {**value, name: self.mutate(value[name])}
        if isinstance(value, list) and value and self.chance.random() < 0.9:
            at = self.chance.randrange(len(value))
            turn = self.chance.random()
            if turn < 0.15:
                return value[:at] + value[at + 1 :]
            if turn < 0.3:
                return [*value[:at], value[at], *value[at:]]
            return [*value[:at], self.mutate(value[at]), *value[at + 1 :]]
        # What is of the same type comes further than what is not.
        alike = [one for one in STRANGE if type(one) is type(value)]
        return self.chance.choice(alike if alike and self.chance.random() < 0.8 else STRANGE)


class _Handler(BaseHTTPRequestHandler):
    server: Liar

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        sent = {
            name: self.headers[name] for name in ("Content-Type", "Idempotency-Key", "Accept") if name in self.headers
        }
        path = self.path.replace("wait=5", "wait=0")
        found = self.server.api.call(self.command, path, body, **sent)
        status, data = self.server.change(found.status, found.raw)
        self.send_response(status)
        self.send_header("Content-Type", found.headers.get("content-type", "application/json"))
        self.send_header("Content-Length", str(len(data)))
        if seq := found.headers.get("noetl-seq"):
            self.send_header("Noetl-Seq", seq if self.server.chance.random() < 0.5 else "x")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liar]:
    with Api(tmp_path_factory.mktemp("liar") / "home") as api:
        api.run(DOUBLE)
        api.start(APPROVAL)
        server = Liar(api)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        server.server_close()


@pytest.fixture
def lied_to(
    liar: Liar, noetl: Noetl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str], str], tuple[int, str]]:
    """Runs a command that acts on the liar; its code, and all that it wrote."""
    (tmp_path / "double.yaml").write_text(DOUBLE)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NOETL_SERVER", f"http://127.0.0.1:{liar.server_address[1]}")
    # A server that says it is away is waited for; this one never comes back.
    monkeypatch.setattr("noetl.cli.commands.runs.remote_runs._TIMEOUT_S", 0.2)
    monkeypatch.setattr("noetl.cli.commands.runs.control._TIMEOUT_S", 0.2)

    def run(words: list[str], seed: str) -> tuple[int, str]:
        liar.begin(seed)
        done = noetl(*words)
        return done.code, done.out + done.err

    return run


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_whatever_a_server_answers_a_command_ends_with_a_message(
    lied_to: Callable[[list[str], str], tuple[int, str]], words: list[str]
) -> None:
    for seed in range(up_to(400, 8)):
        code, said = lied_to(words, f"{words} {seed}")  # an exception that comes through fails here, with its traceback
        assert code in (0, 1, 2), (seed, code, said)
        assert "Traceback" not in said, (seed, said)
        assert "\x1b[2J" not in said, (seed, said)
        assert "\x1b]0" not in said, (seed, said)


def test_the_answers_that_are_not_changed_are_those_of_the_server(
    liar: Liar, lied_to: Callable[[list[str], str], tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Liar, "begin", lambda self, _seed: setattr(self, "share", 0.0) or setattr(self, "asked", 0))
    for words in (["ps"], ["show", "last"], ["events", "last"], ["run", "double.yaml"], ["audit"], ["token", "list"]):
        code, said = lied_to(words, "")
        assert code == 0, (words, said)

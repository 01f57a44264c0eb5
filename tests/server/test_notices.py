"""Who is told of a failure: a house on a real store, and a real server that hears of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.model.requests import Cancel
from noetl.server.core import failure_notices
from noetl.server.core.service import LiveExecution
from noetl.stores.sqlite_log import SqliteLog

ROOT = Path(__file__).parents[2]
HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: %s
  on_failure:
    webhook: "{{ workload.url }}/failed/{{ ctx.team | default('nobody') }}"
    headers: {X-Run: "{{ execution_id }}"}
workload: {url: ""}
workflow:
"""
FAILS = '  - {step: a, set: {ctx.team: data}, tool: {kind: shell, cmd: "exit 3"}}\n'


class Hearer:
    """A server that remembers what it was told, and answers as it is meant to."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.on_events: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    async def hear(self, request: web.Request) -> web.Response:
        self.on_events.append((request.path, dict(request.headers), await request.json()))
        return web.Response(status=self.answers.pop(0) if self.answers else 204)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        application = web.Application()
        application.add_routes([web.post("/{rest:.*}", self.hear)])
        server = web.AppRunner(application)
        await server.setup()
        await web.TCPSite(server, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{server.addresses[0][1]}"
        finally:
            await server.cleanup()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_notices, "PAUSES", (0.01, 0.01))


def run(folder: Path, text: str, hearer: Hearer | None, *, cancel: bool = False, **more: Any) -> LiveExecution:
    """Run a playbook to its end, and let its notices go out."""
    file = folder / "main.yaml"
    file.write_text(text)

    async def main(url: str) -> LiveExecution:
        async with LocalNode(Settings(folder / "home"), SqliteLog(folder / "home" / "noetl.db")) as node:
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None, loaded.diagnostics
            live = await node.start(source, loaded.net, {"url": url}, **more)
            if cancel:
                node.service.post(live.id, [Cancel("enough")])
            await asyncio.wait_for(asyncio.shield(live.finished), 60)
            return live

    async def around() -> LiveExecution:
        if hearer is None:
            return await main("http://127.0.0.1:1")
        async with hearer.listening() as url:
            return await main(url)

    return asyncio.run(around())


def test_a_failure_is_posted_with_all_that_there_is_to_say(tmp_path: Path) -> None:
    hearer = Hearer()
    live = run(tmp_path, HEAD % "main" + FAILS, hearer)
    ((path, headers, told),) = hearer.on_events
    assert path == "/failed/data"
    assert headers["X-Run"] == headers["Idempotency-Key"] == live.id
    assert headers["Content-Type"] == "application/json"
    assert told.keys() == {"execution_id", "path", "status", "error", "started_at", "ended_at"}
    assert (told["execution_id"], told["path"], told["status"]) == (live.id, "main", "failed")
    assert (told["error"]["step"], told["error"]["kind"]) == ("a", "shell")
    assert told["started_at"] < told["ended_at"] == live.state.timestamp


@pytest.mark.parametrize(("steps", "cancel"), [("  - {step: a, tool: {kind: noop}}\n", False), (FAILS.replace("exit 3", "sleep 9"), True)])  # fmt: skip
def test_nobody_is_told_of_what_completed_or_was_cancelled(tmp_path: Path, steps: str, *, cancel: bool) -> None:
    hearer = Hearer()
    live = run(tmp_path, HEAD % "main" + steps, hearer, cancel=cancel)
    assert live.state.status == ("cancelled" if cancel else "completed")
    assert hearer.on_events == []


def test_a_run_that_could_not_begin_has_failed_too(tmp_path: Path) -> None:
    hearer = Hearer()
    text = HEAD % "main" + FAILS + "keychain: [{name: api, kind: bearer, from: {env: NOBODY_HAS_THIS}}]\n"
    run(tmp_path, text, hearer)
    ((_, _, told),) = hearer.on_events
    assert (told["started_at"], told["error"]["kind"]) == (None, "credential")


def test_what_is_not_taken_is_sent_again_until_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hearer = Hearer(500, 302)
    run(tmp_path, HEAD % "main" + FAILS, hearer)
    assert len(hearer.on_events) == 3
    assert len({headers["Idempotency-Key"] for _, headers, _ in hearer.on_events}) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("hearer", "head", "said"),
    [
        (Hearer(500, 500, 503), HEAD, "3 tries at 127.0.0.1:"),
        (None, HEAD, "3 tries at 127.0.0.1:1/failed/data: ClientConnectorError"),
        (Hearer(), HEAD.replace("{{ workload.url }}", "ftp:"), "must be an address that begins with http"),
        (Hearer(), HEAD.replace("{{ execution_id }}", "{{ ctx.none.at.all }}"), "is missing"),
    ],
    ids=["refused", "nobody there", "no address", "no header"],
)
def test_a_notice_that_reaches_nobody_is_one_line_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hearer: Hearer | None, head: str, said: str
) -> None:
    live = run(tmp_path, head % "main" + FAILS, hearer)
    assert live.state.status == "failed"
    assert live.state.error is not None
    assert live.state.error["kind"] == "shell"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {live.id}: `metadata.on_failure` reached nobody: ")
    assert said in line


def test_a_child_tells_those_that_its_own_playbook_names(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(HEAD % "child" + FAILS)
    hearer = Hearer()
    step = '  - {step: call, tool: {kind: playbook, path: child, input: {url: "{{ workload.url }}"}}, next: {arcs: [{step: end, when: "{{ event.status == \'error\' }}"}]}}\n  - {step: end}\n'
    live = run(tmp_path, HEAD % "main" + step, hearer)
    assert live.state.status == "completed"
    ((_, _, told),) = hearer.on_events
    assert (told["path"], told["execution_id"] != live.id) == ("child", True)


def test_who_is_called_without_a_network_sends_no_notices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hearer = Hearer()
    run(tmp_path, HEAD % "main" + FAILS, hearer, restrict={"network": "off"})
    assert hearer.on_events == []
    assert "does not let it use the network" in capsys.readouterr().err


def test_a_playbook_under_test_tells_nobody(tmp_path: Path) -> None:
    from noetl.testing.suite_runner import SuiteOptions, SuiteRunner

    async def main() -> list[Any]:
        hearer = Hearer()
        async with hearer.listening() as url:
            (tmp_path / "main.yaml").write_text(HEAD % "main" + FAILS)
            case = json.dumps(
                {"name": "it", "payload": {"url": url}, "real": ["shell"], "expect": {"status": "failed"}}
            )
            text = f"playbook: main.yaml\ntests: [{case}]\n".encode()
            session = SuiteRunner(SuiteOptions(), tmp_path / "home", {"PATH": "/usr/bin:/bin"})
            file = tmp_path / "main.test.yaml"
            ran = await asyncio.to_thread(session.run, file, text, "main.test.yaml", lambda _ran, _result: None)
            assert [result.status for result in ran.results] == ["passed"], ran
        return hearer.on_events

    assert asyncio.run(main()) == []


def test_the_page_about_it_shows_what_arrives(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "be-told-of-failures.md").read_text()
    text = page.partition("```yaml\n")[2].partition("```")[0]
    shown = json.loads(page.partition("```json\n")[2].partition("```")[0])
    hearer = Hearer()
    run(
        tmp_path,
        text.replace("https://hooks.example.com", "{{ workload.url }}").replace("workload:", "workload:\n  url: x"),
        hearer,
    )
    ((path, headers, told),) = hearer.on_events
    assert (path, headers["X-Team"]) == ("/nightly", "data")
    assert told.keys() == shown.keys()
    assert told["error"].keys() == shown["error"].keys()
    assert told["error"]["message"] == shown["error"]["message"]

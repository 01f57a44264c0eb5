"""Runs that use credentials, as people run them: headers, tokens that run out, loops, processes, interruptions."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from services import TokenStandIn, serving
from test_canaries import streams

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.engine.fold import replay
from noetl.model.state import Execution
from noetl.redaction.redactor import MASK
from noetl.stores.sqlite_log import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: main}\n"
TOKEN = "tok-93af-5521-zz"


def see_that_it_is_nowhere(home: Path) -> None:
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert [path for path, data in files.items() if any(TOKEN.encode() in one for one in streams(data))] == []


class Site:
    """A folder with a playbook and a home, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": os.environ["PATH"], "API_TOKEN": TOKEN, "COPY": f"Bearer {TOKEN}", "PLAIN": "seen"}
        self.node: LocalNode
        self.id = ""

    async def run(self, text: str, **payload: Any) -> Execution:
        file = self.folder / "main.yaml"
        file.write_text(HEAD + text)
        settings = Settings(self.folder / "home", environment=self.environment)
        async with LocalNode(settings, SqliteLog(settings.home / "noetl.db")) as node:
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None, loaded.diagnostics
            live = await node.start(source, loaded.net, payload)
            await asyncio.wait_for(asyncio.shield(live.finished), 120)
            events = node.log.read(live.id)
            self.lines = "".join(line.text for _, line in node.log.lines(live.id))
            assert replay(live.id, events) == live.state
        self.events = [json.loads(json.dumps(event.payload)) for event in events]
        self.names = [event.name for event in events]
        see_that_it_is_nowhere(self.folder / "home")
        return live.state


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def echo(seen: list[Mapping[str, str]], status: int = 200) -> Any:
    async def answer(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.json_response({"said": dict(request.headers)}, status=status)

    return answer


@pytest.mark.parametrize(
    ("entry", "header", "value"),
    [
        ("kind: bearer, from: {env: API_TOKEN}", "Authorization", f"Bearer {TOKEN}"),
        ("kind: basic, username: ann, password: '{{ keychain.raw.value }}'", "Authorization", "Basic YW5uOnRvay05M2FmLTU1MjEteno="),
        ("kind: header, from: {env: API_TOKEN}, header: X-Api-Key", "X-Api-Key", TOKEN),
        ("kind: header, from: {env: API_TOKEN}, prefix: 'Token '", "Authorization", f"Token {TOKEN}"),
        ("kind: secret_manager, provider: env, secret: API_TOKEN", "Authorization", f"Bearer {TOKEN}"),
        ("kind: generic, username: '', password: '{{ keychain.raw.value }}'", "Authorization", "Basic OnRvay05M2FmLTU1MjEteno="),
    ],
    ids=["bearer", "basic", "header", "prefix", "secret_manager", "generic"],
)  # fmt: skip
async def test_auth_of_http_becomes_a_header_and_is_seen_by_nobody_else(
    site: Site, entry: str, header: str, value: str
) -> None:
    seen: list[Mapping[str, str]] = []
    async with serving(web.get("/a", echo(seen))) as url:
        state = await site.run(
            f"keychain: [{{name: raw, kind: generic, from: {{env: API_TOKEN}}}}, {{name: api, {entry}}}]\n"
            "workflow: [{step: start, tool: {kind: http, url: '{{ workload.url }}/a', auth: api}}]",
            url=url,
        )
    assert state.status == "completed", state.error
    assert seen[0][header] == value
    assert MASK in state.output["said"][header]


async def test_a_header_of_the_task_goes_before_that_of_its_credential(site: Site) -> None:
    seen: list[Mapping[str, str]] = []
    async with serving(web.get("/a", echo(seen))) as url:
        await site.run(
            "keychain: [{name: api, kind: bearer, from: {env: API_TOKEN}}]\n"
            "workflow: [{step: start, tool: {kind: http, url: '{{ workload.url }}/a', auth: api, headers: {authorization: mine}}}]",
            url=url,
        )
    assert {name.lower(): value for name, value in seen[0].items()}["authorization"] == "mine"


async def test_a_redirect_to_another_host_carries_no_credential(site: Site) -> None:
    seen: list[Mapping[str, str]] = []
    async with serving(web.get("/a", echo(seen))) as other:

        async def away(request: web.Request) -> web.Response:
            seen.append(dict(request.headers))
            raise web.HTTPFound(f"{other}/a")

        async with serving(web.get("/away", away)) as url:
            state = await site.run(
                "keychain: [{name: api, kind: header, from: {env: API_TOKEN}, header: X-Key}]\n"
                "workflow: [{step: start, tool: {kind: http, url: '{{ workload.url }}/away', auth: api}}]",
                url=url,
            )
    assert state.status == "completed", state.error
    assert seen[0]["X-Key"] == TOKEN
    assert "X-Key" not in seen[1]


async def test_a_parallel_loop_of_calls_with_one_credential(site: Site) -> None:
    seen: list[Mapping[str, str]] = []
    async with serving(web.get("/{n}", echo(seen))) as url:
        state = await site.run(
            "keychain: [{name: api, kind: bearer, from: {env: API_TOKEN}}]\n"
            "workflow:\n- step: start\n  loop: {in: '{{ range(40) | list }}', iterator: n, spec: {mode: parallel, max_in_flight: 10}}\n"
            "  tool: {kind: http, url: '{{ workload.url }}/{{ iter.n }}', auth: api, output: '{{ output.http.status }}'}",
            url=url,
        )
    assert state.output == [200] * 40
    assert [one["Authorization"] for one in seen] == [f"Bearer {TOKEN}"] * 40


OAUTH = (
    "keychain:\n- {name: secret, kind: generic, from: {env: API_TOKEN}}\n"
    "- {name: oauth, kind: oauth2_client_credentials, token_url: '{{ workload.url }}/token', client_id: noetl, "
    "client_secret: '{{ keychain.secret.value }}'}\n"
)


async def test_oauth2_in_a_parallel_loop_asks_for_one_token_and_renews_a_revoked_one_once(site: Site) -> None:
    server = TokenStandIn("noetl", TOKEN)
    revoked = False

    async def items(request: web.Request) -> web.Response:
        nonlocal revoked
        if len(server.issued) == 1 and int(request.match_info["n"]) == 20 and not revoked:
            revoked = True
            server.issued.append("no-longer-valid")
        return await server.items(request)

    async with serving(web.post("/token", server.token), web.get("/items/{n}", items)) as url:
        state = await site.run(
            OAUTH + "workflow:\n- step: start\n"
            "  loop: {in: '{{ range(40) | list }}', iterator: n, spec: {mode: parallel, max_in_flight: 8}}\n"
            "  tool: {kind: http, url: '{{ workload.url }}/items/{{ iter.n }}', auth: oauth, output: '{{ output.data[\"items\"] | length }}'}",
            url=url,
        )
    assert state.status == "completed", state.error
    assert state.output == [3] * 40
    assert len(server.forms) == 2
    database = (site.folder / "home" / "noetl.db").read_bytes()
    assert not any(token.encode() in database for token in server.issued if token != "no-longer-valid")


async def test_oauth2_that_stays_refused_is_tried_once_more_and_then_an_error(site: Site) -> None:
    server = TokenStandIn("noetl", TOKEN)
    seen: list[Mapping[str, str]] = []
    async with serving(web.post("/token", server.token), web.get("/a", echo(seen, 401))) as url:
        state = await site.run(
            OAUTH + "workflow: [{step: start, tool: {kind: http, url: '{{ workload.url }}/a', auth: oauth}}]", url=url
        )
    assert state.error is not None
    assert state.error["kind"] == "http-status"
    assert len(seen) == len(server.issued) == 2


async def test_a_token_that_runs_out_between_tasks_is_renewed_for_templates_as_well(site: Site) -> None:
    server = TokenStandIn("noetl", TOKEN, lives=0.3)
    async with serving(*server.routes()) as url:
        state = await site.run(
            OAUTH + "workflow:\n- step: start\n  tool:\n"
            "  - {name: one, kind: http, url: '{{ workload.url }}/items', headers: {Authorization: 'Bearer {{ keychain.oauth.token }}'}}\n"
            "  - {name: sleep, kind: shell, cmd: sleep 0.5}\n"
            "  - {name: two, kind: http, url: '{{ workload.url }}/items', input: {headers: {Authorization: 'Bearer {{ keychain.oauth.token }}'}}}\n",
            url=url,
        )
    assert state.status == "completed", state.error
    assert len(server.issued) >= 2


async def test_what_is_missing_fails_the_execution_before_it_starts(site: Site) -> None:
    state = await site.run(
        "keychain: [{name: api, kind: bearer, from: {env: NOT_THERE}}, {name: db, kind: basic}]\n"
        "workflow: [{step: start, tool: {kind: noop}}]"
    )
    assert state.status == "failed"
    assert state.error is not None
    assert (state.error["kind"], state.error["step"]) == ("credential", None)
    assert "`api`" in state.error["message"]
    assert "`db`" in state.error["message"]
    assert site.names == ["playbook.execution.requested", "playbook.request.evaluated", "playbook.processed"]


async def test_processes_see_no_variable_that_holds_a_credential(site: Site) -> None:
    state = await site.run(
        "keychain: [{name: api, kind: bearer, from: {env: API_TOKEN}}]\nworkflow:\n- step: start\n  tool:\n"
        "  - {name: shell, kind: shell, cmd: env, output: '{{ output.data.stdout }}'}\n"
        "  - {name: python, kind: python, input: {before: '{{ _prev }}'}, code: \"import os\\ndef main(before):\\n    return [before, dict(os.environ)]\"}"
    )
    assert state.status == "completed", state.error
    before, environment = state.output
    assert environment["PLAIN"] == "seen"
    assert "PLAIN=seen" in before
    assert {"API_TOKEN", "COPY"} & environment.keys() == set()
    assert "API_TOKEN" not in before
    assert "COPY" not in before


async def test_auth_of_python_is_a_parameter_and_that_of_shell_are_variables(site: Site) -> None:
    state = await site.run(
        "keychain: [{name: api, kind: bearer, from: {env: API_TOKEN}}]\nworkflow:\n- step: start\n  tool:\n"
        '  - {name: p, kind: python, auth: api, code: "def main(auth):\\n    return len(auth[\'token\'])", set: {step.n: "{{ output.data }}"}}\n'
        "  - {name: s, kind: shell, auth: api, cmd: 'echo ${#AUTH_TOKEN} $AUTH_KIND', output: \"{{ output.data.stdout ~ step.n }}\"}"
    )
    assert state.output == f"{len(TOKEN)} bearer\n{len(TOKEN)}"


async def test_a_pipeline_works_with_real_values_and_its_record_has_none(site: Site) -> None:
    state = await site.run(
        "workflow:\n- step: start\n  tool:\n  - {name: fetch, kind: secrets, provider: env, secret: API_TOKEN, set: {step.token: '{{ output.data }}'}}\n"
        '  - {name: use, kind: python, input: {a: "{{ _prev }}", b: "{{ step.token }}"}, code: "def main(a, b):\\n    return [a == b, len(a), a[::-1]]"}'
    )
    assert state.output == [True, len(TOKEN), MASK]
    done = [payload for payload in site.events if "do" in payload]
    assert done[0]["redacted"] == ["output", "step.token"]
    assert done[0]["set"] == {"step.token": MASK}


async def test_a_secret_cannot_be_the_payload_of_a_child(site: Site) -> None:
    (site.folder / "child.yaml").write_text(
        HEAD.replace("main", "child") + "workflow: [{step: start, tool: {kind: noop}}]"
    )
    state = await site.run(
        "keychain: [{name: api, kind: bearer, from: {env: API_TOKEN}}]\n"
        "workflow: [{step: start, tool: {kind: playbook, path: child, input: {token: '{{ keychain.api.token }}'}}}]"
    )
    assert state.error is not None
    assert state.error["kind"] == "credential"
    assert "child's own `keychain`" in state.error["message"]


async def test_an_unknown_credential_fails_the_task_that_names_it(site: Site) -> None:
    state = await site.run("workflow: [{step: start, tool: {kind: http, url: 'http://127.0.0.1:1', auth: nope}}]")
    assert state.error is not None
    assert (state.error["kind"], state.error["step"]) == ("credential", "start")
    assert "noetl credential add nope" in state.error["message"]


# --- interruptions -----------------------------------------------------------------------------------------------------

INTERRUPTED = """
keychain: [{name: api, kind: bearer, from: {env: API_TOKEN}}]
workflow:
  - step: start
    tool:
      - {name: count, kind: shell, cmd: "echo count >> ran.txt"}
      - name: login
        kind: python
        input: {token: "{{ keychain.api.token }}"}
        code: |
          def main(token):
              open("ran.txt", "a").write("login\\n")
              print("logged in with", token)
              return {"session": token + "-session"}
        set: {step.session: "{{ output.data.session }}"}
      - {name: other, kind: shell, cmd: "echo other >> ran.txt"}
      - name: slow
        kind: python
        input: {session: "{{ step.session }}"}
        code: |
          import os, time
          def main(session):
              first = not os.path.exists("slow.txt")
              open("slow.txt", "a").write("slow\\n")
              if first:
                  time.sleep(60)
              return session[::-1][:8]
"""


async def test_a_killed_run_goes_on_with_the_real_value_and_only_what_was_redacted_runs_again(site: Site) -> None:
    (site.folder / "main.yaml").write_text(HEAD + INTERRUPTED)
    environment = {**os.environ, "NOETL_HOME": str(site.folder / "home"), "API_TOKEN": TOKEN}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    command = [sys.executable, "-m", "noetl"]
    running = subprocess.Popen(
        [*command, "run", "main.yaml"], cwd=site.folder, env=environment, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (site.folder / "slow.txt").exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    running.kill()
    running.wait()
    see_that_it_is_nowhere(site.folder / "home")
    done = subprocess.run(
        [*command, "resume", "last", "--json"],
        cwd=site.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(done.stdout)
    assert document["status"] == "completed", document["error"]
    assert document["output"] == "noisses-"
    assert (site.folder / "ran.txt").read_text().split() == ["count", "login", "other", "login"]
    see_that_it_is_nowhere(site.folder / "home")
    assert TOKEN not in done.stdout + done.stderr


LARGE = """
keychain: [{name: api, kind: bearer, from: {env: API_TOKEN}}]
workflow:
  - step: start
    tool:
      - name: fetch
        kind: python
        input: {token: "{{ keychain.api.token }}"}
        code: |
          def main(token):
              open("ran.txt", "a").write("fetch\\n")
              return {"rows": [token] * 10000, "plain": ["x" * 100] * 2000}
        set: {step.rows: "{{ output.data.rows }}", step.plain: "{{ output.data.plain }}"}
      - name: plain
        kind: python
        code: |
          def main():
              open("ran.txt", "a").write("plain\\n")
              return ["y" * 100] * 2000
      - {name: pause, kind: wait, seconds: 0.01}
      - name: use
        kind: python
        input: {rows: "{{ step.rows }}", plain: "{{ step.plain }}"}
        code: |
          def main(rows, plain):
              return [len(rows), rows[-1][:4], len(plain)]
"""


async def test_large_values_with_secrets_are_stored_without_them_and_fetched_again_after_a_wait(site: Site) -> None:
    state = await site.run(LARGE)
    assert state.status == "completed", state.error
    assert state.output == [10000, TOKEN[:4], 2000]
    assert (site.folder / "ran.txt").read_text().split() == ["fetch", "plain", "fetch"]
    done = next(payload for payload in site.events if "redacted" in payload)
    assert done["redacted"] == ["output", "step.rows"]
    assert done["output"]["external"]
    assert done["output"]["ref"]["meta"]["redacted"]
    assert "redacted" not in done["kept"]["step.plain"]["meta"]


async def test_a_credential_that_is_gone_when_a_run_goes_on_is_told(site: Site) -> None:
    (site.folder / "main.yaml").write_text(HEAD + INTERRUPTED)
    environment = {**os.environ, "NOETL_HOME": str(site.folder / "home"), "API_TOKEN": TOKEN}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    command = [sys.executable, "-m", "noetl"]
    running = subprocess.Popen(
        [*command, "run", "main.yaml"], cwd=site.folder, env=environment, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (site.folder / "slow.txt").exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    running.kill()
    running.wait()
    del environment["API_TOKEN"]
    done = subprocess.run(
        [*command, "resume", "last", "--json"],
        cwd=site.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"], error["step"]) == (1, "credential", "start")
    assert "API_TOKEN is not set" in error["message"]

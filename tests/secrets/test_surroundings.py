"""What tools see of the environment, and what becomes of lines that come when their task is over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from credential_home import Desk
from test_secrets_in_runs import TOKEN, Site

from noetl.config import Settings
from noetl.ports import Call
from noetl.redaction.redactor import MASK
from noetl.results.backend_addresses import open_payloads
from noetl.worker.world import LocalWorld


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_processes_see_no_variable_that_looks_like_a_credential(site: Site) -> None:
    hidden = {
        "AWS_SECRET_ACCESS_KEY": "a", "AWS_SESSION_TOKEN": "b", "PGPASSWORD": "c", "MYSQL_PWD": "d", "STRIPE_API_KEY": "e",
        "DATABASE_URL": "postgres://u:pw@h/db", "DJANGO_SECRET_KEY": "f", "github_token": "g",
    }  # fmt: skip
    seen = {
        "AWS_REGION": "eu",
        "PWD_OF": "x",
        "TOKENIZERS_PARALLELISM": "1",
        "DOCS_URL": "https://h/a:b@c",
        "KEYBOARD": "de",
    }
    site.environment = {"PATH": os.environ["PATH"], **hidden, **seen}
    state = await site.run(
        "keychain: [{name: pg, kind: generic, from: {env: PGPASSWORD}}]\nworkflow:\n- step: start\n"
        '  tool: {kind: python, code: "import os\\ndef main():\\n    return dict(os.environ)"}'
    )
    assert state.status == "completed", state.error
    assert hidden.keys() & state.output.keys() == set()
    assert seen.items() <= state.output.items()


async def test_a_line_that_comes_after_its_task_is_redacted_and_not_held_back(desk: Desk) -> None:
    keychain = desk.keychain(f"- {{name: a, kind: bearer, token: {TOKEN}}}")
    await keychain.ready()
    written: list[str] = []
    results = open_payloads(Settings(desk.folder), {}.get, lambda: 0.0)
    world = LocalWorld(desk.folder, {}, lambda *line: written.append(line[2]), results, keychain)
    call = Call("shell", "e", "s", "t", {}, {}, {}, {}, "e/1", 1, {})

    async def hear(_: Mapping[str, Any]) -> None:
        """Nobody."""

    world.listeners[call.key] = hear
    world.log(call, "stdout", f"now {TOKEN[:6]}")
    del world.listeners[call.key]
    world.flush_lines(call)
    world.log(call, "stdout", f"late {TOKEN} {TOKEN[:3]}")
    assert written == ["now ", TOKEN[:6], f"late {MASK} {TOKEN[:3]}"]
    assert world._written == {}

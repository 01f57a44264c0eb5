"""noetl credential: values go in by several ways and come out by none."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.conftest import Noetl, Shell
from noetl.cli.commands.admin.credential import _prompt_value

TOKEN = "tok-canary-93af"


@pytest.fixture(autouse=True)
def _home(home: Path) -> None:
    """An empty one for each test."""


def test_add_list_rotate_and_remove(noetl: Noetl, folder: Path) -> None:
    (folder / "token.txt").write_text(f"{TOKEN}\n")
    said = noetl("credential", "add", "api", "--kind", "bearer", "--file", "token.txt")
    assert (said.code, said.err) == (0, "api (bearer: token) added\n")
    assert (
        noetl("credential", "add", "db", "--kind", "basic", "--set", "username=ann", "--set", f"password={TOKEN}").code
        == 0
    )
    listed = noetl("credential", "list")
    assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
        ["api", "bearer", "token"],
        ["db", "basic", "password,"],
    ]
    data = json.loads(noetl("credential", "list", "--json").out)
    assert [(one["name"], one["kind"], one["fields"], one["version"]) for one in data] == [
        ("api", "bearer", ["token"], 1), ("db", "basic", ["password", "username"], 1),
    ]  # fmt: skip
    assert noetl("credential", "rotate", "api", "--set", f"token={TOKEN}2").code == 0
    assert json.loads(noetl("credential", "list", "--json").out)[0]["version"] == 2
    assert noetl("credential", "rotate").err == "2 credentials under a new key\n"
    assert noetl("credential", "remove", "api", "db").code == 0
    assert "there are no credentials" in noetl("credential", "list").err


def test_a_value_comes_from_stdin_as_text_or_as_a_map(shell: Shell, home: Path) -> None:
    environment = {"NOETL_HOME": str(home)}
    assert shell("credential", "add", "api", "--kind", "bearer", given=TOKEN.encode() + b"\n", **environment).code == 0
    value = json.dumps({"username": "ann", "password": TOKEN}).encode()
    assert shell("credential", "add", "db", "--kind", "basic", "--file", "-", given=value, **environment).code == 0
    assert (
        shell("credential", "add", "none", given=b"", **environment).err
        == "noetl: stdin is empty: there is no value in it\n"
    )
    listed = shell("credential", "list", "--json", **environment)
    assert [one["fields"] for one in json.loads(listed.out)] == [["token"], ["password", "username"]]
    assert all(TOKEN.encode() not in path.read_bytes() for path in home.iterdir())


def test_a_stored_credential_is_used_by_a_run(noetl: Noetl, folder: Path) -> None:
    noetl("credential", "add", "api", "--kind", "bearer", "--set", f"token={TOKEN}")
    (folder / "main.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: main}\nkeychain: [{name: api, kind: bearer}]\n"
        "workflow: [{step: start, tool: {kind: shell, cmd: 'printf %s \"$T\" | wc -c', env: {T: '{{ keychain.api.token }}'}, "
        "output: '{{ output.data.stdout | trim }}'}}]\n"
    )
    assert json.loads(noetl("run", "main.yaml", "--json").out)["output"] == str(len(TOKEN))
    noetl("credential", "remove", "api")
    ended = noetl("run", "main.yaml", "--json")
    error = json.loads(ended.out)["error"]
    assert (ended.code, error["kind"], error["step"]) == (1, "credential", None)
    assert "`noetl credential add api`" in error["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "api", "--kind", "barer", "--set", "a=b"], "did you mean `bearer`?"),
        (["add", "api", "--kind", "basic", "--set", "username=ann"], "a `basic` needs `password`"),
        (["add", "no good", "--set", "a=b"], "is no name for a credential"),
        (["add", "api", "--set", TOKEN], "--set wants FIELD=VALUE"),
        (["add", "api", "--file", "nowhere.txt"], "nowhere.txt: cannot be read"),
        (["remove", "nope"], "there is no credential `nope`"),
        (["rotate", "nope", "--set", "value=x"], "there is no credential `nope`"),
        (["rotate", "--set", "value=x"], "say which credential"),
    ],
)
def test_what_cannot_be_done_is_said_and_no_value_with_it(noetl: Noetl, arguments: list[str], said: str) -> None:
    ended = noetl("credential", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert TOKEN not in ended.err + ended.out


def test_the_key_may_come_from_the_environment(noetl: Noetl, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (b64encode(os.urandom(32)).decode() for _ in range(2))
    monkeypatch.setenv("NOETL_KEY", old)
    assert noetl("credential", "add", "api", "--set", f"value={TOKEN}").code == 0
    assert not (home / "key").exists()
    monkeypatch.setenv("NOETL_KEY", f"{new},{old}")
    assert noetl("credential", "rotate").code == 0
    monkeypatch.setenv("NOETL_KEY", old)
    ended = noetl("credential", "rotate")
    assert ended.code == 1
    assert "another key than the one in NOETL_KEY" in ended.err
    monkeypatch.setenv("NOETL_KEY", "secret")
    assert "openssl rand -base64 32" in noetl("credential", "rotate").err


def test_a_key_file_that_others_may_read_is_refused(noetl: Noetl, home: Path) -> None:
    noetl("credential", "add", "api", "--set", f"value={TOKEN}")
    (home / "key").chmod(0o644)
    ended = noetl("credential", "add", "other", "--set", "value=x")
    assert ended.code == 1
    assert f"chmod 600 {home / 'key'}" in ended.err


def test_a_value_is_asked_for_at_a_terminal_and_not_shown(shell: Shell, home: Path) -> None:
    import pty
    import subprocess

    controller, terminal = pty.openpty()
    environment = {**shell.environment, "NOETL_HOME": str(home), "TERM": "xterm"}
    with subprocess.Popen(
        shell.command("credential", "add", "api", "--kind", "bearer"),
        stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True,
    ) as running:  # fmt: skip
        shown = b""
        while b"token" not in shown:
            shown += os.read(controller, 1000)
        os.write(controller, f"{TOKEN}\n".encode())
        assert running.wait(120) == 0
    os.close(terminal)
    try:
        while part := os.read(controller, 1000):
            shown += part
    except OSError:  # nobody is left at the other end
        pass
    os.close(controller)
    assert b"api (bearer: token) added" in shown
    assert TOKEN.encode() not in shown


def test_a_map_that_is_cut_short_is_refused_and_not_taken_for_a_text(shell: Shell, home: Path) -> None:
    said = shell("credential", "add", "db", "--kind", "basic", given=b'{"username":"a"', NOETL_HOME=str(home))
    assert said.code == 2
    assert said.err.startswith("noetl: the value begins with { and is not JSON (line 1, column 16)")
    assert "username" not in said.err
    assert not (home / "credentials.json").exists()


def test_a_field_that_is_not_known_is_named_beside_the_one_that_is_missing(noetl: Noetl) -> None:
    said = noetl("credential", "add", "db", "--kind", "basic", "--set", "usrname=ann", "--set", "password=x")
    assert said.code == 2
    assert "needs `username`; there is no `usrname` (did you mean `username`?) in it" in said.err


def test_at_a_terminal_removing_asks(shell: Shell, home: Path) -> None:
    environment = {"NOETL_HOME": str(home)}
    assert shell("credential", "add", "api", "--kind", "bearer", given=b"tok-1234\n", **environment).code == 0
    asked = shell.at_terminal("credential", "remove", "api", given=b"n\n", **environment)
    assert "remove api? What is removed cannot be brought back [y/N]:" in asked
    assert "api" in shell("credential", "list", **environment).out
    shell.at_terminal("credential", "remove", "api", given=b"y\n", **environment)
    assert "there are no credentials" in shell("credential", "list", **environment).err


def test_a_prompt_shows_no_default(capsys: pytest.CaptureFixture[str]) -> None:
    with CliRunner().isolation(input="tok-1234\n") as (_, errors, _):
        assert _prompt_value("token", hidden=True) == "tok-1234"
        assert errors.getvalue().startswith(b"token: ")

"""noetl token, on this machine and on a server."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

from cli.devserver import Dev

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cli.conftest import Noetl, Shell


@pytest.fixture(params=["here", "server"])
def somewhere(
    request: pytest.FixtureRequest, noetl: Noetl, shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Noetl]:
    """The same commands on the store of this machine, and through a server."""
    if request.param == "here":
        yield noetl
        return
    with Dev(shell) as dev:
        monkeypatch.setenv("NOETL_SERVER", dev.url)
        yield noetl


def test_a_token_is_made_listed_and_removed(somewhere: Noetl, home: Path) -> None:
    made = somewhere("token", "add", "ann", "--role", "viewer", "--path", "crm/*", "--expires", "12h")
    token = made.out.strip()
    assert (made.code, token[:6]) == (0, "noetl_")
    assert somewhere("token", "add", "w1", "--role", "worker", "--worker", "gpu*", "--pool", "gpu").code == 0
    listed = somewhere("token", "list").out
    assert token not in listed
    for told in ("ann", token[-4:], "crm/*", "pools gpu, workers gpu*", "until it is removed"):
        assert told in listed
    assert "12 h" in listed or "11 h 59 min" in listed
    found = json.loads(somewhere("token", "list", "--json").out)
    assert [(one["name"], one["role"], one["pools"], one["worker"]) for one in found] == [
        ("ann", "viewer", [], None),
        ("w1", "worker", ["gpu"], "gpu*"),
    ]
    assert "sha256" not in found[0]
    again = somewhere("token", "add", "ann", "--role", "admin")
    assert (again.code, "there is a token 'ann' already" in again.err) == (2, True)
    assert somewhere("token", "remove", "ann").code == 0
    assert somewhere("token", "remove", "ann").code != 0
    assert json.loads(somewhere("token", "remove", "w1", "--json").out) == {"removed": "w1"}
    assert "there are none" in somewhere("token", "list").err
    files = [file.read_bytes() for file in home.iterdir() if file.is_file()]
    assert not any(token.removeprefix("noetl_").encode() in data for data in files)


def test_a_program_gets_the_token_as_data(noetl: Noetl, home: Path) -> None:
    told = json.loads(noetl("token", "add", "ann", "--role", "viewer", "--json").out)
    assert (told["name"], told["token"][:6]) == ("ann", "noetl_")


@pytest.mark.parametrize("span", ["12", "h", "-1d", "1w", "99999999999d"])
def test_how_long_a_token_is_valid_is_a_number_and_a_unit(noetl: Noetl, home: Path, span: str) -> None:
    assert noetl("token", "add", "ann", "--role", "viewer", f"--expires={span}").code == 2
    assert not (home / "noetl.db").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--role", "viewer", "--pool", "gpu"], "only a token with the role `worker`"),
        (["--role", "worker", "--path", "crm/*"], "not by paths"),
        (["--role", "viewer", "--path", "*/x"], "is no path of playbooks"),
    ],
)
def test_a_token_that_cannot_be_is_refused_with_the_reason(somewhere: Noetl, options: list[str], told: str) -> None:
    said = somewhere("token", "add", "ann", *options)
    assert (said.code != 0, told in said.err) == (True, True), said


def test_tokens_that_an_earlier_version_made_are_listed_and_removed(noetl: Noetl, home: Path) -> None:
    home.mkdir()
    earlier = {
        "name": "old",
        "role": "viewer",
        "sha256": "0" * 64,
        "hint": "abcd",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    (home / "tokens.json").write_text(json.dumps([{**earlier, "expires": None}]))
    assert "…abcd" in noetl("token", "list").out
    assert noetl("token", "add", "old", "--role", "viewer").code == 2
    assert noetl("token", "remove", "old").code == 0
    assert json.loads((home / "tokens.json").read_text()) == []


# --- the audit log -----------------------------------------------------------------------------------------------------


def audit(noetl: Noetl, *options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(noetl("audit", "--json", *options).out)
    return found


@pytest.mark.damages
@pytest.mark.usefixtures("playbooks")
def test_commands_on_this_machine_are_recorded_with_the_user_of_the_system(noetl: Noetl, home: Path) -> None:
    from noetl.cli.local_audit import system_user

    noetl("token", "add", "ann", "--role", "viewer")
    noetl("run", "choice.yaml")
    noetl("rerun", "last", "--yes")
    noetl("credential", "add", "crm", "--set", "value=hush-hush")
    noetl("credential", "rotate", "crm", "--set", "value=hush-hush-2")
    noetl("credential", "remove", "crm", "--yes")
    noetl("token", "remove", "ann")
    noetl("token", "remove", "nobody")  # changes nothing
    found = audit(noetl)
    assert [one["action"] for one in found][::-1] == [
        "token.add", "execution.start", "execution.rerun", "credential.add", "credential.rotate", "credential.remove", "token.remove",
    ]  # fmt: skip
    assert {one["who"] for one in found} == {system_user()}
    assert "hush" not in json.dumps(found)
    assert {one["object"] for one in found if str(one["action"]).startswith("credential")} == {"crm"}
    shown = noetl("audit", "--since", "1h", "--action", "token.add")
    assert (shown.out.count("\n"), "token.add" in shown.out) == (2, True)
    assert "no such entry" in noetl("audit", "--until", "1h").err
    assert noetl("fsck").code == 0
    connection = sqlite3.connect(home / "noetl.db")
    connection.execute("DELETE FROM audit WHERE number = 3")
    connection.commit()
    connection.close()
    broken = noetl("fsck")
    assert (broken.code, "entry 3 of the audit log is missing" in broken.out + broken.err) == (1, True)


@pytest.mark.parametrize("time", ["yesterday", "1x", "99999999999999d", "2026-13-01"])
def test_a_time_that_is_none_is_refused(noetl: Noetl, home: Path, time: str) -> None:
    said = noetl("audit", "--since", time)
    assert (said.code, "write how long ago" in said.err) == (2, True)


@pytest.mark.usefixtures("playbooks")
def test_what_is_done_on_a_server_is_recorded_by_the_server(
    noetl: Noetl, shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Dev(shell) as dev:
        monkeypatch.setenv("NOETL_SERVER", dev.url)
        token = noetl("token", "add", "ann", "--role", "viewer").out.strip()
        waits = noetl("run", "approval.yaml", "--detach").out.strip()
        noetl("pause", waits)
        noetl("unpause", waits)
        with monkeypatch.context() as as_ann:
            as_ann.setenv("NOETL_TOKEN", token)
            assert noetl("cancel", waits).code == 1
            assert noetl("audit").code == 1
        noetl("signal", waits, "ok", "1")
        wait_until(lambda: len(audit(noetl)) == 7)  # nobody waits for an entry about a refused call
        found = audit(noetl)
        assert sorted((str(one["who"]), str(one["action"]), str(one["outcome"])) for one in found) == [
            ("ann", "GET /api/audit", "refused"),
            ("ann", "execution.cancel", "refused"),
            ("owner", "execution.pause", "done"),
            ("owner", "execution.signal", "done"),
            ("owner", "execution.start", "done"),
            ("owner", "execution.unpause", "done"),
            ("owner", "token.add", "done"),
        ]
        assert str(found[-2]["object"]).startswith(waits)
        assert {one["origin"] for one in found} == {"127.0.0.1"}
        assert token not in json.dumps(found)
        assert [one["who"] for one in audit(noetl, "--who", "ann")] == ["ann", "ann"]
        assert len(audit(noetl, "--limit", "3")) == 3

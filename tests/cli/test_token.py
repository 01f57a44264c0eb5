"""noetl token."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Noetl


def test_a_token_is_made_listed_and_removed(noetl: Noetl, home: Path) -> None:
    made = noetl("token", "add", "ann", "--role", "viewer", "--expires", "12h")
    token = made.out.strip()
    assert (made.code, token[:6]) == (0, "noetl_")
    listed = noetl("token", "list").out
    assert "ann" in listed
    assert token[-4:] in listed
    assert token not in listed
    assert "12 h" in listed or "11 h 59 min" in listed
    assert [one["role"] for one in json.loads(noetl("token", "list", "--json").out)] == ["viewer"]
    assert noetl("token", "add", "bob", "--role", "viewer").code == 0
    assert "it was the last" not in noetl("token", "remove", "bob").err
    removed = noetl("token", "remove", "ann")
    assert (removed.code, "asked for tokens does so until it is started anew" in removed.err) == (0, True)
    assert noetl("token", "remove", "ann").code == 2
    assert "there are none" in noetl("token", "list").err
    assert (home / "tokens.json").is_file()


@pytest.mark.parametrize("span", ["12", "h", "-1d", "1w"])
def test_how_long_a_token_holds_is_a_number_and_a_unit(noetl: Noetl, home: Path, span: str) -> None:
    assert noetl("token", "add", "ann", "--role", "viewer", f"--expires={span}").code == 2
    assert not (home / "tokens.json").exists()


def test_the_first_token_says_that_whoever_has_none_is_refused_from_now_on(noetl: Noetl, home: Path) -> None:
    assert (
        "from now on servers require one from every client and every worker"
        in noetl("token", "add", "ann", "--role", "admin").err
    )
    assert "from now on" not in noetl("token", "add", "bob", "--role", "worker").err


def test_tokens_of_this_machine_are_not_shown_where_a_server_is_meant(
    noetl: Noetl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_SERVER", "http://127.0.0.1:9")
    told = noetl("token", "list")
    assert (told.code, "`noetl token` acts on the machine it runs on" in told.err) == (2, True)

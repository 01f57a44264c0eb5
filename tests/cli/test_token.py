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
    assert noetl("token", "remove", "ann").code == 0
    assert noetl("token", "remove", "ann").code == 2
    assert "there are none" in noetl("token", "list").err
    assert (home / "tokens.json").is_file()


@pytest.mark.parametrize("span", ["12", "h", "-1d", "1w"])
def test_how_long_a_token_holds_is_a_number_and_a_unit(noetl: Noetl, home: Path, span: str) -> None:
    assert noetl("token", "add", "ann", "--role", "viewer", f"--expires={span}").code == 2
    assert not (home / "tokens.json").exists()

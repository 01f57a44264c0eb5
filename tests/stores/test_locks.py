"""Locks of owners: who asks whether an owner lives is never taken for the owner."""

from __future__ import annotations

import fcntl
from pathlib import Path

from noetl.stores.sqlite_file import Owners


def test_an_owner_lives_until_it_resigns(tmp_path: Path) -> None:
    owner, other = Owners(tmp_path), Owners(tmp_path)
    assert not other.alive(owner.id)
    owner.enrol()
    assert other.alive(owner.id)
    assert owner.alive(owner.id)
    owner.resign()
    assert not other.alive(owner.id)


def test_two_who_ask_at_once_about_a_dead_owner_both_hear_that_it_is_dead(tmp_path: Path) -> None:
    """Else an execution would look owned for as long as somebody looks, and nobody would resume it."""
    (tmp_path / "1-dead.lock").touch()
    with (tmp_path / "1-dead.lock").open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)  # another process asks the same at this moment
        assert not Owners(tmp_path).alive("1-dead")


def test_who_only_asks_holds_nothing_afterwards(tmp_path: Path) -> None:
    owner, other = Owners(tmp_path), Owners(tmp_path)
    assert not other.alive(owner.id)
    owner.enrol()
    assert other.alive(owner.id)
    with (tmp_path / "1-dead.lock").open("wb") as file:
        assert not other.alive("1-dead")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

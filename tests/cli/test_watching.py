"""Progress of commands that go through long logs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from noetl.cli.output import progress

if TYPE_CHECKING:
    from cli.conftest import Noetl

pytestmark = pytest.mark.usefixtures("playbooks")


@pytest.mark.parametrize("command", [("why", "last"), ("fsck",)])
def test_long_logs_show_how_far_they_are_and_leave_nothing_behind(
    noetl: Noetl, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    noetl("run", "choice.yaml", "--json")
    assert noetl(*command).err == ""
    monkeypatch.setattr(progress, "_FEW", 10)
    monkeypatch.setattr(progress, "_EVERY", 5)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told = noetl(*command).err
    assert " of " in told
    assert " events" in told
    assert told.endswith("\r\x1b[K")

"""noetl fsck."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl

pytestmark = [pytest.mark.usefixtures("playbooks"), pytest.mark.damages]


def test_what_was_recorded_is_whole_and_makes_sense(noetl: Noetl) -> None:
    for name in ("choice", "failing"):
        noetl("run", f"{name}.yaml", "--json")
    done = noetl("fsck")
    assert done.code == 0
    assert done.out.startswith("2 executions, ")
    assert done.out.endswith(": all well\n")
    assert json.loads(noetl("fsck", "last", "--json").out)["problems"] == []


def test_an_event_that_was_changed_is_named(noetl: Noetl, home: Path) -> None:
    execution_id = json.loads(noetl("run", "choice.yaml", "--json").out)["execution_id"]
    whole = json.loads(noetl("run", "choice.yaml", "--json").out)["execution_id"]
    database = sqlite3.connect(home / "noetl.db")
    database.execute("DROP TRIGGER event_is_final")
    changed = (
        "UPDATE event SET body = replace(CAST(body AS TEXT), 'choice', 'chance') WHERE execution_id = ? AND seq = 3"
    )
    database.execute(changed, (execution_id,))
    database.commit()
    database.close()
    done = noetl("fsck")
    assert done.code == 1
    assert done.out.startswith(f"{execution_id} event 3: chain: ")
    assert whole not in done.out
    assert noetl("fsck", whole).code == 0
    assert noetl("fsck", execution_id).code == 1
    shown = noetl("show", execution_id)
    assert shown.code == 1
    assert "see `noetl fsck`" in shown.err

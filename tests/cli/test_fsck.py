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


STORED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: stored}
workflow:
  - step: each
    loop: {in: "{{ range(60) | list }}", iterator: n, spec: {mode: parallel}}
    tool: {kind: noop, output: "{{ 'x' * 2000 ~ iter.n }}"}
    next: {arcs: [{step: kept}]}
  - step: kept
    spec: {result: {inline_max_bytes: 10%s}}
    tool: {kind: noop, output: "{{ 'y' * 100 }}"}
"""


def test_a_payload_that_is_gone_or_altered_is_named_with_its_event(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "stored.yaml").write_text(STORED % "")
    execution_id = json.loads(noetl("run", "stored.yaml", "--json").out)["execution_id"]
    assert noetl("fsck", execution_id).code == 0
    # The list of the loop lies in a part behind an index, the other payload on its own.
    index = next((home / "results" / execution_id).glob("*.parts.json.zst"))
    one, other = (path for path in (home / "results" / execution_id).iterdir() if path != index)
    one.write_bytes(one.read_bytes()[:-1] + b"?")
    other.unlink()
    done = noetl("fsck", execution_id)
    assert done.code == 1
    assert done.out.count(": payload: ") == 2
    assert f"{one.name} was changed" in done.out
    assert f"{other.name} is no longer there" in done.out
    assert noetl("fsck").code == 1


def test_a_payload_whose_time_has_run_out_is_not_missed(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "stored.yaml").write_text(STORED % ", ttl: 0.001")
    execution_id = json.loads(noetl("run", "stored.yaml", "--json").out)["execution_id"]
    noetl("gc")
    assert noetl("fsck", execution_id).out.endswith("all well\n")

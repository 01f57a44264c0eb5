"""Executions that others have started: what they wait for, and what their tools wrote."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from cli.playbooks import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Noetl, Running

pytestmark = pytest.mark.usefixtures("playbooks")


def child_that_waits(noetl: Noetl) -> str:
    """The id of the child, once it waits."""
    for _ in range(1000):
        found = json.loads(noetl("ps", "--children", "--json").out)
        child = next((one["execution_id"] for one in found if one["path"] == "approval"), None)
        if child is not None and json.loads(noetl("show", child, "--json").out)["waiting"]:
            return str(child)
        time.sleep(0.05)
    raise AssertionError("no child waits")


def test_show_and_signal_of_a_parent_say_what_its_child_waits_for(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "parent.yaml")
    child = child_that_waits(noetl)
    shown = noetl("show", "last").out
    assert f"approval ({child}): ask waits for the signal `ok`; `noetl signal {child} ok` sends it" in shown
    told = noetl("signal", "last", "ok").err
    assert "waits for `ok` now; it is kept for the next wait on it" in told
    assert f"approval ({child}): ask waits for `ok`; `noetl signal {child} ok` sends it" in told
    assert "kept" not in noetl("signal", child, "ok").err
    assert running.end().code == 0


def test_each_plain_line_of_a_child_says_whose_it_is(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "parent.yaml")
    child = child_that_waits(noetl)
    noetl("signal", child, "ok")
    lines = running.end().err.splitlines()
    assert any(line.endswith(f"  {child}  ask started") for line in lines)
    assert any(line.endswith(f"  {child}  end started") for line in lines)


def test_the_lines_of_children_are_pointed_to_and_can_be_had(noetl: Noetl, folder: Path) -> None:
    (folder / "inner.yaml").write_text(HEAD % "inner" + "  - {step: say, tool: {kind: shell, cmd: echo inner}}\n")
    outer = """\
  - step: say
    tool: {kind: shell, cmd: echo outer}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool: {kind: playbook, path: inner.yaml}
"""
    (folder / "outer.yaml").write_text(HEAD % "outer" + outer)
    execution_id = json.loads(noetl("run", "outer.yaml", "--json").out)["execution_id"]
    own = noetl("logs", "last")
    assert own.out == "say.say | outer\n"
    assert f"has started 2 executions; `noetl logs {execution_id} --children` has their lines too" in own.err
    children = json.loads(noetl("show", "last", "--json").out)["children"]
    lines = noetl("logs", "last", "--children").out.splitlines()
    assert lines[0] == f"{execution_id} say.say | outer"
    assert sorted(lines[1:]) == sorted(f"{child} say.say | inner" for child in children)
    data = [json.loads(line) for line in noetl("logs", "last", "--children", "--json").out.splitlines()]
    assert {one["execution_id"] for one in data} == {execution_id, *children}

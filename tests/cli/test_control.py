"""noetl cancel, pause, unpause and signal, on executions of other processes and of none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Noetl, Running

    Start = Callable[..., Running]

pytestmark = pytest.mark.usefixtures("playbooks")


def shown(noetl: Noetl, which: str = "last") -> dict[str, Any]:
    data: dict[str, Any] = json.loads(noetl("show", which, "--json").out)
    return data


def names(noetl: Noetl, which: str = "last") -> list[str]:
    return [json.loads(line)["name"] for line in noetl("events", which, "--json").out.splitlines()]


def waiting(start: Start, name: str = "approval") -> Running:
    running = start("run", f"{name}.yaml")
    running.wait_for("waits for the signal `ok`")
    return running


def test_a_signal_reaches_a_running_execution_of_another_process(noetl: Noetl, start: Start) -> None:
    running = waiting(start)
    said = noetl("signal", "last", "ok", '{"by": "ann"}')
    assert said.code == 0
    assert f"by process {running.process.pid};" in said.err
    assert running.end().code == 0
    assert shown(noetl)["output"] == {"by": "ann"}


def test_what_a_signal_carries_has_to_be_json(noetl: Noetl, start: Start) -> None:
    waiting(start)
    assert noetl("signal", "last", "ok", "ann").code == 2


def test_a_running_execution_is_cancelled_from_another_process(noetl: Noetl, start: Start) -> None:
    running = waiting(start)
    said = json.loads(noetl("cancel", "last", "--json").out)
    assert (said["status"], said["event"], said["by"]) == ("cancelled", "execution.cancelled", "itself")
    ended = running.end()
    assert ended.code == 1
    assert "■ approval cancelled" in ended.err


def test_a_paused_execution_starts_nothing_until_it_is_unpaused(noetl: Noetl, start: Start) -> None:
    running = start("run", "gated.yaml")
    running.wait_for("one started")
    assert "it is paused" in noetl("pause", "last").err
    noetl("signal", "last", "one")
    running.wait_for("one done")
    assert shown(noetl)["status"] == "paused"
    assert "two" not in shown(noetl)["steps"]
    assert "nothing to do; it is paused already" in noetl("pause", "last").err
    assert "it is running" in noetl("unpause", "last").err
    assert "nothing to do; it is running already" in noetl("unpause", "last").err
    noetl("signal", "last", "two")
    assert running.end().code == 0
    assert shown(noetl)["output"] == "over"


def test_a_signal_to_an_execution_that_nobody_runs_is_recorded_and_heard_when_it_is_resumed(
    noetl: Noetl, start: Start
) -> None:
    waiting(start).kill()
    assert "interrupted" in noetl("ps").out
    said = noetl("signal", "last", "ok", "7")
    assert "signal.received recorded as event" in said.err
    assert "it is interrupted: its process has ended; run `noetl resume" in said.err
    assert "it is running" not in said.err
    assert "noetl resume" in said.err
    assert json.loads(noetl("resume", "last", "--json").out)["output"] == 7


def test_an_execution_that_nobody_runs_is_paused_and_unpaused_at_once(noetl: Noetl, start: Start) -> None:
    waiting(start).kill()
    assert json.loads(noetl("pause", "last", "--json").out)["status"] == "paused"
    assert shown(noetl)["status"] == "paused"
    assert "`noetl unpause" in noetl("show", "last").out
    assert json.loads(noetl("unpause", "last", "--json").out)["status"] == "running"
    noetl("signal", "last", "ok")
    assert noetl("resume", "last", "--json").code == 0


def test_cancelling_an_execution_that_nobody_runs_ends_it_and_its_children(noetl: Noetl, start: Start) -> None:
    waiting(start, "parent").kill()
    child = shown(noetl)["children"][0]
    assert json.loads(noetl("cancel", "last", "--json").out)["status"] == "cancelled"
    assert shown(noetl)["status"] == "cancelled"
    assert shown(noetl, child)["status"] == "cancelled"
    assert names(noetl, child)[-1] == "playbook.processed"
    assert noetl("fsck").code == 0


def test_what_is_over_takes_no_requests(noetl: Noetl) -> None:
    noetl("run", "choice.yaml", "--json")
    for arguments in (("cancel", "last"), ("pause", "last"), ("unpause", "last"), ("signal", "last", "x")):
        done = noetl(*arguments)
        assert done.code == 1
        assert "is over: it is completed" in done.err


def test_a_signal_that_nothing_waits_for_is_kept_and_the_near_name_told(
    noetl: Noetl, start: Callable[..., Running]
) -> None:
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal")
    told = noetl("signal", "last", "okk").err
    assert "waits for `okk` now; it is kept for the next wait on it" in told
    assert "ask waits for `ok`" in told
    assert "did you mean `ok`?" in told
    assert "kept" not in noetl("signal", "last", "ok").err
    running.end()

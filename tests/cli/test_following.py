"""Following executions whose process goes away."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Noetl, Running

pytestmark = pytest.mark.usefixtures("playbooks")


@pytest.mark.parametrize("command", ["events", "logs"])
def test_when_the_process_is_killed_it_is_said_how_to_go_on(
    noetl: Noetl, start: Callable[..., Running], command: str
) -> None:
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal")
    execution_id = json.loads(noetl("ps", "--json").out)[0]["execution_id"]
    following = start(command, "last", "--follow")
    time.sleep(1)
    assert following.process.poll() is None
    running.kill()
    code, _, told = following.end()
    assert code == 1
    assert (
        f"{execution_id}: it is interrupted: its process has ended; run `noetl resume {execution_id}` to continue it"
        in told
    )


def test_an_execution_that_ends_is_followed_to_its_end(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal")
    following = start("events", "last", "--follow")
    time.sleep(0.5)
    noetl("signal", "last", "ok")
    code, out, told = following.end()
    assert (code, told) == (0, "")
    assert "playbook.processed" in out.splitlines()[-1]
    running.end()


def test_what_is_paused_and_has_no_process_does_not_look_alive(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal")
    running.kill()
    paused = noetl("pause", "last").err
    execution_id = json.loads(noetl("ps", "--json").out)[0]["execution_id"]
    way = (
        f"it is paused, and its process has ended; run `noetl unpause {execution_id}` and then "
        f"`noetl resume {execution_id}` to continue it"
    )
    assert way in paused
    assert "paused, interrupted" in noetl("ps").out
    shown = noetl("show", "last").out
    assert "paused, interrupted" in shown
    assert way in shown
    assert " running " not in shown
    code, _, told = noetl("resume", "--all")
    assert code == 0
    assert f"{execution_id} is left as it is: {way}" in told
    noetl("unpause", "last")
    noetl("signal", "last", "ok")
    assert noetl("resume", "--all").code == 0
    assert noetl("ps").out.splitlines()[1].split()[1] == "completed"

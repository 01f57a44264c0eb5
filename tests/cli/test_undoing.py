"""Runs that are undone: what the commands tell of them, and what a compensation may read."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from cli.playbooks import HEAD

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Noetl

pytestmark = pytest.mark.usefixtures("home")

TRIP = (
    HEAD.replace("workflow:", "executor: {spec: {policy: {finally: {step: tell}}}}\nworkflow:") % "trip"
    + """\
  - step: flight
    spec: {policy: {compensation: {kind: shell, cmd: "echo cancel {{ output.data.stdout }}"}}}
    tool: {kind: shell, cmd: echo F1}
    next: {arcs: [{step: rooms}]}
  - step: rooms
    spec: {policy: {compensation: {kind: shell, cmd: "test {{ iter.n }} != 1"}, finally: [{kind: noop}]}}
    loop: {in: [1, 2], iterator: n}
    tool: {kind: noop}
    next: {arcs: [{step: car}]}
  - step: car
    spec: {policy: {lifecycle: {timeout_s: 0.2}, finally: [{kind: noop}]}}
    tool: {kind: shell, cmd: sleep 20}
  - {step: tell, tool: {kind: noop}}
"""
)


@pytest.fixture
def trip(home: Path, noetl: Noetl, folder: Path) -> str:
    """What a run that is undone tells."""
    (folder / "trip.yaml").write_text(TRIP)
    code, _, told = noetl("run", "trip.yaml")
    assert code == 1
    return told


def test_a_run_tells_what_it_undoes(trip: str) -> None:
    order = [
        "car is failing: timeout",
        "undoing rooms[1]",
        "rooms[1] undone",
        "undoing rooms[0]",
        "rooms[0]: compensation failed",
        "undoing flight",
        "flight undone",
        "tell done",
        "trip failed",
    ]
    assert [trip.index(one) for one in order] == sorted(trip.index(one) for one in order)
    assert "run again: noetl rerun" in trip
    assert "--from flight" in trip


@pytest.mark.usefixtures("trip")
def test_show_and_why_tell_what_was_undone(noetl: Noetl) -> None:
    shown = noetl("show", "last").out
    assert "undone, compensation failed: task compensation: shell" in shown
    document = json.loads(noetl("show", "last", "--json").out)["steps"]
    assert document["flight"] == {"status": "done", "runs": 1, "undone": 1}
    assert document["rooms"] == {"status": "done", "runs": 1, "undone": 1, "compensations_failed": 1}
    why = noetl("why", "last", "rooms").out
    assert "the execution failed: the compensation of rooms[1] began" in why
    assert "rooms[0] could not be undone" in why
    assert "its body was ended: timeout" in noetl("why", "last", "car").out
    assert "it runs last, whatever the outcome" in noetl("why", "last").out


@pytest.mark.usefixtures("trip")
def test_a_rerun_from_a_point_behind_what_was_undone_is_refused(noetl: Noetl) -> None:
    code, _, told = noetl("rerun", "last", "--from", "car", "--plan")
    assert code == 2
    assert "flight ended before that, and was undone by its compensation; `--from 'flight'`" in told
    assert noetl("rerun", "last", "--from", "flight", "--plan").code == 0


def test_explain_and_the_plan_show_the_tasks_around_a_step(noetl: Noetl, folder: Path) -> None:
    (folder / "trip.yaml").write_text(TRIP)
    told = noetl("explain", "trip.yaml", "rooms").out
    assert "finally: task finally_1  noop" in told
    assert "undone by: task compensation  shell" in told
    assert "last        tell" in noetl("explain", "trip.yaml").out
    assert "the end of the execution, whatever the outcome" in noetl("explain", "trip.yaml", "tell").out
    assert "4. tell" in noetl("run", "trip.yaml", "--plan").out


BAD = "  - {step: bad, tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail}}}]}}}}\n"


def test_a_secret_that_the_record_does_not_hold_is_an_error_and_the_body_does_not_run_again(
    noetl: Noetl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t-value")
    text = HEAD.replace("workflow:", "keychain: [{name: api, kind: generic, from: {env: TOKEN}}]\nworkflow:") % "secret"
    text += """\
  - step: a
    spec: {policy: {compensation: {kind: shell, cmd: "echo {{ output.data.stdout }} >> sent.txt"}}}
    tool: {kind: shell, cmd: "echo ran >> ran.txt; echo $T", input: {T: "{{ keychain.api.value }}"}}
    next: {arcs: [{step: bad}]}
"""
    (folder / "secret.yaml").write_text(text + BAD)
    code, _, told = noetl("run", "secret.yaml")
    assert code == 1
    assert "a: compensation failed" in told
    assert "credential: `output.data.stdout` held a secret when the run ended" in told
    assert not (folder / "sent.txt").exists()
    assert (folder / "ran.txt").read_text() == "ran\n"


GC = f'after: [{{kind: shell, cmd: "{sys.executable} -m noetl gc"}}], '


@pytest.mark.parametrize(
    ("loop", "after"),
    [("", ""), ("    loop: {in: [1], iterator: n}\n", ""), ("", GC)],
    ids=["of a step", "of an iteration", "before the step ends"],
)
def test_a_payload_that_a_compensation_reads_does_not_expire_before_the_end(
    loop: str, after: str, noetl: Noetl, folder: Path
) -> None:
    text = (
        HEAD % "large"
        + f"""\
  - step: a
    spec: {{result: {{ttl: 0}}, policy: {{{after}compensation: {{kind: shell, cmd: "echo {{{{ output.data.id }}}} > undone.txt"}}}}}}
{loop}    tool: {{kind: python, code: "def main(): return {{'id': 41, 'long': 'x' * 70000}}"}}
    next: {{arcs: [{{step: collect}}]}}
  - step: collect
    tool: {{kind: shell, cmd: "{sys.executable} -m noetl gc"}}
    next: {{arcs: [{{step: bad}}]}}
"""
    )
    (folder / "large.yaml").write_text(text + BAD)
    told = noetl("run", "large.yaml").err
    assert "a undone" in told or "a[0] undone" in told, told
    assert (folder / "undone.txt").read_text() == "41\n"
    files = "2 files" if loop else "1 file"  # of a loop its list, too
    assert f"{files} removed" in noetl("gc").out, "when the execution is over, it may go"


def test_cancel_is_refused_while_compensations_run(noetl: Noetl, folder: Path) -> None:
    command = f"{sys.executable} -m noetl cancel $ID > said.txt 2>&1; echo $? >> said.txt"
    text = (
        HEAD % "cancelled"
        + f"""\
  - step: a
    spec: {{policy: {{compensation: {{kind: shell, cmd: "{command}", input: {{ID: "{{{{ execution_id }}}}"}}}}}}}}
    tool: {{kind: noop}}
    next: {{arcs: [{{step: bad}}]}}
"""
    )
    (folder / "cancelled.yaml").write_text(text + BAD)
    code, _, told = noetl("run", "cancelled.yaml")
    assert (code, "cancelled failed" in told) == (1, True)
    said = (folder / "said.txt").read_text()
    assert "its compensations are running, which cannot be cancelled" in said
    assert said.endswith("1\n")

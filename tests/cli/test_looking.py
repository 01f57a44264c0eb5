"""noetl ps, show, events, logs and state."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

from noetl.model.events import decode, encode
from noetl.ports import LogLine
from noetl.stores.sqlite_log import SqliteLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Noetl, Running

pytestmark = pytest.mark.usefixtures("playbooks")


def run(noetl: Noetl, name: str) -> str:
    execution_id: str = json.loads(noetl("run", f"{name}.yaml", "--json").out)["execution_id"]
    return execution_id


def test_where_nothing_has_been_run_that_is_what_is_said(noetl: Noetl) -> None:
    assert "nothing has been run yet; `noetl run FILE`" in noetl("ps").err
    assert noetl("show", "last").code == 2
    assert noetl("fsck").out == "0 executions, 0 events: all well\n"


def test_executions_are_listed_the_latest_first(noetl: Noetl) -> None:
    first, second = run(noetl, "choice"), run(noetl, "failing")
    lines = noetl("ps").out.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "STARTED", "TOOK", "EVENTS", "PLAYBOOK"]
    assert [(line.split()[0], line.split()[1]) for line in lines[1:]] == [(second, "failed"), (first, "completed")]
    assert [one["execution_id"] for one in json.loads(noetl("ps", "--json", "-n", "1").out)] == [second]
    assert "nothing is unfinished" in noetl("ps", "--unfinished").err


def test_an_execution_is_meant_by_the_beginning_of_its_id_or_by_last(noetl: Noetl) -> None:
    first, second = run(noetl, "choice"), run(noetl, "choice")
    assert first in noetl("show", first[:-1]).out
    assert second in noetl("show", "last").out
    several = noetl("show", first[:2])
    assert several.code == 2
    assert f"{first}, {second}" in several.err
    none = noetl("show", "nope")
    assert none.code == 2
    assert "`noetl ps` lists them" in none.err


@pytest.mark.parametrize(
    ("given", "line", "key"),
    [
        (("names=[]",), 14, "next.arcs.when"),
        (("names=[]", "n=1"), 16, "set: ctx.sum"),
        (("n=1",), 8, "loop.in"),
        ((), 8, "loop.in"),
    ],
)
def test_an_error_of_an_arc_or_a_loop_names_the_line_and_the_key(
    noetl: Noetl, given: tuple[str, ...], line: int, key: str
) -> None:
    ran = noetl("run", "undelivered.yaml", *(word for one in given for word in ("--set", one)))
    assert f"at undelivered.yaml:{line}, `{key}`" in ran.err
    error = json.loads(noetl("show", "last", "--json").out)["error"]
    assert (error["file"], error["line"], error["key"]) == ("undelivered.yaml", line, key)


def test_show_tells_steps_output_and_error(noetl: Noetl) -> None:
    run(noetl, "failing")
    shown = noetl("show", "last").out
    assert "error      step start, task flaky: template: " in shown
    assert "`noetl why" in shown
    data = json.loads(noetl("show", "last", "--json").out)
    assert data["status"] == "failed"
    assert data["error"]["task"] == "flaky"
    assert data["steps"] == {"start": {"status": "failed", "runs": 1}}
    assert data["file"].endswith("failing.yaml")


def test_events_as_json_are_one_per_line_exactly_as_stored(noetl: Noetl) -> None:
    execution_id = run(noetl, "choice")
    lines = noetl("events", "last", "--json").out.splitlines()
    events = [decode(line.encode()) for line in lines]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.execution_id for event in events} == {execution_id}
    assert [encode(event).decode() for event in events] == lines
    assert events[-1].name == "playbook.processed"


def test_events_can_be_told_from_a_number_on_and_of_one_step(noetl: Noetl) -> None:
    run(noetl, "choice")
    few = noetl("events", "last", "--after", "3", "--step", "each", "--json").out.splitlines()
    names = [json.loads(line)["name"] for line in few]
    assert names[0] == "step.scheduled"
    assert names.count("task.done") == 3
    assert names[-1] == "next.evaluated"
    text = noetl("events", "last", "--step", "start").out
    assert "next.evaluated                start  big refused, each taken" in text


def test_events_are_followed_until_the_end(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "slow.yaml")
    running.wait_for("one started")
    followed = start("events", "last", "--follow", "--json").end()
    assert json.loads(followed.out.splitlines()[-1])["name"] == "playbook.processed"
    assert running.end().code == 0


def test_logs_stand_behind_their_step_and_task(noetl: Noetl, home: Path) -> None:
    execution_id = run(noetl, "choice")
    assert noetl("logs", "last").err == f"{execution_id} wrote nothing\n"
    log = SqliteLog(home / "noetl.db")
    stamp = "2026-01-01T00:00:00.000+00:00"
    log.write_lines(
        execution_id,
        [
            LogLine(stamp, "start", "main", None, "stdout", "one\ntwo\x1b[2J\n"),
            LogLine(stamp, "each", "main", 1, "stderr", "three"),
        ],
    )
    asyncio.run(log.close())
    assert noetl("logs", "last").out.splitlines() == [
        "start.main | one",
        "start.main | two␛[2J",
        "each.main[1] | three",
    ]
    only = noetl("logs", "last", "--step", "each", "--json").out
    assert json.loads(only)["text"] == "three"


def test_the_state_of_any_past_moment_can_be_seen(noetl: Noetl) -> None:
    run(noetl, "choice")
    before = json.loads(noetl("state", "last", "--at", "3", "--json").out)
    assert before["status"] == "running"
    assert before["ctx"] == {}
    after = json.loads(noetl("state", "last", "--json").out)
    assert after["status"] == "completed"
    assert after["ctx"] == {"n": 3}
    text = noetl("state", "last", "--at", "3").out
    assert "behind event 3, workflow.started choice" in text
    beyond = noetl("state", "last", "--at", "999")
    assert beyond.code == 2
    assert "ends at event" in beyond.err


@pytest.mark.parametrize("command", ["events", "logs", "why"])
def test_a_step_that_does_not_exist_is_refused_with_those_that_do(noetl: Noetl, command: str) -> None:
    run(noetl, "choice")
    option = () if command == "why" else ("--step",)
    refused = noetl(command, "last", *option, "nosuch")
    assert refused.code == 2
    assert refused.err == "noetl: choice has no step `nosuch`; steps: start, big, other, each, end\n"
    assert "did you mean `start`?" in noetl(command, "last", *option, "strt").err


def test_a_step_of_an_interrupted_run_is_interrupted_too(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal")
    running.kill()
    shown = noetl("show", "last").out
    assert re.search(r"^ask +interrupted", shown, re.MULTILINE)
    assert "`noetl resume " in shown
    assert " is interrupted" in noetl("why", "last").out


def test_the_latest_run_is_found_behind_all_the_children_it_started(noetl: Noetl, folder: Path) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkflow:\n"
    (folder / "kid.yaml").write_text(head % "kid" + "  - {step: a, tool: {kind: noop}}\n")
    loop = "{in: '{{ range(60) | list }}', iterator: i, spec: {mode: parallel}}"
    many = f"  - {{step: a, loop: {loop}, tool: {{kind: playbook, path: kid}}}}\n"
    (folder / "many.yaml").write_text(head % "many" + many)
    assert noetl("run", "many.yaml", "--json").code == 0
    shown = json.loads(noetl("show", "last", "--json").out)
    assert (shown["path"], len(shown["children"])) == ("many", 60)
    assert len(json.loads(noetl("ps", "-n", "1", "--json").out)) == 1
    assert len(json.loads(noetl("ps", "-n", "100", "--children", "--json").out)) == 61


def test_the_state_has_what_running_steps_wrote_to_their_own_scope(noetl: Noetl, playbooks: Path) -> None:
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: own}
workflow:
  - step: start
    tool:
      - {name: one, kind: noop, output: 7, set: {step.seen: "{{ output.data }}"}}
      - {name: two, kind: wait, seconds: 0.01}
"""
    (playbooks / "own.yaml").write_text(text)
    execution_id = run(noetl, "own")
    events = [decode(line.encode()) for line in noetl("events", execution_id, "--json").out.splitlines()]
    seq = next(one.seq for one in events if one.name == "task.done")
    assert 'step, in start-1\n  {\n    "seen": 7\n  }' in noetl("state", "last", "--at", str(seq)).out


def test_an_output_that_is_cut_says_where_the_whole_is(noetl: Noetl, playbooks: Path) -> None:
    long = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: long}\nworkflow:\n  - step: start\n    tool: "
    (playbooks / "long.yaml").write_text(long + "{kind: noop, output: \"{{ 'x' * 500 }}\"}\n")
    told = noetl("run", "long.yaml").err
    assert "--json` has all of it)" in told
    assert json.loads(noetl("show", "last", "--json").out)["output"] == "x" * 500


def test_a_loop_that_was_cancelled_keeps_its_counts(
    noetl: Noetl, start: Callable[..., Running], playbooks: Path
) -> None:
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: half}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: stop}]}
  - step: each
    loop: {in: [0, 0, 600], iterator: s}
    tool: {kind: wait, seconds: "{{ iter.s }}"}
  - step: stop
    tool: {kind: wait, signal: enough}
    next: {arcs: [{step: end, cancel: [each]}]}
  - step: end
"""
    (playbooks / "half.yaml").write_text(text)
    running = start("run", "half.yaml")
    running.wait_for("stop waits for the signal")
    wait_until(lambda: noetl("events", "last").out.count("loop.iteration.done") == 2)
    noetl("signal", "last", "enough")
    assert running.end().code == 0
    assert re.search(r"each +cancelled .* 2 of 3 iterations", noetl("show", "last").out)


def test_a_run_names_the_file_that_it_was_started_from(noetl: Noetl, folder: Path) -> None:
    text = (folder / "failing.yaml").read_text()
    (folder / "copy.yaml").write_text(text)
    for name in ("failing", "copy"):
        noetl("run", f"{name}.yaml", "--json")
    listed = json.loads(noetl("ps", "--json").out)
    told = [noetl("show", one["execution_id"]).out for one in listed]
    assert ["at copy.yaml:9" in told[0], "at failing.yaml:9" in told[1]] == [True, True]

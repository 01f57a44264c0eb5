"""noetl rerun: a new execution that begins as another one did."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from soundness import unsound

from cli.conftest import Noetl, Running, Shell
from cli.playbooks import HEAD

#: writes a line for each thing it does; the third item is too much for it
COUNT = (
    HEAD % "count"
    + """\
  - step: start
    tool: {kind: shell, cmd: "echo start {{ task_key }} >> done.txt"}
    set: {ctx.n: 3}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(ctx.n) | list }}", iterator: x}
    tool: {kind: shell, cmd: "echo each-{{ iter.x }} {{ task_key }} >> done.txt; test {{ iter.x }} -lt 2"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: "{{ ctx.n }}"}
"""
)
FIXED = COUNT.replace("-lt 2", "-lt 5")


@pytest.fixture
def count(folder: Path, home: Path, noetl: Noetl) -> str:
    """An execution that failed in its loop, and the corrected playbook beside it."""
    (folder / "count.yaml").write_text(COUNT)
    (folder / "fixed.yaml").write_text(FIXED)
    assert noetl("run", "count.yaml").code == 1
    return str(latest(noetl))


def latest(noetl: Noetl) -> str:
    found: str = json.loads(noetl("ps", "--json").out)[0]["execution_id"]
    return found


def done(folder: Path) -> list[tuple[str, str]]:
    """What was done, and by which execution."""
    lines = (folder / "done.txt").read_text().split("\n")[:-1]
    return [(line.split()[0], line.split()[1].partition("/")[0]) for line in lines]


def events(noetl: Noetl, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in noetl("events", name, "--json").out.splitlines()]


def test_a_corrected_playbook_goes_on_in_the_middle_of_a_loop(
    count: str, noetl: Noetl, folder: Path, home: Path
) -> None:
    result = noetl("rerun", count, "--from", "each[2]", "--with", "fixed.yaml", "--yes")
    assert result.code == 0, result.err
    assert "each: 2 of 3 iterations kept" in result.err
    assert "tried once under" in result.err
    new = latest(noetl)
    first = [("start", count), ("each-0", count), ("each-1", count), ("each-2", count)]
    assert done(folder) == [*first, ("each-2", new)]
    assert unsound(home / "noetl.db") == []


def test_a_step_runs_anew_with_everything_behind_it(count: str, noetl: Noetl, folder: Path) -> None:
    result = noetl("rerun", count, "--from", "each", "--with", "fixed.yaml", "--yes", "--json")
    document = json.loads(result.out)
    assert (document["status"], document["output"]) == ("completed", 3)
    assert document["rerun"]["execution_id"] == count
    new = document["execution_id"]
    assert done(folder)[4:] == [("each-0", new), ("each-1", new), ("each-2", new)]
    assert [event["name"] for event in events(noetl, new) if event["name"] == "execution.forked"]


def test_without_a_point_it_runs_anew_with_the_same_payload(noetl: Noetl, playbooks: Path) -> None:
    (playbooks / "given.yaml").write_text(
        HEAD.replace("workflow", "workload: {a: 1, b: {c: 2, d: 3}}\nworkflow") % "given"
        + "  - step: end\n    tool: {kind: noop, output: '{{ workload }}'}\n"
    )
    noetl("run", "given.yaml", "--set", "b.c=5")
    (playbooks / "given.yaml").write_text((playbooks / "given.yaml").read_text().replace("a: 1", "a: 7, e: 8"))
    same = json.loads(noetl("rerun", "last", "--yes", "--json").out)
    assert same["output"] == {"a": 1, "b": {"c": 5, "d": 3}}
    other = json.loads(noetl("rerun", "last", "--with", "given.yaml", "--yes", "--json").out)
    assert other["output"] == {"a": 7, "e": 8, "b": {"c": 5, "d": 3}}
    assert other["rerun"] == {"execution_id": same["execution_id"], "seq": 0, "at": other["rerun"]["at"]}
    assert "from the start" in noetl("show", "last").out


def test_what_runs_anew_runs_where_it_ran_before(noetl: Noetl, folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "where.yaml").write_text(HEAD % "where" + "  - {step: start, tool: {kind: shell, cmd: pwd}}\n")
    first = json.loads(noetl("run", "one/where.yaml", "--json").out)
    noetl("run", "two/where.yaml")
    again = json.loads(noetl("rerun", first["execution_id"], "--yes", "--json").out)
    assert again["output"] == first["output"]


def test_every_event_of_an_execution_can_be_gone_on_from(noetl: Noetl, playbooks: Path, home: Path) -> None:
    noetl("run", "choice.yaml")
    original = latest(noetl)
    expected = json.loads(noetl("show", original, "--json").out)
    for seq in range(1, expected["events"] - 1):
        document = json.loads(noetl("rerun", original, "--from", str(seq), "--yes", "--json").out)
        for key in ("status", "output", "ctx", "steps", "error"):
            assert document[key] == expected[key], f"event {seq}: {key}"
    assert unsound(home / "noetl.db") == []


def test_new_defaults_of_a_corrected_playbook_count_and_are_told(noetl: Noetl, playbooks: Path) -> None:
    text = (
        HEAD.replace("workflow", "workload: {a: 1}\nworkflow") % "defaults"
        + "  - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n"
        + "  - {step: end, tool: {kind: noop, output: '{{ workload }}'}}\n"
    )
    (playbooks / "d.yaml").write_text(text)
    noetl("run", "d.yaml")
    (playbooks / "d.yaml").write_text(text.replace("{a: 1}", "{a: 1, b: 2}"))
    result = noetl("rerun", "last", "--from", "end", "--with", "d.yaml", "--yes")
    assert "workload.b: nothing → 2" in result.err
    assert 'output: {"a":1,"b":2}' in result.err


def test_a_file_that_was_edited_and_not_named_is_pointed_out(count: str, noetl: Noetl, folder: Path) -> None:
    (folder / "count.yaml").write_text(FIXED)
    assert "count.yaml was edited since, and is not used" in noetl("rerun", count, "--from", "each", "--plan").out


def test_the_plan_alone_starts_nothing(count: str, noetl: Noetl, folder: Path) -> None:
    result = noetl("rerun", count, "--from", "each", "--plan")
    assert result.code == 0
    assert "may happen again  each (shell), tried 3 times" in result.out
    plan = json.loads(noetl("rerun", count, "--from", "each", "--plan", "--json").out)
    assert plan["kept"] == [{"step": "start", "runs": 1, "status": "done"}]
    assert plan["effects"][0]["times"] == 3
    assert latest(noetl) == count
    assert len(done(folder)) == 4


def test_where_nobody_can_be_asked_yes_is_wanted(count: str, noetl: Noetl) -> None:
    result = noetl("rerun", count, "--from", "each")
    assert result.code == 2
    assert "kept" in result.err
    assert "--yes" in result.err
    assert latest(noetl) == count


def test_at_a_terminal_one_is_asked(count: str, noetl: Noetl, shell: Shell, home: Path) -> None:
    for answer, started in ((b"n\n", False), (b"y\n", True)):
        ended = shell.end_at_terminal("rerun", count, "--from", "start", given=answer, NOETL_HOME=str(home))
        assert "Go on?" in ended.stdout
        assert ended.returncode == 1
        assert (latest(noetl) != count) is started


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "eech"], "did you mean `each`?"),
        (["--from", "end"], "it never ran; these did: start, each"),
        (["--from", "999"], "the log ends at event"),
        (["--from", "each[9]"], "has not started an iteration 9"),
        (["--from", "each", "--run", "2"], "each ran once"),
        (["--from", "7", "--run", "2"], "--run says which run of a step"),
        (["--run", "2"], "--run says which run of a step"),
        (["--from", "a b"], "name a step"),
    ],
)
def test_a_point_that_is_not_there_is_told_with_a_way_out(
    count: str, noetl: Noetl, arguments: list[str], said: str
) -> None:
    result = noetl("rerun", count, *arguments, "--yes")
    assert result.code == 2
    assert said in result.err
    assert latest(noetl) == count


def test_behind_its_end_there_is_nothing_to_go_on_from(count: str, noetl: Noetl) -> None:
    length = len(events(noetl, count))
    result = noetl("rerun", count, "--from", str(length), "--yes")
    assert result.code == 2
    assert f"{length - 2} is the last one to go on from" in result.err


def test_a_failure_that_is_kept_is_told(count: str, noetl: Noetl) -> None:
    length = len(events(noetl, count))
    result = noetl("rerun", count, "--from", str(length - 2), "--yes")
    assert result.code == 1
    assert "the failure of each is among what is kept" in result.err


def test_a_playbook_that_is_wrong_or_does_not_fit_is_refused(count: str, noetl: Noetl, folder: Path) -> None:
    (folder / "wrong.yaml").write_text(FIXED.replace("kind: noop", "kind: nop"))
    assert noetl("rerun", count, "--from", "each", "--with", "wrong.yaml", "--yes").code == 2
    (folder / "other.yaml").write_text(FIXED.replace("start", "begin"))
    result = noetl("rerun", count, "--from", "each", "--with", "other.yaml", "--yes")
    assert result.code == 2
    assert "event 3: there is no step `start` any more, with which the run began" in result.err
    assert latest(noetl) == count


def test_an_arc_that_would_lead_elsewhere_is_decided_anew_only_when_asked(
    count: str, noetl: Noetl, folder: Path
) -> None:
    (folder / "short.yaml").write_text(FIXED.replace("[{step: each}]", "[{step: end}, {step: each}]"))
    result = noetl("rerun", count, "--from", "each", "--with", "short.yaml", "--yes")
    assert result.code == 2
    assert "the arcs of start led to each, and would lead to end now" in result.err
    [way] = [line for line in result.err.splitlines() if "has that decided anew" in line]
    seq = way.split("`")[1].removeprefix("--from ")
    assert "output: 3" in noetl("rerun", count, "--from", seq, "--with", "short.yaml", "--yes").err


def test_which_run_of_a_step_is_meant_can_be_said(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "cycle.yaml").write_text(
        HEAD % "cycle"
        + """\
  - step: a
    tool: {kind: shell, cmd: "echo {{ ctx.n | default(0) }} x >> done.txt"}
    set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}
    next: {arcs: [{step: a, when: "{{ ctx.n < 4 }}"}, {step: end}]}
  - {step: end, tool: {kind: noop, output: "{{ ctx.n }}"}}
"""
    )
    noetl("run", "cycle.yaml")
    original = latest(noetl)
    noetl("rerun", original, "--from", "a", "--yes")
    assert [name for name, _ in done(folder)][4:] == ["3"]
    noetl("rerun", original, "--from", "a", "--run", "2", "--yes")
    assert [name for name, _ in done(folder)][5:] == ["1", "2", "3"]


def test_a_child_that_ended_is_kept_and_one_that_ran_is_started_anew(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "child.yaml").write_text(
        HEAD % "child" + "  - step: end\n    tool: {kind: shell, cmd: 'echo child x >> done.txt'}\n"
    )
    (folder / "parent.yaml").write_text(
        HEAD % "parent"
        + "  - {step: one, tool: {kind: playbook, path: child}, next: {arcs: [{step: two}]}}\n"
        + "  - {step: two, tool: {kind: playbook, path: child}}\n"
    )
    noetl("run", "parent.yaml")
    original = latest(noetl)
    waits = [event["seq"] for event in events(noetl, original) if event["name"] == "task.started"]
    before = json.loads(noetl("show", original, "--json").out)["children"]
    assert noetl("rerun", original, "--from", str(waits[1]), "--yes").code == 0
    new = latest(noetl)
    assert len(done(folder)) == 3
    [child] = json.loads(noetl("show", new, "--json").out)["children"]
    assert child not in before
    assert unsound(home / "noetl.db") == []


def test_a_wait_that_was_cut_short_waits_for_its_own_signal(
    start: Any, noetl: Noetl, playbooks: Path, home: Path
) -> None:
    first: Running = start("run", "approval.yaml")
    first.wait_for("waits for the signal")
    original = latest(noetl)
    noetl("signal", original, "ok", '"yes"')
    assert first.end().code == 0
    waits = next(event["seq"] for event in events(noetl, original) if event["name"] == "task.started")
    second: Running = start("rerun", original, "--from", str(waits), "--yes")
    second.wait_for("ask goes on")
    new = latest(noetl)
    assert new != original
    noetl("signal", new, "ok", '"no"')
    ended = second.end()
    assert ended.code == 0
    assert 'output: "no"' in ended.err
    assert unsound(home / "noetl.db") == []


def test_a_rerun_that_is_killed_can_be_resumed(start: Any, noetl: Noetl, playbooks: Path, home: Path) -> None:
    first: Running = start("run", "gated.yaml")
    first.wait_for("one started")
    for name in ("one", "two"):
        noetl("signal", "last", name)
    assert first.end().code == 0
    running: Running = start("rerun", "last", "--from", "two", "--yes")
    running.wait_for("two started")
    running.kill()
    new = latest(noetl)
    noetl("signal", new, "two")
    assert noetl("resume", new).code == 0
    assert json.loads(noetl("show", new, "--json").out)["output"] == "over"
    assert unsound(home / "noetl.db") == []


def test_lists_show_where_a_rerun_comes_from(count: str, noetl: Noetl) -> None:
    noetl("rerun", count, "--from", "each", "--with", "fixed.yaml", "--yes")
    assert f"rerun of {count}, forked behind event" in noetl("ps").out
    assert f"rerun of   {count}, forked behind event" in noetl("show", "last").out
    assert json.loads(noetl("ps", "--json").out)[0]["rerun"]["execution_id"] == count


def test_a_rerun_takes_as_long_wherever_it_is_told(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "waits.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: waits}\nworkflow:\n"
        "  - {step: a, tool: {kind: wait, seconds: 1.2}, next: {arcs: [{step: b}]}}\n"
        "  - {step: b, tool: {kind: noop}}\n"
    )
    first = json.loads(noetl("run", "waits.yaml", "--json").out)
    since = time.monotonic()
    again = json.loads(noetl("rerun", first["execution_id"], "--from", "b", "--yes", "--json").out)
    took = time.monotonic() - since
    assert first["duration_ms"] >= 1200
    assert again["duration_ms"] <= took * 1000
    shown = json.loads(noetl("show", "last", "--json").out)
    assert shown["duration_ms"] == again["duration_ms"]
    found = json.loads(noetl("diff", first["execution_id"], "last", "--json").out)
    assert int(found["b"]["seconds"] * 1000) == again["duration_ms"]

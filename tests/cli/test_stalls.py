"""Runs that went nowhere: tokens that were left at a step, steps whose arcs did not match, steps that never ran."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.playbooks import HEAD

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Noetl

pytestmark = pytest.mark.usefixtures("home")

BRANCHES = (
    HEAD % "branches"
    + """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, when: "{{ execution_id == '' }}"}]}
  - {step: a, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
  - {step: b, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
  - step: meet
    spec: {policy: {admit: %s}}
    tool: {kind: noop}
"""
)
JOIN = BRANCHES % "{join: {from: [a, b], need: all}}"
GATE = BRANCHES % "{rules: [{when: \"{{ done('b') }}\", then: {allow: true}}]}"


def test_a_join_that_never_fired_is_told_with_what_it_waited_for(noetl: Noetl, folder: Path) -> None:
    (folder / "join.yaml").write_text(JOIN)
    code, _, told = noetl("run", "join.yaml")
    assert code == 0
    assert "✓" not in told
    assert "⚠ branches completed" in told
    assert "completed, stalled at meet (" in told
    assert "meet never ran: a token came from a, none from b (never ran); `noetl why" in told
    shown = noetl("show", "last").out
    assert "⚠ meet never ran: a token came from a, none from b (never ran)" in shown


def test_of_rules_that_never_held_it_is_said_that_nothing_was_let_in(noetl: Noetl, folder: Path) -> None:
    (folder / "gate.yaml").write_text(GATE)
    told = noetl("run", "gate.yaml").err
    assert "meet never ran: a token came from a, and was never let in; `noetl why" in told


def test_a_step_that_ran_before_did_not_run_again(noetl: Noetl, folder: Path) -> None:
    text = JOIN.replace("{join: {from: [a, b], need: all}}", "{join: {from: [a, b], need: 1}}").replace(
        "{step: a, tool: {kind: noop}, next: {arcs: [{step: meet}]}}",
        "{step: a, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: meet}, {step: c}]}}\n"
        "  - {step: c, tool: {kind: noop}, next: {arcs: [{step: d}]}}\n"
        "  - step: d\n    spec: {policy: {admit: {rules: [{when: \"{{ not done('d') }}\", then: {allow: true}}]}}}\n"
        "    tool: {kind: noop}\n    next: {arcs: [{step: d}]}",
    )
    (folder / "again.yaml").write_text(text)
    assert "d did not run again: a token came from d, and was never let in" in noetl("run", "again.yaml").err


#: `load` is not reached, because the value is `OK`
GUARD = (
    HEAD % "guard"
    + """\
  - step: start
    tool: {kind: noop, output: OK}
    next: {arcs: [{step: load, when: "{{ output.data == 'ok' }}"}, {step: repair, when: "{{ output.data == 'bad' }}"}]}
  - {step: load, tool: {kind: noop}, next: {arcs: [{step: end}]}}
  - {step: repair, tool: {kind: noop}, next: {arcs: [{step: end}]}}
  - {step: end}
"""
)


def test_a_run_in_which_no_arc_matched_says_so_wherever_it_is_looked_at(noetl: Noetl, folder: Path) -> None:
    (folder / "guard.yaml").write_text(GUARD)
    code, _, told = noetl("run", "guard.yaml")
    assert code == 0
    assert "⚠ guard completed, no arc matched at start (" in told
    assert "start ended well and none of its 2 arcs matched; `noetl why" in told
    assert "never ran: load, repair, end" in told
    shown = noetl("show", "last").out
    assert "completed, no arc matched at start" in shown
    assert [line.split() for line in shown.splitlines() if "never ran" in line] == [
        [name, "never", "ran"] for name in ("load", "repair", "end")
    ]
    document = json.loads(noetl("show", "last", "--json").out)
    assert (document["unmatched"], document["never_ran"]) == (["start"], ["load", "repair", "end"])
    assert "⚠ no arc matched at start" in noetl("ps").out
    (listed,) = json.loads(noetl("ps", "--json").out)
    assert (listed["stalled"], listed["unmatched"]) == ([], ["start"])


def test_why_shows_each_arc_that_did_not_match_with_what_it_saw(noetl: Noetl, folder: Path) -> None:
    (folder / "guard.yaml").write_text(GUARD)
    noetl("run", "guard.yaml")
    told = noetl("why", "last", "start").out
    assert "none of its 2 arcs matched (step.done): the branch ends here, and the run is reported as unmatched" in told
    assert "to repair: {{ output.data == 'bad' }} did not hold" in told
    assert told.count('output.data = "OK"') == 2
    assert "is completed, no arc matched at start" in noetl("why", "last").out
    events = noetl("events", "last").out
    assert "load refused, repair refused: no arc matched" in events
    assert "completed, no arc matched at start" in events


def test_a_run_that_may_not_end_there_fails_and_names_the_step(noetl: Noetl, folder: Path) -> None:
    (folder / "guard.yaml").write_text(
        GUARD.replace("next: {arcs: [{step: load", "next: {spec: {on_no_match: fail}, arcs: [{step: load")
    )
    code, _, told = noetl("run", "guard.yaml")
    assert code == 1
    assert "step start: fail: step `start` ended well and none of its arcs matched (`on_no_match: fail`)" in told
    assert "so the execution failed (`on_no_match: fail`)" in noetl("why", "last", "start").out


def test_both_at_once_are_told_together_and_a_stall_that_fails_names_no_step_to_run_again(
    noetl: Noetl, folder: Path
) -> None:
    both = GATE.replace(
        "{step: a, tool", "{step: c, next: {arcs: [{step: b, when: false}]}}\n  - {step: a, tool"
    ).replace("[{step: a},", "[{step: a}, {step: c},")
    (folder / "both.yaml").write_text(both)
    assert "⚠ branches completed, stalled at meet; no arc matched at c (" in noetl("run", "both.yaml").err
    (folder / "fails.yaml").write_text(both + "executor: {spec: {policy: {stalled: fail}}}\n")
    code, _, told = noetl("run", "fails.yaml")
    assert code == 1
    assert "step meet: stalled: nothing can move any more, and tokens are left at meet" in told
    assert "--from meet" not in told


def test_why_a_join_stalled_names_the_predecessor_that_sent_nothing(noetl: Noetl, folder: Path) -> None:
    (folder / "join.yaml").write_text(JOIN)
    noetl("run", "join.yaml")
    assert "no token was left from b (never ran)" in noetl("why", "last", "meet").out

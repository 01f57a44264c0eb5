"""Steps that tokens came to and that never ran."""

from __future__ import annotations

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

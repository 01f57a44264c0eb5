"""Steps that a run plans: looked at, interrupted and gone on with like any other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.playbooks import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Noetl, Running

#: plans a step that waits for a signal and one behind it, which is never reached unless the signal says so
PLANNING = (
    HEAD % "planning"
    + """\
  - step: plan
    tool:
      kind: noop
      output:
        - step: ask
          tool: {kind: wait, signal: go}
          set: {ctx.said: "{% raw %}{{ output.data }}{% endraw %}"}
          next: {arcs: [{step: more, when: "{% raw %}{{ ctx.said == 'more' }}{% endraw %}"}, {step: end}]}
        - {step: more, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    next: {spec: {synthesize: {from: "{{ output.data }}", allow_kinds: [noop, wait]}}, arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: "{{ ctx.said | default('nothing') }}"}
"""
)


@pytest.fixture
def waiting(folder: Path, start: Callable[..., Running]) -> Running:
    """A run in which a planned step waits."""
    (folder / "planning.yaml").write_text(PLANNING)
    running = start("run", "planning.yaml")
    running.wait_for("ask waits for the signal")
    return running


def test_planned_steps_are_shown_like_any_other(noetl: Noetl, waiting: Running) -> None:
    assert "ask   running" in noetl("show", "last").out
    assert "plan plans ask, more" in noetl("events", "last").out
    assert json.loads(noetl("state", "last", "--json").out)["steps"]["ask"]["status"] == "running"
    assert "plan ended (step.done) and planned steps, of which ask is the first" in noetl("why", "last", "ask").out
    assert "it could come from ask (running)" in noetl("why", "last", "more").out
    assert "its arc to end was not asked, the one to ask was taken" in noetl("why", "last", "end").out
    picture = noetl("graph", "--run", "last", "--format", "mermaid").out
    assert '|"plans"| ' in picture
    assert "more<br/>noop" in picture
    noetl("signal", "last", "go", '"on"')
    assert 'output: "on"' in waiting.end().err


def test_a_run_that_was_killed_goes_on_in_the_steps_it_planned(noetl: Noetl, waiting: Running) -> None:
    waiting.kill()
    noetl("signal", "last", "go", '"more"')
    document = json.loads(noetl("resume", "last", "--json").out)
    assert (document["status"], document["output"]) == ("completed", "more")
    assert document["steps"]["more"] == {"status": "done", "runs": 1}
    assert noetl("fsck", "last").code == 0


def test_a_run_that_nobody_runs_hears_a_cancel_in_a_planned_step(noetl: Noetl, waiting: Running) -> None:
    waiting.kill()
    assert noetl("cancel", "last").code == 0
    assert "ask   cancelled" in noetl("show", "last").out


def test_a_plan_that_is_not_valid_fails_its_step_and_says_where(noetl: Noetl, folder: Path, home: Path) -> None:
    wrong = PLANNING.replace("{step: more, tool: {kind: noop}, next: {arcs: [{step: end}]}}", "{step: more, tol: 1}")
    (folder / "planning.yaml").write_text(wrong)
    result = noetl("run", "planning.yaml")
    assert result.code == 1
    assert "plan-invalid" in result.err
    assert "in step `more`" in result.err
    assert "did you mean `tool`?" in result.err
    document = json.loads(noetl("show", "last", "--json").out)
    assert document["steps"]["plan"]["status"] == "failed"
    assert "ask" not in document["steps"]
    assert "nothing" not in noetl("why", "last", "end").out


def test_graph_wants_a_file_or_a_run(noetl: Noetl, home: Path) -> None:
    assert noetl("graph") == (2, "", "noetl: name a FILE, or an execution with --run ID\n")
    assert noetl("graph", "x.yaml", "--run", "last").code == 2

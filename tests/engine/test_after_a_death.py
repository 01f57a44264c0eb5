"""What a node that resumes must still know: times that were set, requests that were left, and children without a parent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corpus import HEAD
from in_memory_node import House, flaky, net_of
from simulation import START, Runs

from noetl.model.events import epoch_seconds
from noetl.model.output import Output, failed, failure
from noetl.model.requests import Cancel, Signal

#: virtual seconds, longer than anything else in these runs takes
LONG = 250
TIMEOUT = (
    f"- {{step: a, spec: {{policy: {{lifecycle: {{timeout_s: {LONG}}}}}}}, tool: {{kind: wait, signal: never}}}}\n"
)
DEADLINE = TIMEOUT.replace("timeout_s", "deadline_s")
WAIT = f"- {{step: a, tool: {{kind: wait, seconds: {LONG}}}}}\n"
BACKOFF = f"""
- step: a
  tool:
    kind: shell
    cmd: x
    spec: {{policy: {{rules: [{{when: "{{{{ output.status == 'error' }}}}", then: {{do: retry, attempts: 2, delay: {LONG}}}}}]}}}}
"""
JUMPS = """
- step: a
  spec: {policy: {max_jumps: 5}}
  tool: [{name: x, kind: shell, cmd: x, spec: {policy: {rules: [{else: {then: {do: jump, to: x}}}]}}}]
"""
CALLS = "- {step: a, tool: {kind: playbook, path: other}, set: {ctx.child: '{{ output.data }}'}}\n"
WAITING_CHILD = HEAD.replace("name: test", "name: other") + "- {step: held, tool: {kind: wait, signal: go}}\n"


def breaks(_call: Any) -> Output:
    return failed(failure("shell", "no", retryable=True))


@pytest.mark.parametrize("steps", [TIMEOUT, DEADLINE, WAIT], ids=["timeout", "deadline", "wait"])
def test_a_time_that_was_set_is_kept_by_the_node_that_resumes(steps: str, tmp_path: Path) -> None:
    runs = Runs(steps, tmp_path)
    assert epoch_seconds(runs.calm.state.timestamp) == START + LONG
    for made in runs.disturbed():
        assert epoch_seconds(made.state.timestamp) == START + LONG
        assert made.state.error == runs.calm.state.error


def test_a_retry_is_not_begun_before_its_delay_is_over_though_the_node_died_meanwhile(tmp_path: Path) -> None:
    runs = Runs(BACKOFF, tmp_path, tool=breaks)
    for made in (runs.calm, *runs.disturbed()):
        starts = [epoch_seconds(one.timestamp) for one in made.log.read("x") if one.name == "task.started"]
        assert starts == [START, START + LONG]


def test_jumps_before_a_death_count_for_the_limit(tmp_path: Path) -> None:
    runs = Runs(JUMPS, tmp_path)
    assert len(runs.calm.ledger) == 6
    for made in runs.disturbed():
        assert made.state.error is not None
        assert made.state.error["kind"] == "jump-limit"
        assert made.ledger == runs.calm.ledger


def test_a_request_that_is_delivered_again_takes_no_effect_again() -> None:
    """A node may die when a request has taken effect and is not yet settled: the next one is handed it as well."""
    made = House(net_of(HEAD + "- {step: a, tool: {kind: wait, signal: go}}\n"), tool=flaky)
    made.start()
    for _ in range(2):
        made.happen(Signal("other", 1, number=1))
    made.restart()
    made.happen(Signal("other", 1, number=1), Signal("other", 2, number=2))
    assert made.state.signals == {"other": [1, 2]}


def test_requests_are_neither_lost_nor_doubled_by_a_fault_at_any_write(tmp_path: Path) -> None:
    """The same through the inbox of the log, which keeps a request until it is settled."""
    steps = "- {step: a, tool: {kind: wait, signal: go}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: wait, seconds: 5}}\n"
    runs = Runs(steps, tmp_path, [Signal("other", 1), Signal("go", 2), Signal("other", 3)])
    for made in (runs.calm, *runs.disturbed()):
        received = [one.payload["data"] for one in made.log.read("x") if one.name == "signal.received"]
        assert received == [1, 2, 3]


def test_the_children_of_a_cancelled_execution_end_though_the_node_dies_in_between(tmp_path: Path) -> None:
    runs = Runs(CALLS, tmp_path, [Cancel("nobody wants it")], child=WAITING_CHILD.encode())
    for made in (runs.calm, *runs.disturbed()):
        assert made.state.status == "cancelled"
        children = made.log.summaries(parent="x")
        assert [one.status for one in children] == ["cancelled"] * len(children)
        for child in children:
            ended = [one for one in made.log.read(child.execution_id) if one.name == "execution.cancelled"]
            assert [one.payload["why"] for one in ended] == ["its parent was cancelled"]
    assert len(runs.calm.log.summaries(parent="x")) == 1

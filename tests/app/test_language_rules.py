"""Rules of the language that only a whole run shows, and that no conformance case states."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from test_local_node import Site, run
from waiting import until

from noetl.lang.loader import load
from noetl.model.events import Event
from noetl.model.requests import Signal
from noetl.model.state import Execution
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: main}\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def ended(site: Site, workflow: str, head: str = "", **payload: Any) -> tuple[Execution, list[Event]]:
    """Run a playbook to its end; its state and its events."""

    async def whole() -> tuple[Execution, list[Event]]:
        file = site.folder / "main.yaml"
        file.write_text(f"{HEAD}{head}workflow:\n{workflow}")
        async with site.node() as node:
            live = await site.start(node, file, **payload)
            await asyncio.wait_for(asyncio.shield(live.finished), 60)
            return live.state, list(node.log.read(live.id))

    found: tuple[Execution, list[Event]] = run(whole())
    return found


def codes(workflow: str) -> list[str]:
    return [one.code for one in load(f"{HEAD}workflow:\n{workflow}", ToolKinds()).diagnostics]


# --- scopes ------------------------------------------------------------------------------------------------------------


def test_a_cancelled_run_is_neither_done_nor_ok_nor_failed_nor_running(site: Site) -> None:
    state, _ = ended(
        site,
        """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: boss}]}}
- {step: slow, tool: {kind: wait, seconds: 600}}
- {step: boss, tool: {kind: wait, seconds: 0.05}, next: {arcs: [{step: look, cancel: [slow]}]}}
- step: look
  input: {found: "{{ [done('slow'), ok('slow'), fail('slow'), running('slow'), any_done(['slow'])] }}"}
  tool: {kind: noop, output: "{{ input.found }}"}
""",
    )
    assert state.output == [False] * 5


def test_a_pipeline_reads_ctx_as_it_was_when_its_step_was_scheduled_and_what_it_writes_itself(site: Site) -> None:
    steps = """
- {step: start, set: {ctx.x: 1, ctx.y: 1}, next: {spec: {mode: inclusive}, arcs: [{step: long}, {step: other}]}}
- step: long
  tool:
    - {kind: wait, signal: go}
    - {kind: noop, output: "{{ [ctx.x, ctx.y] }}", set: {ctx.before: "{{ output.data }}", ctx.y: long}}
    - {kind: noop, output: "{{ [ctx.x, ctx.y] }}", set: {ctx.after: "{{ output.data }}"}}
- step: other
  tool: {kind: noop, set: {ctx.x: 2, ctx.y: other}}
"""

    async def whole() -> Execution:
        async with site.node() as node:
            live = await site.start(node, site.write("main", steps))
            await until(lambda: live.state.listeners.get("go") and live.state.ctx["y"] == "other")
            await node.service.record(live.id, [Signal("go")])
            await live.finished
            return live.state

    state: Execution = run(whole())
    assert state.ctx == {"x": 2, "y": "long", "before": [1, 1], "after": [1, "long"]}, "the later record wins"


# --- input -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: http, url: a, input: {url: b}}",
        "{kind: resolve, ref: '{{ ctx.a_ref }}', input: {ref: '{{ ctx.a_ref }}'}}",
        "{kind: transfer, source: {kind: data, data: []}, targets: [{kind: file, path: a.json}], input: {source: {kind: data, data: []}}}",
        "{kind: wait, seconds: 1, input: {seconds: 2}}",
        "{kind: secrets, provider: env, secret: A, input: {secret: B}}",
    ],
)
def test_the_same_key_beside_a_kind_that_its_input_configures_and_under_input_is_a_conflict(tool: str) -> None:
    assert "input-conflict" in codes(f"- {{step: a, set: {{ctx.a_ref: '{{{{ output.ref }}}}'}}, tool: {tool}}}\n")


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: python, code: 'def main(code): return code', input: {code: 1}}",
        "{kind: shell, cmd: 'echo $cmd', input: {cmd: 1}}",
        "{kind: playbook, path: child, input: {path: 1}}",
        "{kind: duckdb, query: 'SELECT :query', input: {query: 1}}",
    ],
)
def test_an_argument_of_another_kind_may_have_any_name(tool: str) -> None:
    assert "input-conflict" not in codes(f"- {{step: a, tool: {tool}}}\n")


def test_the_keys_of_secrets_may_stand_under_input(site: Site) -> None:
    state, _ = ended(site, "- {step: a, tool: {kind: secrets, input: {provider: env, secret: NO_SUCH_NAME}}}\n")
    assert state.error is not None
    assert state.error["message"] == "the secret `NO_SUCH_NAME`: the environment variable NO_SUCH_NAME is not set"


# --- arcs --------------------------------------------------------------------------------------------------------------


def test_an_error_in_the_set_of_an_arc_fails_the_execution_with_that_step(site: Site) -> None:
    state, events = ended(
        site,
        """
- {step: a, tool: {kind: noop}, next: {arcs: [{step: b, set: {ctx.y: 1, ctx.x: "{{ 1 / 0 }}"}}, {step: b}]}}
- {step: b, tool: {kind: noop}}
""",
    )
    assert state.error is not None
    assert (state.status, state.error["kind"], state.error["step"]) == ("failed", "template", "a")
    assert state.ctx == {}
    assert "b" not in {event.entity_id for event in events}


def test_an_arc_cancels_before_it_delivers(site: Site) -> None:
    """The step to which it leads is cancelled with what it was doing, and begins again for the new token."""
    state, events = ended(
        site,
        """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: x, set: {ctx.n: 1}}, {step: boss}]}}
- {step: boss, tool: {kind: wait, seconds: 0.05}, next: {arcs: [{step: x, cancel: [x], set: {ctx.n: 2}}]}}
- {step: x, tool: [{kind: wait, seconds: "{{ 600 if ctx.n == 1 else 0 }}"}, {kind: noop, output: "{{ ctx.n }}"}]}
""",
    )
    assert state.output == 2
    names = [event.name for event in events if event.entity_id == "x"]
    assert names.index("step.cancelled") < len(names) - 1 - names[::-1].index("step.scheduled")


@pytest.mark.parametrize(
    ("outcome", "error"),
    [("completed", None), ("failed", {"kind": "fail", "step": "b"})],
)
def test_an_execution_that_an_arc_ends_has_its_output_as_usual(
    site: Site, outcome: str, error: dict[str, str] | None
) -> None:
    state, _ = ended(
        site,
        f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: end}}, {{step: b}}, {{step: slow}}]}}}}
- {{step: end, tool: {{kind: noop, output: 5}}}}
- {{step: slow, tool: {{kind: wait, seconds: 600}}}}
- step: b
  spec: {{policy: {{admit: {{rules: [{{when: "{{{{ done('end') }}}}", then: {{allow: true}}}}]}}}}}}
  tool: {{kind: noop, output: 7}}
  next: {{arcs: [{{terminate: {outcome}}}]}}
""",
    )
    assert (state.status, state.output) == (outcome, 5)
    assert (state.error or {}).items() >= (error or {}).items()


# --- loops -------------------------------------------------------------------------------------------------------------


def test_until_reads_the_iteration_its_output_ctx_and_step(site: Site) -> None:
    state, _ = ended(
        site,
        """
- step: a
  loop:
    in: [1, 2, 3, 4]
    iterator: i
    spec: {until: "{{ iter.i == 2 and output.data == 20 and ctx.n == 2 and step.m == 2 }}"}
  tool: {kind: noop, output: "{{ iter.i * 10 }}", set: {ctx.n: "{{ iter.i }}", step.m: "{{ iter.i }}"}}
""",
    )
    assert state.output == [10, 20]


def test_what_a_loop_lets_run_when_it_is_complete_is_not_heard(site: Site) -> None:
    state, events = ended(
        site,
        """
- step: a
  loop:
    in: [0, 0.3]
    iterator: s
    spec: {mode: parallel, complete_when: "{{ loop.completed == 1 }}", complete_rest: run, policy: {reduce: {ctx.t: append}}}
  tool: [{kind: wait, seconds: "{{ iter.s }}"}, {kind: noop, output: "{{ iter.s }}", set: {ctx.t: "{{ iter.s }}"}}]
  set: {ctx.counts: "{{ output.loop }}"}
  next: {arcs: [{step: later}]}
- {step: later, tool: {kind: wait, seconds: 0.5}}
""",
    )
    assert state.ctx == {"t": [0], "counts": {"total": 2, "completed": 1, "succeeded": 1, "failed": 0}}
    assert [event.iteration for event in events if event.name == "loop.iteration.done"] == [0]


# --- time limits -------------------------------------------------------------------------------------------------------


def test_a_timeout_of_the_loop_around_it_bounds_a_wait(site: Site) -> None:
    state, _ = ended(
        site, "- {step: a, loop: {in: [1], iterator: i, spec: {timeout: 0.05}}, tool: {kind: wait, seconds: 600}}\n"
    )
    assert state.error is not None
    assert state.error["kind"] == "timeout"


# --- playbooks ---------------------------------------------------------------------------------------------------------


def test_a_version_that_a_template_gives_is_an_error_of_the_call_and_none_is_no_version(site: Site) -> None:
    site.write("child", "- {step: s, tool: {kind: noop, output: 3}}\n")
    call = "- {step: a, tool: {kind: playbook, path: child, version: '{{ workload.v }}'}}\n"
    state, _ = ended(site, call, v=2)
    assert state.error is not None
    assert (state.error["kind"], state.error["step"]) == ("playbook", "a")
    assert "revision `2`" in state.error["message"]
    state, _ = ended(site, call, v=None)
    assert state.output == 3


# --- ends --------------------------------------------------------------------------------------------------------------


def test_the_step_that_runs_last_does_not_run_where_nothing_has_begun(site: Site) -> None:
    state, events = ended(
        site,
        "- {step: start, tool: {kind: noop}}\n- {step: last, tool: {kind: noop}}\n",
        "executor: {spec: {policy: {finally: {step: last}}}}\n"
        "keychain: [{name: k, kind: generic, from: {env: NO_SUCH_NAME}}]\n",
    )
    assert state.error is not None
    assert (state.status, state.error["kind"], state.error["step"]) == ("failed", "credential", None)
    assert [event.name for event in events] == [
        "playbook.execution.requested", "playbook.request.evaluated", "playbook.processed",
    ]  # fmt: skip
    assert events[1].status == "error"


def test_a_child_that_completed_undoes_nothing_when_its_caller_fails_later(site: Site) -> None:
    undo = "spec: {policy: {compensation: {kind: noop}}}"
    site.write("child", f"- {{step: s, {undo}, tool: {{kind: noop}}}}\n")
    state, events = ended(
        site,
        f"- {{step: call, {undo}, tool: {{kind: playbook, path: child}}, next: {{arcs: [{{step: bad}}]}}}}\n"
        "- {step: bad, tool: {kind: noop, output: '{{ 1 / 0 }}'}}\n",
    )
    assert state.status == "failed"
    assert [event.entity_id for event in events if event.name == "step.compensated"] == ["call"]

    async def undone_by_children() -> list[str]:
        async with site.node() as node:
            children = node.log.summaries(parent=state.execution_id)
            return [event.name for child in children for event in node.log.read(child.execution_id)]

    names = run(undone_by_children())
    assert "step.done" in names
    assert "step.compensating" not in names


# --- results -----------------------------------------------------------------------------------------------------------


def test_with_reference_first_every_payload_is_stored(site: Site) -> None:
    steps = (
        "- {step: a, tool: {kind: noop, output: 5}, set: {ctx.a_ref: '{{ output.ref }}'}, next: {arcs: [{step: b}]}}\n"
    )
    steps += "- {step: b, tool: {kind: resolve, ref: '{{ ctx.a_ref }}'}}\n"
    for head, external in (("", False), ("executor: {spec: {policy: {results: {reference_first: true}}}}\n", True)):
        state, events = ended(site, steps, head)
        assert state.output == 5
        (last,) = [event for event in events if event.name == "task.done" and event.entity_id == "b.b"]
        assert (last.payload["output"].get("ref") is not None) == external

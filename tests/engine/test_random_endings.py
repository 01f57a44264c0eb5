"""Nets that nobody wrote, with all that follows the end of a step or of an execution: nothing is left out, nothing happens twice."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from corpus import HEAD
from in_memory_node import House, Signal, net_of
from simulation import CATALOG, Luck, Simulation
from thorough import up_to

from noetl.model.events import Event
from noetl.model.net import Net
from noetl.model.output import Output, failed, failure, ok
from noetl.model.requests import Cancel, Due, Pause, Resume
from noetl.model.state import Execution

NETS = up_to(2_000, 150)
NODE_NETS = up_to(400, 40)
FORKED_NETS = up_to(200, 15)
#: `f` fails for some of its keys, always the same ones
TOOLS = (
    "{kind: noop}",
    "{kind: shell, cmd: x}",
    "{kind: shell, cmd: f}",
    "{kind: shell, cmd: f, spec: {policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 2}}]}}}",
    "{kind: wait, seconds: 2}",
    "{kind: wait, signal: s, timeout: 30}",
    "{kind: playbook, path: other}",
    "[{name: one, kind: shell, cmd: x}, {name: two, kind: shell, cmd: f, set: {ctx.m: 1}}]",
)
#: of a loop whose iterations may run side by side
LOOP_TOOLS = tuple(tool for tool in TOOLS if "ctx.m" not in tool)
UNDO = (
    "{kind: shell, cmd: x}",
    "{kind: shell, cmd: f}",
    '{kind: shell, cmd: "{{ output.data }} {{ ctx.n }} {{ input }} {{ step }}"}',
    "{kind: wait, seconds: 3}",
    "{kind: wait, signal: s, timeout: 5}",
    "{kind: playbook, path: other}",
    "{kind: shell, cmd: f, spec: {policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 2}}]}}}",
    '{kind: shell, cmd: "{{ output.data.no.such }}"}',
)
AROUND = (
    "{kind: noop}",
    "{kind: shell, cmd: x}",
    "{kind: shell, cmd: f}",
    "{kind: wait, seconds: 1}",
    "{kind: wait, signal: s, timeout: 4}",
    "{kind: playbook, path: other}",
    "{kind: shell, cmd: f, spec: {policy: {rules: [{else: {then: {do: skip}}}]}}}",
    "{kind: shell, cmd: x, spec: {policy: {rules: [{else: {then: {do: break}}}]}}}",
)
GATES = (
    "rules: [{when: \"{{ done('s%d') }}\", then: {allow: true}}]",
    "rules: [{when: '{{ quiet() }}', then: {allow: true}}]",
    "fire: once",
)


def make_net(seed: int) -> str:
    """A playbook of up to seven steps; every way back counts, so that every cycle ends."""
    chance = random.Random(seed)
    count = chance.randint(2, 7)
    steps = [_make_step(chance, number, count) for number in range(count)]
    policy = []
    if chance.random() < 0.4:
        policy.append("finally: {step: last}")
        body = chance.choice(TOOLS + AROUND)
        around = _around(chance)
        spec = f", spec: {{policy: {{{', '.join(around)}}}}}" if around else ""
        steps.append(f"- {{step: last, tool: {body}{spec}}}\n")
    if chance.random() < 0.3:
        policy.append("stalled: fail")
    tail = f"executor: {{spec: {{policy: {{{', '.join(policy)}}}}}}}\n" if policy else ""
    return HEAD + "".join(steps) + tail


def _around(chance: random.Random) -> list[str]:
    return [
        f"{word}: [{', '.join(chance.choice(AROUND) for _ in range(chance.randint(1, 2)))}]"
        for word, share in (("before", 0.2), ("after", 0.2), ("finally", 0.3))
        if chance.random() < share
    ]


def _make_step(chance: random.Random, number: int, count: int) -> str:
    parts = [f"step: s{number}"]
    policy = _around(chance)
    if chance.random() < 0.5:
        policy.append(f"compensation: {chance.choice(UNDO)}")
    if chance.random() < 0.2 and number:
        gate = chance.choice(GATES)
        policy.append(f"admit: {{{gate % chance.randrange(count) if '%d' in gate else gate}}}")
    elif chance.random() < 0.15:
        policy.append("lifecycle: {timeout_s: 1}")
    loops = chance.random() < 0.35
    if loops and chance.random() < 0.5:
        policy.append("failure: {mode: best_effort}")
    if policy:
        parts.append(f"spec: {{policy: {{{', '.join(policy)}}}}}")
    if loops:
        parts.append(f"loop: {_make_loop(chance)}")
    parts.append(f"tool: {chance.choice(LOOP_TOOLS if loops else TOOLS)}")
    return f"- {{{', '.join([*parts, *_make_next(chance, number, count)])}}}\n"


def _make_loop(chance: random.Random, depth: int = 0) -> str:
    spec = ["mode: parallel, max_in_flight: 2"] if chance.random() < 0.6 else []
    if chance.random() < 0.3:
        spec.append("complete_when: '{{ loop.completed >= 2 }}'")
    inner = f", loop: {_make_loop(chance, 1)}" if not depth and chance.random() < 0.3 else ""
    return f"{{in: [1, 2, 3], iterator: i{depth}, spec: {{{', '.join(spec)}}}{inner}}}"


def _make_next(chance: random.Random, number: int, count: int) -> list[str]:
    arcs = []
    for _ in range(chance.randint(0, 3)):
        target = chance.randrange(count)
        guard = "" if target > number else ", when: '{{ ctx.n < 8 }}'"
        if target > number and chance.random() < 0.4:
            guard = chance.choice(
                [", when: true", ", when: '{{ ctx.n is odd }}'", ", when: \"{{ event.name == 'step.failed' }}\""]
            )
        extra = f", cancel: [s{chance.randrange(count)}]" if chance.random() < 0.15 else ""
        arcs.append(f"{{step: s{target}{guard}{extra}, set: {{ctx.n: '{{{{ ctx.n | default(0) + 1 }}}}'}}}}")
    if chance.random() < 0.1:
        arcs.append(f"{{terminate: {chance.choice(['completed', 'failed'])}, when: '{{{{ ctx.n > 3 }}}}'}}")
    if not arcs:
        return []
    spec = [f"mode: {chance.choice(['exclusive', 'inclusive'])}"]
    if chance.random() < 0.3:
        spec.append(f"on_no_match: {chance.choice(['end', 'fail'])}")
    return [f"next: {{spec: {{{', '.join(spec)}}}, arcs: [{', '.join(arcs)}]}}"]


def settled(call: Any) -> Output:
    """Some commands fail, always the same ones, whichever execution runs them."""
    number = sum(call.key.partition("/")[2].encode()) + call.attempt
    if "f" in str(call.config.get("cmd")) and number % 3 == 0:
        return failed(failure("shell", "it failed"))
    return ok({"n": number % 7})


# --- what must hold -----------------------------------------------------------------------------------------------------


def check_endings(net: Net, events: list[Event], state: Execution, seed: object) -> None:
    """What follows from the ends that a log records, of steps and of the execution."""
    _check_undone(net, events, state, seed)
    _check_around(net, events, seed)
    _check_last(net, events, seed)


def _check_undone(net: Net, events: list[Event], state: Execution, seed: object) -> None:
    ended = [
        (event.step_run_id, event.iteration)
        for event in events
        if event.name in ("step.done", "loop.iteration.done") and "compensation" in event.payload
    ]
    wanted = [
        (event.step_run_id, event.iteration)
        for event in events
        if event.source
        and (
            (event.name == "step.done" and net.steps[event.entity_id].loop is None)
            or (event.name == "loop.iteration.done" and _is_innermost(net, event))
        )
        and net.steps[event.entity_id].compensation is not None
    ]
    assert ended == wanted, f"{seed}: the ends that are to be undone"
    begun = [(event.payload["run"], event.iteration) for event in events if event.name == "step.compensating"]
    assert len(begun) == len(set(begun)), f"{seed}: a run is undone twice"
    over = [event.name for event in events if event.name in ("step.compensated", "step.compensation.failed")]
    assert len(over) == len(begun), f"{seed}: a compensation has no end"
    first = next((event.seq for event in events if event.name == "step.compensating"), None)
    last = next((event.seq for event in events if event.name == "step.scheduled" and "event" in event.payload), None)
    before_end = [
        (event.step_run_id, event.iteration)
        for event in events
        if "compensation" in event.payload and (first or last or len(events) + 1) > event.seq
    ]
    how = next(
        (
            event.payload["event"]["status"]
            for event in events
            if event.name == "step.scheduled" and "event" in event.payload
        ),
        state.status,
    )
    assert begun == (before_end[::-1] if how != "completed" else []), f"{seed}: what is undone, and in which order"


def _is_innermost(net: Net, event: Event) -> bool:
    depth, loop = 0, net.steps[event.entity_id].loop
    while loop is not None:
        depth, loop = depth + 1, loop.inner
    return str(event.iteration).count(".") + 1 == depth


def _check_around(net: Net, events: list[Event], seed: object) -> None:
    """`finally` runs once for each run, `after` only when the body ended well; the end of the step is recorded after them."""
    tasks: dict[tuple[str, str], set[str]] = {}
    last_of: dict[str, int] = {}
    for event in events:
        if event.name == "task.started" and event.iteration is None:
            step, _, task = event.entity_id.partition(".")
            tasks.setdefault((event.step_run_id or "", task), set()).add(event.task_run_id or "")
        if event.entity_type == "task":
            last_of[event.step_run_id or ""] = event.seq
    scheduled = {event.step_run_id or "": event for event in events if event.name == "step.scheduled"}
    ends = Counter(
        event.step_run_id
        for event in events
        if event.name in ("step.done", "step.failed", "step.cancelled") and event.step_run_id
    )
    for run, event in scheduled.items():
        step = net.steps[event.entity_id]
        assert ends[run] == 1, f"{seed}: {run} has {ends[run]} ends"
        end = next(
            e for e in events if e.step_run_id == run and e.name in ("step.done", "step.failed", "step.cancelled")
        )
        if step.cleanup:
            first = step.cleanup[0].name
            assert len(tasks.get((run, first), ())) == 1, f"{seed}: `finally` of {run}, which ended with {end.name}"
        if end.name != "step.cancelled":
            assert last_of.get(run, 0) < end.seq, f"{seed}: {run} goes on after its end"
        if step.after and end.name == "step.done":
            assert (run, step.after[0].name) in tasks, f"{seed}: `after` of {run}"


def _check_last(net: Net, events: list[Event], seed: object) -> None:
    final = net.playbook.final_step
    fired = [event for event in events if event.name == "step.scheduled" and event.entity_id == final]
    assert len(fired) == (final is not None), f"{seed}: the step that runs last"
    for event in events[fired[0].seq :] if fired else ():
        assert event.entity_id.partition(".")[0] in (final, "test") or event.name == "step.closed", (
            f"{seed}: {event.name} of {event.entity_id} after the last step began"
        )


def signals() -> list[Signal]:
    return [Signal("s", 1, number=1), Signal("s", 2, number=2)]


# --- the tests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(0, NETS, 50))
def test_whatever_is_around_its_steps_a_net_ends_soundly_under_any_luck(start: int) -> None:
    for seed in range(start, start + 50):
        net = net_of(make_net(seed))
        for faults in (0.0, 0.2):
            made = House(net, seed=seed, tool=settled, faults=faults)
            made.signals = signals()
            assert made.run(most=8_000).over, f"seed {seed}: {list(made.state.runs)}"
            check_endings(net, made.events(), made.state, seed)


@pytest.mark.parametrize("start", range(0, NETS, 50))
def test_requests_at_any_moment_leave_nothing_out(start: int) -> None:
    for seed in range(start, start + 50):
        chance = random.Random(seed)
        net = net_of(make_net(seed))
        made = House(net, seed=seed, tool=settled, faults=chance.choice([0.0, 0.1]))
        made.signals = signals()
        made._alive(made.start)
        wanted: list[Any] = [Pause, Resume, Due, Resume]
        cancels = chance.random() < 0.7
        for _ in range(4_000):
            if made.state.over:
                break
            if chance.random() < 0.15:
                request = chance.choice([*wanted, Cancel] if cancels else wanted)()
                made._alive(partial(made.happen, request))
            elif not made._alive(made.tick):
                made.happen(Resume())
        while not made.state.over and made._alive(made.tick):
            pass
        assert made.state.over, f"seed {seed}: {list(made.state.runs)}"
        made.check()
        check_endings(net, made.events(), made.state, seed)


@pytest.mark.parametrize("start", range(0, NODE_NETS, 10))
def test_a_node_that_dies_and_resumes_leaves_nothing_out(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 10):
        source, loaded = CATALOG.read(Path("main.yaml"), make_net(seed).encode())
        assert loaded.net is not None, loaded.diagnostics
        luck = Luck(seed, faults=0.2, snapshot_every=1 + seed % 7)
        requests: list[Any] = [Signal("s", seed), Signal("s", seed)]
        requests += [[], [Cancel()], [Pause(), Resume()]][seed % 3]
        made = Simulation(loaded.net, source, tmp_path, luck, requests=requests, tool=settled).run()
        check_endings(loaded.net, made.log.read("x"), made.state, seed)

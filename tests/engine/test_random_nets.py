"""Nets that nobody wrote: whatever their arcs, gates and loops, every run ends soundly, and its log tells it all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from corpus import HEAD
from in_memory_node import House, Signal, flaky, net_of
from simulation import CATALOG, Luck, Simulation
from thorough import up_to

from noetl.model.events import Fact
from noetl.model.requests import Cancel, Due, Pause, Resume

NETS = up_to(400, 200)
#: those that a whole node runs
NODE_NETS = up_to(400, 80)
TOOLS = (
    "{kind: noop}",
    "{kind: shell, cmd: x}",
    "{kind: http, url: x, spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}",
    "{kind: http, url: x}",
    "{kind: wait, seconds: 2}",
    "{kind: wait, signal: s, timeout: 30}",
    "[{name: one, kind: shell, cmd: x}, {name: two, kind: python, code: 'def main(): pass', set: {ctx.m: 1}}]",
)
GATES = (
    "rules: [{when: \"{{ done('s%d') }}\", then: {allow: true}}]",
    "rules: [{when: '{{ quiet() }}', then: {allow: true}}]",
    "rules: [{when: '{{ ctx.n > 3 }}', then: {allow: true}}, {else: {then: {allow: false}}}]",
    "fire: once",
)


def random_net(seed: int) -> str:
    """A playbook of up to nine steps; every way back counts, so that every cycle ends."""
    chance = random.Random(seed)
    count = chance.randint(2, 9)
    steps = []
    for number in range(count):
        arcs = []
        for _ in range(chance.randint(0, 3)):
            target = chance.randrange(count)
            guard = "" if target > number else ", when: '{{ ctx.n < 12 }}'"
            if target > number and chance.random() < 0.3:
                guard = chance.choice(
                    [", when: true", ", when: '{{ ctx.n is odd }}'", ", when: \"{{ event.name == 'step.failed' }}\""]
                )
            extra = f", cancel: [s{chance.randrange(count)}]" if chance.random() < 0.1 else ""
            arcs.append(f"{{step: s{target}{guard}{extra}, set: {{ctx.n: '{{{{ ctx.n | default(0) + 1 }}}}'}}}}")
        if chance.random() < 0.04:
            arcs.append("{terminate: completed, when: '{{ ctx.n > 8 }}'}")
        parts = [f"step: s{number}"]
        if chance.random() < 0.3 and number:
            gate = chance.choice(GATES)
            parts.append(f"spec: {{policy: {{admit: {{{gate % chance.randrange(count) if '%d' in gate else gate}}}}}}}")
        elif chance.random() < 0.2:
            parts.append("spec: {policy: {lifecycle: {timeout_s: 1}}}")
        if chance.random() < 0.25:
            mode = chance.choice(["sequential", "parallel"])
            more = ", max_in_flight: 2, policy: {reduce: {ctx.m: count}}" if mode == "parallel" else ""
            parts.append(f"loop: {{in: [1, 2, 3], iterator: i, spec: {{mode: {mode}{more}}}}}")
        parts.append(f"tool: {chance.choice(TOOLS)}")
        if arcs:
            parts.append(
                f"next: {{spec: {{mode: {chance.choice(['exclusive', 'inclusive'])}}}, arcs: [{', '.join(arcs)}]}}"
            )
        steps.append(f"- {{{', '.join(parts)}}}\n")
    return HEAD + "".join(steps)


@pytest.mark.parametrize("start", range(0, NETS, 50))
def test_any_net_ends_soundly_under_any_luck(start: int) -> None:
    for seed in range(start, start + 50):
        net = net_of(random_net(seed))
        for faults in (0.0, 0.2):
            made = House(net, seed=seed, tool=flaky, faults=faults)
            made.signals = [Signal("s", seed, number=1), Signal("s", seed, number=2)]
            assert made.run(most=4_000).over, f"seed {seed}: {list(made.state.runs)}"


@pytest.mark.parametrize("start", range(0, NODE_NETS, 20))
def test_any_net_ends_soundly_in_a_node_that_dies_and_resumes_from_snapshots(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 20):
        source, loaded = CATALOG.read(Path("main.yaml"), random_net(seed).encode())
        assert loaded.net is not None, loaded.diagnostics
        luck = Luck(seed, faults=0.2, snapshot_every=1 + seed % 7)
        requests = [Signal("s", seed), Signal("s", seed)]
        Simulation(loaded.net, source, tmp_path, luck, requests=requests).run()


def test_stale_and_foreign_reports_change_nothing() -> None:
    """Facts of pipelines that never were, that are over, or that come late."""
    for seed in range(60):
        chance = random.Random(seed)
        made = House(net_of(random_net(seed)), seed=seed, tool=flaky)
        made.start()
        said: list[Fact] = []
        for _ in range(300):
            if made.state.over or not made.tick():
                break
            facts = [fact for pipe in made.pipes.values() for fact in pipe.waiting]
            said += facts
            before = len(made.log)
            stale = [fact for fact in said if fact.step_run_id not in made.state.runs]
            if stale:
                made.happen(chance.choice(stale))
            made.happen(Fact("task.done", "nobody-1", {"output": {}, "do": "continue"}, number=1))
            made.happen(Fact("loop.iteration.done", "s0-1", {"data": 1}, iteration=99))
            assert len(made.log) == before
        made.check()


def test_pausing_and_cancelling_at_any_moment_is_sound() -> None:
    for seed in range(80):
        chance = random.Random(seed)
        made = House(net_of(random_net(seed)), seed=seed, tool=flaky, faults=0.1)
        made._alive(made.start)
        for _ in range(chance.randint(1, 40)):
            if made.state.over or not made._alive(made.tick):
                break
            if chance.random() < 0.2:
                made.happen(chance.choice([Pause(), Resume(), Due()]))
        if not made.state.over:
            made.happen(Cancel())
        assert made.state.over
        made.check()
        length = len(made.log)
        made.happen(Signal("s"), Resume(), Due())
        assert len(made.log) == length, "something happened after the end"

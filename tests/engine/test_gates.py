"""Gates are asked only when something changed that they read, and decide just what they would if all were asked every time."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from in_memory_node import House, Signal, flaky, net_of
from slow_gates import SlowNetIndex
from thorough import up_to

from noetl.engine.net_index import NetIndex
from noetl.model.events import decode
from noetl.model.requests import Cancel, Pause, Resume

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: gates}\n"
NETS = up_to(12_000, 600)
PART = 100
TOOLS = ("", "", "", "tool: {kind: shell, cmd: x}", "tool: {kind: http, url: x}", "tool: {kind: wait, seconds: 2}")
CONDITIONS = (
    "done('{a}')",
    "done('{a}') and ok('{b}')",
    "done('{a}') or fail('{b}')",
    "not running('{a}')",
    "all_done(['{a}', '{b}', '{c}'])",
    "any_done(['{a}', '{b}']) and not fail('{c}')",
    "all_done(['{a}', '{b}']) or quiet()",
    "quiet()",
    "quiet() and ctx.n > 2",
    "not quiet()",
    "ctx.n > 3",
    "ctx.m.k is defined",
    "event.step == '{a}'",
    "event.status == 'error' or ctx.n is even",
    "event.step == '{source}' and done('{b}')",
    "event.step == '{source}' and ctx.n > 4",
    "running('{a}')",
    "steps['{a}'].status.done",
    "steps['{a}'].status.started_at is not none and quiet()",
    "done(ctx.which | default('{a}'))",
    "all_done([{many}])",
    "now() > '' and ctx.n > 1",
    "loop_done('{a}')",
    "ctx | length > 1",
)
QUIET = ("quiet()", "quiet()", "quiet() or ctx.n > 6", "quiet() and ctx.n > 1", "event.step == '{source}' or quiet()")
RULES = (
    '{{when: "{{{{ {one} }}}}", then: {{allow: true}}}}',
    '{{when: "{{{{ {one} }}}}", then: {{allow: false}}}}, {{when: "{{{{ {two} }}}}", then: {{allow: true}}}}',
    '{{when: "{{{{ {one} }}}}", then: {{allow: false}}}}, {{else: {{then: {{allow: true}}}}}}',
)
WRITES = (
    "ctx.n: '{{{{ ctx.n | default(0) + 1 }}}}'",
    "ctx.n: '{{{{ ctx.n | default(0) + 1 }}}}', ctx.m.k: 1",
    "ctx.n: '{{{{ ctx.n | default(0) + 1 }}}}', ctx.which: {a}",
)


class RandomNet:
    """A playbook of some steps, most of which are gates; every way back counts, so that every circle ends."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.count = chance.randint(3, 14)
        self.names = [f"s{at}" for at in range(self.count)]
        #: mostly: `quiet()` beside other branches; joins; a ring of gates that wait for each other; a bit of everything
        self.kind = chance.choice(("quiet", "joins", "ring", "any", "any"))
        self.conditions = QUIET if self.kind in ("quiet", "ring") else CONDITIONS
        self.gated = {"quiet": 0.4, "ring": 0.9}.get(self.kind, chance.choice((0.4, 0.7, 0.9)))
        self.arcs = {at: self._targets(at) for at in range(self.count)}
        if self.kind == "ring":
            ring = {at: [at % (self.count - 1) + 1] for at in range(1, self.count)}
            self.arcs = {0: chance.sample(range(1, self.count), chance.randint(2, self.count - 1))} | ring
            self.arcs[chance.randrange(self.count)].append(chance.randrange(1, self.count))

    def _targets(self, at: int) -> list[int]:
        first = max(0, at + 1 - self.chance.choice((0, 0, 2, self.count) if self.kind == "any" else (0,)))
        number = self.chance.randint(0 if at > 2 else 2, 4) if first < self.count else 0
        return [self.chance.randrange(first, self.count) for _ in range(number)]

    def text(self) -> str:
        gate = f'{{policy: {{admit: {{rules: [{{when: "{{{{ {self._condition()} }}}}", then: {{allow: true}}}}]}}}}}}'
        plan = f"[{{step: made, next: {{arcs: [{{step: gate}}, {{step: s1}}]}}}}, {{step: gate, spec: {gate}, tool: {{kind: noop}}}}]"
        steps = "".join(self._step(at) for at in range(self.count))
        return f"{HEAD}workload: {{plan: {plan}}}\nworkflow:\n{steps}"

    def _some(self, at: int = 0) -> dict[str, str]:
        a, b, c = (self.chance.choice(self.names) for _ in range(3))
        source = self.chance.choice([f"s{one}" for one, targets in self.arcs.items() if at in targets] or [a])
        many = ", ".join(f"'{self.chance.choice(self.names)}'" for _ in range(25))
        return {"a": a, "b": b, "c": c, "many": many, "source": source}

    def _condition(self, at: int = 0) -> str:
        return self.chance.choice(self.conditions).format(**self._some(at))

    def _step(self, at: int) -> str:
        chance = self.chance
        parts = [f"step: s{at}"]
        admit = self._admit(at) if at and chance.random() < self.gated else ""
        if admit:
            parts.append(f"spec: {{policy: {{admit: {{{admit}}}}}}}")
        tool = chance.choice(TOOLS)
        if tool and chance.random() < 0.2:
            tool += ", loop: {in: [1, 2], iterator: i}"
        arcs = [self._arc(at, target) for target in self.arcs[at]]
        if tool or not arcs:
            parts.append(tool or "tool: {kind: noop}")
        if chance.random() < 0.2:
            parts.append(f"set: {{{chance.choice(WRITES).format(**self._some())}}}")
        if arcs:
            mode = chance.choice(("inclusive", "inclusive", "exclusive")) if at else "inclusive"
            plan = ", synthesize: {from: '{{ workload.plan }}'}" if chance.random() < 0.03 else ""
            parts.append(f"next: {{spec: {{mode: {mode}{plan}}}, arcs: [{', '.join(arcs)}]}}")
        return f"- {{{', '.join(parts)}}}\n"

    def _arc(self, at: int, target: int) -> str:
        chance = self.chance
        parts = [f"step: s{target}"]
        if target <= at:
            parts.append("when: '{{ ctx.n | default(0) < 9 }}'")
        elif at and chance.random() < 0.3:
            asked = chance.choice(
                ("true", "ctx.n is odd", "event.status == 'error'", "done('{a}')", "not running('{b}')")
            )
            parts.append(f'when: "{{{{ {asked.format(**self._some())} }}}}"')
        if target <= at or chance.random() < 0.4:
            parts.append(f"set: {{{chance.choice(WRITES).format(**self._some())}}}")
        if chance.random() < 0.06:
            parts.append(f"cancel: [{chance.choice(self.names)}, {chance.choice(self.names)}]")
        return f"{{{', '.join(parts)}}}"

    def _admit(self, at: int) -> str:
        chance = self.chance
        sources = list(dict.fromkeys(f"s{source}" for source, targets in self.arcs.items() if at in targets))
        parts = ["fire: once"] if chance.random() < 0.3 else []
        if sources and chance.random() < (0.9 if self.kind == "joins" else 0.3):
            parts.append(self._join(sources))
            if chance.random() < 0.5:
                return ", ".join(parts)
        rule = chance.choice(RULES).format(one=self._condition(at), two=self._condition(at))
        return ", ".join([*parts, f"rules: [{rule}]"])

    def _join(self, sources: list[str]) -> str:
        chance = self.chance
        numbers = {source: chance.choice(("1", "1", "1", "2", "'{{ ctx.n | default(1) }}'")) for source in sources}
        need = chance.choice(("all", "1", str(chance.randint(1, len(sources)))))
        rest = chance.choice(("keep", "ignore", "block", "cancel"))
        places = ", ".join(f"{source}: {number}" for source, number in numbers.items())
        return f"join: {{from: {{{places}}}, need: {need}, rest: {rest}}}"


#: what is rare among random nets; each with a step run that depends on it
CORNERS = {
    "a gate that a later one opens is looked at in the next pass": ("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
- {step: a, spec: {policy: {admit: {rules: [{when: "{{ ctx.m is defined }}", then: {allow: true}}]}}}, tool: {kind: noop}}
- {step: b, spec: {policy: {admit: {rules: [{when: "{{ done('c') }}", then: {allow: true}}]}}}, set: {ctx.m: 1}, next: {arcs: [{step: d}]}}
- {step: c, tool: {kind: noop}}
- {step: d, tool: {kind: noop}}
""", "a"),
    "a plan in the middle of a pass": ("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: d}, {step: c}]}}
- {step: a, spec: {policy: {admit: {rules: [{when: "{{ ctx.m is defined }}", then: {allow: true}}]}}}, tool: {kind: noop}}
- {step: b, spec: {policy: {admit: {rules: [{when: "{{ done('c') }}", then: {allow: true}}]}}}, set: {ctx.m: 1}, next: {spec: {synthesize: {from: '{{ workload.plan }}'}}}}
- {step: c, tool: {kind: noop}}
- {step: d, spec: {policy: {admit: {rules: [{when: "{{ done('c') }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""", "made"),
    "a token that is admitted, parked after one that is not": ("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
- {step: a, next: {arcs: [{step: g}]}}
- {step: b, next: {arcs: [{step: g}]}}
- {step: c, tool: {kind: noop}}
- {step: g, spec: {policy: {admit: {rules: [{when: "{{ event.step == 'b' and done('c') }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""", "g"),
    "a join that waits for itself and cancels the rest": ("""
- {step: start, next: {arcs: [{step: g}]}}
- {step: g, spec: {policy: {admit: {join: {from: [start, g], need: 1, rest: cancel}}}}, tool: {kind: noop}, next: {arcs: [{step: g, when: '{{ ctx.n is undefined }}', set: {ctx.n: 1}}]}}
""", "g"),
}  # fmt: skip


@pytest.mark.parametrize("name", CORNERS)
def test_the_log_of_a_corner_is_the_same_too(name: str) -> None:
    steps, needed = CORNERS[name]
    text = f"{HEAD}workload: {{plan: [{{step: made, next: {{arcs: [{{step: a}}]}}}}]}}\nworkflow:{steps}"
    for seed in range(0, 40, 4):
        quick, _ = history(seed + 1, NetIndex, text)
        slow, _ = history(seed + 1, SlowNetIndex, text)
        assert quick == slow
        assert any(event.name == "step.done" and event.entity_id == needed for event in map(decode, quick))


def history(seed: int, index: type[NetIndex], text: str) -> tuple[list[bytes], Counter[str]]:
    """The log of a run, through whatever comes in between; and what its gates did."""
    made = House(net_of(text), seed=seed, tool=flaky, faults=0.1 * (seed % 3), index=index)
    made.signals = [Signal("s", seed, number=1), Signal("s", seed, number=2)]
    made._alive(made.start)
    chance = random.Random(seed)
    for _ in range(400):
        if made.state.over or not made._alive(made.tick):
            break
        if seed % 4 == 0 and chance.random() < 0.1:
            made.happen(chance.choice([Pause(), Resume()]))
    if not made.state.over:
        made.happen(Resume(), Cancel())
    events = made.events()
    return made.log, Counter(event.name if "waited_for" not in event.payload else "mutual gate" for event in events)


@pytest.mark.parametrize("start", range(0, NETS, PART))
def test_the_log_is_the_same_as_if_every_gate_were_asked_every_time(start: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(start, start + PART):
        text = RandomNet(seed).text()
        quick, did = history(seed, NetIndex, text)
        slow, _ = history(seed, SlowNetIndex, text)
        assert quick == slow, f"seed {seed}"
        seen += did
    assert seen["step.parked"] > PART
    assert seen["step.skipped"] > PART // 4
    assert seen["step.cancelled"] > 0

"""Dead joins of nets that nobody wrote: what is found at once is what is found by holding every pair against each other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

from thorough import up_to

from noetl.lang.loader import load
from noetl.model.graph import find_components, find_dominators
from noetl.model.net import Net
from noetl.tools.registry import ToolKinds

NodeId = str | tuple[str, int]
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"
KINDS = ToolKinds()
NETS = up_to(3_000, 600)


class SlowExclusions:
    """Holds each two steps against each other, walking up from both."""

    def __init__(self, net: Net) -> None:
        self.net = net
        nodes: list[NodeId] = [*net.steps]
        nodes += [(step.name, at) for step in net.steps.values() for at in range(len(step.router.arcs))]
        number = {node: at for at, node in enumerate(nodes)}
        graph = [[number[after] for after in self._following(node) if after in number] for node in nodes]
        dominators = find_dominators(graph, number[net.start])
        self.dominator = {node: nodes[above] for node, above in zip(nodes, dominators, strict=True) if above >= 0}
        self.in_circle = {nodes[at] for part in find_components(graph) if len(part) > 1 for at in part}
        steps = net.steps.values()
        self.splits = [one.name for one in steps if one.router.mode == "inclusive" and len(one.router.arcs) > 1]

    def _following(self, node: NodeId) -> list[NodeId]:
        if isinstance(node, str):
            return [(node, at) for at in range(len(self.net.steps[node].router.arcs))]
        return [self.net.steps[node[0]].router.arcs[node[1]].step or ""]

    def explain(self, names: list[str], step: str) -> str | None:
        known = sorted(name for name in names if name in self.dominator)
        for name in known:
            if name != step and step in self.above(name):
                return f"`{name}` runs only after it"
        for one, other in combinations(known, 2):
            if (chooser := self.chooser(one, other)) is not None:
                return f"`{chooser}` leads to `{one}` or to `{other}`, never to both"
        return None

    def above(self, node: NodeId) -> Iterator[NodeId]:
        while self.dominator[node] != node:
            node = self.dominator[node]
            yield node

    def chooser(self, one: str, other: str) -> str | None:
        arcs = {node[0]: node[1] for node in self.above(one) if isinstance(node, tuple)}
        for node in self.above(other):
            if isinstance(node, tuple) and arcs.get(node[0], node[1]) != node[1] and self.chooses_once(node[0]):
                return node[0]
        return None

    def chooses_once(self, name: str) -> bool:
        if self.net.steps[name].router.mode != "exclusive" or name in self.in_circle:
            return False
        above = set(self.above(name))
        return all(
            split not in above or any(isinstance(n, tuple) and n[0] == split for n in above) for split in self.splits
        )


def random_net(chance: random.Random) -> tuple[str, dict[str, list[str]]]:
    """A playbook of steps of which some wait for others, and for which."""
    count = chance.randint(3, 12)
    steps, waits = [], {}
    for at in range(count):
        targets = [chance.randrange(max(0, at - 1), count) for _ in range(chance.randint(0, 3))]
        arcs = [f"{{step: s{target}, when: '{{{{ ctx.n }}}}'}}" for target in targets]
        mode = chance.choice(["exclusive", "exclusive", "inclusive"])
        parts = [f"step: s{at}", "tool: {kind: noop}"]
        if arcs:
            parts.append(f"next: {{spec: {{mode: {mode}}}, arcs: [{', '.join(arcs)}]}}")
        if chance.random() < 0.5:
            waits[f"s{at}"] = names = [
                f"s{one}" for one in chance.sample(range(count), chance.randint(2, min(4, count)))
            ]
            asked = ", ".join(f"'{name}'" for name in names)
            parts.append(
                f'spec: {{policy: {{admit: {{rules: [{{when: "{{{{ all_done([{asked}]) }}}}", then: {{allow: true}}}}]}}}}}}'
            )
        steps.append(f"- {{{', '.join(parts)}}}\n")
    return HEAD + "".join(steps), waits


def test_the_steps_that_exclude_each_other_are_found_without_comparing_every_two() -> None:
    dead = 0
    for seed in range(NETS):
        text, waits = random_net(random.Random(seed))
        loaded = load(text, KINDS)
        assert loaded.net is not None, loaded.diagnostics
        slow = SlowExclusions(loaded.net)
        expected = {
            f"step `{name}` waits for ever: {why}"
            for name, names in waits.items()
            if name in slow.dominator and (why := slow.explain(names, name)) is not None
        }
        found = {one.message for one in loaded.diagnostics if one.code == "dead-join"}
        assert found == expected, f"seed {seed}"
        dead += len(found)
    assert dead > NETS // 4, "too few of the nets have a dead join to prove anything"

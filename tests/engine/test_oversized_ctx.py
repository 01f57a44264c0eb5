"""What is written to `ctx` travels with every order of the execution: wherever a `set` stands, it has a limit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from corpus import HEAD
from simulation import CATALOG, ROOT, Luck, Simulation

MOST = 1_000
LIMITED = f"executor: {{spec: {{policy: {{limits: {{max_payload_bytes: {MOST}}}}}}}}}\n"
LARGE = f"\"{{{{ 'x' * {MOST + 1} }}}}\""
MANY = f'"{{{{ [0] * {MOST} }}}}"'
DEEP = f"\"{{{{ {{'a': {{'b': ['x' * {MOST}]}}}} }}}}\""
FITS = f"\"{{{{ 'x' * {MOST - 2} }}}}\""
#: where a `set` stands → a playbook with one there
PLACES = {
    "task": "- {step: a, tool: {kind: noop, set: {ctx.x: VALUE}}}\n",
    "rule": "- {step: a, tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.x: VALUE}}}}]}}}}\n",
    "step": "- {step: a, tool: {kind: noop}, set: {ctx.x: VALUE}}\n",
    "arc": "- {step: a, tool: {kind: noop}, next: {arcs: [{step: b, set: {ctx.x: VALUE}}]}}\n- {step: b, tool: {kind: noop}}\n",
    "loop": "- {step: a, loop: {in: [1], iterator: n}, tool: {kind: noop, set: {ctx.x: VALUE}}}\n",
    "reducer": "- {step: a, loop: {in: [1], iterator: n, spec: {mode: parallel, policy: {reduce: {ctx.x: last}}}}, tool: {kind: noop, set: {ctx.x: VALUE}}}\n",
}


def run(place: str, value: str, home: Path) -> Simulation:
    text = HEAD + PLACES[place].replace("VALUE", value) + LIMITED
    source, loaded = CATALOG.read(Path("main.yaml"), text.encode())
    assert loaded.net is not None, loaded.diagnostics
    return Simulation(loaded.net, source, home, Luck()).run()


@pytest.mark.parametrize("value", [LARGE, MANY, DEEP], ids=["text", "list", "map"])
@pytest.mark.parametrize("place", PLACES)
def test_more_than_the_limit_fails_the_step_and_is_not_written(place: str, value: str, tmp_path: Path) -> None:
    made = run(place, value, tmp_path)
    assert made.state.status == "failed"
    assert made.state.error is not None
    assert made.state.error["kind"] == "payload-too-large"
    assert f"more than {MOST:,} bytes" in made.state.error["message"]
    assert "x" not in made.state.ctx
    assert all(len(msgspec.json.encode(event)) < 3 * MOST for event in made.log.read(ROOT))


@pytest.mark.parametrize("place", PLACES)
def test_what_is_just_within_the_limit_is_written(place: str, tmp_path: Path) -> None:
    made = run(place, FITS, tmp_path)
    assert made.state.status == "completed", made.state.error
    assert made.state.ctx["x"] == "x" * (MOST - 2)

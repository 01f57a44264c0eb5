"""A node under every kind of luck: order, duplicates, writes that fail, deaths at any write, each from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corpus import CONFLUENT, HEAD, RACES
from in_memory_node import outcome
from simulation import CATALOG, Fault, Luck, Simulation
from thorough import up_to

from noetl.model.requests import Signal

SEEDS = up_to(200, 12)
#: a snapshot after each event, after every second …, so that every state is gone on from
SNAPSHOTS = 7
LOADED = {name: CATALOG.read(Path("main.yaml"), (HEAD + text).encode()) for name, text in (CONFLUENT | RACES).items()}


def simulate(name: str, home: Path, **luck: Any) -> Simulation:
    """Run a playbook of the corpus to its end."""
    source, loaded = LOADED[name]
    assert loaded.net is not None, loaded.diagnostics
    requests = [Signal("go", {"n": 7}), Signal("go", {"n": 8})] if "signal" in name else []
    return Simulation(loaded.net, source, home, Luck(**luck), requests=requests).run()


@pytest.mark.parametrize("name", CONFLUENT)
def test_whatever_happens_in_between_the_outcome_is_the_same(name: str, tmp_path: Path) -> None:
    calm = simulate(name, tmp_path)
    for seed in range(1, SEEDS):
        stormy = simulate(name, tmp_path, seed=seed, faults=0.15, snapshot_every=1 + seed % SNAPSHOTS)
        assert outcome(stormy.state) == outcome(calm.state), f"seed {seed}"
        # An effect may repeat after a death, under the key it had; none has a second key, and none is missing.
        assert stormy.ledger == calm.ledger, f"seed {seed}"


@pytest.mark.parametrize("name", RACES)
def test_a_race_ends_soundly_whoever_wins(name: str, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        simulate(name, tmp_path, seed=seed, faults=0.15 if seed else 0, snapshot_every=1 + seed % SNAPSHOTS)


@pytest.mark.parametrize("kind", Fault.KINDS)
@pytest.mark.parametrize("name", CONFLUENT)
def test_a_fault_at_any_write_changes_nothing(name: str, kind: str, tmp_path: Path) -> None:
    calm = simulate(name, tmp_path)
    for point in range(1, calm.log.writes + 1):
        made = simulate(name, tmp_path, fault=Fault(point, kind), snapshot_every=1 + point % SNAPSHOTS)
        assert outcome(made.state) == outcome(calm.state), f"write {point} of {calm.log.writes}"
        assert made.ledger == calm.ledger, f"write {point}"
        # Reports that come together are written together: what threads of the result store do may save a write.
        assert made.lives == (1 if kind == "fails" else 2) or made.log.writes < point


def test_the_same_seed_makes_the_same_history(tmp_path: Path) -> None:
    first, second = (simulate("blocking rounds", tmp_path, seed=5, faults=0.3) for _ in range(2))
    assert first.log.read("x") == second.log.read("x")


def test_enough_was_simulated() -> None:
    assert (len(CONFLUENT) + len(RACES)) * SEEDS >= 500
    assert len(CONFLUENT) >= 20

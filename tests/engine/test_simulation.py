"""The engine and the pipelines under every kind of luck: order, duplicates, deaths, each from a seed."""

from __future__ import annotations

from typing import Any

import pytest
from corpus import CONFLUENT, HEAD, RACES
from house import House, Signal, flaky, net_of, outcome

SEEDS = 72
NETS = {name: net_of(HEAD + text) for name, text in (CONFLUENT | RACES).items()}


def house(name: str, **settings: Any) -> House:
    made = House(NETS[name], tool=flaky, **settings)
    made.signals = [Signal("go", {"n": 7}, number=1), Signal("go", {"n": 8}, number=2)] if "signal" in name else []
    return made


def effects(made: House) -> set[tuple[str, str]]:
    return set(made.ledger)


@pytest.mark.parametrize("name", CONFLUENT)
def test_whatever_happens_in_between_the_outcome_is_the_same(name: str) -> None:
    calm = house(name)
    expected = outcome(calm.run())
    assert calm.state.over
    for seed in range(1, SEEDS):
        stormy = house(name, seed=seed, faults=0.15)
        assert outcome(stormy.run()) == expected, f"seed {seed}"
        # An effect may repeat after a death, under the key it had; none has a second key, and none is missing.
        assert effects(stormy) == effects(calm), f"seed {seed}"


@pytest.mark.parametrize("name", RACES)
def test_a_race_ends_soundly_whoever_wins(name: str) -> None:
    for seed in range(SEEDS):
        stormy = house(name, seed=seed, faults=0.15 if seed else 0)
        assert stormy.run().over, f"seed {seed}"


@pytest.mark.parametrize("after_write", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", CONFLUENT)
def test_death_at_any_write_changes_nothing(name: str, after_write: bool) -> None:
    calm = house(name)
    expected = outcome(calm.run())
    for point in range(1, calm.writes + 1):
        made = house(name, die_at=point, after_write=after_write)
        assert outcome(made.run()) == expected, f"write {point} of {calm.writes}"
        assert effects(made) == effects(calm), f"write {point}"
        assert made.deaths == 1


def test_the_same_seed_makes_the_same_history() -> None:
    first, second = (house("blocking rounds", seed=5, faults=0.3) for _ in range(2))
    first.run()
    second.run()
    assert first.log == second.log


def test_enough_was_simulated() -> None:
    assert (len(CONFLUENT) + len(RACES)) * SEEDS >= 2_000
    assert len(CONFLUENT) >= 20

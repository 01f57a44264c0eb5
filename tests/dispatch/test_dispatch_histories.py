"""Whatever happens in whatever order, no pipeline is run under two live fences, and none is forgotten."""

from __future__ import annotations

import random

import pytest
from dispatch_world import World
from hypothesis import given, settings, strategies as st
from thorough import up_to

STEPS = 60
#: histories for each kind of process
MANY = up_to(50_000, 1_000)
#: each test goes through some of them, so that several processors can
PARTS = 10


def live(choose: object, *, local: bool, steps: int) -> None:
    """One history: faults in any order, and then peace."""
    world = World(choose, local=local)  # type: ignore[arg-type]
    world.check()
    for _ in range(steps):
        world.step()
        world.check()
    world.drain()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("local", [False, True], ids=["cluster", "one process"])
def test_every_history_ends_with_all_that_was_wanted_done_once(part: int, *, local: bool) -> None:
    for seed in range(part, MANY, PARTS):
        chance = random.Random(seed)
        try:
            live(lambda below, chance=chance: int(chance.random() * below), local=local, steps=STEPS)
        except BaseException as error:
            error.add_note(f"seed {seed}, local={local}")
            raise


@settings(max_examples=up_to(2_000, 50))
@given(st.lists(st.integers(0, 10**6), max_size=400), st.booleans())
def test_no_short_history_breaks_a_rule(numbers: list[int], local: bool) -> None:
    left = iter(numbers)
    chance = random.Random(len(numbers))
    live(lambda below: next(left, chance.randrange(10**6)) % below, local=local, steps=len(numbers) // 4)

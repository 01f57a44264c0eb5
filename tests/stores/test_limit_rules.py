"""The judgement behind limits: whatever is asked, given back and waited for, no limit is ever exceeded."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st

from noetl.model.wire import Ask, Cap, Pace
from noetl.stores.memory import MemorySlots, SharedSlots

PROCESSES = ("a", "b")
moves = st.lists(
    st.tuples(
        st.sampled_from(PROCESSES),
        st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
        st.sampled_from(["ask", "release", "pass"]),
    ),
    max_size=60,
)


class World:
    """Processes that share one ledger, and a clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        ledger = SharedSlots()
        self.slots = {name: MemorySlots(ledger, name, lambda _: True, lambda: self.now) for name in PROCESSES}

    def take(self, process: str, *asks: Ask) -> list[str]:
        return [one.verdict for one in asyncio.run(self.slots[process].take(asks))]

    def release(self, process: str, *numbers: int) -> None:
        asyncio.run(self.slots[process].release([holder(number) for number in numbers]))


def holder(number: int) -> tuple[str, str, None]:
    return f"x{number}", "a-1", None


def ask(number: int, limit: int = 1, on_limit: Any = "queue", key: str = "k", pace: Pace | None = None) -> Ask:
    return Ask(holder(number), Cap(key, limit, on_limit), pace)


@given(moves, st.integers(1, 4))
@settings(deadline=None, max_examples=150)
def test_there_are_never_more_holders_than_the_limit_nor_more_starts_in_any_period(moves: Any, limit: int) -> None:
    world, held, starts = World(), set(), []
    for process, numbers, what in moves:
        world.now += 0.07
        if what == "ask":
            asks = [ask(number, limit, pace=Pace("p", limit + 1, 1.0)) for number in numbers]
            for number, verdict in zip(numbers, world.take(process, *asks), strict=True):
                if verdict == "granted" and number not in held:
                    held.add(number)
                    starts.append(world.now)
        elif what == "release":
            world.release(process, *numbers)
            held.difference_update(numbers)
        else:
            world.now += 0.5
        assert len(held) <= limit
        assert all(sum(at <= one < at + 1.0 for one in starts) <= limit + 1 for at in starts)


@given(st.permutations(range(6)), st.integers(1, 3))
@settings(deadline=None, max_examples=50)
def test_everybody_who_goes_on_asking_is_served_whoever_is_quicker(order: list[int], limit: int) -> None:
    world = World()
    process = {number: PROCESSES[number % 2] for number in range(6)}
    served: list[int] = []
    for _ in range(20):
        for number in order:
            world.now += 0.01
            if number not in served and world.take(process[number], ask(number, limit)) == ["granted"]:
                served.append(number)
                world.release(process[number], number)
    assert sorted(served) == list(range(6))


def test_who_holds_a_slot_gets_it_again() -> None:
    world = World()
    assert world.take("a", ask(1)) == ["granted"]
    assert world.take("b", ask(2), ask(1)) == ["wait", "granted"]


def test_behind_one_that_waits_for_a_key_others_with_that_key_wait_and_others_do_not() -> None:
    world = World()
    assert world.take("a", ask(1)) == ["granted"]
    late = Pace("p", 1, 5.0)
    assert world.take("a", ask(2, pace=late), ask(3, key="other", pace=late)) == ["wait", "granted"]


def test_a_process_that_has_waited_longer_is_not_passed_over() -> None:
    world = World()
    assert world.take("a", ask(1)) == ["granted"]
    assert world.take("b", ask(2)) == ["wait"]
    world.now += 0.1
    assert world.take("a", ask(3)) == ["wait"]
    world.release("a", 1)
    assert world.take("a", ask(3)) == ["wait"]
    assert world.take("b", ask(2)) == ["granted"]


def test_a_process_that_no_longer_asks_is_passed_over() -> None:
    world = World()
    assert world.take("a", ask(1)) == ["granted"]
    assert world.take("b", ask(2)) == ["wait"]
    world.release("a", 1)
    world.now += 2
    assert world.take("a", ask(3)) == ["granted"]


def test_cancel_new_refuses_and_never_waits() -> None:
    world = World()
    assert world.take("a", ask(1, on_limit="cancel_new"), ask(2, on_limit="cancel_new")) == ["granted", "refused"]


def test_cancel_running_names_the_oldest_and_waits_until_they_have_left() -> None:
    world = World()
    assert world.take("a", ask(1, 2), ask(2, 2)) == ["granted", "granted"]
    newest = ask(3, 2, "cancel_running")
    (answer,) = asyncio.run(world.slots["b"].take([newest]))
    assert (answer.verdict, answer.victims) == ("wait", (holder(1),))
    assert asyncio.run(world.slots["b"].take([newest]))[0].victims == (holder(1),)
    assert world.take("a", ask(1, 2)) == ["displaced"]
    world.release("a", 1)
    assert world.take("b", newest) == ["granted"]


def test_what_is_under_way_already_holds_its_slot_whatever_the_limit() -> None:
    world = World()
    assert world.take("a", ask(1)) == ["granted"]
    assert world.take("b", Ask(holder(2), Cap("k", 1), sure=True)) == ["granted"]
    world.release("a", 1)
    assert world.take("a", ask(3)) == ["wait"]

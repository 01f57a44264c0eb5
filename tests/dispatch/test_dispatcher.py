"""What a dispatcher counts, and what its table must have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dispatch_world import net

from noetl.dispatch import Dispatcher, State
from noetl.dispatch.moves import DeadLetter, Give, Hint, Wake
from noetl.dispatch.table import ACTIONS, TABLE, Input
from noetl.model.events import Fact
from noetl.model.orders import RunPipeline
from noetl.model.wire import PipelineReport

ORDER = RunPipeline("free-1", "free", None, {})
KEY = ("x", "free-1", None)


def execution() -> Any:
    return SimpleNamespace(id="x", net=net())


def server() -> Dispatcher:
    """A server that has one pipeline to give out."""
    made = Dispatcher(lambda _execution, order: order, name="s")
    made.order(execution(), ORDER, paused=False)
    return made


def given_to(dispatcher: Dispatcher, name: str, now: float = 0.0) -> Give:
    (give,) = dispatcher.take(dispatcher.update_worker(name, [], 5), now=now)
    return give


def test_the_fifth_death_makes_a_dead_letter_and_the_third_worker_runs_it_alone() -> None:
    dispatcher = server()
    alone = []
    for number in range(4):
        alone.append(given_to(dispatcher, f"w{number}").alone)
        assert not any(isinstance(one, DeadLetter) for one in dispatcher.lose_worker(f"w{number}"))
    given_to(dispatcher, "w4")
    (letter,) = [one for one in dispatcher.lose_worker("w4") if isinstance(one, DeadLetter)]
    assert (letter.key, letter.worker, letter.tries) == (KEY, "w4", 5)
    assert alone == [False, False, True, True]
    assert dispatcher.find(KEY) is None


def test_a_pipeline_that_made_progress_is_not_blamed_for_earlier_deaths() -> None:
    dispatcher = server()
    for number in range(20):
        name = f"w{number}"
        give = given_to(dispatcher, name)
        dispatcher.report(name, PipelineReport(*KEY, give.fence, [Fact("task.done", "free-1", {})]), now=0.0)
        assert not any(isinstance(one, DeadLetter) for one in dispatcher.lose_worker(name))


def test_what_had_not_begun_at_a_worker_that_died_is_not_blamed() -> None:
    dispatcher = server()
    for number in range(20):
        given_to(dispatcher, f"w{number}")
        dispatcher.workers[f"w{number}"].slots = 0
        assert not any(isinstance(one, DeadLetter) for one in dispatcher.lose_worker(f"w{number}"))


def test_a_pipeline_that_never_arrives_is_given_up_in_the_end() -> None:
    dispatcher = server()
    letters: list[Any] = []
    while not letters:
        given_to(dispatcher, "w", now=1.0)
        moves = dispatcher.compare(dispatcher.workers["w"], set(), before=2.0, now=3.0)
        letters = [one for one in moves if isinstance(one, DeadLetter)]
    assert letters[0].tries == 100


def test_a_report_under_a_stale_fence_is_refused_and_changes_nothing() -> None:
    dispatcher = server()
    stale = given_to(dispatcher, "old").fence
    dispatcher.lose_worker("old")
    fresh = given_to(dispatcher, "new").fence
    for name, fence in (("old", stale), ("new", stale), ("old", fresh)):
        assert dispatcher.holds(name, PipelineReport(*KEY, fence, last=True)) is None
    entry = dispatcher.holds("new", PipelineReport(*KEY, fresh, last=True))
    assert entry is not None
    assert (entry.state, entry.worker, entry.fence) == (State.GIVEN, "new", fresh)


def test_a_worker_that_waits_is_woken_and_otherwise_a_hint_is_published_once_in_a_while() -> None:
    dispatcher = Dispatcher(lambda _execution, order: order, name="s")
    orders = [RunPipeline(f"free-{number}", "free", None, {}) for number in range(4)]
    assert [*dispatcher.order(execution(), orders[0], paused=False, now=1.0)] == [Hint("default")]
    assert [*dispatcher.order(execution(), orders[1], paused=False, now=1.1)] == []
    worker = dispatcher.update_worker("w", [], 9)
    worker.waits = True
    assert [*dispatcher.order(execution(), orders[2], paused=False, now=1.2)] == [Wake("w")]
    assert not worker.waits
    assert [*dispatcher.order(execution(), orders[3], paused=False, now=1.3)] == [Hint("default")]


def test_every_state_can_be_reached_and_left_and_every_input_means_something() -> None:
    assert {state for one in TABLE.values() for state in one.to} == {*State} - {State.NEW}
    assert {state for state, _ in TABLE} == {*State} - {State.SETTLED}
    assert {happened for _, happened in TABLE} == {*Input}
    assert sum(map(len, ACTIONS.values())) == len(TABLE)

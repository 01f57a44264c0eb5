"""What a dispatcher counts, and what its table must have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dispatch_world import counted, net

from noetl.dispatch import Dispatcher, State
from noetl.dispatch.actions import group_of
from noetl.dispatch.entry import MOST_HOMES, ExecutionRecord
from noetl.dispatch.moves import DeadLetter, Give, Hint, Wake
from noetl.dispatch.table import ACTIONS, TABLE, Input
from noetl.lang import load_bytes
from noetl.model.events import Fact
from noetl.model.orders import RunPipeline
from noetl.model.wire import PipelineReport
from noetl.tools.registry import ToolKinds

ORDER = RunPipeline("free-1", "free", None, {})
KEY = ("x", "free-1", None)


def execution() -> Any:
    return SimpleNamespace(id="x", net=net())


def server() -> Dispatcher:
    """A server that has one pipeline to give out."""
    made = Dispatcher(lambda _execution, order: order, name="s", new_secret=counted())
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
    dispatcher = Dispatcher(lambda _execution, order: order, name="s", new_secret=counted())
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


# --- pipelines that stay with one worker -------------------------------------------------------------------------------


def local_server(*orders: RunPipeline) -> Dispatcher:
    made = Dispatcher(lambda _execution, order: order, name="s", new_secret=counted())
    for order in orders:
        made.order(local(), order, paused=False)
    return made


def local() -> Any:
    return SimpleNamespace(id="x", net=net("local"))


def orders(many: int) -> list[RunPipeline]:
    return [RunPipeline(f"free-{at}", "free", None, {}) for at in range(many)]


def taken(dispatcher: Dispatcher, name: str, room: int = 5) -> list[str]:
    worker = dispatcher.update_worker(name, [], room)
    found = [one.key[1] for one in dispatcher.take(worker, now=0.0)]
    dispatcher.leave(worker, came_for_work=True, now=0.0)
    return found


def test_the_pipelines_of_a_local_execution_all_go_to_the_worker_that_got_the_first() -> None:
    dispatcher = local_server(*orders(3))
    dispatcher.update_worker("b", [], 5)
    first = taken(dispatcher, "a", room=1)
    assert first == ["free-0"]
    assert taken(dispatcher, "b") == []
    dispatcher.order(local(), RunPipeline("free-9", "free", None, {}), paused=False)
    assert taken(dispatcher, "b") == []
    assert taken(dispatcher, "a") == ["free-1", "free-2", "free-9"]


def test_the_worker_that_waits_is_woken_for_what_must_stay_with_it() -> None:
    dispatcher = local_server(*orders(2))
    assert taken(dispatcher, "a", room=1) == ["free-0"]
    dispatcher.workers["a"].room, dispatcher.workers["a"].waits = 5, True
    other = dispatcher.update_worker("b", [], 5)
    assert dispatcher.take(other, now=0.0) == []
    assert Wake("a") in dispatcher.leave(other, came_for_work=True, now=0.0)


def test_when_that_worker_dies_another_one_gets_them_all() -> None:
    dispatcher = local_server(*orders(3))
    assert taken(dispatcher, "a", room=1) == ["free-0"]
    assert taken(dispatcher, "b") == []
    dispatcher.lose_worker("a")
    assert sorted(taken(dispatcher, "b")) == ["free-0", "free-1", "free-2"]
    assert taken(dispatcher, "c") == []


def test_a_worker_that_leaves_and_returns_its_work_gives_up_the_rest_too() -> None:
    dispatcher = local_server(*orders(2))
    (give,) = dispatcher.take(dispatcher.update_worker("a", [], 1), now=0.0)
    assert taken(dispatcher, "b") == []
    dispatcher.report("a", PipelineReport(*give.key, give.fence, returned=True), now=0.0)
    assert sorted([*taken(dispatcher, "b"), *taken(dispatcher, "b")]) == ["free-0", "free-1"]


def test_a_step_of_a_pool_that_the_worker_does_not_serve_goes_to_one_that_does() -> None:
    dispatcher = local_server(ORDER, RunPipeline("urgent-1", "urgent", None, {}))
    assert taken(dispatcher, "a") == ["free-1"]
    assert [one.key[1] for one in dispatcher.take(dispatcher.update_worker("g", ["gpu"], 5), now=0.0)] == ["urgent-1"]


def test_after_a_step_of_another_pool_the_execution_is_still_with_its_first_worker() -> None:
    dispatcher = local_server(ORDER)
    assert taken(dispatcher, "a") == ["free-1"]
    for number in range(2):
        dispatcher.order(local(), RunPipeline(f"urgent-{number}", "urgent", None, {}), paused=False)
        worker = dispatcher.update_worker(f"g{number}", ["gpu"], 5)
        assert len(dispatcher.take(worker, now=0.0)) == (number == 0), (
            "it stays with the first worker of that pool, too"
        )
        dispatcher.order(local(), RunPipeline(f"free-{number + 2}", "free", None, {}), paused=False)
        assert taken(dispatcher, "b") == []
        assert taken(dispatcher, "a") == [f"free-{number + 2}"]


def test_the_homes_of_inner_loops_that_ended_do_not_pile_up() -> None:
    record = ExecutionRecord("x")
    for outer in range(MOST_HOMES + 5):
        record.settle_in(("loop-1", outer), "a")
    assert len(record.homes) == MOST_HOMES
    assert ("loop-1", MOST_HOMES + 4) in record.homes


def test_iterations_of_a_loop_with_exec_local_stay_together_and_those_of_others_do_not() -> None:
    text = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loops}
workflow:
- {step: near, loop: {in: [1], iterator: x, spec: {policy: {exec: local}}}, tool: {kind: noop}}
- {step: far, loop: {in: [1], iterator: x}, tool: {kind: noop}}
- step: inner
  loop: {in: [1], iterator: x, loop: {in: [1], iterator: y, spec: {policy: {exec: local}}}}
  tool: {kind: noop}
"""
    loaded = load_bytes(text, ToolKinds())
    assert loaded.net is not None
    assert group_of(loaded.net, RunPipeline("near-1", "near", 4, {})) == ("near-1",)
    assert group_of(loaded.net, RunPipeline("far-1", "far", 4, {})) is None
    assert group_of(loaded.net, RunPipeline("inner-1", "inner", "2.0", {})) == ("inner-1", 2)
    assert group_of(loaded.net, RunPipeline("inner-1", "inner", None, {})) is None


def test_an_answer_that_did_not_reach_its_worker_is_not_lost_to_a_repeated_order() -> None:
    """The engine may repeat an order while the worker has one with an answer, which dispatch hears only once."""
    dispatcher = Dispatcher(
        lambda _execution, order: order if order.answer is not None else None, name="s", new_secret=counted()
    )
    dispatcher.order(execution(), RunPipeline("free-1", "free", None, {}, answer={"status": "ok"}), paused=False)
    given_to(dispatcher, "w", now=1.0)
    dispatcher.order(execution(), ORDER, paused=False)
    dispatcher.compare(dispatcher.workers["w"], set(), before=2.0, now=3.0)
    assert given_to(dispatcher, "w", now=3.0).order.answer == {"status": "ok"}

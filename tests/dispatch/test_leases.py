"""Leases of single pipelines: heartbeats renew them, silence ends them, and a server that stood still ends none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dispatch_world import counted, net
from hypothesis import given, settings, strategies as st
from thorough import up_to

from noetl.dispatch import Dispatcher, HeldAssignment, State, WorkerQueue
from noetl.dispatch.ledger import MOST_UNHEARD_S
from noetl.dispatch.moves import DeadLetter, Give, StopAt
from noetl.dispatch.placement import lease_of, protocol_of
from noetl.lang import load_bytes
from noetl.model.events import Fact
from noetl.model.orders import RunPipeline
from noetl.model.wire import PROTOCOL, Lease, PipelineReport, WorkAssignment
from noetl.tools.registry import ToolKinds

KEY = ("x", "leased-1", None)
TTL_S = 3.0


def ordered(*steps: str, local: str | None = None) -> Dispatcher:
    """A server with a pipeline of each step."""
    made = Dispatcher(lambda _execution, order: order, name="s", new_secret=counted(), local=local)
    execution: Any = SimpleNamespace(id="x", net=net())
    for step in steps:
        made.order(execution, RunPipeline(f"{step}-1", step, None, {}), paused=False)
    return made


def given_to(dispatcher: Dispatcher, name: str, *, now: float = 0.0) -> list[Give]:
    return dispatcher.take(dispatcher.update_worker(name, [], 9, PROTOCOL), now=now)


def listened(dispatcher: Dispatcher, until: float, *, since: float = 0.0) -> list[Any]:
    """Look at the leases as often as a server does; all moves of that."""
    moves: list[Any] = []
    while since < until:
        since = min(until, since + MOST_UNHEARD_S / 4)
        moves += dispatcher.expire_leases(now=since)
    return moves


def test_an_order_of_a_step_with_a_lease_carries_it_and_another_order_carries_none() -> None:
    leases = {give.order.step: give.lease for give in given_to(ordered("leased", "free"), "w")}
    assert leases == {"leased": Lease(3.0, 1.0), "free": None}


def test_what_no_heartbeat_names_in_time_is_stopped_and_given_to_another_worker() -> None:
    dispatcher = ordered("leased", "free")
    stale = {give.order.step: give.fence for give in given_to(dispatcher, "frozen")}
    assert listened(dispatcher, TTL_S) == []
    moves = listened(dispatcher, TTL_S + 0.25, since=TTL_S)
    assert StopAt("frozen", KEY, stale["leased"]) in moves
    (give,) = given_to(dispatcher, "other")
    assert (give.key, give.worker) == (KEY, "other"), "the other pipeline has the lease of its worker, which is alive"
    late = PipelineReport(*KEY, stale["leased"], [Fact("task.done", "leased-1", {})], last=True)
    assert dispatcher.holds("frozen", late) is None
    dispatcher.report("frozen", late, now=9.0)
    entry = dispatcher.find(KEY)
    assert entry is not None
    assert (entry.state, entry.worker) == (State.GIVEN, "other")


@settings(max_examples=up_to(2_000, 100))
@given(st.lists(st.tuples(st.sampled_from("bnt"), st.sampled_from([0.1, 0.3, 0.5, 1.0, 2.0, 50.0])), max_size=60))
def test_a_lease_runs_out_exactly_when_the_server_has_listened_for_its_time_in_vain(steps: list[Any]) -> None:
    """`b`: a heartbeat that names it, `n`: one that does not, `t`: a look at the leases; each after so many seconds."""
    dispatcher = ordered("leased")
    (give,) = given_to(dispatcher, "w", now=0.0)
    now = silence = since_look = 0.0
    for what, seconds in steps:
        now, since_look = now + seconds, since_look + seconds
        if what == "b":
            dispatcher.hear("w", {(give.key, give.fence)}, now=now)
            silence = -min(since_look, MOST_UNHEARD_S)
        elif what == "n":
            dispatcher.hear("w", {(("x", "free-1", None), give.fence), (give.key, "an older fence")}, now=now)
            dispatcher.hear("another", {(give.key, give.fence)}, now=now)
        else:
            silence, since_look = silence + min(since_look, MOST_UNHEARD_S), 0.0
            expired = any(isinstance(one, StopAt) for one in dispatcher.expire_leases(now=now))
            if abs(silence - TTL_S) > 1e-6:
                assert expired == (silence > TTL_S)
            if expired:
                return


def test_a_server_that_stood_still_expires_nothing_before_it_has_listened_again() -> None:
    dispatcher = ordered("leased")
    given_to(dispatcher, "w")
    listened(dispatcher, 1.0)
    assert dispatcher.expire_leases(now=3600.0) == []
    assert listened(dispatcher, 3600.9, since=3600.0) == []
    assert listened(dispatcher, 3602.0, since=3600.9)


def test_a_worker_that_is_silent_keeps_what_has_a_longer_lease_and_loses_the_rest() -> None:
    dispatcher = ordered("kept", "free")
    request = dispatcher.slot_requests()[0]
    dispatcher.answer_slot(request, SimpleNamespace(verdict="granted"), now=0.0)  # type: ignore[arg-type]
    fences = {give.order.step: give.fence for give in given_to(dispatcher, "w")}
    moves = dispatcher.note_silence("w", now=1.0)
    assert StopAt("w", ("x", "free-1", None), fences["free"]) in moves
    assert [give.order.step for give in given_to(dispatcher, "other")] == ["free"]
    assert dispatcher.holds("w", PipelineReport("x", "kept-1", None, fences["kept"])) is not None
    assert dispatcher.note_silence("w", now=2.0) == []
    dispatcher.lose_worker("w")
    assert [give.order.step for give in given_to(dispatcher, "other")] == ["kept"]


def test_a_silent_worker_is_given_nothing_until_it_asks_again() -> None:
    dispatcher = ordered("leased")
    worker = dispatcher.update_worker("w", [], 9, PROTOCOL)
    dispatcher.note_silence("w", now=1.0)
    assert dispatcher.take(worker, now=1.0) == []
    assert len(given_to(dispatcher, "w")) == 1


def test_a_lease_that_runs_out_five_times_makes_a_dead_letter() -> None:
    dispatcher = ordered("leased")
    letters: list[Any] = []
    for number in range(5):
        assert not letters
        now = 100.0 * number
        listened(dispatcher, now, since=now - 0.5)
        given_to(dispatcher, f"w{number}", now=now)
        letters = [one for one in listened(dispatcher, now + 5, since=now) if isinstance(one, DeadLetter)]
    assert (letters[0].worker, letters[0].tries) == ("w4", 5)
    assert letters[0].why == "no heartbeat of worker w4 named it for 3 s"


def test_what_had_not_begun_when_its_lease_ran_out_is_not_blamed() -> None:
    dispatcher = ordered("leased")
    for number in range(20):
        now = 100.0 * number
        listened(dispatcher, now, since=now - 0.5)
        given_to(dispatcher, "w", now=now)
        dispatcher.workers["w"].slots = 0
        assert not any(isinstance(one, DeadLetter) for one in listened(dispatcher, now + 5, since=now))


def test_an_adopted_pipeline_begins_its_lease_at_the_take_over() -> None:
    before, after = ordered("leased"), Dispatcher(lambda _execution, order: order, name="t", new_secret=counted())
    (give,) = given_to(before, "w")
    listened(after, 100.0)
    held = SimpleNamespace(key=KEY, worker="w", fence=give.fence, tries=0)
    after.inherit("x", [held])  # type: ignore[list-item]
    after.order(
        SimpleNamespace(id="x", net=net()), RunPipeline("leased-1", "leased", None, {}), paused=False, now=100.0
    )  # type: ignore[arg-type]
    assert listened(after, 100.0 + TTL_S, since=100.0) == []
    assert StopAt("w", KEY, give.fence) in listened(after, 100.5 + TTL_S, since=100.0 + TTL_S)


def test_in_one_process_there_is_nothing_to_expire() -> None:
    dispatcher = ordered("leased", local="here")
    assert dispatcher.leased == {}
    assert listened(dispatcher, 100.0) == []
    entry = dispatcher.find(KEY)
    assert entry is not None
    assert entry.state is State.GIVEN


# --- what a worker understands -----------------------------------------------------------------------------------------

BOOK = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: it}
workflow:
- {step: plain, tool: {kind: noop}, spec: {policy: {compensation: {kind: noop}}}}
- {step: leased, tool: {kind: noop}, spec: {lease: {ttl_s: 30}}}
- {step: before, tool: {kind: noop}, spec: {policy: {before: [{kind: noop}]}}}
- {step: after, tool: {kind: noop}, spec: {policy: {after: [{kind: noop}]}}}
- {step: finally, tool: {kind: noop}, spec: {policy: {finally: [{kind: noop}]}}}
"""


def needed(step: str, **more: Any) -> int:
    loaded = load_bytes(BOOK, ToolKinds())
    assert loaded.net is not None
    return protocol_of(loaded.net.steps[step], RunPipeline(f"{step}-1", step, None, {}, **more))


def test_orders_that_an_older_worker_would_run_wrongly_need_a_newer_one() -> None:
    assert needed("plain") == 0
    assert needed("plain", undoes=7) == 1, "it would run the step again"
    assert needed("plain", closing={"status": "ok"}) == 1, "it would run the step again"
    assert needed("plain", unfolds=True) == 1, "it would run an iteration that has not been counted"
    assert [needed(step) for step in ("leased", "before", "after", "finally")] == [1, 1, 1, 1]
    assert PROTOCOL == 1


@pytest.mark.parametrize("value", [0.5, 86_401, True, "5", None, [], float("nan")])
def test_a_lease_that_this_version_would_refuse_is_that_of_the_cluster(value: Any) -> None:
    """An execution that an earlier version started was not checked."""
    step: Any = SimpleNamespace(spec={"lease.ttl_s": SimpleNamespace(value=value)})
    assert lease_of(step) is None


def test_an_older_worker_is_given_only_what_it_understands() -> None:
    dispatcher = ordered("leased", "free")
    old = dispatcher.update_worker("old", [], 9)
    assert [give.order.step for give in dispatcher.take(old, now=0.0)] == ["free"]
    assert [give.order.step for give in given_to(dispatcher, "new")] == ["leased"]
    newest = dispatcher.update_worker("newest", [], 9, PROTOCOL + 5)
    assert newest.protocol == PROTOCOL


def test_older_workers_do_not_call_each_other_for_what_none_of_them_understands() -> None:
    dispatcher = ordered("leased")
    first, second = (dispatcher.update_worker(name, [], 9) for name in ("first", "second"))
    first.waits = second.waits = True
    moves = list(dispatcher.leave(first, came_for_work=True, now=1.0))
    moves += dispatcher.leave(second, came_for_work=True, now=1.1)
    assert len(moves) == 1, "one hint, and nobody is woken"
    assert first.waits
    assert second.waits
    new = dispatcher.update_worker("new", [], 9, PROTOCOL)
    new.waits = True
    dispatcher.leave(first, came_for_work=True, now=2.0)
    assert not new.waits


def test_the_reason_for_waiting_says_that_the_workers_are_too_old() -> None:
    from noetl.dispatch import waits

    dispatcher = ordered("leased")
    dispatcher.update_worker("old", [], 9)
    (why,) = waits(dispatcher, "x")
    assert why == (
        "1 pipeline waits for a worker of pool `default`: "
        "all that are there are of an older version, which cannot run this; upgrade one"
    )


# --- at the worker -----------------------------------------------------------------------------------------------------


def holding(queue: WorkerQueue, name: str, lease: Lease | None, fence: str = "f") -> HeldAssignment:
    held = HeldAssignment("link", WorkAssignment("x", RunPipeline(name, "s", None, {}), fence, lease=lease), None, {})
    queue.assign(held)
    return held


def test_a_worker_lets_go_of_each_pipeline_when_nobody_has_heard_it_for_the_time_of_its_lease() -> None:
    queue = WorkerQueue(slots=9)
    short, long = Lease(2.0, 0.5), Lease(90.0, 30.0)
    a, b, c = (holding(queue, name, lease) for name, lease in (("a", short), ("b", None), ("c", long)))
    assert queue.leases() == [short, long]
    for silence_s, gone in ((1.9, []), (2.1, [a]), (29.9, [a]), (30.1, [a, b]), (90.0, [a, b]), (90.1, [a, b, c])):
        assert queue.expired(silence_s, 30.0) == [one.key for one in gone], silence_s


def test_what_waits_for_an_earlier_assignment_counts_and_what_only_puts_its_tools_away_does_not() -> None:
    queue = WorkerQueue(slots=9)
    first = holding(queue, "a", Lease(2.0, 0.5))
    assert queue.next(0.0) is first
    following = holding(queue, "a", Lease(5.0, 1.0), "g")
    assert queue.leases() == [Lease(2.0, 0.5), Lease(5.0, 1.0)]
    assert queue.expired(6.0, 30.0) == [first.key], "once, though it was given twice"
    queue.drop(first.key, first.fence, runs=True, now=1.0)
    assert queue.leases() == [Lease(5.0, 1.0)]
    assert queue.expired(4.0, 30.0) == []
    assert queue.expired(6.0, 30.0) == [following.key]

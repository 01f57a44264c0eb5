"""A worker's queue: whatever servers and runners do, each pipeline has one runner, and every assignment is accounted for."""

from __future__ import annotations

import random

from dispatch_world import Execution, counted
from thorough import up_to

from noetl.dispatch import Dispatcher
from noetl.dispatch.worker_queue import (
    WORKER_TABLE,
    AskAll,
    HeldAssignment,
    RunAlone,
    SayLast,
    Send,
    StopRun,
    WorkerInput,
    WorkerMoves,
    WorkerQueue,
    WorkerState,
)
from noetl.model.orders import RunPipeline
from noetl.model.wire import Key, WorkAssignment

MANY = up_to(100_000, 1_000)
STEPS = 60


class Bench:
    """A worker process around a queue: runners, and servers that give, take away and refuse."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.queue = WorkerQueue(slots=2)
        self.now, self.fences = 0.0, 0
        #: what a runner runs, and whether it was told to stop
        self.runners: dict[Key, tuple[HeldAssignment, bool]] = {}
        self.unsaid: list[HeldAssignment] = []
        self.posted: list[HeldAssignment] = []
        #: all that was given, the latest last
        self.given: list[HeldAssignment] = []
        self.alone: list[HeldAssignment] = []
        #: fences that were given and of which the servers have not heard the end, nor taken them away
        self.owed: set[str] = set()

    def carry_out(self, moves: WorkerMoves) -> None:
        for move in moves:
            if isinstance(move, Send):
                assert move.report.returned or move.report.broken
                self.owed.discard(move.report.fence)
            elif isinstance(move, SayLast):
                self.unsaid.append(move.held)
            elif isinstance(move, StopRun):
                self.runners[move.key] = (self.runners[move.key][0], True)
            elif isinstance(move, RunAlone):
                self.alone.append(move.held)
            else:
                assert isinstance(move, AskAll)

    def assign(self) -> None:
        self.fences += 1
        order = RunPipeline(f"r{self.chance.randrange(4)}", "s", None, {})
        fence = f"f{self.fences}"
        before = self.queue.held.get(("x", order.step_run_id, None))
        if before is not None and before.following is not None:
            self.owed.discard(before.following.fence)  # the server has given it up, or it would not give it again
        alone = self.chance.random() < 0.1
        self.owed.add(fence)
        held = HeldAssignment("link", WorkAssignment("x", order, fence, alone=alone), None, {})
        self.given.append(held)
        self.carry_out(self.queue.assign(held))

    def pump(self) -> None:
        held = self.queue.next(self.now)
        if held is not None:
            self.begin(held)

    def begin(self, held: HeldAssignment) -> None:
        assert self.queue.held.get(held.key) is held
        assert held.key not in self.runners, "two runners of one pipeline"
        fate = self.chance.random()
        if fate < 0.15:
            self.carry_out(self.queue.give_back(held, self.now))
        elif fate < 0.3:  # it ends at once, and its last report is on its way
            self.queue.on_posted(held)
            self.posted.append(held)
            self.carry_out(self.queue.on_runner_end(held.key, self.now))
        else:
            self.runners[held.key] = (held, False)

    def run_alone(self) -> None:
        if self.alone and (not self.queue.running or self.chance.random() < 0.2):
            held = self.alone.pop()
            if self.queue.start_alone(held, self.now):
                self.begin(held)

    def end(self) -> None:
        """A runner ends: stopped, broken, with its last report told before, or without a word."""
        if not self.runners:
            return
        key = self.chance.choice(list(self.runners))
        held, stopped = self.runners.pop(key)
        fate = 1.0 if stopped else self.chance.random()
        if fate < 0.2:
            self.carry_out(self.queue.break_off(held, "it broke", self.now))
            return
        if fate < 0.8:
            self.queue.on_last_report(held)
            self.owed.discard(held.fence)
        self.carry_out(self.queue.on_runner_end(key, self.now))

    def drop(self) -> None:
        if self.queue.held:
            held = self.chance.choice(list(self.queue.held.values()))
            named = self.chance.random() < 0.5
            self.owed.discard(held.fence)
            if not named and held.following is not None:
                self.owed.discard(held.following.fence)
            runs = held.key in self.runners
            fence = held.fence if named else None
            self.carry_out(self.queue.drop(held.key, fence, runs=runs, now=self.now))

    def stop_late(self) -> None:
        """A server has stopped an assignment, and the worker hears of it after others of the same pipeline."""
        if self.given:
            stopped = self.chance.choice(self.given)
            held = self.queue.held.get(stopped.key)
            self.owed.discard(stopped.fence)
            if held is not None and held.following is stopped:
                self.owed.discard(held.fence)  # it is older, so its server has given it up before
            runs = stopped.key in self.runners
            self.carry_out(self.queue.drop(stopped.key, stopped.fence, runs=runs, now=self.now))

    def tell(self) -> None:
        if self.unsaid:
            held = self.unsaid.pop(self.chance.randrange(len(self.unsaid)))
            self.owed.discard(held.fence)
            self.carry_out(self.queue.on_end_reported(held, self.now))

    def hear(self) -> None:
        """What became of a last report that nobody waited for: it is durable, goes again, or no server takes it."""
        if self.posted and self.chance.random() < 0.7:
            held = self.posted.pop(self.chance.randrange(len(self.posted)))
            self.owed.discard(held.fence)
            if self.chance.random() < 0.2:
                self.carry_out(self.queue.break_off(held, "it was rejected", self.now))
            else:
                self.carry_out(self.queue.on_end_reported(held, self.now))

    def drain(self) -> None:
        if self.chance.random() < 0.1:
            self.carry_out(self.queue.drain(self.now))

    def check(self) -> None:
        queue = self.queue
        assert queue.running == sum(1 for one in queue.held.values() if one.begun is not None)
        assert queue.running <= queue.slots + (queue.alone is not None)
        queued = {id(one) for one in queue.waiting}
        for key, held in queue.held.items():
            assert held.key == key
            assert held.state not in (WorkerState.NEW, WorkerState.GONE)
            assert (held.begun is None) or held.state is not WorkerState.QUEUED
            if held.state is WorkerState.QUEUED:
                assert id(held) in queued or queue.alone is held, "it would never begin"
                assert not queue.draining, "it would begin while the worker drains"
        assert all(queue.held.get(key) is held for key, (held, _) in self.runners.items())
        known = {one.fence for one in queue.heartbeat()}
        assert self.owed <= known, f"forgotten: {self.owed - known}"


def test_no_assignment_is_forgotten_and_no_pipeline_runs_twice_at_a_time() -> None:
    happens = (Bench.assign, Bench.assign, Bench.pump, Bench.pump, Bench.run_alone, Bench.end, Bench.end, Bench.drop,
               Bench.stop_late, Bench.tell, Bench.hear, Bench.drain)  # fmt: skip
    for seed in range(MANY):
        bench = Bench(random.Random(seed))
        for _ in range(STEPS):
            bench.now += 1.0
            bench.chance.choice(happens)(bench)
            try:
                bench.check()
            except AssertionError as error:
                error.add_note(f"seed {seed}")
                raise
        while bench.queue.held:
            bench.now += 1.0
            for step in (Bench.pump, Bench.run_alone, Bench.end, Bench.tell, Bench.hear):
                step(bench)
                bench.check()


ORDER = RunPipeline("free-1", "free", None, {})


def assignment(fence: str, *, alone: bool = False) -> HeldAssignment:
    return HeldAssignment("link", WorkAssignment("x", ORDER, fence, alone=alone), None, {})


def test_a_pipeline_whose_last_report_is_on_its_way_is_not_taken_for_lost() -> None:
    server = Dispatcher(lambda _execution, order: order, name="s", new_secret=counted())
    server.order(Execution("x", {}), ORDER, paused=False)
    (give,) = server.take(server.update_worker("w", [], 5), now=0.0)
    queue, held = WorkerQueue(slots=2), assignment(give.fence)
    queue.assign(held)
    queue.next(0.0)
    queue.on_posted(held)
    queue.on_runner_end(held.key, 1.0)
    assert queue.running == 0, "its slot is free"
    named = {(one.key, one.fence) for one in queue.heartbeat()}
    server.compare(server.workers["w"], named, before=2.0, now=3.0)
    assert server.holds("w", held.report(last=True)) is not None
    queue.on_end_reported(held, 4.0)
    assert not queue.heartbeat()


def test_a_stop_that_comes_late_ends_nothing_that_was_given_after_it() -> None:
    queue, second = WorkerQueue(slots=2), assignment("f2")
    queue.assign(second)
    queue.next(0.0)
    assert not queue.drop(second.key, "f1", runs=True, now=1.0)
    assert second.state is WorkerState.RUNNING


def test_a_stop_ends_what_runs_and_keeps_what_was_given_after_it() -> None:
    queue, first, second = WorkerQueue(slots=2), assignment("f1"), assignment("f2")
    queue.assign(first)
    queue.next(0.0)
    queue.assign(second)
    assert [one.fence for one in queue.heartbeat()] == ["f1", "f2"]
    assert queue.drop(first.key, "f1", runs=True, now=1.0) == [StopRun(first.key)]
    queue.on_runner_end(first.key, 2.0)
    assert queue.next(3.0) is second


def test_a_stop_without_a_fence_ends_all_that_is_held_of_a_pipeline() -> None:
    queue, first = WorkerQueue(slots=2), assignment("f1")
    queue.assign(first)
    queue.next(0.0)
    queue.assign(assignment("f2"))
    assert queue.drop(first.key, runs=True, now=1.0) == [StopRun(first.key)]
    queue.on_runner_end(first.key, 2.0)
    assert not queue.held


def test_a_worker_that_drains_gives_back_what_waits_to_run_alone() -> None:
    queue, held = WorkerQueue(slots=2), assignment("f1", alone=True)
    assert queue.assign(held) == [RunAlone(held)]
    (move,) = queue.drain(0.0)
    assert isinstance(move, Send)
    assert move.report.returned
    assert not queue.start_alone(held, 1.0)


def test_every_transition_leads_where_the_table_says() -> None:
    reached = {state for transition in WORKER_TABLE.values() for state in transition.to}
    assert reached == {*WorkerState} - {WorkerState.NEW}
    assert {state for state, _ in WORKER_TABLE} == {*WorkerState} - {WorkerState.GONE}
    assert {happened for _, happened in WORKER_TABLE} == {*WorkerInput}

"""A world around dispatchers that is made of values: an engine, a log, a registry, a store of slots, and workers.

`World.step` lets one thing happen, chosen by a number: messages are lost, doubled and late, workers and servers die, executions
are paused, evicted and taken over. `World.check` holds at every moment. `World.drain` stops the faults, and everything must end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from noetl.dispatch import (
    AskAll,
    Dispatcher,
    Entry,
    HeldAssignment,
    SayLast,
    Send,
    State,
    StopRun,
    WorkerMoves,
    WorkerQueue,
)
from noetl.dispatch.moves import DeadLetter, Deny, Displace, Forget, Give, Hint, Move, ReleaseSlot, StopAt, Wake
from noetl.dispatch.table import ACTIONS, TABLE, Action
from noetl.model.events import Event, Fact
from noetl.model.net import Net
from noetl.model.orders import RunPipeline, StopPipelines
from noetl.model.wire import PROTOCOL, Answer, Ask, HeldPipeline, Key, PipelineReport, WorkAssignment
from noetl.server.core.catalog import Catalog
from noetl.tools.registry import ToolKinds

BOOK = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: it, path: it}
workflow:
- {step: free, tool: {kind: noop}}
- {step: urgent, spec: {pool: gpu, priority: 5}, tool: {kind: noop}}
- {step: capped, spec: {concurrency: {key: api, limit: 1}}, tool: {kind: noop}}
- {step: picky, spec: {concurrency: {key: few, limit: 1, on_limit: cancel_new}}, tool: {kind: noop}}
- {step: pushy, spec: {concurrency: {key: new, limit: 1, on_limit: cancel_running}}, tool: {kind: noop}}
- {step: rated, spec: {rate: {key: api, limit: 1, per_s: 1}}, tool: {kind: noop}}
- {step: leased, spec: {lease: {ttl_s: 3}}, tool: {kind: noop}}
- {step: kept, spec: {lease: {ttl_s: 60}, concurrency: {key: api, limit: 1}}, tool: {kind: noop}}
"""
STEPS = ("free", "urgent", "capped", "picky", "pushy", "rated", "free", "capped", "leased", "leased", "kept")
POOLS = (["default"], ["default", "gpu"], ["gpu", "default"])


@cache
def net(profile: str = "auto") -> Net:
    """The net of every execution here."""
    text = BOOK + f"executor: {{profile: {profile}}}\n".encode()
    _, loaded = Catalog(ToolKinds()).read(Path(f"{profile}.yaml"), text)
    assert loaded.net is not None
    return loaded.net


@dataclass
class Pipeline:
    """The truth about a pipeline, as the log has it."""

    key: Key
    step: str
    tasks: int
    #: the task that waits for an answer
    waits_at: int | None
    done: int = 0
    waiting: bool = False
    #: an answer was ordered in this ownership, and no worker has used it
    answered: bool = False
    over: bool = False

    def order(self, *, answer: bool = False) -> RunPipeline:
        found = {"status": "ok"} if answer else None
        return RunPipeline(self.key[1], self.step, self.key[2], {}, found, self.done, begun=self.done > 0)


@dataclass
class Execution:
    """The truth about an execution."""

    id: str
    pipelines: dict[Key, Pipeline]
    owner: Server | None = None
    paused: bool = False
    over: bool = False
    net: Net = field(default_factory=net, repr=False)

    def unfinished(self) -> list[Pipeline]:
        return [] if self.over else [one for one in self.pipelines.values() if not one.over]


@dataclass(eq=False)
class Server:
    """A server process, with or without a local worker."""

    name: str
    dispatcher: Dispatcher
    alive: bool = True
    #: reports that were not refused, and wait to be written
    accepted: list[Message] = field(default_factory=list)
    #: reports that are in the log, and have not been settled
    recorded: list[Message] = field(default_factory=list)
    requests: list[tuple[Any, Answer]] = field(default_factory=list)
    to_release: set[Key] = field(default_factory=set)


@dataclass(eq=False)
class Job:
    """A pipeline at a worker, which may have been given it under another fence as well."""

    server: Server
    key: Key
    order: RunPipeline
    fence: str
    done: int
    #: whether the answer that came with it was used
    used: bool = False
    told_to_stop: bool = False

    def __post_init__(self) -> None:
        self.held = HeldAssignment(None, WorkAssignment(self.key[0], self.order, self.fence), None, {})


@dataclass(eq=False)
class Worker:
    """A worker process."""

    name: str
    pools: list[str]
    alive: bool = True
    #: what its runners run
    jobs: list[Job] = field(default_factory=list)
    #: an older one understands fewer orders
    protocol: int = PROTOCOL
    queue: WorkerQueue = field(default_factory=lambda: WorkerQueue(slots=3))
    #: all that it was given, by fence
    given: dict[str, Job] = field(default_factory=dict)


@dataclass
class Message:
    """A report on its way."""

    worker: Worker
    job: Job
    report: PipelineReport
    #: the log takes it only if the pipeline stands at `start`
    start: int
    done: int
    waiting: bool
    over: bool
    used: bool

    @property
    def is_repeated(self) -> bool:
        """Whether the worker sends it until a server answers."""
        return not self.report.returned and self.report.broken is None


def counted() -> Callable[[], str]:
    """Secrets for fences: numbers, so that a history is the same each time."""
    numbers = itertools.count(1)
    return lambda: str(next(numbers))


class Checked(Dispatcher):
    """A dispatcher whose every transition is held against the table."""

    def _apply(self, entry: Entry, actions: Mapping[State, Action], about: Any = None) -> None:
        before = entry.state
        super()._apply(entry, actions, about)
        if before in actions:
            happened = next(one for one, its in ACTIONS.items() if its is actions)
            allowed = TABLE[before, happened].to
            if State.READY in allowed and self.local is not None:
                allowed += (State.GIVEN,)  # the local worker has taken it
            assert entry.state in allowed, f"{before} + {happened} led to {entry.state}"


class World:
    """Everything around dispatch."""

    def __init__(self, choose: Callable[[int], int], *, local: bool) -> None:
        self.choose, self.local = choose, local
        self.now = 0.0
        self.numbers = 0
        self.executions: dict[str, Execution] = {}
        self.servers = [self._server() for _ in range(1 if local else 2)]
        self.workers = [] if local else [self._worker() for _ in range(2)]
        self.here = Worker("local", [])
        self.messages: list[Message] = []
        #: stops on their way
        self.stops: list[tuple[Worker, Key, str]] = []
        self.registry: dict[tuple[Key, str], HeldPipeline] = {}
        #: the key of a limit → who has its slots
        self.slots: dict[str, list[Key]] = {}
        #: the fence under which each pipeline was last given out, or adopted
        self.given: dict[Key, str] = {}
        #: fences that workers were told to stop; a server that takes over may find one of them in the registry
        self.stopped: set[str] = set()
        self.fences: set[str] = set()
        self.failed: set[Key] = set()
        self.faults = True
        for _ in range(1 + choose(2)):
            self.start()

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _server(self) -> Server:
        name = f"s{self.number()}"
        dispatcher = Checked(self.again, name=name, new_secret=counted(), local="local" if self.local else None)
        return Server(name, dispatcher)

    def _worker(self) -> Worker:
        return Worker(f"w{self.number()}", POOLS[self.choose(len(POOLS))], protocol=min(PROTOCOL, self.choose(4)))

    # --- the engine --------------------------------------------------------------------------------------------------

    def again(self, execution: Any, order: RunPipeline) -> RunPipeline | None:
        pipe = self.pipeline((execution.id, order.step_run_id, order.iteration))
        if pipe is None or pipe.over or execution.over:
            return None
        if pipe.waiting:
            return order if order.answer is not None else None
        return pipe.order()

    def pipeline(self, key: Key) -> Pipeline | None:
        execution = self.executions.get(key[0])
        return execution.pipelines.get(key) if execution is not None else None

    def start(self) -> None:
        name = f"x{self.number()}"
        pipelines: dict[Key, Pipeline] = {}
        step = STEPS[self.choose(len(STEPS))]
        looped = self.choose(2)
        for at in range(1 + self.choose(3)):
            step = step if looped else STEPS[self.choose(len(STEPS))]
            key: Key = (name, f"{step}-1", at) if looped else (name, f"{step}-{at}", at if at % 2 else None)
            tasks = 1 + self.choose(3)
            pipelines[key] = Pipeline(key, step, tasks, self.choose(tasks) if self.choose(3) == 0 else None)
        execution = self.executions[name] = Execution(name, pipelines)
        execution.net = net("local" if self.choose(3) == 0 else "auto")
        execution.owner = self.servers[self.choose(len(self.servers))]
        for pipe in pipelines.values():
            self.order(execution, pipe.order())

    def order(self, execution: Execution, order: RunPipeline) -> None:
        if execution.owner is not None:
            dispatcher = execution.owner.dispatcher
            self.carry_out(
                execution.owner, dispatcher.order(execution, order, paused=execution.paused, now=self.now)
            )  # fmt: skip

    def observe(self, execution: Execution, *over: Pipeline) -> None:
        if execution.owner is None:
            return
        events = [_ended(pipe.key) for pipe in over]
        found = execution.owner.dispatcher.observe(execution.id, events, paused=execution.paused)
        self.carry_out(execution.owner, found)

    def end_pipeline(self, execution: Execution, pipe: Pipeline) -> None:
        pipe.over, pipe.waiting, pipe.answered = True, False, False
        self.observe(execution, pipe)
        if not execution.unfinished():
            self.end(execution)

    def end(self, execution: Execution) -> None:
        execution.over = True
        self.leave(execution, released=False)

    def leave(self, execution: Execution, *, released: bool) -> None:
        owner, execution.owner = execution.owner, None
        for pipe in execution.pipelines.values():
            pipe.answered = False
        if owner is not None:
            self.carry_out(owner, owner.dispatcher.end(execution.id, released=released))
            if released:  # its slots are its next owner's affair
                owner.to_release = {key for key in owner.to_release if key[0] != execution.id}

    def fail(self, key: Key, *, stop: bool) -> None:
        """What the engine makes of a pipeline that may not run, or that nobody brings to its end."""
        execution, pipe = self.executions.get(key[0]), self.pipeline(key)
        if execution is None or pipe is None or pipe.over or execution.over or execution.owner is None:
            return
        self.failed.add(key)
        pipe.over, pipe.waiting, pipe.answered = True, False, False
        owner = execution.owner
        self.observe(execution, pipe)
        if stop:
            self.carry_out(owner, owner.dispatcher.stop(key[0], StopPipelines(key[1], key[2])))
        if not execution.unfinished():
            self.end(execution)

    # --- moves -------------------------------------------------------------------------------------------------------

    def carry_out(self, server: Server, moves: Iterable[Move]) -> None:
        for move in moves:
            if isinstance(move, Give):
                self.accept(server, move)
            elif isinstance(move, StopAt):
                self.stop_at(server, move)
            elif isinstance(move, ReleaseSlot):
                assert move.key not in {job.key for job in self.here.jobs}, "its tools are not put away"
                server.to_release.add(move.key)
            elif isinstance(move, Deny | Displace):
                self.fail(move.key, stop=True)
            elif isinstance(move, DeadLetter):
                assert move.tries >= 5
                self.fail(move.key, stop=True)
            else:
                assert isinstance(move, Forget | Hint | Wake) or move.key in {
                    one.key for one in server.dispatcher.slot_requests()
                }

    def accept(self, server: Server, move: Give) -> None:
        pipe = self.pipeline(move.key)
        assert pipe is not None
        execution = self.executions[move.key[0]]
        assert execution.owner is server, "given by a server that does not own it"
        assert not execution.paused or move.order.answer is not None, "given while it is paused"
        if self.local:
            assert move.key not in {job.key for job in self.here.jobs}, "given while it is under way"
            self.here.jobs.append(Job(server, move.key, move.order, move.fence, pipe.done))
            return
        assert move.fence not in self.fences, "a fence was issued twice"
        self.fences.add(move.fence)
        self.given[move.key] = move.fence
        worker = next((one for one in self.workers if one.name == move.worker and one.alive), None)
        is_leased = move.order.step in ("leased", "kept")
        assert (move.lease is not None) == is_leased
        assert worker is None or worker.protocol or not is_leased, "given to a worker that does not understand it"
        if worker is not None and not (self.faults and self.choose(8) == 0):  # else it is lost on its way
            job = worker.given[move.fence] = Job(server, move.key, move.order, move.fence, pipe.done)
            self.work_off(worker, worker.queue.assign(job.held))

    def work_off(self, worker: Worker, moves: WorkerMoves) -> None:
        """Do what the queue of a worker asks for, and begin what there are slots for."""
        for move in moves:
            if isinstance(move, Send):
                self.say(worker, worker.given[move.held.fence], move.report)
            elif isinstance(move, SayLast):
                self.say(worker, worker.given[move.held.fence], move.held.report(last=True))
            elif isinstance(move, StopRun):
                worker.jobs = [job for job in worker.jobs if job.key != move.key]
                self.work_off(worker, worker.queue.on_runner_end(move.key, self.now))
            else:
                assert isinstance(move, AskAll)
        while (held := worker.queue.next(self.now)) is not None:
            assert held.key not in {job.key for job in worker.jobs}, "two runners of one pipeline"
            worker.jobs.append(worker.given[held.fence])

    def drop(self, worker: Worker, key: Key, fence: str) -> None:
        """A worker hears that it has lost a pipeline."""
        if worker.alive:
            runs = key in {job.key for job in worker.jobs}
            self.work_off(worker, worker.queue.drop(key, fence, runs=runs, now=self.now))

    def stop_at(self, server: Server, move: StopAt) -> None:
        if self.local:
            for job in self.here.jobs:
                job.told_to_stop |= job.key == move.key
            return
        self.stopped.add(move.fence)
        if not (self.faults and self.choose(4) == 0):
            self.stops += [(one, move.key, move.fence) for one in self.workers if one.name == move.worker]

    # --- what happens ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let one thing happen."""
        self.now += 1.0
        happens = LOCAL_HAPPENINGS if self.local else HAPPENINGS
        happens[self.choose(len(happens))](self)

    def some(self, of: Iterable[Any]) -> Any:
        found = list(of)
        return found[self.choose(len(found))] if found else None

    def owned(self) -> list[Execution]:
        return [one for one in self.executions.values() if one.owner is not None]

    def start_more(self) -> None:
        if len(self.executions) < 4:
            self.start()

    def pause(self) -> None:
        execution = self.some(one for one in self.owned() if not one.paused)
        if execution is not None:
            execution.paused = True
            self.observe(execution)

    def resume(self) -> None:
        execution = self.some(one for one in self.owned() if one.paused)
        if execution is not None:
            execution.paused = False
            self.observe(execution)
            for pipe in execution.unfinished():
                if not pipe.waiting:
                    self.order(execution, pipe.order())

    def repeat_order(self) -> None:
        """The engine repeats an order, though an answer to the pipeline may be on its way."""
        unfinished = [pipe for one in self.owned() for pipe in one.unfinished()]
        pipe = self.some(pipe for pipe in unfinished if pipe.answered or not pipe.waiting)
        if pipe is not None:
            self.order(self.executions[pipe.key[0]], pipe.order())

    def answer(self) -> None:
        pipe = self.some(pipe for one in self.owned() for pipe in one.unfinished() if pipe.waiting)
        if pipe is not None:
            pipe.answered = True
            self.order(self.executions[pipe.key[0]], pipe.order(answer=True))

    def stop_pipeline(self) -> None:
        pipe = self.some(pipe for one in self.owned() for pipe in one.unfinished())
        if pipe is not None:
            self.fail(pipe.key, stop=True)

    def cancel(self) -> None:
        execution = self.some(self.owned())
        if execution is not None:
            self.end(execution)

    def evict(self) -> None:
        execution = self.some(self.owned())
        if execution is not None:
            self.leave(execution, released=True)

    def take_over(self) -> None:
        execution = self.some(one for one in self.executions.values() if one.owner is None and not one.over)
        if execution is None:
            return
        server = execution.owner = self.some(one for one in self.servers if one.alive)
        dispatcher = server.dispatcher
        alive = {one.name for one in self.workers if one.alive}
        if not self.local:
            kept = [
                HeldPipeline(*one.key, one.fence, one.worker if one.worker in alive else None, one.tries)
                for one in self.registry.values()
                if one.execution_id == execution.id
            ]
            self.carry_out(server, dispatcher.inherit(execution.id, kept))
        held = {key: one.fence for key, one in dispatcher.orphans.items() if key[0] == execution.id and one.worker}
        for pipe in execution.unfinished():
            if not pipe.waiting and execution.owner is server:
                self.order(execution, pipe.order())
        for key in held.keys() & {pipe.key for pipe in execution.unfinished() if not pipe.waiting}:
            entry = dispatcher.find(key)
            assert entry is not None, "a worker has lost what it holds"
            assert entry.fence == held[key], "a worker has lost what it holds"
        self.carry_out(server, dispatcher.drop_orphans(execution.id))
        self.given.update((entry.key, entry.fence) for entry in dispatcher.list_held() if entry.key[0] == execution.id)
        if execution.owner is server:
            found = [key for keys in self.slots.values() for key in keys if key[0] == execution.id]
            found = [key for key in found if key not in server.to_release]
            unfinished = {pipe.key for pipe in execution.unfinished()}
            self.carry_out(server, dispatcher.find_slots(execution, found, unfinished, paused=execution.paused))

    def server_dies(self) -> None:
        """Another one starts in its place."""
        at = self.choose(len(self.servers))
        before = self.servers[at]
        before.alive = False
        # What it has not answered is reported again, if it was not only said in passing.
        again = [one for one in (*before.recorded, *before.accepted) if one.worker.alive and one.is_repeated]
        self.messages = [*again, *self.messages]
        for execution in self.owned():
            if execution.owner is self.servers[at]:
                execution.owner = None
                for pipe in execution.pipelines.values():
                    pipe.answered = False
        self.servers[at] = self._server()
        if self.local:
            self.here.jobs = []

    # --- slots -------------------------------------------------------------------------------------------------------

    def ask_slots(self) -> None:
        """One round of a server's slot loop; its answers take effect later. The slots of what is over are free."""
        server = self.some(self.servers)
        if server.requests:
            return
        for keys in self.slots.values():
            keys[:] = [key for key in keys if key not in server.to_release and not self.executions[key[0]].over]
        server.to_release = set()
        server.requests = [(one, self.judge(one.ask)) for one in server.dispatcher.slot_requests()]

    def judge(self, ask: Ask) -> Answer:
        if ask.cap is None:
            return Answer("granted" if self.choose(2) or not self.faults else "wait")
        holders = self.slots.setdefault(ask.cap.key, [])
        if ask.holder in holders:
            return Answer("granted")
        if ask.sure or len(holders) < ask.cap.limit:
            holders.append(ask.holder)
            return Answer("granted")
        if ask.cap.on_limit == "cancel_new":
            return Answer("refused")
        return Answer("wait", victims=tuple(holders[:1]) if ask.cap.on_limit == "cancel_running" else ())

    def answer_slots(self) -> None:
        server = self.some(one for one in self.servers if one.requests)
        if server is not None:
            request, answer = server.requests.pop(0)
            self.carry_out(server, server.dispatcher.answer_slot(request, answer, now=self.now))

    # --- workers -----------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        worker = self.some(one for one in self.workers if one.alive)
        server = self.some(self.servers)
        if worker is not None:
            room = 1 + self.choose(3)
            here = server.dispatcher.update_worker(worker.name, worker.pools, room, worker.protocol)
            for give in server.dispatcher.take(here, now=self.now):
                self.accept(server, give)
            self.carry_out(server, server.dispatcher.leave(here, came_for_work=True, now=self.now))

    def work(self) -> None:
        """A worker does some of what it has, and reports it; or gives it back."""
        worker = self.some(one for one in self.workers if one.alive and one.jobs)
        job = self.some(worker.jobs) if worker is not None else None
        if job is None:
            return
        pipe = self.pipeline(job.key)
        assert pipe is not None
        fate = self.choose(10) if self.faults else 9
        if fate == 0:
            worker.jobs.remove(job)
            self.work_off(worker, worker.queue.give_back(job.held, self.now))
        elif fate == 1:
            worker.jobs.remove(job)
            self.work_off(worker, worker.queue.break_off(job.held, "it broke", self.now))
        else:
            self.advance(worker, job, pipe)

    def advance(self, worker: Worker, job: Job, pipe: Pipeline) -> None:
        start, name = job.done, (*job.key, job.fence)
        late = self.faults and self.choose(10) == 0  # that it was paused, and is not any more
        heard_of_a_pause = late or (self.executions[job.key[0]].paused and self.choose(2) == 0)
        if pipe.waits_at == job.done and (job.order.answer is None or job.used):
            fact = Fact("task.started", job.key[1], {})
            self.say(worker, job, PipelineReport(*name, [fact], last=True), waiting=True)
            self.end_job(worker, job)
        elif heard_of_a_pause and job.done > 0 and (job.order.answer is None or job.used):
            worker.jobs.remove(job)
            self.work_off(worker, worker.queue.on_runner_end(job.key, self.now))
        else:
            used = pipe.waits_at == job.done
            job.done, job.used = job.done + 1, job.used or used
            over = job.done >= pipe.tasks
            fact = Fact("task.done", job.key[1], {})
            message = Message(worker, job, PipelineReport(*name, [fact], last=over), start, job.done, False, over, used)
            self.messages.append(message)
            if over:
                self.end_job(worker, job)

    def end_job(self, worker: Worker, job: Job) -> None:
        """A runner ends whose last report is on its way."""
        worker.jobs.remove(job)
        worker.queue.on_posted(job.held)
        self.work_off(worker, worker.queue.on_runner_end(job.key, self.now))

    def say(self, worker: Worker, job: Job, report: PipelineReport, *, waiting: bool = False) -> None:
        self.messages.append(Message(worker, job, report, job.done, job.done, waiting, False, False))

    def deliver(self) -> None:
        """A report arrives: once, twice, or after its worker has died."""
        at = self.choose(len(self.messages)) if self.messages else 0
        if not self.messages or any(one.job is self.messages[at].job for one in self.messages[:at]):
            return  # those of one job arrive in order
        message = self.messages[at]
        execution = self.executions[message.report.execution_id]
        server = execution.owner
        if server is None and not execution.over:
            return  # nobody has it now: it is reported again
        if server is None or server.dispatcher.holds(message.worker.name, message.report) is None:
            self.messages.remove(message)
            self.refuse(message)
            return
        assert self.given[message.report.key] == message.report.fence, "two fences are live"
        if not (self.faults and self.choose(4) == 0):
            self.messages.remove(message)
        server.accepted.append(message)
        if not self.faults or self.choose(2):
            self.write(server)

    def write(self, server: Server | None = None) -> None:
        """What was accepted first is recorded; its worker may have been given up meanwhile."""
        server = server or self.some(one for one in self.servers if one.accepted)
        if server is None:
            return
        message = server.accepted.pop(0)
        execution = self.executions[message.report.execution_id]
        if execution.owner is not server:
            self.messages.insert(0, message)  # it is reported again
            return
        server.recorded.append(message)
        self.record(execution, message)
        if not self.faults or self.choose(2):
            self.settle_report(server)

    def refuse(self, message: Message) -> None:
        self.messages = [one for one in self.messages if one.job is not message.job]
        self.drop(message.worker, message.job.key, message.job.fence)

    def record(self, execution: Execution, message: Message) -> None:
        """The engine takes a report for news only if it says what comes next."""
        pipe = self.pipeline(message.report.key)
        assert pipe is not None
        if pipe.over or pipe.done != message.start:
            return
        if message.waiting and not pipe.waiting:
            pipe.waiting = True
        elif message.done > message.start and (not pipe.waiting or message.used):
            pipe.done, pipe.waiting = message.done, False
            pipe.answered = pipe.answered and not message.used
            if message.over:
                self.end_pipeline(execution, pipe)

    def settle_report(self, server: Server | None = None) -> None:
        server = server or self.some(one for one in self.servers if one.recorded)
        if server is not None:
            message = server.recorded.pop(0)
            worker, report = message.worker, message.report
            self.carry_out(server, server.dispatcher.report(worker.name, report, now=self.now))
            if report.last and worker.alive:
                self.work_off(worker, worker.queue.on_end_reported(message.job.held, self.now))

    def deliver_stop(self) -> None:
        """A stop arrives, possibly after the pipeline was given again."""
        if self.stops:
            self.drop(*self.stops.pop(self.choose(len(self.stops))))

    def worker_dies(self) -> None:
        """What it has said may still arrive."""
        worker = self.some(one for one in self.workers if one.alive)
        if worker is not None:
            worker.alive, worker.jobs = False, []
            self.workers.append(self._worker())

    def give_up(self) -> None:
        """A server hears that a worker is dead; one that lives may be taken for dead, and begins anew."""
        worker = self.some(self.workers)
        if worker.alive and self.faults:
            self.workers.append(self._worker())
            worker.alive = False
        if not worker.alive:
            server = self.some(self.servers)
            self.carry_out(server, server.dispatcher.lose_worker(worker.name, now=self.now))

    def heartbeat(self) -> None:
        worker, server = self.some(one for one in self.workers if one.alive), self.some(self.servers)
        dispatcher = server.dispatcher
        here = dispatcher.workers.get(worker.name) if worker is not None else None
        if here is None:
            return
        has = {(one.key, one.fence) for one in worker.queue.heartbeat()}
        known = {(key, entry.fence) for key, entry in here.held.items()}
        on_the_way = [one for one in [*self.messages, *server.accepted, *server.recorded] if one.worker is worker]
        awaited = {(one.report.key, one.report.fence) for one in on_the_way if one.report.last} & known
        dispatcher.hear(worker.name, has, now=self.now)
        self.carry_out(server, dispatcher.compare(here, has, before=self.now, now=self.now))
        lost = awaited - {(key, entry.fence) for key, entry in here.held.items()}
        assert {fence for _, fence in lost} <= self.stopped, "a last report is on its way"
        for key, fence in has - known:
            owner = self.executions[key[0]].owner
            if self.executions[key[0]].over or (owner is server and dispatcher.is_own_fence(fence)):
                self.drop(worker, key, fence)

    def expire_leases(self) -> None:
        """Some seconds go by, in which a server looks at its leases."""
        server = self.some(self.servers)
        for _ in range(1 + self.choose(5)):
            self.now += 1.0
            self.look(server)

    def look(self, server: Server) -> None:
        dispatcher = server.dispatcher
        late = {id(one) for one in dispatcher.list_held() if one.lease and _is_late(dispatcher, one, self.now)}
        held = {id(one): one for one in dispatcher.list_held()}
        self.carry_out(server, dispatcher.expire_leases(now=self.now))
        lost = held.keys() - {id(one) for one in dispatcher.list_held()}
        assert late == lost, "a lease ran out without effect, or before its time"

    def fall_silent(self) -> None:
        """The registry does not hear a worker, and keeps it for what has a longer lease; the worker may be heard again."""
        worker, server = self.some(one for one in self.workers if one.alive), self.some(self.servers)
        here = server.dispatcher.workers.get(worker.name) if worker is not None else None
        if here is None:
            return
        kept = [entry for entry in here.held.values() if entry.lease is not None]
        self.carry_out(server, server.dispatcher.note_silence(worker.name, now=self.now))
        assert list(here.held.values()) == kept

    def keep(self) -> None:
        """A server writes down who holds what of its executions."""
        server = self.some(self.servers)
        for at, held in list(self.registry.items()):
            if self.executions[held.execution_id].owner is server:
                del self.registry[at]
        for entry in server.dispatcher.list_held():
            held = HeldPipeline(*entry.key, entry.fence, entry.worker, entry.tries)
            self.registry[entry.key, entry.fence] = held

    # --- the local worker --------------------------------------------------------------------------------------------

    def work_here(self) -> None:
        """The local worker does a task, records it, and ends its pipeline if that was the last, or it waits, or is paused."""
        job = self.some(self.here.jobs)
        if job is None:
            return
        pipe, execution = self.pipeline(job.key), self.executions[job.key[0]]
        assert pipe is not None
        if not job.told_to_stop and not pipe.over and execution.owner is job.server and job.server.alive:
            if pipe.waits_at == job.done and (job.order.answer is None or job.used):
                pipe.waiting = True
            elif execution.paused and (job.order.answer is None or job.used) and self.faults:
                pass  # it stops between two tasks
            elif pipe.done == job.done and (not pipe.waiting or job.order.answer is not None):
                job.used = job.used or pipe.waits_at == job.done
                job.done = pipe.done = pipe.done + 1
                pipe.answered = pipe.answered and not job.used
                pipe.waiting = False
                if pipe.done < pipe.tasks:
                    return
                self.end_pipeline(execution, pipe)
        self.here.jobs.remove(job)
        self.carry_out(job.server, job.server.dispatcher.finish(job.key))

    # --- what always holds -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What holds at every moment."""
        for server in self.servers:
            self.check_books(server.dispatcher)
        for execution in self.owned():
            assert execution.owner is not None
            for pipe in execution.unfinished():
                self.check_pipeline(execution, execution.owner.dispatcher.find(pipe.key), pipe)
            self.check_slots(execution, execution.owner)
            self.check_over(execution, execution.owner)

    def check_pipeline(self, execution: Execution, entry: Entry | None, pipe: Pipeline) -> None:
        """What is wanted is not forgotten, and what is paused keeps no slot for nothing."""
        assert not (execution.paused and entry is not None and entry.state is State.IDLE)
        under_way = entry is not None and (
            entry.state in (State.WAITING, State.READY, State.GIVEN)
            or (entry.state is State.STOPPING and entry.following is not None)
        )
        if pipe.answered or (not execution.paused and not pipe.waiting):
            assert under_way, f"{pipe} is forgotten: {entry}"
        if pipe.answered:
            assert entry is not None
            assert any(one is not None and one.answer is not None for one in (entry.order, entry.following)), (
                "no answer"
            )

    def check_over(self, execution: Execution, server: Server) -> None:
        """Nobody runs what is over, but for the one whose report of that is being settled."""
        settling = {one.report.key for one in server.recorded}
        for pipe in execution.pipelines.values():
            entry = server.dispatcher.find(pipe.key) if pipe.over and pipe.key not in settling else None
            assert entry is None or self.local or entry.state is not State.GIVEN

    def check_slots(self, execution: Execution, server: Server) -> None:
        """Every slot of an execution is held by an entry, or on its way to one, or on its way back."""
        moving = server.to_release | {request.key for request, _ in server.requests}
        for key in {key for keys in self.slots.values() for key in keys if key[0] == execution.id} - moving:
            entry = server.dispatcher.find(key)
            holds = entry is not None and entry.slot
            assert holds, f"nobody returns the slot of {key}: {entry}"

    def check_books(self, dispatcher: Dispatcher) -> None:
        """Every table says the same."""
        held = {id(entry) for entry in dispatcher.list_held()}
        for record in dispatcher.executions.values():
            for key, entry in record.entries.items():
                assert (entry.key, entry.record) == (key, record)
                assert entry.state is not State.GIVEN or entry.lease is None or dispatcher.leased[key] is entry
                assert entry.state not in (State.NEW, State.SETTLED)
                assert (id(entry) in held) == (entry.state in (State.GIVEN, State.STOPPING))
                assert (dispatcher.orphans.get(key) is entry) == (entry.state is State.ORPHANED)
                assert entry.ask is not None or entry.state is not State.WAITING
                assert entry.slot or entry.ask is not None or entry.state is not State.IDLE
                has = self.executions[record.id].over or any(key in keys for keys in self.slots.values())
                assert has or not entry.slot, "a slot that it has not"
            assert record.entries or record.execution is not None
        for key in dispatcher.orphans:
            assert dispatcher.find(key) is not None
        asked = {request.key for request in dispatcher.slot_requests()}
        assert all(dispatcher.find(key) is not None for key in asked)

    # --- the end -----------------------------------------------------------------------------------------------------

    def is_busy(self) -> bool:
        going = any(not one.over for one in self.executions.values())
        return going or bool(self.messages or self.here.jobs or any(server.accepted for server in self.servers))

    def drain(self) -> None:
        """Without faults, all that was started comes to an end, and nothing is left."""
        self.faults = False
        self.workers += [] if self.local else [Worker(f"w{self.number()}", ["default", "gpu"])]
        rounds = 0
        while self.is_busy():
            rounds += 1
            assert rounds < 400, f"it does not end: {[one for one in self.executions.values() if not one.over]}"
            self.now += 1.0
            for happens in LOCAL_DRAIN if self.local else DRAIN:
                happens(self)
                self.check()
        for _ in range(len(self.servers) * 40):
            self.ask_slots()
            while any(server.requests for server in self.servers):
                self.answer_slots()
        for server in self.servers:
            while server.accepted or server.recorded:
                self.write(server) if server.accepted else self.settle_report(server)
            dispatcher = server.dispatcher
            for key in {key[0] for key in dispatcher.orphans}:
                self.carry_out(server, dispatcher.drop_orphans(key))
            assert dispatcher.executions == {}, "entries are left"
            assert not dispatcher.slots


def _is_late(dispatcher: Dispatcher, entry: Entry, now: float) -> bool:
    assert entry.lease is not None
    return dispatcher.listening(now) - entry.heard > entry.lease.ttl_s


def _ended(key: Key) -> Event:
    name = "step.done" if key[2] is None else "loop.iteration.done"
    return Event("", key[0], 9, "", "server", name, "step", "", "success", {}, step_run_id=key[1], iteration=key[2])


def _calm(self: World) -> None:
    """Lose who is dead, everywhere."""
    for worker in self.workers:
        if not worker.alive:
            for server in self.servers:
                self.carry_out(server, server.dispatcher.lose_worker(worker.name, now=self.now))


HAPPENINGS = (
    World.start_more, World.pause, World.resume, World.resume, World.repeat_order, World.answer, World.answer,
    World.stop_pipeline, World.cancel, World.evict, World.take_over, World.take_over, World.take_over, World.server_dies,
    World.ask_slots, World.answer_slots, World.ask_slots, World.answer_slots, World.ask, World.ask, World.ask, World.ask,
    World.work, World.work, World.work, World.work, World.deliver, World.deliver, World.deliver, World.deliver,
    World.write, World.write, World.settle_report, World.worker_dies, World.give_up, World.heartbeat, World.keep, World.keep,
    World.deliver_stop, World.deliver_stop, World.expire_leases, World.expire_leases, World.fall_silent,
)  # fmt: skip
LOCAL_HAPPENINGS = (
    World.start_more, World.pause, World.resume, World.resume, World.repeat_order, World.answer, World.answer,
    World.stop_pipeline, World.cancel, World.evict, World.take_over, World.take_over, World.server_dies,
    World.ask_slots, World.answer_slots, World.ask_slots, World.answer_slots, World.work_here, World.work_here,
    World.work_here, World.work_here,
)  # fmt: skip
DRAIN = (
    World.resume, World.take_over, World.answer, World.ask_slots, World.answer_slots, World.answer_slots, World.ask, World.ask,
    World.work, World.work, World.deliver, World.deliver, World.deliver, World.write, World.settle_report, _calm, World.heartbeat,
    World.deliver_stop, World.expire_leases,
)  # fmt: skip
LOCAL_DRAIN = (
    World.resume, World.take_over, World.answer, World.ask_slots, World.answer_slots, World.answer_slots, World.work_here,
    World.work_here,
)  # fmt: skip

"""Entries: one for each pipeline that dispatch knows of, grouped by execution; and the workers that hold them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from noetl.dispatch.moves import Dispatched
from noetl.dispatch.placement import DEFAULT_POOL
from noetl.model.orders import RunPipeline
from noetl.model.wire import Ask, Key, Lease

# The two rules that a server's dispatcher and a worker's queue share.


def may_begin(order: RunPipeline, *, paused: bool) -> bool:
    """Whether an order may be carried out now.

    A paused execution begins nothing: the engine orders its pipelines again when it is resumed. Two kinds of order are not
    repeated then, so they pass: one that carries the answer of a suspended task, and one that stores the list of a loop.
    """
    return not paused or order.answer is not None or order.gather is not None


def latest(before: RunPipeline | None, order: RunPipeline) -> RunPipeline:
    """Which of two orders of the same pipeline counts: the later one, unless only the earlier one carries an answer.

    The engine repeats an order when a pause ends, and when a time has come twice. An answer reaches dispatch once.
    """
    return order if before is None or order.answer is not None or before.answer is None else before


#: the slots of a worker that has not reported how many it has
MOST_SLOTS = 1000


class State(StrEnum):
    """Where a pipeline stands between the engine's decision and the worker's last report."""

    #: dispatch has no entry yet, or the entry was created by the current input
    NEW = "new"
    #: it waits for a slot, or for its turn under a rate limit
    WAITING = "waiting"
    #: any worker of its pool may take it
    READY = "ready"
    #: a worker holds it
    GIVEN = "given"
    #: a local worker ends it; nothing of it may begin before that is done
    STOPPING = "stopping"
    #: nobody runs it, but it keeps its slot: the pipeline waits for a signal, a time or a child
    IDLE = "idle"
    #: a worker holds it, and its execution is not in this process's memory
    ORPHANED = "orphaned"
    #: dispatch has forgotten it
    SETTLED = "settled"


# Plain names: to look a member up in its class takes as long as a whole transition.
NEW, WAITING, READY, GIVEN = State.NEW, State.WAITING, State.READY, State.GIVEN
STOPPING, IDLE, ORPHANED, SETTLED = State.STOPPING, State.IDLE, State.ORPHANED, State.SETTLED


class Entry(msgspec.Struct, eq=False):
    """A pipeline. Only the actions of `table.TABLE` change its state."""

    key: Key
    record: ExecutionRecord
    #: None: only its slot is known
    order: RunPipeline | None = None
    state: State = NEW
    #: the order that arrived while the pipeline was under way
    following: RunPipeline | None = None
    #: who holds it
    worker: str | None = None
    fence: str = ""
    #: when it was given out
    since: float = 0.0
    #: deaths of workers that ran it, and breaks, since it last made progress
    tries: int = 0
    #: times it did not reach its worker
    undelivered: int = 0
    #: the request to the store of slots that has not been answered, and its number
    ask: Ask | None = None
    number: int = 0
    #: whether it holds a slot
    slot: bool = False
    #: whether its step run or iteration has ended, so that its slot is not needed after the pipeline
    over: bool = False
    pool: str = DEFAULT_POOL
    priority: int = 0
    #: pipelines of one group stay with one worker; None: any worker may take it
    group: tuple[str | int, ...] | None = None
    #: what its worker must understand; see `placement.protocol_of`
    protocol: int = 0
    #: of an entry that a worker holds; None: it has the lease of its worker
    lease: Lease | None = None
    #: when a heartbeat last named it, by `Ledger.listening`
    heard: float = 0.0


#: groups of one execution whose workers are remembered
MOST_HOMES = 10_000


class ExecutionRecord:
    """The entries of one execution."""

    __slots__ = ("_runs", "entries", "execution", "homes", "id", "limited", "paused", "workers")

    def __init__(self, execution_id: str) -> None:
        self.id = execution_id
        #: None: it is not in this process's memory
        self.execution: Dispatched | None = None
        self.paused = False
        #: whether any of its pipelines has asked for a slot
        self.limited = False
        self.entries: dict[Key, Entry] = {}
        #: the same by step run
        self._runs: dict[str, dict[Key, Entry]] = {}
        #: the workers that were given any of its pipelines
        self.workers: set[str] = set()
        #: the workers that a group of its pipelines stays with: the first that serves the pool of one has it
        self.homes: dict[tuple[str | int, ...], list[str]] = {}

    def settle_in(self, group: tuple[str | int, ...], worker: str) -> None:
        """Let a group stay with a worker. The oldest groups are forgotten: inner loops that ended leave theirs here."""
        self.homes.setdefault(group, []).append(worker)
        if len(self.homes) > MOST_HOMES:
            del self.homes[next(iter(self.homes))]

    def leave_home(self, group: tuple[str | int, ...] | None, worker: str) -> None:
        """Let a group go elsewhere."""
        if group is not None and worker in self.homes.get(group, ()):
            self.homes[group].remove(worker)

    def add(self, key: Key) -> Entry:
        """The entry of a pipeline, created if it is new."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(key, self)
            self._runs.setdefault(key[1], {})[key] = entry
        return entry

    def remove(self, entry: Entry) -> None:
        """Forget an entry."""
        key = entry.key
        del self.entries[key]
        run = self._runs[key[1]]
        del run[key]
        if not run:
            del self._runs[key[1]]

    def of_run(self, run_id: str) -> list[Entry]:
        """The entries of a step run."""
        return list(self._runs.get(run_id, {}).values())


class Worker:
    """A worker, as dispatch sees it."""

    __slots__ = ("held", "local", "name", "pools", "protocol", "room", "slots", "waits")

    def __init__(self, name: str, *, local: bool = False) -> None:
        self.name = name
        #: It runs in this process, behind a direct call: it takes whatever is ready, sees a pause at once, and reports every
        #: end exactly once, so it needs neither pools nor fences.
        self.local = local
        self.pools: list[str] = []
        #: what it understands of orders, as it declares; see `placement.protocol_of`
        self.protocol = 0
        #: how many pipelines of this server it may hold
        self.room = 0
        #: how many of them it runs at the same time, in the order in which it was given them
        self.slots = MOST_SLOTS
        self.held: dict[Key, Entry] = {}
        #: whether it is waiting for an answer to its last request for work
        self.waits = False

    @property
    def free(self) -> int:
        """How many more it may hold."""
        return self.room - len(self.held)


#: the engine's answer to "is this order still wanted, and as what?"; None: it is not
Reissue = Callable[[Any, RunPipeline], RunPipeline | None]

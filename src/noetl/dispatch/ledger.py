"""The ledger: the tables that the actions of dispatch read and write. It decides nothing."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from noetl.dispatch.entry import READY, SETTLED, Entry, ExecutionRecord, Reissue, State, Worker
from noetl.dispatch.moves import Hint, Move, ReleaseSlot, Wake
from noetl.model.wire import PROTOCOL, Ask, Key

# The two queues of a dispatcher: pipelines that wait for a slot, and pipelines that wait for a worker.


#: how many pipelines that wait for the same keys ask at the same time
ASK_AT_ONCE = 32


class SlotQueue:
    """Pipelines with an unanswered request for a slot, first come first served for each pair of keys."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._queues: dict[tuple[str | None, str | None], dict[int, Entry]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, entry: Entry, ask: Ask) -> None:
        """Let an entry ask."""
        entry.ask, entry.number = ask, next(self._numbers)
        self._queues.setdefault(_keys(ask), {})[entry.number] = entry

    def remove(self, entry: Entry) -> None:
        """Let it ask no longer; an answer that is under way is then for nobody."""
        if entry.ask is None:
            return
        keys = _keys(entry.ask)
        queue = self._queues[keys]
        del queue[entry.number]
        if not queue:
            del self._queues[keys]
        entry.ask, entry.number = None, 0

    def batch(self) -> list[Entry]:
        """The entries whose turn it may be, in the order in which they came."""
        firsts = (itertools.islice(queue.items(), ASK_AT_ONCE) for queue in self._queues.values())
        return [entry for _, entry in sorted(itertools.chain.from_iterable(firsts), key=lambda one: one[0])]

    def __iter__(self) -> Iterator[Entry]:
        return itertools.chain.from_iterable(list(queue.values()) for queue in self._queues.values())


def _keys(ask: Ask) -> tuple[str | None, str | None]:
    cap, pace = ask.cap, ask.pace
    return cap.key if cap is not None else None, pace.key if pace is not None else None


#: what an entry may need
_PROTOCOLS = range(PROTOCOL + 1)
#: a pool; the worker for which its entries are kept, None: any worker of the pool may take them; and the `PROTOCOL` they need
_Lane = tuple[str, str | None, int]


class ReadyQueue:
    """Pipelines that a worker may take: by pool, the most urgent first, then in the order in which they came.

    Those that stay with one worker have a lane of their own, and so have those that older workers must not have. An entry that is no longer ready stays in its heap until
    somebody comes across it, or until `purge`.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._heaps: dict[_Lane, list[tuple[int, int, Entry]]] = {}

    def push(self, entry: Entry, worker: str | None = None) -> None:
        """Add an entry that becomes ready, for any worker of its pool or for one alone."""
        item = (-entry.priority, next(self._numbers), entry)
        heapq.heappush(self._heaps.setdefault((entry.pool, worker, entry.protocol), []), item)

    def pop(self, pool: str, worker: str, protocol: int) -> Entry | None:
        """Remove and return the next entry of a pool that a worker may take."""
        lanes = [(pool, whom, needed) for needed in range(protocol + 1) for whom in (None, worker)]
        heaps = [heap for lane in lanes if (heap := self._heaps.get(lane))]
        while heaps:
            heap = min(heaps)  # by their first items, of which no two are equal
            entry = heapq.heappop(heap)[2]
            if not heap:
                heaps.remove(heap)
            if entry.state is READY:
                return entry
        return None

    def length(self, pools: Iterable[str], protocols: Iterable[int] = _PROTOCOLS, worker: str | None = None) -> int:
        """How many entries these pools have, at most: for any worker, or for one alone."""
        lanes = [(pool, worker, needed) for pool in pools for needed in protocols]
        return sum(len(self._heaps.get(lane, ())) for lane in lanes)

    def pools(self) -> list[str]:
        """The pools that may have entries."""
        return list(dict.fromkeys(lane[0] for lane, heap in self._heaps.items() if heap))

    def release(self, worker: str) -> list[Entry]:
        """Remove and return what was kept for a worker that is gone."""
        lanes = [lane for lane in self._heaps if lane[1] == worker]
        items = sorted(itertools.chain.from_iterable(self._heaps.pop(lane) for lane in lanes))
        return [entry for _, _, entry in items if entry.state is READY]

    def purge(self) -> None:
        """Drop the entries that are no longer ready."""
        kept = {lane: [item for item in heap if item[2].state is READY] for lane, heap in self._heaps.items()}
        self._heaps = {lane: heap for lane, heap in kept.items() if heap}
        for heap in self._heaps.values():
            heapq.heapify(heap)


#: seconds for which a hint for a pool is not repeated
HINT_AGAIN_S = 0.25
#: Seconds between two looks at the leases that count, at most. A process that took longer did not hear what workers said.
MOST_UNHEARD_S = 1.0


class Ledger:
    """Executions, workers, queues, and the moves of the current input."""

    def __init__(
        self,
        reissue: Reissue,
        *,
        name: str,
        new_secret: Callable[[], str],
        local: str | None = None,
        keeps_slots: bool = True,
    ) -> None:
        self.reissue = reissue
        #: what nobody can guess, for the rest of a fence: whoever knows a fence was given it
        self._new_secret = new_secret
        #: the beginning of every fence that is issued here
        self.name = name
        self.keeps_slots = keeps_slots
        #: nothing is given out any more
        self.closed = False
        self.executions: dict[str, ExecutionRecord] = {}
        self.workers: dict[str, Worker] = {}
        self.local: Worker | None = None
        if local is not None:
            self.local = self.workers[local] = Worker(local, local=True)
        #: every entry in state `orphaned`
        self.orphans: dict[Key, Entry] = {}
        self.ready = ReadyQueue()
        self.slots = SlotQueue()
        self.moves: list[Move] = []
        self.now = 0.0
        #: executions on which a worker reports right now: that worker takes what follows, so nobody else is called
        self.attended: Counter[str] = Counter()
        #: the pools of entries that became ready meanwhile
        self._unannounced: set[str] = set()
        #: the workers for which entries were put aside meanwhile
        self._unannounced_at: set[str] = set()
        #: when a hint for a pool, and for what its workers must understand, was published; none has come for it since
        self._hinted: dict[tuple[str, int], float] = {}
        #: every entry that was given under a lease of its own; those that no worker holds any more are dropped by the next look
        self.leased: dict[Key, Entry] = {}
        #: for how long this process has listened, and when it last looked
        self._listened = self._looked = 0.0

    # --- executions and entries --------------------------------------------------------------------------------------

    def record(self, execution_id: str) -> ExecutionRecord:
        """The record of an execution, created if it is new."""
        found = self.executions.get(execution_id)
        if found is None:
            found = self.executions[execution_id] = ExecutionRecord(execution_id)
        return found

    def find(self, key: Key) -> Entry | None:
        """The entry of a pipeline."""
        record = self.executions.get(key[0])
        return record.entries.get(key) if record is not None else None

    def discard(self, entry: Entry) -> State:
        """Forget an entry."""
        record = entry.record
        record.remove(entry)
        if record.execution is None and not record.entries:
            self.executions.pop(record.id, None)
        return SETTLED

    def detach(self, entry: Entry) -> None:
        """Take an entry from its worker; what that worker still reports under its fence is refused."""
        worker = self.workers.get(entry.worker or "")
        if worker is not None:
            worker.held.pop(entry.key, None)
        entry.worker, entry.fence = None, ""

    def free_slot(self, entry: Entry) -> None:
        """Return the slot of an entry, and withdraw its request for one."""
        self.slots.remove(entry)
        if entry.slot:
            entry.slot = False
            self.moves.append(ReleaseSlot(entry.key))

    def leave_slot(self, entry: Entry) -> None:
        """Leave the slot to the process that continues the execution."""
        self.slots.remove(entry)
        entry.slot = False

    # --- leases ------------------------------------------------------------------------------------------------------

    def listening(self, now: float) -> float:
        """For how long this process has listened: a clock that stands still while the process does."""
        return self._listened + max(0.0, min(now - self._looked, MOST_UNHEARD_S))

    def look(self, now: float) -> float:
        """The same, when the leases are looked at."""
        self._listened, self._looked = self.listening(now), now
        return self._listened

    # --- workers -----------------------------------------------------------------------------------------------------

    def worker(self, name: str) -> Worker:
        """A worker by its name, created if it is new."""
        found = self.workers.get(name)
        if found is None:
            found = self.workers[name] = Worker(name)
        return found

    def new_fence(self) -> str:
        """A fence that was never issued before."""
        return f"{self.name}-{self._new_secret()}"

    def push(self, entry: Entry) -> None:
        """Add an entry that becomes ready, and announce it."""
        home = self.home_of(entry)
        self.ready.push(entry, home.name if home is not None else None)
        if entry.record.id in self.attended:
            if home is None:
                self._unannounced.add(entry.pool)
            else:
                self._unannounced_at.add(home.name)
        elif home is not None and home.waits and home.free > 0:
            self.wake(home)
        else:
            self.call(entry.pool, entry.protocol)

    def home_of(self, entry: Entry) -> Worker | None:
        """The worker that an entry has to go to: it has others of the same group, lives, serves the pool and understands it."""
        if entry.group is None:
            return None
        homes = (self.workers.get(name) for name in entry.record.homes.get(entry.group, ()))
        return next((one for one in homes if one is not None and _serves(one, entry)), None)

    def empty_home(self, worker: str, entry: Entry | None = None) -> None:
        """A worker leaves: the group of an entry that it returned, and what was put aside for it, may go elsewhere."""
        if entry is not None:
            entry.record.leave_home(entry.group, worker)
        for kept in self.ready.release(worker):
            kept.record.leave_home(kept.group, worker)
            self.push(kept)

    def pop(self, pool: str, worker: Worker) -> Entry | None:
        """The next entry of a pool for a worker. Those that must stay with another worker are put aside for it."""
        while (entry := self.ready.pop(pool, worker.name, worker.protocol)) is not None:
            home = self.home_of(entry)
            if home is None or home is worker:
                return entry
            self.ready.push(entry, home.name)
            self._unannounced_at.add(home.name)
        return None

    def call(self, pool: str, protocol: int = 0) -> None:
        """Wake the waiting worker with the most room, or publish a hint. The worker that comes calls the next one."""
        waiting = [
            one
            for one in self.workers.values()
            if one.waits and pool in one.pools and one.free > 0 and protocol <= one.protocol
        ]
        if waiting:
            self.wake(max(waiting, key=lambda one: one.free))
        elif self._hinted.get((pool, protocol), -HINT_AGAIN_S) + HINT_AGAIN_S <= self.now:
            self._hinted[pool, protocol] = self.now
            self.moves.append(Hint(pool))

    def wake(self, worker: Worker) -> None:
        """Let a worker have an answer."""
        worker.waits = False
        self.moves.append(Wake(worker.name))

    def call_for_rest(self, worker: Worker, *, came_for_work: bool) -> None:
        """Announce what a worker leaves behind when its request has been answered.

        Hints of a pool stay queued until a worker with room polls. A worker that only reported has not consumed them.
        """
        pools, self._unannounced = {*worker.pools, *self._unannounced}, set()
        for pool, protocol in itertools.product(pools, _PROTOCOLS):
            if came_for_work and pool in worker.pools and protocol <= worker.protocol:
                self._hinted.pop((pool, protocol), None)
            if self.ready.length([pool], [protocol]):
                self.call(pool, protocol)
        homes, self._unannounced_at = self._unannounced_at, set()
        for home in (self.workers[name] for name in homes if name in self.workers):
            if home.waits and home.free > 0:
                self.wake(home)


def _serves(worker: Worker, entry: Entry) -> bool:
    """Whether a worker may have an entry: it serves the pool, and understands the order."""
    return entry.pool in worker.pools and entry.protocol <= worker.protocol

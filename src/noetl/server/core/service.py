"""The execution service: facts and requests in, decisions out. Load, react, append, then give the orders.

Each execution has one mailbox. Whatever has come while the last decision was being written is decided together, so
that many small reports become few commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from noetl.engine import (
    Decision,
    NetIndex,
    find_pending_orders,
    react,
    reissue_order,
    set_aside,
    start_execution as open_execution,
)
from noetl.errors import ExecutionStuck, NoetlError, SignalRefused, describe_error
from noetl.history import read_pipeline_events, snapshot_of, state_at
from noetl.lru import LruCache
from noetl.model.events import Event, Fact
from noetl.model.net import Net, Planner
from noetl.model.orders import Order, RunPipeline, StopChild
from noetl.model.requests import Due, OpenExecution, Request
from noetl.model.state import Execution, find_pipeline, parse_label
from noetl.ports import EventLog
from noetl.server.core.watchdog import Watchdog

#: a snapshot is written whenever so many events have come since the last
SNAPSHOT_EVERY = 5_000
#: of snapshots, at most so many bytes are written for each event
BYTES_PER_EVENT = 50
#: nets of which is remembered what was worked out, besides those of executions in memory
_NET_INDEXES = 100

Happening = Fact | Request


class OrderReceiver(Protocol):
    """Carries out orders."""

    def on_events(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        """The events of a decision are durable; its orders follow."""

    def give(self, live: LiveExecution, orders: Iterable[Order]) -> None:
        """Carry out orders of an execution, each at least once."""

    def on_end(self, live: LiveExecution) -> None:
        """An execution is over."""


class LiveExecution:
    """An execution in memory."""

    def __init__(self, state: Execution, net_index: NetIndex) -> None:
        self.state = state
        self.net_index = net_index
        self.inbox: list[tuple[Happening, asyncio.Future[None] | None]] = []
        self.busy = False
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.next_snapshot = state.seq + SNAPSHOT_EVERY
        #: given up here: others may go on with it
        self.lost = False

    @property
    def id(self) -> str:
        """The execution's id."""
        return self.state.execution_id

    @property
    def net(self) -> Net:
        """What it runs."""
        return self.net_index.net


class ExecutionService:
    """Decides for all executions of this process."""

    def __init__(
        self,
        log: EventLog,
        order_receiver: OrderReceiver,
        planner: Planner,
        *,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        watchdog: Watchdog | None = None,
    ) -> None:
        self.watchdog = watchdog or Watchdog()
        self.log = log
        self.order_receiver = order_receiver
        self.planner = planner
        self.clock = clock
        self.new_id = new_id
        self.live: dict[str, LiveExecution] = {}
        #: by the identity of their nets, which they keep alive
        self._net_indexes: LruCache[int, NetIndex] = LruCache(_NET_INDEXES)
        self._tasks: set[asyncio.Future[None]] = set()
        #: observers: called with the events of each decision, once they are durable; one that raises is removed
        self.watchers: list[Callable[[LiveExecution, tuple[Event, ...]], None]] = []
        #: hears of each execution that was lost, given up or set aside, and why
        self.on_lost: Callable[[str, NoetlError], None] = lambda _execution_id, _error: None

    async def start(self, net: Net, request: OpenExecution) -> LiveExecution:
        """Start an execution; durable when this returns. ExecutionStuck: nothing was started."""
        index = self._net_index(net)
        state, decision = self.watchdog.run(
            request.execution_id, lambda: open_execution(index, request, self.clock(), self.new_id)
        )
        live = self.live[state.execution_id] = LiveExecution(state, decision.net_index)
        live.busy = True
        try:
            await self._write(live, decision)
            self._after(live, decision)
        except Exception as error:
            self._lose(live, [], _as_noetl_error(error))
            raise
        live.busy = False
        if live.inbox:
            self.post(live.id, ())
        return live

    def _net_index(self, net: Net) -> NetIndex:
        known = self._net_indexes.get(id(net))
        if known is None:
            known = NetIndex(net, self.planner)
            self._net_indexes.put(id(net), known)
        return known

    async def take_over(self, execution_id: str, net: Net) -> LiveExecution:
        """Go on with an execution that another process has left."""
        state = self.load(execution_id)
        live = self.live[execution_id] = LiveExecution(state, self._net_index(net).of(state))
        if state.over:
            self._end(live)
            return live
        if state.stuck is not None:
            return live  # it is here for requests alone
        try:
            self.watchdog.check(execution_id)
            self._begin(live)
        except ExecutionStuck as error:
            await self._set_aside(live, [], error)
            return self.live.get(execution_id, live)
        except Exception as error:
            self._lose(live, [], _as_noetl_error(error))
            raise
        return live

    def _begin(self, live: LiveExecution) -> None:
        """Give the orders that follow from the state."""
        decision = self.watchdog.run(
            live.id, lambda: find_pending_orders(live.net_index, live.state, self.clock(), self.new_id)
        )
        self.order_receiver.give(live, decision.orders)
        self.post(live.id, [Due()])

    def load(self, execution_id: str, *, upto: int | None = None) -> Execution:
        """The state that the log yields, at its end or at an earlier event."""
        return state_at(self.log, execution_id, upto=upto)

    def reissue(self, live: LiveExecution, order: RunPipeline) -> RunPipeline | None:
        """An order that a worker has left undone, as it is to be given to another; None: it is no longer wanted."""
        return reissue_order(live.net_index, live.state, order, self.clock())

    def read_recorded(self, execution_id: str, order: RunPipeline) -> list[Event]:
        """What the log has of the tasks of the order's pipeline."""
        live = self.live.get(execution_id)
        pipe = find_pipeline(live.state, order.step_run_id, parse_label(order.iteration)) if live is not None else None
        found = read_pipeline_events(self.log, execution_id, order.since, pipe.seq) if pipe is not None else None
        if found is None:
            # The last of it may still be on its way into the log: whoever goes on does so from what is there.
            events = self.log.read(execution_id, after=order.since)
            found = [e for e in events if e.step_run_id == order.step_run_id and e.iteration == order.iteration]
        # A compensation works on the run that it undoes, as it is recorded.
        return [*self.log.read(execution_id, after=order.undoes - 1, limit=1), *found] if order.undoes else found

    # --- the mailbox -----------------------------------------------------------------------------------------------

    async def record(self, execution_id: str, happened: Iterable[Happening]) -> None:
        """Decide what follows from what happened; returns when that is durable. SignalRefused: nothing does."""
        live = self.live.get(execution_id)
        if live is None:
            return
        done = asyncio.get_running_loop().create_future()
        items = list(happened)
        live.inbox.extend((one, None) for one in items[:-1])
        live.inbox.append((items[-1], done))
        # Never drained by the caller itself: a pipeline may be stopped at any await, and a decision may not.
        self.post(execution_id, ())
        await done

    def post(self, execution_id: str, happened: Iterable[Happening]) -> None:
        """The same, without waiting."""
        live = self.live.get(execution_id)
        if live is None:
            return
        live.inbox.extend((one, None) for one in happened)
        if not live.busy:
            live.busy = True  # now, and not when it runs: there must never be two
            self._spawn(self._drain(live))

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, live: LiveExecution) -> None:
        live.busy = True
        try:
            while live.inbox:
                inbox, live.inbox = live.inbox, []
                await self._decide(live, inbox)
        finally:
            live.busy = False

    async def _decide(self, live: LiveExecution, inbox: list[tuple[Happening, asyncio.Future[None] | None]]) -> None:
        was_stuck, happened = live.state.stuck is not None, [one for one, _ in inbox]
        try:
            decision = self.watchdog.run(
                live.id, lambda: react(live.net_index, live.state, happened, self.clock(), self.new_id)
            )
        except MemoryError as error:  # of the machine: it is tried again
            self._lose(live, inbox, _as_noetl_error(error))
            return
        except Exception as error:  # noqa: BLE001  it would fail in the same way again and again
            await self._set_aside(live, inbox, error)
            return
        try:
            live.net_index = decision.net_index
            await self._write(live, decision)
            for one, done in inbox:
                if done is not None and not done.done():
                    _answer(done, decision.refusals.get(id(one)))
            if not live.finished.done():  # it may have been given up meanwhile
                self._after(live, decision)
                if was_stuck and live.state.stuck is None and not live.state.over:
                    self._begin(live)
        except Exception as error:  # noqa: BLE001  whatever it is, nobody may wait for ever
            self._lose(live, inbox, _as_noetl_error(error))

    async def _set_aside(
        self,
        live: LiveExecution,
        inbox: list[tuple[Happening, asyncio.Future[None] | None]],
        error: Exception,
    ) -> None:
        """Record that nothing more is decided for an execution. It stays in memory, as the log has it, for requests alone."""
        stuck = ExecutionStuck(describe_error(error))
        stuck.__cause__ = error
        try:
            state = await asyncio.to_thread(self.load, live.id)
            decision = set_aside(live.net_index, state, str(stuck), self.clock())
            await self.log.append(decision.events, status=state.shown_status)
        except Exception as failed:  # noqa: BLE001  then it is tried again, and set aside if it fails again
            self._lose(live, inbox, _as_noetl_error(failed))
            return
        self._lose(live, inbox, stuck)
        aside = self.live[live.id] = LiveExecution(state, live.net_index)
        for watch in tuple(self.watchers):
            watch(aside, decision.events)

    async def _write(self, live: LiveExecution, decision: Decision) -> None:
        if not decision.events:
            return
        state = live.state
        snapshot = None
        if state.seq >= live.next_snapshot:
            snapshot = snapshot_of(state)
            # A large state is written less often, so that an event costs the same however long the run is.
            live.next_snapshot = state.seq + max(SNAPSHOT_EVERY, len(snapshot) // BYTES_PER_EVENT)
        await self.log.append(decision.events, status=state.shown_status, snapshot=snapshot)

    def _after(self, live: LiveExecution, decision: Decision) -> None:
        self.order_receiver.on_events(live, decision.events)
        for watch in tuple(self.watchers):
            try:
                watch(live, decision.events)
            except Exception:  # noqa: BLE001  who only looks on, at a screen that has gone, must not end a run
                self.watchers.remove(watch)
        self.order_receiver.give(live, decision.orders)
        if live.state.over:
            self._end(live)

    def _end(self, live: LiveExecution) -> None:
        self.live.pop(live.id, None)
        self.order_receiver.on_end(live)
        if not live.finished.done():
            live.finished.set_result(None)

    def release(self, live: LiveExecution) -> None:
        """Forget an execution that somebody else may go on with."""
        live.lost = True
        self._drop(live)

    async def settle(self) -> None:
        """Wait until what is being decided is written."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def give_up(self, execution_id: str, error: BaseException) -> None:
        """Stop with an execution; what the log has of it stays, and can be gone on with."""
        live = self.live.get(execution_id)
        if live is not None:
            self._lose(live, [], _as_noetl_error(error))

    def _drop(self, live: LiveExecution) -> bool:
        """Have an execution no longer; False: that was so already, and it may have come back since as another."""
        if self.live.get(live.id) is not live:
            return False
        del self.live[live.id]
        self.order_receiver.on_end(live)
        return True

    def _lose(
        self, live: LiveExecution, inbox: list[tuple[Happening, asyncio.Future[None] | None]], error: NoetlError
    ) -> None:
        """Forget an execution: a decision could not be written or carried out, or the execution is given up.

        Its state may be ahead of the log. Whoever waits for it hears the error.
        """
        live.lost = True
        waiting, live.inbox = [*inbox, *live.inbox], []
        for _, done in waiting:
            if done is not None and not done.done():
                done.set_exception(error)
        if self._drop(live):
            self.on_lost(live.id, error)
        if not live.finished.done():
            live.finished.set_exception(error)
            live.finished.exception()  # known: whoever waits hears of it, and where nobody does it is no news to print


def _answer(done: asyncio.Future[None], refused: str | None) -> None:
    """Tell who waits that what they asked for is durable, or why it was refused."""
    if refused is None:
        done.set_result(None)
    else:
        done.set_exception(SignalRefused(refused))


def _as_noetl_error(error: BaseException) -> NoetlError:
    if isinstance(error, NoetlError):
        return error
    made = NoetlError(describe_error(error))
    made.__cause__ = error
    return made


# An execution without an owner: requests take effect in its log, and no order is carried out. The orders follow from the
# log again when the execution is resumed.


class _NullReceiver:
    """Carries out nothing, but knows which children were to end."""

    def __init__(self) -> None:
        self.children: list[str] = []

    def on_events(self, _live: LiveExecution, _events: tuple[Event, ...]) -> None:
        """Nothing was given."""

    def give(self, _live: LiveExecution, orders: Iterable[Order]) -> None:
        self.children += [order.execution_id for order in orders if isinstance(order, StopChild)]

    def on_end(self, _live: LiveExecution) -> None:
        """Nothing was kept."""


async def apply_request(
    log: EventLog,
    execution_id: str,
    net: Net,
    request: Request,
    planner: Planner,
    *,
    clock: Callable[[], float],
    new_id: Callable[[], str],
) -> list[str]:
    """Record what follows from a request to an execution that this process has claimed; the children to end as well."""
    nobody = _NullReceiver()
    service = ExecutionService(log, nobody, planner, clock=clock, new_id=new_id)
    state = state_at(log, execution_id)
    service.live[execution_id] = LiveExecution(state, NetIndex(net, planner).of(state))
    await service.record(execution_id, [request])
    return nobody.children

"""A control plane whose workers are other processes. Any number of servers may share one database.

Each minds the executions that it owns. Those of a server that is gone are taken over by whoever notices first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from noetl.dispatch import DEFAULT_POOL, DeadLetter
from noetl.errors import ExecutionStuck, NoetlError
from noetl.model.net import Net
from noetl.model.output import Failure, failure
from noetl.model.requests import PipelineFailed
from noetl.model.scope import merge_maps
from noetl.model.wire import ExecutionBrief, HeldPipeline, Key
from noetl.ports import Bus, EventLog, PlaybookSource, StoreFailed, WorkerRegistry
from noetl.server.cluster import eviction
from noetl.server.cluster.eviction import Eviction, RetryLater
from noetl.server.cluster.remote_workers import RemoteWorkers
from noetl.server.cluster.worker_api import WorkerApi
from noetl.server.core import Catalog, ControlPlane, Effects, OwnedElsewhere, Watchdog

#: what a worker has had for so many seconds is kept for other servers; what is shorter is as soon run again
_KEEP_AFTER_S = 0.5
#: executions that are looked at in one sweep, and taken over at once
_MOST, _AT_ONCE = 10_000, 16
#: seconds that workers are given to say whether credentials are there; a task that needs one says so later
_ANSWER_S = 5.0
#: how often executions are laid down and woken, in seconds
_EVICT_S, _WAKE_S = 1.0, 0.2


class ClusterStore(eviction.EvictionStore, Protocol):
    """What a database of executions tells its servers."""

    def find_unowned(self, most: int) -> list[str]:
        """Executions that are under way and that no other process minds."""

    def not_owned(self, execution_ids: list[str]) -> list[str]:
        """Those that are not this process's, or not any more."""


class ServerNode(ControlPlane):
    """The control plane of a cluster, or one of its servers."""

    def __init__(  # noqa: PLR0913  a server is made of as many parts
        self,
        log: EventLog,
        catalog: Catalog,
        registry: WorkerRegistry,
        *,
        lease_s: float,
        bus: Bus | None = None,
        url: str = "",
        cluster_store: ClusterStore | None = None,
        effects: Effects | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        effects = effects or Effects()
        self.remote = RemoteWorkers()
        super().__init__(log, catalog, self.remote, effects, watchdog=watchdog)
        self.remote.service, self.remote.pipelines, self.remote.record = (
            self.service,
            self.pipelines,
            self._record_dead_letter,
        )
        self.registry = registry
        self.worker_api = WorkerApi(self, self.remote, registry)
        self._lease_s = lease_s
        if bus is not None:
            me = url.encode()
            self.remote.publish = lambda pool: self.spawn(bus.wake(pool, me))
            self.remote.notify = lambda worker: self.spawn(bus.notify(worker, me))
        self._retry_later = RetryLater(effects.clock, self.warn)
        self._cluster_store = cluster_store
        self._eviction = Eviction(self, cluster_store, self._retry_later) if cluster_store is not None else None
        self._kept: dict[tuple[Key, str], HeldPipeline] = {}
        self._loops: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.open()
        self._loops = [asyncio.create_task(self._every(self._lease_s / 3, self._sweep))]
        self._loops.append(asyncio.create_task(self._every(_KEEP_AFTER_S, self._keep_held)))
        if self._eviction is not None:
            self._loops.append(asyncio.create_task(self._every(_EVICT_S, self._eviction.evict)))
            self._loops.append(asyncio.create_task(self._every(_WAKE_S, self._eviction.wake)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with contextlib.AsyncExitStack() as stack:  # each of these is closed, whatever fails before it
            stack.callback(self.registry.close)
            stack.push_async_callback(self.log.close)
            stack.push_async_callback(self.notices.settle)
            self.worker_api.drain()
            self.stop_polling()
            for loop in self._loops:
                loop.cancel()
            await asyncio.gather(*self._loops, return_exceptions=True)
            await self.service.settle()
            await self.cancel_tasks()
            with contextlib.suppress(NoetlError):  # it only saves others work
                await self._keep_held(after=0.0)

    def on_lost(self, execution_id: str, error: NoetlError) -> None:
        """Leave an execution alone for a while that cannot be resumed now."""
        super().on_lost(execution_id, error)
        if not isinstance(error, ExecutionStuck):
            self._retry_later.add(execution_id, error)

    def workers(self) -> list[dict[str, Any]]:
        """Those who live."""
        return self.registry.workers()

    def dead_letters(self, paths: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Pipelines that nobody brought to an end, the latest first; with `paths` only those of these playbooks."""
        return self.registry.list_dead_letters(paths=paths)

    def _record_dead_letter(self, letter: DeadLetter) -> None:
        """Record a dead letter, and fail its step."""
        message = f"it was given out {letter.tries} times and never came to an end; the last time, {letter.why}"
        error = failure("dead-letter", message, tries=letter.tries)
        execution_id, run_id, iteration = letter.key
        live = self.service.live.get(execution_id)
        path = live.state.path if live is not None else ""
        self.spawn(self._keep_letter(HeldPipeline(*letter.key, "", letter.worker, letter.tries), letter.why, path))
        self.service.post(execution_id, [PipelineFailed(run_id, iteration, error)])

    async def _keep_letter(self, held: HeldPipeline, why: str, path: str) -> None:
        with contextlib.suppress(NoetlError):  # the execution says it too
            await self.registry.add_dead_letter(held, why, path)

    async def drain(self) -> None:
        """Hand out nothing more, and let what was reported be written."""
        self.worker_api.drain()
        await self.service.settle()

    def on_notification(self, what: str) -> None:
        """Somebody says through the store that there is something; what a server has left is taken over at once."""
        super().on_notification(what)
        if what == "left":
            self.spawn(self._log_failures(self._sweep))

    async def _every(self, seconds: float, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._log_failures(do)
            await asyncio.sleep(seconds)

    async def _log_failures(self, do: Callable[[], Awaitable[None]]) -> None:
        """Do something that is done again soon: a database may be away, and no execution may keep others from being minded."""
        try:
            await do()
        except StoreFailed:
            pass
        except Exception as error:  # noqa: BLE001  a mistake of ours
            self._retry_later.notify("executions are not minded as they should be", error)

    async def problem(
        self, execution_id: str, net: Net, source: PlaybookSource, payload: dict[str, Any]
    ) -> Failure | None:
        """Why an execution cannot begin: a worker says that a credential is not there."""
        pools = _list_pools(net)
        if not net.playbook.keychain or not pools:
            return None
        brief = ExecutionBrief(source.hash, source.file, merge_maps(net.playbook.workload, payload))
        return await self.remote.questions.ask(execution_id, brief, pools, _ANSWER_S)

    async def collect(self) -> list[tuple[int, str, bytes]]:
        """What others ask for; a database is waited for elsewhere."""
        return await asyncio.to_thread(self.log.collect)

    # --- what others have left ---------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        for worker in await self.registry.give_up():
            self.worker_api.give_up(worker)
        self.dispatcher.ready.purge()
        for pool in self.dispatcher.ready.pools():
            self.remote.hint(pool)  # a hint may have been lost
        await self._drop_not_owned()
        left = await asyncio.to_thread(self._find_left)
        refused = self._retry_later.now()
        gate = asyncio.Semaphore(_AT_ONCE)
        free = [one for one in left if one not in refused and self._is_free(one)]
        self.worker_api.roster.note_takeover(sum(await asyncio.gather(*(self._adopt(one, gate) for one in free))))
        await self._forget_ended()

    async def _forget_ended(self) -> None:
        """Remember no longer who had what of executions that others have gone on with, and that are over."""
        left = {key[0] for key in self.dispatcher.orphans}
        if left:
            for execution_id in left - await asyncio.to_thread(self.log.under_way, left):
                self.pipelines.carry_out(self.dispatcher.drop_orphans(execution_id))

    async def _drop_not_owned(self) -> None:
        """Forget executions that are not this server's: requests go to whoever owns one, and others write what is not seen here.

        Another may have taken one over; it may sleep, though nobody heard that it was laid down; a database that crashed may
        have lost the claim. Whatever it was, it is gone on with from the log by whoever finds it.
        """
        if self._cluster_store is None or not self.service.live:
            return
        for execution_id in await asyncio.to_thread(self._cluster_store.not_owned, list(self.service.live)):
            if execution_id not in self._coming:
                self.service.give_up(execution_id, OwnedElsewhere(f"{execution_id} is no longer this server's"))

    def _find_left(self) -> list[str]:
        """Executions that nobody minds, the oldest first; or that this server did, until it could not write."""
        if self._cluster_store is not None:
            return self._cluster_store.find_unowned(_MOST)
        unfinished = self.log.summaries(limit=_MOST, unfinished=True)
        return [one.execution_id for one in reversed(unfinished) if not one.alive or one.owner == self.log.me]

    def _is_free(self, execution_id: str) -> bool:
        return execution_id not in self.service.live and execution_id not in self._coming

    async def _adopt(self, execution_id: str, gate: asyncio.Semaphore) -> bool:
        """Go on with an execution; whether that was done."""
        async with gate:
            try:
                if self._is_free(execution_id):
                    live = await self.resume(execution_id)
                    return not live.state.over  # it may have ended here since it was looked for
            except Exception as error:  # noqa: BLE001  it stays as it is, and the others come on
                self._retry_later.add(execution_id, error)
            return False

    def inherit(self, execution_id: str) -> None:
        """Know what workers have of an execution that is being taken over."""
        kept = self.registry.read_held(execution_id)
        self.pipelines.carry_out(self.dispatcher.inherit(execution_id, kept))
        self._kept.update({(held.key, held.fence): held for held in kept})

    def on_takeover(self, execution_id: str) -> None:
        """It has been taken over."""
        self.pipelines.carry_out(self.dispatcher.drop_orphans(execution_id))
        if self._eviction is not None:
            self._eviction.note_takeover(execution_id)

    # --- what others will find ---------------------------------------------------------------------------------------

    async def _keep_held(self, after: float = _KEEP_AFTER_S) -> None:
        """Keep who has what, of that which lasts."""
        ripe = self.remote.now() - after
        held = {(entry.key, entry.fence): entry for entry in self.dispatcher.list_held()}
        begun = {
            at: HeldPipeline(*at[0], at[1], entry.worker, entry.tries)
            for at, entry in held.items()
            if at not in self._kept and entry.since <= ripe
        }
        elsewhere = self._find_elsewhere()
        over = [one for at, one in self._kept.items() if at not in held and at[0][0] not in elsewhere]
        if not begun and not over:
            return
        await self.registry.keep(list(begun.values()), over)
        self._kept = {at: one for at, one in self._kept.items() if at in held} | begun

    def _find_elsewhere(self) -> set[str]:
        """Executions that others mind, or will: what is kept of them is theirs."""
        return {at[0][0] for at in self._kept if at[0][0] not in self.service.live}


def _list_pools(net: Net) -> set[str]:
    """The pools whose workers run steps of a playbook; not those that a template names."""
    layers = [step.spec.get("pool") for step in net.steps.values() if step.all_tasks]
    pools = {layer.value if layer is not None else DEFAULT_POOL for layer in layers}
    return {pool for pool in pools if isinstance(pool, str)}

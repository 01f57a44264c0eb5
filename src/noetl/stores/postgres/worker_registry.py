"""The registry of workers in PostgreSQL, by its clock. It has a connection of its own: signs of life wait for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from noetl.model.wire import HeldPipeline
from noetl.ports import StoreFailed, WorkerRegistry
from noetl.stores.appends import queries
from noetl.stores.postgres.schema import Session, connect, explain_error

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_SQL = queries("postgres")


class PgRegistry(WorkerRegistry):
    """A `WorkerRegistry`. While the database is away, and for a lease after that, nobody is given up."""

    def __init__(self, url: str, lease_s: float) -> None:
        self._lease_s = lease_s
        self._lock = Lock()
        self._session = Session(lambda: connect(url))
        #: workers that were known lately, until when that is believed without asking
        self._known: dict[str, float] = {}
        self._trouble = monotonic()

    # --- asking ------------------------------------------------------------------------------------------------------

    def _do(self, what: Callable[[psycopg.Connection[Any]], T]) -> T:
        import psycopg

        with self._lock:
            try:
                return what(self._session.open())
            except (psycopg.Error, StoreFailed) as error:
                self._trouble = monotonic()
                self._session.note(error)
                raise error if isinstance(error, StoreFailed) else explain_error(error) from error

    async def _ask(self, what: Callable[[psycopg.Connection[Any]], T]) -> T:
        return await asyncio.to_thread(self._do, what)

    # --- life --------------------------------------------------------------------------------------------------------

    async def renew(self, worker: str, about: Mapping[str, Any]) -> bool:
        """See the port."""
        body = msgspec.json.encode(about).decode()
        found = await self._ask(
            lambda it: it.execute(_SQL["renew_worker"], (worker, self._lease_s, body)).fetchone() is not None
        )
        self._know(worker, known=found)
        return found

    async def knows(self, worker: str) -> bool:
        """See the port; what was true a moment ago is believed."""
        if self._known.get(worker, 0) > monotonic():
            return True
        found = await self._ask(lambda it: it.execute(_SQL["known_worker"], (worker,)).fetchone() is not None)
        self._know(worker, known=found)
        return found

    def _know(self, worker: str, *, known: bool) -> None:
        if known:
            self._known[worker] = monotonic() + self._lease_s / 3
        else:
            self._known.pop(worker, None)

    async def leave(self, worker: str) -> None:
        """See the port."""
        await self._ask(lambda it: it.execute(_SQL["leave_worker"], (worker,)))
        self._know(worker, known=False)

    async def give_up(self) -> list[str]:
        """See the port."""
        if monotonic() - self._trouble < self._lease_s:
            return []

        def sweep(it: psycopg.Connection[Any]) -> list[str]:
            it.execute(_SQL["give_up_workers"])
            it.execute(_SQL["forget_workers"])
            it.execute(_SQL["forget_held_of_over"])  # nobody takes these over any more
            # Those that another server gave up are told of too.
            return [row[0] for row in it.execute(_SQL["given_up_workers"], (10 * self._lease_s + 60,)).fetchall()]

        gone = await self._ask(sweep)
        for worker in gone:
            self._know(worker, known=False)
        return gone

    def workers(self) -> list[dict[str, Any]]:
        """See the port."""
        rows = self._do(lambda it: it.execute(_SQL["workers"], (self._lease_s,)).fetchall())
        return [{"worker": name, "heard_s_ago": round(ago, 1), **about} for name, ago, about in rows]

    # --- who has what ------------------------------------------------------------------------------------------------

    def read_held(self, execution_id: str) -> list[HeldPipeline]:
        """See the port."""
        rows = self._do(lambda it: it.execute(_SQL["held"], (execution_id,)).fetchall())
        return [HeldPipeline(row[0], row[1], msgspec.json.decode(row[2]), *row[3:]) for row in rows]

    async def keep(self, begun: Sequence[HeldPipeline], over: Sequence[HeldPipeline]) -> None:
        """See the port."""

        def write(it: psycopg.Connection[Any]) -> None:
            with it.transaction():
                if over:
                    it.execute(_SQL["forget_held"], [[row[at] for row in map(_row, over)] for at in range(4)])
                if begun:
                    it.execute(_SQL["keep_held"], [[row[at] for row in map(_row, begun)] for at in range(6)])

        await self._ask(write)

    async def add_dead_letter(self, held: HeldPipeline, why: str) -> None:
        """See the port."""
        execution_id, step_run_id, iteration, _, worker, tries = _row(held)
        await self._ask(lambda it: it.execute(_SQL["bury"], (execution_id, step_run_id, iteration, worker, tries, why)))

    def list_dead_letters(self, limit: int = 100) -> list[dict[str, Any]]:
        """See the port."""
        rows = self._do(lambda it: it.execute(_SQL["buried"], (limit,)).fetchall())
        names = ("execution_id", "step_run_id", "iteration", "worker", "tries", "why", "at")
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [
            {**one, "iteration": msgspec.json.decode(one["iteration"]), "at": one["at"].isoformat()} for one in found
        ]

    def close(self) -> None:
        """Let go."""
        with self._lock:
            self._session.close()


def _row(held: HeldPipeline) -> tuple[Any, ...]:
    iteration = msgspec.json.encode(held.iteration).decode()
    return held.execution_id, held.step_run_id, iteration, held.fence, held.worker, held.tries

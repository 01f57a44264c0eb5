"""The registry of workers in PostgreSQL, by its clock. It has a connection of its own: signs of life wait for nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from noetl.model.wire import HeldPipeline
from noetl.ports import LostWorkers, StoreFailed, WorkerRegistry
from noetl.stores.appends import queries
from noetl.stores.postgres.schema import Session, connect, explain_error
from noetl.stores.sql_log import encode_paths

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_SQL = queries("postgres")


class PgRegistry(WorkerRegistry):
    """A `WorkerRegistry`. While the database is away, and for a lease after that, nobody is given up."""

    def __init__(self, url: str, lease_s: float) -> None:
        self._url, self._lease_s = url, lease_s
        self._lock = Lock()
        self._session = Session(lambda: connect(self._url))
        #: workers that were known lately, with their tokens, until when that is believed without asking
        self._known: dict[tuple[str, str], float] = {}
        #: workers that were heard lately, with their tokens: when that was written, and for how long beyond the lease they are kept
        self._renewed: dict[tuple[str, str], tuple[float, float]] = {}
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

    async def renew(self, worker: str, about: Mapping[str, Any], longest_lease_s: float = 0.0, token: str = "") -> bool:
        """See the port; what was written a moment ago is not written again, however often a worker is heard."""
        keep_s = max(0.0, longest_lease_s - self._lease_s)
        written, kept_s = self._renewed.get((worker, token), (-math.inf, 0.0))
        if monotonic() - written < self._lease_s / 6 and keep_s == kept_s:
            return True
        body = msgspec.json.encode({**about, "keep_s": keep_s} if keep_s else about).decode()
        row = worker, self._lease_s, body, token
        found = await self._ask(lambda it: it.execute(_SQL["renew_worker"], row).fetchone() is not None)
        self._know(worker, token, known=found)
        if found:
            self._renewed[worker, token] = monotonic(), keep_s
        return found

    async def knows(self, worker: str, token: str = "") -> bool:
        """See the port; what was true a moment ago is believed."""
        if self._known.get((worker, token), 0) > monotonic():
            return True
        found = await self._ask(lambda it: it.execute(_SQL["known_worker"], (worker, token)).fetchone() is not None)
        self._know(worker, token, known=found)
        return found

    async def is_foreign(self, worker: str, token: str) -> bool:
        """See the port."""
        return await self._ask(lambda it: it.execute(_SQL["foreign_worker"], (worker, token)).fetchone() is not None)

    def _know(self, worker: str, token: str, *, known: bool) -> None:
        if known:
            self._known[worker, token] = monotonic() + self._lease_s / 3
        else:
            self._known.pop((worker, token), None)
            self._renewed.pop((worker, token), None)

    async def leave(self, worker: str, token: str = "") -> None:
        """See the port."""
        await self._ask(lambda it: it.execute(_SQL["leave_worker"], (worker, token)))
        self._know(worker, token, known=False)

    async def give_up(self) -> LostWorkers:
        """See the port."""
        if monotonic() - self._trouble < self._lease_s:
            return LostWorkers([], [])

        def sweep(it: psycopg.Connection[Any]) -> LostWorkers:
            it.execute(_SQL["give_up_workers"])
            it.execute(_SQL["forget_workers"])
            it.execute(_SQL["forget_held_of_over"])  # nobody takes these over any more
            # Those that another server gave up are told of too.
            gone = it.execute(_SQL["given_up_workers"], (10 * self._lease_s + 60,)).fetchall()
            return LostWorkers(
                [row[0] for row in gone], [row[0] for row in it.execute(_SQL["silent_workers"]).fetchall()]
            )

        lost = await self._ask(sweep)
        given_up = set(lost.given_up)
        self._known = {one: until for one, until in self._known.items() if one[0] not in given_up}
        self._renewed = {one: when for one, when in self._renewed.items() if one[0] not in given_up}
        return lost

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

    async def add_dead_letter(self, held: HeldPipeline, why: str, path: str) -> None:
        """See the port."""
        execution_id, step_run_id, iteration, _, worker, tries = _row(held)
        row = execution_id, step_run_id, iteration, worker, tries, why, path
        await self._ask(lambda it: it.execute(_SQL["bury"], row))

    def list_dead_letters(self, limit: int = 100, paths: Sequence[str] = ()) -> list[dict[str, Any]]:
        """See the port."""
        wanted = {"limit": limit, "paths": encode_paths(paths)}
        rows = self._do(lambda it: it.execute(_SQL["buried"], wanted).fetchall())
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

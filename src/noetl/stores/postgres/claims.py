"""Who owns which execution in PostgreSQL: claims, and the signs of life without which they lapse.

Two who claim the same execution at once must not both take the other for dead, so each looks only when the other is done:
all claims that wait are locked in one order, and decided in one statement behind that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from noetl.ports import StoreFailed
from noetl.stores.appends import queries
from noetl.stores.commit_queue import CommitQueue, Ticket, answer
from noetl.stores.postgres.schema import Session, explain_error

if TYPE_CHECKING:
    import psycopg

_SQL = queries("postgres")
#: differences between clocks that are none; what a clock is set back by at least
_NOISE_S, _STEP_S = 0.1, 1.0
#: seconds for which anybody may be believed to live when the clock was set back
_LONG_S = 90.0


class ClaimRequest:
    """A request to the commit queue: to own an execution."""

    def __init__(self, execution_id: str) -> None:
        self.execution_id = execution_id

    def __call__(self, connection: Any) -> None:
        """Never called: claims are decided together."""
        raise NotImplementedError


class DatabaseClock:
    """What is known of the database's clock, by which all of its servers go."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: seconds by which it is ahead of this machine's
        self.offset = 0.0
        self._last: tuple[float, float] | None = None

    def set(self, now: float, *, took: float) -> float:
        """Take in what the database says, who took so long to say it. By how much it was set back since the last time."""
        at, before = monotonic(), self._last
        offset = now + took / 2 - self._clock()
        if abs(offset - self.offset) > max(_NOISE_S, took):
            self.offset = offset
        self._last = now, at
        back = before[0] + at - before[1] - now if before is not None else 0.0
        return back if back > max(_STEP_S, 2 * took) else 0.0


class ClaimQueue(CommitQueue):
    """The claims of one process, under its name."""

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], name: str, lease_s: float, clock: DatabaseClock
    ) -> None:
        super().__init__("the database of executions")
        self._connect, self._session = connect, Session(connect)
        self._owner, self._lease_s = name, lease_s
        self.clock = clock
        self._resigned = Flag()
        self._living: Thread | None = None

    async def claim(self, execution_id: str) -> bool:
        """Own an execution, unless somebody else who lives does."""
        mine: bool = await self.submit(ClaimRequest(execution_id))
        return mine

    async def register(self) -> None:
        """Be known to live, without owning anything; this is written each time."""
        await self.submit(ClaimRequest(""))

    def _write(self, tickets: list[Ticket]) -> None:
        wanted = [work.execution_id if isinstance(work, ClaimRequest) else "" for work, _ in tickets]
        outcomes: list[Any]
        try:
            mine = self._claim_all(sorted({name for name in wanted if name}))
            outcomes = [name in mine for name in wanted]
        except Exception as error:  # noqa: BLE001  whatever it is: callers wait, and the thread must live
            self._session.note(error)
            failure = error if isinstance(error, StoreFailed) else explain_error(error)
            outcomes = [StoreFailed(*failure.args) for _ in tickets]
        answer([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])

    def _claim_all(self, names: list[str]) -> set[str]:
        connection = self._session.open()
        if self._living is None or not names:
            self._enrol(connection, first=self._living is None)
        if self._living is None:
            self._living = Thread(target=self._renew_lease, name="noetl-alive", daemon=True)
            self._living.start()
        if not names:
            return set()
        try:
            with connection.pipeline():  # in one round trip
                connection.execute("BEGIN")
                # A claim that is lost with the machine is made again by whoever finds the execution without an owner.
                connection.execute("SET LOCAL synchronous_commit = off")
                connection.execute(_SQL["lock_claims"], (names,))
                owned = connection.execute(_SQL["own"], (names, self._owner))
                connection.execute("COMMIT")
            return {row[0] for row in owned.fetchall()}
        except BaseException:
            with suppress(Exception):  # one that is broken cannot, and need not
                connection.rollback()
            raise

    def _enrol(self, connection: psycopg.Connection[Any], *, first: bool = False) -> None:
        """Be known to live for the time of a lease, and see whether the database's clock was set back."""
        sent = monotonic()
        row = connection.execute(_SQL["enrol"], (self._owner, self._lease_s)).fetchone()
        assert row is not None
        back = self.clock.set(row[0], took=monotonic() - sent)
        if back or first:
            most = {"most": max(3 * self._lease_s, _LONG_S)}
            connection.execute(_SQL["shorten_owners"], most)
            connection.execute(_SQL["shorten_workers"], most)
            connection.execute(_SQL["wake_sooner"], {"back": back})

    def _renew_lease(self) -> None:
        """Show that this process lives, until it resigns."""
        session = Session(self._connect)
        while not self._resigned.wait(self._lease_s / 3):
            try:
                self._enrol(session.open())
            except Exception as error:  # noqa: BLE001  a database that is away for a while is asked again at the next turn
                session.note(error)
        with suppress(Exception):
            session.open().execute(_SQL["resign"], (self._owner,))
        session.close()

    async def close(self) -> None:
        """Own nothing any more."""
        await super().close()
        self._resigned.set()
        if self._living is not None:
            self._living.join()

    def _on_stop(self) -> None:
        self._session.close()

"""The registry and the roster of workers of a server that is alone, by its own clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic, time
from typing import Any

import msgspec

from noetl.model.access import allows_path
from noetl.model.wire import HeldPipeline
from noetl.ports import LostWorkers, WorkerRegistry

# The roster: which workers a server has heard of, and a line for each that joins or leaves.


class WorkerRoster:
    """The workers that one server has heard of."""

    def __init__(self) -> None:
        #: hears what whoever looks after the server should know
        self.print_line: Callable[[str], None] = lambda _line: None
        self._names: set[str] = set()

    def report_joined(self, name: str, about: Mapping[str, Any]) -> None:
        """A worker says that it lives."""
        if name not in self._names:
            self._names.add(name)
            pools = ", ".join(map(str, about.get("pools", ())))
            self.print_line(f"worker {name} joined: {about.get('slots', '?')} slots, pools {pools or '?'}")

    def report_left(self, name: str) -> None:
        """It has finished what it had, and ended."""
        if name in self._names:
            self._names.discard(name)
            self.print_line(f"worker {name} left in good order")

    def report_lost(self, name: str, had: int) -> None:
        """Nobody has heard of it for too long. Of those that never came here, only what they had matters."""
        if name in self._names or had:
            self._names.discard(name)
            again = f"{had} pipeline{'s are' if had > 1 else ' is'} handed out again" if had else "it had nothing"
            self.print_line(f"worker {name} was given up; {again}")

    def report_expired(self, name: str, many: int) -> None:
        """It has not named pipelines for longer than their leases."""
        again = f"{many} pipelines were" if many > 1 else "a pipeline was"
        self.print_line(f"worker {name} sent no heartbeat in time for a lease; {again} given out again")

    def report_silent(self, name: str, many: int) -> None:
        """Nobody has heard of it for longer than its lease, and it is kept for what has a longer one."""
        again = f"{many} pipelines were" if many > 1 else "a pipeline was"
        self.print_line(f"worker {name} is silent; {again} given out again, and those with longer leases stay with it")

    def note_takeover(self, many: int) -> None:
        """Executions go on here that nobody minded."""
        if many:
            self.print_line(
                f"{many:,} execution{'s were' if many > 1 else ' was'} taken over: nobody ran {'them' if many > 1 else 'it'} any more"
            )


class MemoryRegistry(WorkerRegistry):
    """A `WorkerRegistry`."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._until: dict[str, float] = {}
        self._about: dict[str, dict[str, Any]] = {}
        #: for how long beyond its lease a worker is kept
        self._kept: dict[str, float] = {}
        self._given_up: set[str] = set()
        #: whose the names are, also of those that were given up
        self._tokens: dict[str, str] = {}
        self._buried: list[tuple[str, dict[str, Any]]] = []

    async def renew(self, worker: str, about: Mapping[str, Any], longest_lease_s: float = 0.0, token: str = "") -> bool:
        """See the port."""
        if worker in self._given_up or self._tokens.setdefault(worker, token) != token:
            return False
        self._until[worker], self._about[worker] = monotonic() + self._lease_s, dict(about)
        self._kept[worker] = max(0.0, longest_lease_s - self._lease_s)
        return True

    async def knows(self, worker: str, token: str = "") -> bool:
        """See the port."""
        return worker in self._until and self._tokens[worker] == token

    async def is_foreign(self, worker: str, token: str) -> bool:
        """See the port."""
        return self._tokens.get(worker, token) != token

    async def leave(self, worker: str, token: str = "") -> None:
        """See the port."""
        if await self.is_foreign(worker, token):
            return
        self._tokens.setdefault(worker, token)
        self._until.pop(worker, None)
        self._about.pop(worker, None)
        self._kept.pop(worker, None)
        self._given_up.add(worker)

    async def give_up(self) -> LostWorkers:
        """See the port."""
        now = monotonic()
        gone = [worker for worker, until in self._until.items() if until + self._kept[worker] < now]
        for worker in gone:
            del self._until[worker], self._about[worker], self._kept[worker]
        self._given_up.update(gone)
        return LostWorkers(gone, [worker for worker, until in self._until.items() if until < now])

    def read_held(self, execution_id: str) -> list[HeldPipeline]:  # noqa: ARG002
        """See the port: whoever was given something by a server that is gone is asked to begin anew."""
        return []

    async def keep(self, begun: Sequence[HeldPipeline], over: Sequence[HeldPipeline]) -> None:
        """See the port."""

    def workers(self) -> list[dict[str, Any]]:
        """See the port."""
        now = monotonic()
        return [
            {"worker": worker, "heard_s_ago": round(now - until + self._lease_s, 1), **self._about[worker]}
            for worker, until in self._until.items()
            if until > now
        ]

    async def add_dead_letter(self, held: HeldPipeline, why: str, path: str) -> None:
        """See the port."""
        at = datetime.fromtimestamp(time(), UTC).isoformat()
        self._buried.append((path, {**msgspec.to_builtins(held), "why": why, "at": at}))

    def list_dead_letters(self, limit: int = 100, paths: Sequence[str] = ()) -> list[dict[str, Any]]:
        """See the port."""
        return [letter for path, letter in reversed(self._buried) if allows_path(paths, path)][:limit]

    def close(self) -> None:
        """Let go."""

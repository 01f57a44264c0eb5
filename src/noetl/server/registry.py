"""The registry of workers of a server that is alone, by its own clock: what it forgets at its end, nobody else needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic, time
from typing import Any

import msgspec

from noetl.cluster_ports import WorkerRegistry
from noetl.model.wire import Held


class MemoryRegistry(WorkerRegistry):
    """A `WorkerRegistry`."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._until: dict[str, float] = {}
        self._about: dict[str, dict[str, Any]] = {}
        self._given_up: set[str] = set()
        self._buried: list[dict[str, Any]] = []

    async def renew(self, worker: str, about: Mapping[str, Any]) -> bool:
        """See the port."""
        if worker in self._given_up:
            return False
        self._until[worker], self._about[worker] = monotonic() + self._lease_s, dict(about)
        return True

    async def knows(self, worker: str) -> bool:
        """See the port."""
        return worker in self._until

    async def leave(self, worker: str) -> None:
        """See the port."""
        self._until.pop(worker, None)
        self._about.pop(worker, None)
        self._given_up.add(worker)

    async def give_up(self) -> list[str]:
        """See the port."""
        now = monotonic()
        gone = [worker for worker, until in self._until.items() if until < now]
        for worker in gone:
            del self._until[worker], self._about[worker]
        self._given_up.update(gone)
        return gone

    def held(self, execution_id: str) -> list[Held]:  # noqa: ARG002
        """See the port: whoever was given something by a server that is gone is asked to begin anew."""
        return []

    async def keep(self, begun: Sequence[Held], over: Sequence[Held]) -> None:
        """See the port."""

    def workers(self) -> list[dict[str, Any]]:
        """See the port."""
        now = monotonic()
        return [
            {"worker": worker, "heard_s_ago": round(now - until + self._lease_s, 1), **self._about[worker]}
            for worker, until in self._until.items()
        ]

    async def bury(self, held: Held, why: str) -> None:
        """See the port."""
        at = datetime.fromtimestamp(time(), UTC).isoformat()
        self._buried.append({**msgspec.to_builtins(held), "why": why, "at": at})

    def buried(self, limit: int = 100) -> list[dict[str, Any]]:
        """See the port."""
        return list(reversed(self._buried))[:limit]

    def close(self) -> None:
        """Let go."""

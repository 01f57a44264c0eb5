"""What a worker holds: pipelines, and as much of their executions and playbooks as they need."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.model.wire import Assignment, Brief
from noetl.ports import Source
from noetl.worker.link import Link

#: seconds of work that is fetched ahead, and pipelines at most
_AHEAD_S, _AHEAD = 0.05, 200


class Remote:
    """An execution of which this worker runs pipelines: as much of its state as they need."""

    def __init__(self, execution_id: str, net: Net, brief: Brief) -> None:
        self.id, self.net, self.brief = execution_id, net, brief
        self.state = Execution(execution_id, playbook=brief.playbook, file=brief.file, workload=brief.workload,
                               restrict=brief.restrict, synthesized=brief.synthesized)  # fmt: skip


class Holding:
    """A pipeline that this worker has."""

    def __init__(self, link: Link, assignment: Assignment, brief: Brief | None, shared: dict[str, Any]) -> None:
        #: None: its execution is known here
        self.link, self.assignment, self.brief = link, assignment, brief
        #: what others have in their scopes as well
        self.shared = shared
        self.begun: float | None = None
        #: the server has been told, or knows, that nothing follows
        self.said_last = False
        #: what was given out of the same pipeline before this was put away
        self.following: Holding | None = None

    @property
    def fence(self) -> str:
        """What it is held by."""
        return self.assignment.fence


class Pace:
    """How long pipelines take here, and so how many are fetched before there is a free slot for them."""

    def __init__(self) -> None:
        self._usual = 1.0

    def took(self, seconds: float) -> None:
        """Learn from one that has ended."""
        self._usual += 0.1 * (seconds - self._usual)

    def ahead(self, slots: int) -> int:
        """How many more than there are slots."""
        return min(_AHEAD, int(_AHEAD_S / max(self._usual, 1e-6)) * slots)


class Sources:
    """Playbooks by their hash, each fetched once."""

    def __init__(self) -> None:
        self._known: dict[str, asyncio.Future[Source]] = {}

    async def fetched(self, link: Link, wanted: str) -> Source:
        """The playbook of a hash."""
        found = self._known.get(wanted)
        if found is None or (found.done() and (found.cancelled() or found.exception() is not None)):
            found = self._known[wanted] = asyncio.ensure_future(link.source(wanted))
        return await asyncio.shield(found)

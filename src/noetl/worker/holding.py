"""What a worker holds: pipelines, and as much of their executions and playbooks as they need."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from noetl.lately import TEXT, Lately
from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.model.wire import Assignment, Brief, Report
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

    def covers(self, brief: Brief | None) -> bool:
        """Whether what is known here is enough for a pipeline that came with this brief."""
        return brief is None or len(self.brief.synthesized) >= len(brief.synthesized)


class Remotes(dict[str, Remote]):
    """The executions that this worker knows, each once: what is heard of one must reach all of its pipelines."""

    def __init__(self) -> None:
        super().__init__()
        self._paused: set[str] = set()

    def hear(self, given: Iterable[str], paused: Iterable[str]) -> None:
        """Some are paused; others of which more is given to do go on, and some may not be known here yet."""
        held = set(paused)
        changed = held | (self._paused & set(given))
        self._paused = (self._paused - changed) | held
        for execution_id in changed & self.keys():
            self._tell(self[execution_id])

    def made(self, execution_id: str, net: Net, brief: Brief) -> Remote:
        """An execution, with all that a brief says. It may have been made, or have grown, while its playbook was fetched."""
        remote = self.get(execution_id)
        if remote is None:
            remote = self[execution_id] = Remote(execution_id, net, brief)
        elif not remote.covers(brief):
            remote.net, remote.brief, remote.state.synthesized = net, brief, brief.synthesized
        self._tell(remote)
        return remote

    def _tell(self, remote: Remote) -> None:
        remote.state.paused_by = ["request"] if remote.id in self._paused else []

    def forget(self, execution_id: str) -> Remote | None:
        """Know an execution no longer; None: it was not known."""
        self._paused.discard(execution_id)
        return self.pop(execution_id, None)


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

    def report(self, **more: Any) -> Report:
        """What is to be told of it."""
        return Report(*self.assignment.key, self.fence, **more)


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
    """Playbooks by their hash, each fetched once as long as it is used."""

    def __init__(self) -> None:
        self._known: Lately[str, Source] = Lately(TEXT)
        self._coming: dict[str, asyncio.Future[Source]] = {}

    async def fetched(self, link: Link, wanted: str) -> Source:
        """The playbook of a hash."""
        known = self._known.get(wanted)
        if known is not None:
            return known
        coming = self._coming.get(wanted)
        if coming is None:
            coming = self._coming[wanted] = asyncio.ensure_future(link.source(wanted))
            coming.add_done_callback(lambda _: self._coming.pop(wanted, None))
        source = await asyncio.shield(coming)
        self._known.put(wanted, source, len(source.text))
        return source

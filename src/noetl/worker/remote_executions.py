"""What a worker knows of the executions and playbooks whose pipelines it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from noetl.lru import TEXT, LruCache
from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.model.wire import ExecutionBrief
from noetl.ports import PlaybookSource
from noetl.worker.link import ServerLink


class RemoteExecution:
    """An execution of which this worker runs pipelines: as much of its state as they need."""

    def __init__(self, execution_id: str, net: Net, brief: ExecutionBrief) -> None:
        self.id, self.net, self.brief = execution_id, net, brief
        #: seconds by which the execution's time, which is its server's, is ahead of the clock of this process
        self.ahead = 0.0
        self._is_timed = False
        self.state = Execution(execution_id, playbook=brief.playbook, file=brief.file, workload=brief.workload,
                               restrict=brief.restrict, synthesized=brief.synthesized)  # fmt: skip

    def set_time(self, ahead: float) -> None:
        """Hear from a server what time it is; of what comes from several, the quickest is the most exact."""
        self.ahead = max(self.ahead, ahead) if self._is_timed else ahead
        self._is_timed = True

    def covers(self, brief: ExecutionBrief | None) -> bool:
        """Whether what is known here is enough for a pipeline that came with this brief."""
        return brief is None or len(self.brief.synthesized) >= len(brief.synthesized)


class RemoteExecutions(dict[str, RemoteExecution]):
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

    def make(self, execution_id: str, net: Net, brief: ExecutionBrief) -> RemoteExecution:
        """An execution, with all that a brief says. It may have been made, or have grown, while its playbook was fetched."""
        remote = self.get(execution_id)
        if remote is None:
            remote = self[execution_id] = RemoteExecution(execution_id, net, brief)
        elif not remote.covers(brief):
            remote.net, remote.brief, remote.state.synthesized = net, brief, brief.synthesized
        self._tell(remote)
        return remote

    def _tell(self, remote: RemoteExecution) -> None:
        remote.state.paused_by = ["request"] if remote.id in self._paused else []

    def forget(self, execution_id: str) -> RemoteExecution | None:
        """Know an execution no longer; None: it was not known."""
        self._paused.discard(execution_id)
        return self.pop(execution_id, None)


class PlaybookCache:
    """Playbooks by their hash, each fetched once as long as it is used."""

    def __init__(self) -> None:
        self._known: LruCache[str, PlaybookSource] = LruCache(TEXT)
        self._coming: dict[str, asyncio.Future[PlaybookSource]] = {}

    async def fetch(self, link: ServerLink, wanted: str) -> PlaybookSource:
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

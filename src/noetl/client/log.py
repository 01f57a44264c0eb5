"""RemoteLog: the log of a server as an `EventLog`, as far as commands read it and leave requests in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NoReturn, TypeVar

from noetl.client.api import Client, EventPage
from noetl.errors import NoetlError, NotFound, RequestInvalid, UnexpectedAnswer, UsageError
from noetl.model.events import Event
from noetl.model.requests import Cancel, Pause, Signal, decode_request
from noetl.ports import OVER, EventLog, LogLine, PlaybookSource, Summary

T = TypeVar("T")
_PAGE = 10_000


class RemoteLog(EventLog):
    """An `EventLog` that only servers write to."""

    def __init__(self, client: Client) -> None:
        self.client = client

    # --- reading -----------------------------------------------------------------------------------------------------

    def page(self, execution_id: str, *, after: int, limit: int = _PAGE, wait_s: int = 0) -> EventPage:
        """Return some events; where there are none yet, the server waits so many seconds for one."""
        return self.client.events(execution_id, after=after, limit=limit, wait_s=wait_s)

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """See the port."""
        found: list[Event] = []
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self.page(execution_id, after=after, limit=wanted)
            found += page.events
            if len(page.events) < wanted:
                break
            if page.after <= after:
                raise UnexpectedAnswer("the server's pages of events have no end")
            after = page.after
        return found

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """See the port."""
        return self.client.snapshot(execution_id, upto=upto)

    def summaries(
        self,
        *,
        limit: int = 50,
        unfinished: bool = False,
        parent: str | None = None,
        before: str | None = None,
        paths: Sequence[str] = (),
    ) -> list[Summary]:
        """See the port. Which paths may be seen is for the server to say, by the token."""
        assert not paths
        return self.client.executions(limit=limit, unfinished=unfinished, parent=parent, before=before)

    def summary(self, execution_id: str, *, paths: Sequence[str] = ()) -> Summary | None:
        """See the port."""
        assert not paths
        return _or_none(self.client.status, execution_id)

    def waits(self, execution_id: str) -> list[str]:
        """Return what an execution waits for that is no part of it, in words."""
        return self.client.waits(execution_id)

    def execution_of_key(self, caller: str, key: str) -> str | None:  # noqa: ARG002
        """See the port. A server looks a key up when it is asked to start something with it."""
        _not_here()

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        """See the port. Each takes a request of its own."""
        found = (self.summary(name) for name in execution_ids)
        return {one.execution_id for one in found if one is not None and one.status not in OVER} & set(execution_ids)

    def source(self, content_hash: str) -> PlaybookSource | None:
        """See the port."""
        return _or_none(self.client.source, content_hash)

    def latest(self, path: str) -> PlaybookSource | None:
        """See the port."""
        return _or_none(self.client.latest_source, path)

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, LogLine]]:
        """See the port."""
        return self.client.lines(execution_id, after=after)

    # --- acting ------------------------------------------------------------------------------------------------------

    def post(self, execution_id: str, body: bytes) -> int:
        """See the port. The server applies it, whichever process runs the execution, and does not tell its number."""
        request = decode_request(body)
        if isinstance(request, Signal):
            self.client.signal(execution_id, request.name, request.data)
        elif isinstance(request, Cancel):
            self.client.cancel(execution_id, request.why)
        elif isinstance(request, Pause):
            self.client.pause(execution_id)
        else:
            self.client.unpause(execution_id)
        return 0

    @property
    def me(self) -> str:
        """See the port: a client owns no execution."""
        return ""

    async def claim(self, execution_id: str) -> bool:  # noqa: ARG002  the port's
        """See the port. Only servers run what a server keeps."""
        return False

    async def close(self) -> None:
        """See the port."""
        self.client.close()

    # --- what only servers do ----------------------------------------------------------------------------------------

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    async def probe(self) -> None:
        """See the port."""
        _not_here()

    async def keep_source(self, source: PlaybookSource) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port."""
        return []

    def settle(self, number: int) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    async def forget(self, execution_id: str) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    def write_lines(self, execution_id: str, lines: Sequence[LogLine]) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()


def _or_none(ask: Callable[[str], T], name: str) -> T | None:
    """Return what there is under a name; None: nothing. UsageError: the name means several."""
    try:
        return ask(name) if name else None
    except NotFound:
        return None
    except RequestInvalid as error:
        raise UsageError(error.detail) from None


def _not_here() -> NoReturn:
    raise NoetlError("only the server itself writes to its log")

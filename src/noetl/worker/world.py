"""What a runner and its tools use of the process they run in: RunnerContext and LocalWorld."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Protocol, TypeVar

from noetl.drivers.spilled_data import guard_disk_full
from noetl.model.events import Event, Fact
from noetl.model.kinds import ToolKind
from noetl.model.orders import RunPipeline
from noetl.model.output import JSON, Spilled
from noetl.pipeline import Moment
from noetl.ports import Call, Keychain, ResultDamaged, ResultStore
from noetl.redaction import RedactingStream
from noetl.worker.outgoing import CleanResults, DraftClaim, open_unnamed_file
from noetl.worker.output_check import escape_surrogates, find_problem


class ToolModules(Protocol):
    """The installed tools."""

    def __getitem__(self, name: str) -> ToolKind:
        """What a kind says of itself."""

    def module(self, name: str) -> Any:
        """The module that runs it."""


class RunnerContext(Protocol):
    """What a runner needs from its process."""

    tools: ToolModules

    def moment(self) -> Moment:
        """The time now, and chance."""

    def child_id(self) -> str:
        """The id of an execution that is to be started."""

    def is_paused(self) -> bool:
        """Whether nothing new may start."""

    async def sleep_until(self, when: float) -> None:
        """Sleep until a time in seconds since the epoch."""

    async def report(self, facts: list[Fact], *, last: bool) -> None:
        """Hand over facts; returns when they are durable. Nothing comes behind the `last`."""

    def post(self, facts: list[Fact]) -> None:
        """Hand over facts, without waiting."""

    def read_recorded(self, order: RunPipeline) -> list[Event]:
        """What the log has of the order's pipeline."""


T = TypeVar("T")
#: rows of a reference are read so many at a time, and so many blocks of them are kept
_ROWS, _BLOCKS = 1_000, 4


class LocalWorld:
    """Keeps what tools want kept for an execution, and closes it at the end."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        log: Callable[[Call, str, str], None],
        results: ResultStore,
        keychain: Keychain,
        *,
        hidden: Sequence[Path] = (),
        restrict: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        #: nothing secret is stored
        self.results = CleanResults(results, keychain.redactor, keychain.credential)
        #: the rows that a loop over a reference is at: (where they lie, from which on) → rows
        self._rows: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}
        self.environment = environment
        self.keychain = keychain
        #: step → the credentials that its templates read
        self.reading: dict[str, frozenset[str]] = {}
        self.hidden = hidden
        self.restrict = restrict
        self._log = log
        self._claim: DraftClaim | None = None
        #: what tasks under way write, by their key: stream → what holds back the beginning of a secret
        self._written: dict[str, dict[str, RedactingStream]] = {}
        #: task key → who hears of its progress
        self.listeners: dict[str, Callable[[Mapping[str, Any]], Awaitable[None]]] = {}
        self._kept: dict[str, tuple[asyncio.Future[Any], Callable[[Any], Awaitable[None]]]] = {}

    async def resource(self, name: str, make: Callable[[], Awaitable[T]], close: Callable[[T], Awaitable[None]]) -> T:
        """Something to be made once and kept."""
        kept = self._kept.get(name)
        if kept is None:
            made: asyncio.Future[T] = asyncio.ensure_future(_make(make))
            self._kept[name] = kept = (made, close)
        # Shielded: whoever asked first may be cancelled, the others still want it.
        found: T = await asyncio.shield(kept[0])
        return found

    def is_secret(self, text: str) -> bool:
        """Whether a text holds a secret."""
        return self.keychain.redactor.clean(text)[1]

    async def secret(self, provider: str, secret: str, key: str | None) -> Any:
        """A secret by its name."""
        return await self.keychain.secret(provider, secret, key)

    async def renew_credential(self, name: str, used: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A credential with another token than the one that was refused."""
        return await self.keychain.renew_credential(name, used)

    def log(self, call: Call, stream: str, text: str) -> None:
        """Keep what a task wrote, without secrets; one may lie across two pieces."""
        stream, text = escape_surrogates(stream), escape_surrogates(text)
        redactor = self.keychain.redactor
        if call.key not in self.listeners:  # it is over: nobody would ask for what is held back
            text = redactor.text(text)
        elif redactor or call.key in self._written:
            streams = self._written.setdefault(call.key, {})
            text = streams.setdefault(stream, redactor.lines()).feed(text)
        if text:
            self._log(call, stream, text)

    def flush_lines(self, call: Call) -> None:
        """A task is over: what was held back of its lines is no secret."""
        for stream, held in self._written.pop(call.key, {}).items():
            if rest := held.finish():
                self._log(call, stream, rest)

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference that others may read."""
        return self.results.seal(reference)

    def draft(self, suffix: str) -> Path:
        """A new file for what is to be spilled; if this process is killed, the next one removes it."""
        path = self.results.draft(suffix)
        self._claim = self._claim or DraftClaim(path.parent)
        return path

    def open_unnamed(self) -> IO[bytes]:
        """The same without a name."""
        return open_unnamed_file(self.results.draft("").parent)

    async def adopt_spill(
        self,
        file: IO[bytes],
        content_type: str = JSON,
        *,
        rows: int | None = None,
        columns: dict[str, str] | None = None,
        compact: bool = False,
    ) -> Spilled:
        """An unnamed file, named."""
        with guard_disk_full(self):
            return await self.results.adopt(file, Spilled("", content_type, rows, columns, compact=compact))

    async def row(self, reference: Mapping[str, Any], index: int) -> Any:
        """One element of what a reference leads to; they are read many at a time."""
        start = index - index % _ROWS
        rows = await asyncio.shield(self._block(reference, start))
        if index - start >= len(rows):
            raise ResultDamaged(f"there is no row {index:,} where {reference['locator']} leads to")
        return rows[index - start]

    def row_at_hand(self, reference: Mapping[str, Any], index: int) -> tuple[Any] | None:
        """The same, if it was read already; those behind it are soon wanted, too."""
        start = index - index % _ROWS
        block = self._rows.get((str(reference["locator"]), start))
        if block is None or not block.done() or block.cancelled() or block.exception() is not None:
            return None
        if index - start == _ROWS // 2:
            self._block(reference, start + _ROWS)
        rows = block.result()
        return (rows[index - start],) if index - start < len(rows) else None

    def _block(self, reference: Mapping[str, Any], start: int) -> asyncio.Future[list[Any]]:
        key = (str(reference["locator"]), start)
        if key not in self._rows:
            # Parallel iterations are close to each other: two blocks are enough, a few more do no harm.
            while len(self._rows) >= _BLOCKS:
                del self._rows[next(iter(self._rows))]
            reading = self._rows[key] = asyncio.ensure_future(self.results.rows(reference, start, start + _ROWS))
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # maybe nobody wants it
        return self._rows[key]

    async def progress(self, call: Call, said: Mapping[str, Any]) -> None:
        """Record how far a task is. ValueError: that cannot be recorded."""
        problem = find_problem(said, "progress")
        if problem is not None:
            raise ValueError(problem)
        await self.listeners[call.key](said)

    def kill(self) -> None:
        """End kept processes at once."""
        for made, _ in self._kept.values():
            kill = getattr(made.result(), "kill", None) if made.done() and not made.cancelled() else None
            if kill is not None:
                kill()

    async def close(self) -> None:
        """Close everything that was kept."""
        for made, close in reversed(self._kept.values()):
            if made.done() and not made.cancelled() and made.exception() is None:
                await close(made.result())
            else:
                made.cancel()
        self._kept.clear()
        if self._claim is not None:
            self._claim.release()
        self.keychain.close()


async def _make(make: Callable[[], Awaitable[T]]) -> T:
    return await make()

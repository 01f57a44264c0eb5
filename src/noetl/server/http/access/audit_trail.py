"""AuditTrail: calls that changed something, each as it was; and refused ones, counted so that a flood fills no disk.

The first refused call of a caller is written at once. Those that follow are counted, and written as one entry after a minute,
then after ten, then each hour, for as long as they keep coming.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec

from noetl.errors import NoetlError
from noetl.model.access import TOKEN_PREFIX, AuditEntry, format_time
from noetl.ports import AccessStore
from noetl.server.http.access.request_limits import network_of

#: seconds for which refused calls are counted until they are written
_COUNTED_S: Final = (60.0, 600.0, 3600.0)
#: callers and actions that are counted apart; callers alone; what is beyond that is counted together
_MOST_COUNTED: Final = 100
#: entries that wait for a store which is away; and seconds until it is tried again
_MOST_WAITING: Final = 10_000
_AGAIN_S: Final = 5.0
#: characters of what is recorded
_LONGEST: Final = 300
#: seconds between two looks for entries that are too old
_PRUNE_S: Final = 3600.0
_TOKEN = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{8,}}")


class _Counted:
    """Refused calls that are alike."""

    __slots__ = ("count", "entry", "timer", "until", "window")

    def __init__(self, entry: AuditEntry) -> None:
        self.entry, self.count, self.until, self.window = entry, 0, entry.at, 0
        self.timer: asyncio.TimerHandle | None = None


class AuditTrail:
    """Writes the audit log of one server."""

    def __init__(
        self, store: AccessStore, clock: Callable[[], float], *, days: float, warn: Callable[[str], None]
    ) -> None:
        self._store, self._clock, self._days, self._warn = store, clock, days, warn
        #: by caller, action and status; by caller alone; all others
        self._counted: dict[tuple[str, ...], _Counted] = {}
        self._sizes: Counter[int] = Counter()
        self._waiting: list[AuditEntry] = []
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retrying = self._closed = self._warned = False
        self._next_prune = 0.0

    def stamp(self) -> str:
        """Return the present time as entries have it."""
        return format_time(self._clock())

    async def record(self, entry: AuditEntry) -> None:
        """Write an entry; while the store is away it is kept, and written when that is back."""
        await self._write([_bounded(entry)])

    def refuse(self, entry: AuditEntry) -> None:
        """Write that a call was refused, or count it with those that are like it; nobody waits for that."""
        if self._closed:
            return
        entry = _bounded(entry)
        network = network_of(entry.origin)
        for key in ((network, entry.who, entry.action, str(entry.status)), (network,), ()):
            counted = self._counted.get(key)
            if counted is not None:
                counted.count += 1
                counted.until = entry.at
                return
            if not key or self._sizes[len(key)] < _MOST_COUNTED:
                self._count(key, entry)
                return

    def _count(self, key: tuple[str, ...], entry: AuditEntry) -> None:
        counted = self._counted[key] = _Counted(entry)
        self._sizes[len(key)] += 1
        self._set_timer(key, counted)
        self._spawn([entry])

    def _set_timer(self, key: tuple[str, ...], counted: _Counted) -> None:
        seconds = _COUNTED_S[min(counted.window, len(_COUNTED_S) - 1)]
        counted.timer = asyncio.get_running_loop().call_later(seconds, self._end_window, key)

    def _end_window(self, key: tuple[str, ...]) -> None:
        counted = self._counted[key]
        if not counted.count:
            del self._counted[key]
            self._sizes[len(key)] -= 1
            return
        self._spawn(self._take(counted))
        counted.window += 1
        self._set_timer(key, counted)

    def _take(self, counted: _Counted) -> list[AuditEntry]:
        """What was counted, as an entry; from then on it is counted anew."""
        if not counted.count:
            return []
        entry = msgspec.structs.replace(counted.entry, at=self.stamp(), count=counted.count, until=counted.until)
        counted.count = 0
        return [entry]

    # --- writing -----------------------------------------------------------------------------------------------------

    def _spawn(self, entries: list[AuditEntry]) -> None:
        task = asyncio.ensure_future(self._write(entries))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, entries: Iterable[AuditEntry]) -> None:
        self._waiting = [*self._waiting, *entries][-_MOST_WAITING:]
        async with self._writing:
            taken, self._waiting = self._waiting, []
            done = 0
            try:
                for one in taken:
                    await self._store.record([one])
                    done += 1
                await self._prune()
            except NoetlError as error:
                self._put_back(taken[done:], error)

    def _put_back(self, entries: list[AuditEntry], error: NoetlError) -> None:
        self._waiting = [*entries, *self._waiting][-_MOST_WAITING:]
        if not self._warned:
            self._warned = True
            self._warn(f"the audit log cannot be written, and is written later: {error}")
        if not self._retrying and not self._closed:
            self._retrying = True
            asyncio.get_running_loop().call_later(_AGAIN_S, self._retry)

    def _retry(self) -> None:
        self._retrying = self._warned = False
        if self._waiting and not self._closed:
            self._spawn([])

    async def _prune(self) -> None:
        """Forget what is too old, now and then."""
        now = self._clock()
        if self._days > 0 and now >= self._next_prune:
            self._next_prune = now + _PRUNE_S
            await self._store.prune_audit(format_time(now - self._days * 86_400))

    async def close(self) -> None:
        """Write what was counted."""
        self._closed = True
        counts = list(self._counted.values())
        for counted in counts:
            if counted.timer is not None:
                counted.timer.cancel()
        self._counted.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(NoetlError):
            await self._write([entry for counted in counts for entry in self._take(counted)])


def _bounded(entry: AuditEntry) -> AuditEntry:
    """An entry without what must not be in it: tokens, control characters, and texts of any length."""
    texts = {name: _clean(getattr(entry, name)) for name in ("who", "action", "object", "origin", "reason")}
    return msgspec.structs.replace(entry, **texts)


def _clean(text: str) -> str:
    shown = _TOKEN.sub(f"{TOKEN_PREFIX}…", text[: 4 * _LONGEST])
    plain = "".join(one if one.isprintable() else "�" for one in shown)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"

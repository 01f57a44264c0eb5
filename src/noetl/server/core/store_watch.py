"""StoreWatch: whether the store takes what is written. It reports once when it does not, and once when it does again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from noetl.errors import describe_error
from noetl.ports import LogDamaged, StoreFailed

#: seconds for which a store that has just taken something is believed to take more; until one that has not is tried again
_BELIEVED_S, _AGAIN_S = 1.0, 1.0
#: the first try may do no more than find out that connections were cut
_TRIES = 2
#: seconds after which a store that does not answer counts as one that takes nothing
_SILENCE_S = 10.0


class StoreWatch:
    """Asks by writing, and only while something is wrong or somebody wants to know: one question at a time."""

    def __init__(self, probe: Callable[[], Awaitable[None]], print_line: Callable[[str], None]) -> None:
        self._probe, self._print_line = probe, print_line
        #: why nothing can be recorded; empty: nothing is known to be wrong
        self.trouble = ""
        #: called when something can be recorded again
        self.on_recovery: Callable[[], None] = lambda: None
        self._since, self._believed_until = 0.0, 0.0
        self._asking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def note(self, error: BaseException) -> None:
        """Take note that the store failed somebody, and find out whether it fails everybody."""
        if isinstance(error, StoreFailed) and not isinstance(error, LogDamaged):
            self._ask()

    async def check(self, seconds: float) -> str:
        """Return why nothing can be recorded now, or the empty text. What was found a moment ago is believed."""
        if self.trouble or monotonic() < self._believed_until:
            return self.trouble
        answered, _ = await asyncio.wait({self._ask()}, timeout=seconds)
        return self.trouble if answered else f"the store has not answered within {seconds:g} s"

    def close(self) -> None:
        """Ask no longer."""
        for one in (self._asking, self._timer):
            if one is not None:
                one.cancel()

    def _ask(self) -> asyncio.Task[None]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._try_to_write())
        return self._asking

    async def _try_to_write(self) -> None:
        writing = asyncio.ensure_future(self._write())
        try:
            answered, _ = await asyncio.wait({writing}, timeout=_SILENCE_S)
            if not answered:
                self._conclude(f"the store has not answered for {_SILENCE_S:g} s")
            self._conclude(await writing)
        finally:
            writing.cancel()
        if self.trouble:
            self._timer = asyncio.get_running_loop().call_later(_AGAIN_S, self._ask)

    async def _write(self) -> str:
        trouble = ""
        for _ in range(_TRIES):
            try:
                await self._probe()
            except Exception as error:  # noqa: BLE001  whatever it is, nothing was written
                trouble = describe_error(error)
            else:
                return ""
        return trouble

    def _conclude(self, trouble: str) -> None:
        before, self.trouble = self.trouble, trouble
        now = monotonic()
        if not trouble:
            self._believed_until = now + _BELIEVED_S
        if trouble and not before:
            self._since = now
            self._print_line(f"warning: nothing can be recorded, so executions wait and none is started: {trouble}")
        elif before and not trouble:
            self._print_line(f"executions are recorded again, after {now - self._since:.0f} s")
            self.on_recovery()

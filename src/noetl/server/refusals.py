"""Refusals: executions that cannot be gone on with. They are tried again now and then, and told of once for each reason."""

from __future__ import annotations

from collections.abc import Callable

from noetl.errors import in_words
from noetl.ports import Conflict, Damaged, StoreFailed
from noetl.server.children import Taken

#: seconds until one that could not be gone on with is tried again
LATER_S = 60.0
#: lines that are remembered
_MOST = 1_000


class Refusals:
    """Those of one server; `warn` gets a line for each."""

    def __init__(self, clock: Callable[[], float], warn: Callable[[str], None]) -> None:
        self._clock, self._warn = clock, warn
        #: execution → when it is tried again
        self._until: dict[str, float] = {}
        self._told: set[str] = set()

    def add(self, execution_id: str, error: BaseException) -> None:
        """Leave an execution alone for a while, unless it is not its own fault: then it may be gone on with at once."""
        store_is_away = isinstance(error, StoreFailed) and not isinstance(error, Damaged)
        if store_is_away or isinstance(error, Taken | Conflict):
            return
        self._until[execution_id] = self._clock() + LATER_S
        self.tell(f"{execution_id} cannot be gone on with, and is tried again every {LATER_S:g} s", error)

    def now(self) -> set[str]:
        """Those that are to be left alone."""
        now = self._clock()
        self._until = {name: until for name, until in self._until.items() if until > now}
        return set(self._until)

    def tell(self, what: str, error: BaseException) -> None:
        """Say what is wrong, the first time."""
        line = f"{what}: {in_words(error)}"
        if line not in self._told:
            if len(self._told) >= _MOST:
                self._told.clear()
            self._told.add(line)
            self._warn(line)

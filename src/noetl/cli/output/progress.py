"""Progress of a run: a live tree for people at a terminal, plain lines for everybody else."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from noetl.cli.output.printing import colorize, in_colour

if TYPE_CHECKING:
    from noetl.cli.output.progress_lines import ProgressLines
    from noetl.cli.output.progress_tree import TreeRow, TreeView
    from noetl.model.events import Event
    from noetl.server.core import LiveExecution

    Watcher = Callable[[LiveExecution, tuple[Event, ...]], None]
    from noetl.model.events import Event
    from noetl.ports import EventLog


# Progress of commands that go through long logs, for people at a terminal.


#: events that are gone through in no time
_FEW = 50_000
#: between two words about it
_EVERY = 10_000


class CountingLog:
    """A log that says, while it is read, how much of it is behind; to a terminal, and only if there is much."""

    def __init__(self, log: EventLog, total: int) -> None:
        self._log = log
        self._total = total
        self._read = self._told = 0
        self._shows = total > _FEW and sys.stderr.isatty()

    def __getattr__(self, name: str) -> Any:
        """All else as it is."""
        return getattr(self._log, name)

    def read(self, execution_id: str, **which: Any) -> Sequence[Event]:
        """See `EventLog`."""
        found = self._log.read(execution_id, **which)
        self._count(len(found))
        return found

    def raw_events(self, execution_id: str) -> Iterator[Any]:
        """See `stores.verify`."""
        for one in self._log.raw_events(execution_id):  # type: ignore[attr-defined]  # of the logs that can be verified
            self._count(1)
            yield one

    def _count(self, more: int) -> None:
        self._read += more
        if self._shows and self._read - self._told >= _EVERY:
            self._told = self._read
            share = min(99, 100 * self._read // self._total)
            sys.stderr.write(f"\r{share:3} %  {self._read:,} of {self._total:,} events\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Leave nothing behind."""
        if self._told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


#: seconds between two drawings
_REFRESH = 0.1
#: drawing may take this part of the time; a large tree is drawn less often
_SHARE = 0.02
_LONGEST = 1.0
#: columns that are left free: the `^C` that a terminal shows must not begin a line of its own
_ECHO = 3


class Screen:
    """Draws the tree of the executions that are followed, until it is told to stop."""

    def __init__(self, view: TreeView) -> None:
        self.view = view
        self.roots: list[LiveExecution] = []
        self._live: Any = None
        self._stopped = False
        # Asked now: while the tree is being drawn, stderr is not the terminal itself.
        self._colour = in_colour(sys.stderr)
        self._task = asyncio.ensure_future(self._refresh())

    async def _refresh(self) -> None:
        await asyncio.sleep(_REFRESH)
        # A run that is over sooner never pays for the import.
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), auto_refresh=False, vertical_overflow="crop")
        self._live.start()
        while True:
            began = time.perf_counter()
            self._draw()
            took = time.perf_counter() - began
            await asyncio.sleep(min(max(_REFRESH, took / _SHARE), _LONGEST))

    def _draw(self) -> None:
        from rich.text import Text

        from noetl.cli.output.progress_tree import fit_rows

        rows = fit_rows(self.view.rows(self.roots, time.time()), self._live.console.height - 2)
        drawn = "".join(_line(row, colour=self._colour) for row in rows)
        lines = Text.from_ansi(drawn.rstrip("\n"), no_wrap=True, overflow="ellipsis").split("\n")
        for line in lines:
            line.truncate(max(1, self._live.console.width - _ECHO), overflow="ellipsis")
        self._live.update(Text("\n", no_wrap=True).join(lines), refresh=True)

    def on_resume(self, live: LiveExecution) -> None:
        """An execution is followed that another process has left."""
        self.roots.append(live)

    def stop(self) -> None:
        """Leave the last picture and let go of the terminal."""
        if self._stopped:
            return
        self._stopped = True
        self._task.cancel()
        if self._live is not None:
            self._draw()
            self._live.stop()
            self._live = None
        else:
            rows = self.view.rows(self.roots, time.time())
            sys.stderr.write("".join(_line(row, colour=self._colour) for row in rows))


def _line(row: TreeRow, *, colour: bool) -> str:
    head = colorize(row.head, row.style, colour=colour)
    return f"{'  ' * row.depth}{head}{f'  {row.rest}' if row.rest else ''}\n"


class QuietScreen:
    """Draws nothing; lines, where there are some, are written as events come."""

    roots: list[LiveExecution]

    def __init__(self, lines: ProgressLines | None = None) -> None:
        self.roots = []
        self.lines = lines

    def on_resume(self, live: LiveExecution) -> None:
        """An execution is followed that another process has left."""
        self.roots.append(live)
        if self.lines is not None and not live.state.over:
            self.lines.on_resume(live)

    def stop(self) -> None:
        """Nothing to stop."""


@contextmanager
def progress(watchers: list[Watcher], *, quiet: bool) -> Iterator[Screen | QuietScreen]:
    """Show what happens while it happens; the executions that are followed are to be added to `roots`."""
    if quiet:
        yield QuietScreen()
        return
    screen: Screen | QuietScreen
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from noetl.cli.output.progress_tree import TreeView

        view = TreeView()
        watch, screen = view.watch, Screen(view)
    else:
        from noetl.cli.output.progress_lines import ProgressLines

        lines = ProgressLines()
        watch, screen = lines.watch, QuietScreen(lines)
    watchers.append(watch)
    try:
        yield screen
    finally:
        if watch in watchers:  # one that failed was let go
            watchers.remove(watch)
        screen.stop()

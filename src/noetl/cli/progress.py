"""Progress of a run: for people at a terminal, and for those who read plain lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.model.events import Event
    from noetl.server.service import Hot
    from noetl.wiring import House


@contextmanager
def progress(house: House, hot: Hot, *, quiet: bool) -> Iterator[None]:
    """Show what happens while it happens."""
    if quiet:
        yield
        return

    def watch(watched: Hot, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.name in ("step.started", "step.done", "step.failed", "step.cancelled"):
                sys.stderr.write(f"{event.name:15} {event.entity_id}\n")

    house.service.watchers.append(watch)
    yield
    house.service.watchers.remove(watch)

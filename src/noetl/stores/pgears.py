"""Ears: a thread that hears at once what others say through PostgreSQL. What it misses, looking now and then finds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

#: seconds after which it is looked whether to go on, and after which a connection that broke is made anew
_TURN_S = 0.5


class Ears:
    """Listens to one channel, from the first time that somebody wants to know."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], heard: Callable[[str], None]) -> None:
        self._connect, self._heard = connect, heard
        self._over = Flag()
        self._thread = Thread(target=self._run, name="noetl-ears", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            # A database that is away is tried again; whatever was said meanwhile is found by looking.
            with suppress(Exception), self._connect() as connection:
                connection.execute("LISTEN noetl")
                self._heard("asked")
                while not self._over.is_set():
                    for one in connection.notifies(timeout=_TURN_S, stop_after=1):
                        self._heard(one.payload)
            self._over.wait(_TURN_S)

    def close(self) -> None:
        """Hear nothing more."""
        self._over.set()
        self._thread.join()

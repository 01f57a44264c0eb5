"""Roll: which workers have come to a server, and a line for each that comes or goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Roll:
    """The workers that one server has heard of."""

    def __init__(self) -> None:
        #: hears what whoever looks after the server should know
        self.say: Callable[[str], None] = lambda _said: None
        self._names: set[str] = set()

    def came(self, name: str, about: Mapping[str, Any]) -> None:
        """A worker says that it lives."""
        if name not in self._names:
            self._names.add(name)
            pools = ", ".join(map(str, about.get("pools", ())))
            self.say(f"worker {name} joined: {about.get('slots', '?')} slots, pools {pools or '?'}")

    def left(self, name: str) -> None:
        """It has finished what it had, and ended."""
        if name in self._names:
            self._names.discard(name)
            self.say(f"worker {name} left in good order")

    def given_up(self, name: str, had: int) -> None:
        """Nobody has heard of it for too long. Of those that never came here, only what they had matters."""
        if name in self._names or had:
            self._names.discard(name)
            again = f"{had} pipeline{'s are' if had > 1 else ' is'} handed out again" if had else "it had nothing"
            self.say(f"worker {name} was given up; {again}")

    def taken_over(self, many: int) -> None:
        """Executions go on here that nobody minded."""
        if many:
            self.say(
                f"{many:,} execution{'s were' if many > 1 else ' was'} taken over: nobody ran {'them' if many > 1 else 'it'} any more"
            )

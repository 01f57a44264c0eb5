"""What a runner needs from the process it runs in."""

from __future__ import annotations

from typing import Any, Protocol

from noetl.model.events import Event, Fact
from noetl.model.kinds import ToolKind
from noetl.model.orders import RunPipeline
from noetl.pipeline import Moment


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

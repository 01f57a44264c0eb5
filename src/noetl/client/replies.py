"""What the operations of the API return. Fields that a newer server adds are ignored."""

from __future__ import annotations

import msgspec

from noetl.model.events import Event
from noetl.ports import LogLine, Summary


class StartedExecution(msgspec.Struct, frozen=True):
    """An execution that was started, now or when its idempotency key was first used."""

    execution_id: str
    status: str
    path: str
    #: it was started before, under the same key
    repeated: bool = False


class RequestEffect(msgspec.Struct, frozen=True):
    """What a request to an execution caused."""

    execution_id: str
    #: of the execution, afterwards
    status: str
    #: the name of the event that records it
    event: str
    #: its number; None: it was so already, or it is still to come
    seq: int | None = None


class EventPage(msgspec.Struct, frozen=True):
    """Some events of an execution, in order."""

    events: list[Event]
    #: what `after` is for the next page
    after: int
    #: the execution is over, and this page has the last of it
    over: bool


class ExecutionPage(msgspec.Struct, frozen=True):
    """Some executions, the latest first."""

    executions: list[Summary]
    #: what `cursor` is for the next page; None: this is the last
    cursor: str | None = None


class NumberedLine(msgspec.Struct, frozen=True):
    """A line that a tool wrote, and its position."""

    at: int
    line: LogLine


class LinePage(msgspec.Struct, frozen=True):
    """Some lines that tools wrote, in order."""

    lines: list[NumberedLine]
    #: what `after` is for the next page
    after: int
    more: bool


class WaitReasons(msgspec.Struct, frozen=True):
    """What an execution waits for that is no part of it, such as workers; in words."""

    waits: list[str]


class CalledPlaybook(msgspec.Struct, frozen=True):
    """A playbook that is sent along because another calls it."""

    text: str
    #: where its text comes from; relative paths in it start at its folder
    file: str
    #: what callers call it
    names: list[str]

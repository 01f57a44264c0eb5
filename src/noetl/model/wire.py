"""Wire: what servers and workers say to each other. As JSON, because its numbers may be of any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.model.events import Event, Fact
from noetl.model.orders import RunPipeline

#: execution, step run, iteration
Key = tuple[str, str, int | str | None]


class Brief(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker must know of an execution to run any of its pipelines."""

    #: content hash of the playbook, which is fetched by it
    playbook: str
    file: str
    workload: dict[str, Any] = {}
    restrict: dict[str, Any] = {}
    #: the plans it has made so far
    synthesized: list[dict[str, Any]] = []


class Assignment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pipeline that a worker is to run, for as long as it holds the fence."""

    execution_id: str
    order: RunPipeline
    fence: str
    #: what the log has of it
    recorded: list[Event] = []
    #: it may have killed those who had it before: nothing else runs beside it
    alone: bool = False

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.execution_id, self.order.step_run_id, self.order.iteration


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker has to say of a pipeline."""

    execution_id: str
    step_run_id: str
    iteration: int | str | None
    fence: str
    facts: list[Fact] = []
    #: nothing follows: the pipeline has ended, or waits for something that holds no worker
    last: bool = False
    #: it broke in a way that no fact tells
    broken: str | None = None
    #: it was never begun, and goes back
    returned: bool = False

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.execution_id, self.step_run_id, self.iteration


class Written(msgspec.Struct, frozen=True):
    """A line that a tool wrote."""

    execution_id: str
    #: as `ports.Line` has it
    line: dict[str, Any]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """From a worker: what happened, and for how many more pipelines it has room."""

    worker: str
    reports: list[Report] = []
    lines: list[Written] = []
    pools: list[str] = []
    room: int = 0
    #: seconds that it may be kept waiting until there is something for it
    wait: float = 0.0


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """To a worker: what became of its reports, and what to do next."""

    #: of the reports, by their place: the fence is another's by now
    refused: list[int] = []
    #: of the reports, by their place: the execution is not here, or cannot be written now. To be told again, anywhere
    again: list[int] = []
    assignments: list[Assignment] = []
    briefs: dict[str, Brief] = {}
    #: pipelines that are to end at once
    stops: list[Key] = []
    #: executions of which nothing more will come
    ended: list[str] = []
    #: of the executions reported on, those that are paused
    paused: list[str] = []
    #: the worker is taken for dead, and what it had is others' by now
    lost: bool = False


class Held(msgspec.Struct, frozen=True):
    """A pipeline that a worker has."""

    execution_id: str
    step_run_id: str
    iteration: int | str | None
    fence: str
    #: in a registry: who has it, and how often it was given out before
    worker: str | None = None
    tries: int = 0

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.execution_id, self.step_run_id, self.iteration


class Holding(msgspec.Struct, frozen=True):
    """A sign of life of a worker, with all that it has."""

    worker: str
    held: list[Held] = []
    #: seconds between two of these
    every: float = 10.0
    #: for lists of workers: pools, slots, machine
    about: dict[str, Any] = {}


def encode(message: Message | Reply | Holding) -> bytes:
    """As it is sent."""
    return _encoder.encode(message)


def decode_message(body: bytes) -> Message:
    """A MsgspecError: it is none."""
    return _message.decode(body)


def decode_reply(body: bytes) -> Reply:
    """A MsgspecError: it is none."""
    return _reply.decode(body)


def _plain(value: Any) -> Any:
    """Scopes may be maps of other kinds."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} is no data")


def decode_holding(body: bytes) -> Holding:
    """A MsgspecError: it is none."""
    return _holding.decode(body)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_message = msgspec.json.Decoder(Message)
_reply = msgspec.json.Decoder(Reply)
_holding = msgspec.json.Decoder(Holding)

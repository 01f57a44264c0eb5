"""Wire: what servers and workers say to each other. As JSON, because its numbers may be of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from noetl.model.events import Event, Fact
from noetl.model.orders import RunPipeline

_NOTHING = object()
#: what decoding raises for a body that is none: bytes that are no UTF-8, and more levels than can be read, are no MsgspecError
UNDECODABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
#: execution, step run, iteration
Key = tuple[str, str, int | str | None]
#: What this version's workers understand of orders; see `dispatch/placement.py`. Workers of versions before it declare nothing: 0
PROTOCOL = 1


#: bounds of a lease of its own, in seconds
SHORTEST_LEASE_S, LONGEST_LEASE_S, SHORTEST_HEARTBEAT_S = 1.0, 86_400.0, 0.1


class Lease(msgspec.Struct, frozen=True):
    """A lease of one pipeline, in place of the cluster's own: the `spec.lease` of its step."""

    #: without a heartbeat that names it for so many seconds, the pipeline is given to another worker
    ttl_s: float
    #: seconds between two heartbeats of the worker that holds it
    heartbeat_s: float


def keeps_lease(ttl_s: float, heartbeat_s: float) -> bool:
    """Whether three heartbeats fit into a lease, rounding aside."""
    return 3 * heartbeat_s <= ttl_s * (1 + 1e-9)


class ExecutionBrief(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker must know of an execution to run any of its pipelines."""

    #: content hash of the playbook, which is fetched by it
    playbook: str
    file: str
    workload: dict[str, Any] = {}
    restrict: dict[str, Any] = {}
    #: the plans it has made so far
    synthesized: list[dict[str, Any]] = []


class WorkAssignment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pipeline that a worker is to run, for as long as it holds the fence."""

    execution_id: str
    order: RunPipeline
    fence: str
    #: what the log has of it
    recorded: list[Event] = []
    #: it may have killed those who had it before: nothing else runs beside it
    alone: bool = False
    #: None: the lease of the cluster
    lease: Lease | None = None
    #: the time of its execution; 0: a server of an earlier version does not tell
    now: float = 0.0

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.execution_id, self.order.step_run_id, self.order.iteration


class PipelineReport(msgspec.Struct, frozen=True, omit_defaults=True):
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


class LogRecord(msgspec.Struct, frozen=True):
    """A line that a tool wrote."""

    execution_id: str
    #: as `ports.Line` has it
    line: dict[str, Any]


class CredentialCheck(msgspec.Struct, frozen=True):
    """Whether the credentials that an execution declares are there, where pipelines are run."""

    number: int
    execution_id: str
    brief: ExecutionBrief


class CredentialCheckResult(msgspec.Struct, frozen=True):
    """What a worker found."""

    number: int
    #: as outputs have it; None: all are there
    problem: dict[str, Any] | None = None


class WorkerMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """From a worker: what happened, and for how many pipelines of this server it has room."""

    worker: str
    reports: list[PipelineReport] = []
    lines: list[LogRecord] = []
    answers: list[CredentialCheckResult] = []
    pools: list[str] = []
    #: in all, with those that it has: the server knows what it has given out and not heard the end of
    room: int = 0
    #: seconds that it may be kept waiting until there is something for it
    wait: float = 0.0
    #: what it understands of orders: its `PROTOCOL`
    protocol: int = 0


class ServerReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """To a worker: what became of its reports, and what to do next."""

    #: of the reports, by their place: the fence is another's by now
    refused: list[int] = []
    #: of the reports, by their place: the execution is not here, or cannot be written now. To be told again, anywhere
    again: list[int] = []
    assignments: list[WorkAssignment] = []
    #: of their executions, those that the worker has not spoken of yet
    briefs: dict[str, ExecutionBrief] = {}
    #: execution → what all of its assignments here have in their scopes
    shared: dict[str, dict[str, Any]] = {}
    #: pipelines that are to end at once
    stops: list[Key] = []
    #: executions of which nothing more will come, or not soon: what is kept for them is put away, unless there is more to do
    ended: list[str] = []
    #: of the executions reported on or assigned, those that are paused
    paused: list[str] = []
    questions: list[CredentialCheck] = []
    #: the worker is taken for dead, and what it had is others' by now
    lost: bool = False
    #: of the stops, by their place: the fence by which the pipeline was held. Earlier servers send none
    stop_fences: list[str] = []

    def list_stops(self) -> Iterator[tuple[Key, str | None]]:
        """What is to end, and by which fence it was held; None: whatever is held of it ends."""
        for at, key in enumerate(self.stops):
            yield key, self.stop_fences[at] if at < len(self.stop_fences) else None


class HeldPipeline(msgspec.Struct, frozen=True):
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


class Heartbeat(msgspec.Struct, frozen=True):
    """A sign of life of a worker, with all that it has."""

    worker: str
    held: list[HeldPipeline] = []
    #: seconds between two of these
    every: float = 10.0
    #: for lists of workers: pools, slots, machine
    about: dict[str, Any] = {}
    #: it has nothing any more, and this is the last that is heard of it
    leaving: bool = False
    #: the longest lease of a pipeline that it has; 0: none has a lease of its own
    longest_lease_s: float = 0.0


def strip_shared(
    assignments: list[WorkAssignment], workloads: Mapping[str, Any]
) -> tuple[list[WorkAssignment], dict[str, dict[str, Any]]]:
    """Assignments without what need not be said of each: the workload is in the brief, the rest is said once.

    Many iterations of a loop have the same large `ctx`. Scopes are never changed in place, so what is the same object is the same.
    """
    groups: dict[str, list[WorkAssignment]] = {}
    for one in assignments:
        groups.setdefault(one.execution_id, []).append(one)
    shared, light = {}, []
    for name, group in groups.items():
        first, others = group[0].order.scopes, [one.order.scopes for one in group[1:]]
        common = {key: value for key, value in first.items() if others and all(one.get(key) is value for one in others)}
        known = {"workload": workloads[name]}
        light += [_strip_common(one, {**common, **known}) for one in group]
        if common.get("workload") is workloads[name]:
            del common["workload"]
        if common:
            shared[name] = common
    return light, shared


def _strip_common(one: WorkAssignment, common: Mapping[str, Any]) -> WorkAssignment:
    scopes = {key: value for key, value in one.order.scopes.items() if common.get(key, _NOTHING) is not value}
    return msgspec.structs.replace(one, order=msgspec.structs.replace(one.order, scopes=scopes))


def restore_shared(order: RunPipeline, shared: Mapping[str, Any], workload: Mapping[str, Any]) -> RunPipeline:
    """An order as it was before it was lightened."""
    return msgspec.structs.replace(order, scopes={"workload": workload, **shared, **order.scopes})


def encode(message: WorkerMessage | ServerReply | Heartbeat) -> bytes:
    """As it is sent."""
    return _encoder.encode(message)


def decode_message(body: bytes) -> WorkerMessage:
    """One of `UNDECODABLE`: it is none."""
    return _message.decode(body)


def decode_reply(body: bytes) -> ServerReply:
    """One of `UNDECODABLE`: it is none."""
    return _reply.decode(body)


def _to_plain(value: Any) -> Any:
    """Scopes may be maps of other kinds."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} is no data")


def decode_heartbeat(body: bytes) -> Heartbeat:
    """One of `UNDECODABLE`: it is none."""
    return _holding.decode(body)


_encoder = msgspec.json.Encoder(enc_hook=_to_plain)
_message = msgspec.json.Decoder(WorkerMessage)
_reply = msgspec.json.Decoder(ServerReply)
_holding = msgspec.json.Decoder(Heartbeat)


# Concurrency and rate limits as data: what a pipeline asks of the store of slots, and the store's answer.


#: seconds after which a pipeline that waits asks again, at most
ASK_AGAIN_S = 0.1


class Cap(msgspec.Struct, frozen=True):
    """So many at a time."""

    key: str
    limit: int
    on_limit: Literal["queue", "cancel_new", "cancel_running"] = "queue"


class Pace(msgspec.Struct, frozen=True):
    """So many starts in any so many seconds."""

    key: str
    limit: int
    per_s: float


class Ask(msgspec.Struct, frozen=True):
    """Somebody wants to start, or to go on."""

    holder: Key
    cap: Cap | None = None
    pace: Pace | None = None
    #: it is under way already, where it cannot be held up: its slot is its own, however many there are
    sure: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What comes of it."""

    #: `granted`: it may go on, and what it has is its own until it is released; `wait`: ask again;
    #: `refused`: there are too many already; `displaced`: it had a slot, and has to leave it to another
    verdict: Literal["granted", "wait", "refused", "displaced"]
    #: seconds after which to ask again
    after: float = ASK_AGAIN_S
    #: those who have to leave, so that it may start: they must be told, again if it is not certain that they were
    victims: tuple[Key, ...] = ()

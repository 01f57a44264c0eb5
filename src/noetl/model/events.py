"""Facts and events: what happened, as a worker reports it, and as the log keeps it.

An event is a fact or a decision that has a `seq`: recorded and final. Its identity follows from where it stands, so
nothing here needs a clock or chance. `EVENTS` says of each name what it is about and what its payload holds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

Payload = dict[str, Any]


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of an execution's log."""

    event_id: str
    execution_id: str
    #: 1, 2, 3 … without a gap
    seq: int
    timestamp: str
    #: `server` or `worker`
    source: str
    name: str
    entity_type: str
    entity_id: str
    #: `in_progress`, `success`, `error` or `skipped`
    status: str
    payload: Payload
    #: the event that caused this one
    parent_id: str | None = None
    step_run_id: str | None = None
    task_run_id: str | None = None
    #: counted from 0; in nested loops `"2.0"`
    iteration: int | str | None = None
    attempt: int | None = None


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a worker has to say of a pipeline that it runs, not yet numbered."""

    name: str
    step_run_id: str
    payload: Payload
    status: str = "success"
    #: the task's name, of a fact about a task
    task: str | None = None
    task_run_id: str | None = None
    iteration: int | str | None = None
    attempt: int | None = None
    #: how many attempts at tasks the pipeline has begun, this one included: tells a duplicate from news
    number: int = 0
    #: reported by the `finally` tasks of a step whose body the server ended: tells them from what the body still reports
    closing: bool = False


class EventType(msgspec.Struct, frozen=True):
    """What an event of some name says."""

    #: `playbook`, `workflow`, `step`, `task`, `loop` or `next`
    entity_type: str
    doc: str
    #: payload key → what it holds
    payload: dict[str, str]


EVENTS: Final[dict[str, EventType]] = {
    "playbook.execution.requested": EventType(
        "playbook",
        "Somebody asked for a run.",
        {
            "workload": "the defaults merged with the request's payload",
            "playbook": "content hash of the playbook, under which the store keeps its text",
            "name": "the playbook's name",
            "file": "the playbook's file",
            "entry_step": "the step to begin with, if not the usual one",
            "return_step": "the step whose output counts, if not the usual one",
            "parent": "of a child: the execution and the task that wait for it",
            "depth": "how many executions stand above",
            "restrict": "of a child: what its caller may not do, by the keys of the effective spec",
            "calls": "playbooks that came with the request: the name they are called by → content hash; children have them too",
            "asked": "`by` whom, of a request through the API; of one with an idempotency key also the `key` and the `digest` of the request",
            "rerun": "of a rerun: the execution it goes on from, behind which event, and when",
        },
    ),
    "playbook.request.evaluated": EventType(
        "playbook", "The request was checked: payload schema and keychain.", {"error": "why it was refused"}
    ),
    "workflow.started": EventType("workflow", "The first token is about to be delivered.", {"step": "where"}),
    "step.scheduled": EventType(
        "step",
        "A step was admitted; its body may start.",
        {
            "from": "the steps whose tokens went into this firing",
            "input": "the step's evaluated input",
            "args": "what the token carries to the step (v10)",
            "take": "of a join: how many tokens were taken from each predecessor",
            "missing": "of a join: the predecessors whose token of this round is still to come",
            "due": "when the run times out, in seconds since the epoch",
            "event": "of the executor's `finally` step: how the execution ends, as its templates see it",
            "saw": "the admission rules asked, with the values they saw; the last one held",
            "waited_for": "of a gate that was opened because nothing else could move: the gates it waited for, which waited for it too",
        },
    ),
    "step.parked": EventType(
        "step",
        "A token was not admitted and stays at the step.",
        {"from": "where it came from", "args": "what it carries", "saw": "the rules asked, with the values they saw",
         "join": "true where it holds a place of a join", "gate": "true where a rule of the step asks for `quiet()`"},
    ),
    "step.skipped": EventType(
        "step", "A token ended at a step without firing it.", {"from": "its origin", "why": "the reason", "held": "of a step that never ran: the origins of the tokens left there", "saw": "the rules that kept them out, with the values they saw at the end"},
    ),
    "step.started": EventType("step", "A worker began with the step's body.", {}),
    "step.done": EventType(
        "step",
        "The step ended well.",
        {"output": "what it exposes; `external`: its data lies where `ref` says, and just what the server reads is here",
         "compensation": "what its compensation reads of `ctx`, `step`, `input` and `output`, as it is now"},
    ),
    "step.failed": EventType("step", "The step ended with an error.", {"output": "with the error"}),
    "step.cancelled": EventType(
        "step",
        "The step's work was ended from outside.",
        {"why": "the reason", "closing": "what its `finally` tasks see as `output`; `step.closed` follows when they have ended"},
    ),
    "step.closing": EventType(
        "step",
        "The server ended the step's body: it ran out of time, its worker was lost, or its loop failed. Its `finally` tasks follow.",
        {"closing": "the output with which the step ends"},
    ),
    "step.closed": EventType(
        "step",
        "What followed the end of a step has ended: the `finally` tasks of a cancelled step, or the child execution that it had called.",
        {"error": "why a `finally` task failed", "child": "the child execution"},
    ),
    "step.compensating": EventType(
        "step",
        "The execution failed or was cancelled: a run of the step, or one iteration of it, is being undone.",
        {"run": "the step run that ended well", "seq": "the event that recorded its end"},
    ),
    "step.compensated": EventType("step", "The compensation ended well.", {"run": "the step run that was undone"}),
    "step.compensation.failed": EventType(
        "step", "The compensation failed; the others run all the same.", {"run": "the step run", "error": "why"}
    ),
    "task.started": EventType(
        "task",
        "A task is about to take effect.",
        {
            "wait": "what it waits for, when it holds no worker meanwhile",
            "takes": "true where it takes a signal that was kept and meets its schema",
            "dropped": "signals that were kept and that it does not take: what each carried, and why",
            "input": "the workbook task's own input",
            "part": "`before`, `after` or `finally`, of a task that stands around the step's body",
        },
    ),
    "task.progress": EventType("task", "A long task says how far it is; it goes on from there after a crash.", {"progress": "in its own words"}),
    "task.done": EventType(
        "task",
        "One attempt at a task ended.",
        {
            "output": "what it exposes",
            "set": "what its `set` and its rule wrote: target → value",
            "kept": "of what it wrote and the log does not hold: target → reference",
            "rule": "the number of the rule that was chosen, from 0",
            "taker": "of a signal that came too late for it: which of the waits takes it instead, from 0; -1: none",
            "do": "what follows",
            "to": "the task a jump leads to",
            "delay": "seconds until the next attempt",
            "error": "the error the pipeline ends with, where it is another than the output's",
            "ends": "`before`: with this task they have all run, and the step's loop begins",
            "redacted": "where secrets were taken out, `output` or targets of `set`: after a crash a task that succeeded runs again if a later one reads them",
        },
    ),
    "loop.started": EventType(
        "loop",
        "A step's loop begins, or one inside of an iteration whose items a worker has read out of a row.",
        {"items": "what it goes over, or the reference to it", "mode": "whether one by one"},
    ),
    "loop.iteration.started": EventType(
        "loop",
        "An iteration begins.",
        {
            "input": "the step's evaluated input",
            "items": "what an inner loop goes over",
            "unread": "true where a worker reads that out of a row; then `loop.started` of the iteration follows",
            "mode": "whether the inner loop goes one by one",
        },
    ),
    "loop.iteration.done": EventType(
        "loop",
        "An iteration ended well.",
        {"data": "its output", "ref": "where that lies instead", "until": "whether the loop should end with it",
         "compensation": "what its compensation reads of `ctx`, `step`, `iter`, `input` and `output`, as it is now"},
    ),
    "loop.iteration.failed": EventType(
        "loop",
        "An iteration failed.",
        {"error": "why", "partial": "true where iterations of the loop inside of it ended well, and count"},
    ),
    "loop.done": EventType("loop", "The loop has ended.", {"loop": "the counts", "gather": "true where its list is stored before the step ends"}),
    "next.evaluated": EventType(
        "next",
        "The arcs of a step that ended were judged.",
        {
            "event": "the boundary event they were offered",
            "arcs": "each arc that was looked at: where to, whether taken, the values its guard saw; or the way into a plan",
            "set": "what the arcs taken wrote to `ctx`",
            "cancel": "the steps whose work ends",
            "terminate": "how the execution ends here",
            "error": "what went wrong in judging them; of a step that failed, its error first of all",
            "judging": "what went wrong in judging them, where the step had failed",
            "unrouted": "true where a failure found no arc",
            "unmatched": "true where a success found no arc, and `on_no_match` is not `end`",
        },
    ),
    "ctx.patched": EventType("workflow", "`ctx` was written.", {"set": "path → value", "step": "by which step"}),
    "workflow.synthesized": EventType(
        "workflow",
        "A step planned new steps, and the plan is valid.",
        {"step": "which one", "steps": "the new ones, in the canonical language; the token goes to the first"},
    ),
    "signal.received": EventType("workflow", "A signal came from outside.", {"signal": "its name", "data": "its content", "request": "its number, from another process", "by": "the name of the token it was sent with", "taker": "which of the waits took it, from 0; the first, if left out"}),
    "execution.paused": EventType("workflow", "Nothing new starts until it is resumed.", {"request": "as above", "by": "`parent` when it pauses with its parent"}),
    "execution.resumed": EventType("workflow", "Work goes on.", {"request": "as above", "by": "`parent` when it goes on with its parent"}),
    "execution.stuck": EventType(
        "workflow",
        "The server set the execution aside: deciding what follows next took too long, or failed. Nothing is decided until it is resumed or cancelled.",
        {"reason": "why, in words"},
    ),
    "execution.cancelled": EventType("workflow", "Everything ends here.", {"why": "the reason", "request": "as above"}),
    "execution.forked": EventType(
        "workflow",
        "What stands before was copied from another execution; from here on this one goes its own way.",
        {"from": "that execution", "seq": "its last event that is kept", "playbook": "content hash of its playbook",
         "pause": "seconds between that event and this one, which do not count for time limits"},
    ),
    "workflow.finished": EventType(
        "workflow",
        "Nothing moves any more.",
        {"status": "completed, failed or cancelled", "output": "of the execution", "error": "why it failed",
         "stalled": "the steps with tokens that could not move",
         "unmatched": "the steps that ended well and none of whose arcs matched"},
    ),
    "playbook.processed": EventType("playbook", "The execution is over.", {"status": "how it ended"}),
}  # fmt: skip


def event_id(execution_id: str, seq: int) -> str:
    """The identity of the event that stands at `seq`: ordered in time as the execution ids are."""
    return f"{execution_id}-{seq}"


def epoch_seconds(timestamp: str) -> float:
    """A recorded time in seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """An event as the log stores it and `noetl events --json` prints it."""
    return _encoder.encode(event)


def decode(data: bytes) -> Event:
    """The event of its stored bytes."""
    return _decoder.decode(data)

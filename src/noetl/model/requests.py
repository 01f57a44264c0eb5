"""Requests: what may happen to an execution from outside of its pipelines."""

from __future__ import annotations

from typing import Any

import msgspec


class OpenExecution(msgspec.Struct, frozen=True):
    """Start an execution."""

    execution_id: str
    #: content hash of the playbook
    playbook: str
    payload: dict[str, Any] = {}
    entry_step: str | None = None
    return_step: str | None = None
    #: of a child: `execution_id` and `task_run_id` of who waits for it
    parent: dict[str, Any] | None = None
    depth: int = 0
    #: the playbook's file; relative paths start at its folder
    file: str | None = None
    #: of a child: what its caller may not do, and so neither may it
    restrict: dict[str, Any] = {}
    #: playbooks that came with it, as those that call them name them: name → content hash, see `model.state.Execution`
    calls: dict[str, str] = {}
    #: who asked for it through the API, and the `digest` of what was asked for, where the request had a key
    asked: dict[str, Any] | None = None
    #: of a rerun: `execution_id`, `seq` and `at`, see `model.state.Execution.origin`
    rerun: dict[str, Any] | None = None
    #: why it cannot start, where the server found that out
    problem: dict[str, Any] | None = None


class Signal(msgspec.Struct, frozen=True, tag="Signal"):
    """A signal for whoever waits for it, now or later."""

    name: str
    data: Any = None
    #: of a request from another process, its place in the inbox: it takes effect once
    number: int = 0
    #: the name of the token that it was sent with; None: none was asked for
    by: str | None = None


class Cancel(msgspec.Struct, frozen=True, tag="Cancel"):
    """End it."""

    why: str = "it was cancelled"
    number: int = 0


class Pause(msgspec.Struct, frozen=True, tag="Pause"):
    """Start nothing new."""

    number: int = 0
    #: because the parent does
    with_parent: bool = False


class Resume(msgspec.Struct, frozen=True, tag="Resume"):
    """Go on; with the parent, only from a pause that was the parent's."""

    number: int = 0
    with_parent: bool = False


class Due(msgspec.Struct, frozen=True):
    """Look at the clock: something may be due."""


class ChildEnded(msgspec.Struct, frozen=True):
    """A child execution is over."""

    execution_id: str
    output: dict[str, Any]


class PipelineFailed(msgspec.Struct, frozen=True):
    """A pipeline that nobody brings to an end: its step fails."""

    step_run_id: str
    iteration: int | str | None
    error: dict[str, Any]


class Denied(msgspec.Struct, frozen=True, tag="Denied"):
    """A pipeline may not go on: its step fails, or the iteration of the loop that it is."""

    step_run_id: str
    iteration: int | str | None
    error: dict[str, Any]
    #: it needs none: what it is about ends once
    number: int = 0


#: what another process may ask for
Posted = Signal | Cancel | Pause | Resume | Denied
Request = Posted | Due | ChildEnded | PipelineFailed

_posted = msgspec.json.Decoder(Posted)


def encode_request(request: Posted) -> bytes:
    """A request as it is left for another process."""
    return msgspec.json.encode(request)


def decode_request(body: bytes, number: int = 0) -> Posted:
    """A request that another process left, with its place in the inbox."""
    posted: Posted = msgspec.structs.replace(_posted.decode(body), number=number)
    return posted

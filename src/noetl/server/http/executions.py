"""Executions: which there are, how one stands, and acting on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.engine import explain_refusal
from noetl.errors import NoetlError, SignalRefused
from noetl.history import explain_cancel_refusal, run_document, state_at
from noetl.model.requests import Cancel, Pause, Posted, Resume, Signal, encode_request
from noetl.ports import OVER, Summary
from noetl.server.http.bodies import MOST, HttpProblem, decode_body, flag, number, value_of
from noetl.server.http.routes import ApiContext, Route, caller_of, json

#: of a page
_MOST = 1000
#: seconds within which whoever runs an execution answers, unless it is very busy
_TIMEOUT_S = 5.0
_POLL = 0.05


class ExecutionPage(msgspec.Struct):
    """A page of a list, the latest first."""

    executions: list[Summary]
    #: what `cursor` is for the next page; None: this is the last
    cursor: str | None = None


class RequestEffect(msgspec.Struct):
    """What became of a request to an execution."""

    execution_id: str
    status: str
    #: the event that records it
    event: str
    #: its number; None: it was so already, or the answer is still to come
    seq: int | None = None


class CancelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Why an execution is ended."""

    why: str = "it was cancelled"


class EmptyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """No more than the request itself."""


class SignalRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A signal, and what it carries."""

    name: str
    data: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


async def list_executions(context: ApiContext, request: Request) -> Response:
    """GET /api/executions."""
    limit, paths = max(1, number(request, "limit", 50, _MOST)), caller_of(request).paths
    cursor = request.query_params.get("cursor")
    if cursor and paths and await context.read(context.log.summary, cursor, paths=paths) is None:
        cursor = None  # one that is not there, as far as the caller may know
    found = await context.read(
        context.log.summaries,
        limit=limit + 1,
        unfinished=flag(request, "unfinished"),
        parent=request.query_params.get("parent"),
        before=cursor,
        paths=paths,
    )
    page = found[:limit]
    return json(ExecutionPage(page, page[-1].execution_id if len(found) > limit else None))


async def show_execution(context: ApiContext, request: Request) -> Response:
    """GET /api/executions/{id}."""
    summary = await context.execution(request)
    told: dict[str, Any] = msgspec.to_builtins(summary)
    if request.query_params.get("view") == "summary":
        return json(told)
    state = await context.state(summary.execution_id)
    told = {**run_document(state), **told, "file": state.file}
    ref = state.output_ref
    if flag(request, "full_output") and ref is not None and context.results is not None:
        found = await context.read(context.results.small, ref, await _most(context, summary))
        told["output"] = found[0] if found is not None else told["output"]
    return json(told)


async def waits(context: ApiContext, request: Request) -> Response:
    """GET /api/executions/{id}/waits."""
    summary = await context.execution(request)
    return json({"waits": context.control_plane.waits(summary.execution_id)})


async def _most(context: ApiContext, summary: Summary) -> int:
    """How much of an output the playbook wants to see in full."""
    source = await context.read(context.log.source, summary.playbook)
    net = await context.read(context.control_plane.catalog.net, source) if source is not None else None
    return net.playbook.max_payload if net is not None else 0


# --- acting ------------------------------------------------------------------------------------------------------------


def action_endpoint(
    event: str, wanted: Callable[[Request], Awaitable[Posted]]
) -> Callable[[ApiContext, Request], Awaitable[Response]]:
    """The endpoint that lets a request take effect; `event` is what the log shows then."""

    async def act(context: ApiContext, request: Request) -> Response:
        posted = await wanted(request)
        summary = await context.execution(request)
        if summary.status in OVER:
            detail = f"{summary.execution_id} is over: it is {summary.status}"
            raise HttpProblem(409, detail, execution_id=summary.execution_id)
        if isinstance(posted, Cancel):
            await _refuse_cancel(context, summary)
        effect = await _effect(context, summary, posted, event)
        if isinstance(posted, Cancel) and effect.seq is None and effect.status not in OVER:
            await _refuse_cancel(context, summary)  # it may have begun to end meanwhile
        return json(effect)

    return act


async def _refuse_cancel(context: ApiContext, summary: Summary) -> None:
    """Refuse to cancel an execution that is ending already."""
    live = context.control_plane.service.live.get(summary.execution_id)
    state = live.state if live is not None else await context.read(state_at, context.log, summary.execution_id)
    refusal = explain_cancel_refusal(state)
    if refusal is not None:
        raise HttpProblem(409, f"{summary.execution_id}: {refusal}", execution_id=summary.execution_id)


async def _effect(context: ApiContext, summary: Summary, posted: Posted, event: str) -> RequestEffect:
    execution_id = summary.execution_id
    if not summary.alive:
        # Nobody runs it, so this server does from now on; somebody may have been quicker, and then minds the request.
        with contextlib.suppress(NoetlError):
            await context.control_plane.resume(execution_id)
    if execution_id in context.control_plane.service.live:
        await context.control_plane.service.record(execution_id, [posted])
    else:
        await _check_signal(context, execution_id, posted)
        await context.read(context.log.post, execution_id, encode_request(posted))
    seq = await _find_event(context, summary, event)
    if seq is None:
        await _check_signal(context, execution_id, posted)
    now = await context.read(context.log.summary, execution_id) or summary
    return RequestEffect(execution_id, now.status, event, seq)


async def _check_signal(context: ApiContext, execution_id: str, posted: Posted) -> None:
    """SignalRefused: whoever runs the execution takes the signal for none of its waits."""
    if isinstance(posted, Signal):
        refused = explain_refusal(await context.state(execution_id), posted)
        if refused is not None:
            raise SignalRefused(refused)


async def _find_event(context: ApiContext, summary: Summary, event: str) -> int | None:
    """The event in the log that a request has caused."""
    # A pause of what is paused, and its opposite, leave no trace to wait for.
    waits = {"execution.paused": summary.status != "paused", "execution.resumed": summary.status in ("paused", "stuck")}
    after, mine = summary.seq, summary.execution_id in context.control_plane.service.live
    tries = 1 if mine or not waits.get(event, True) else int(_TIMEOUT_S / _POLL)
    for turn in range(tries):
        if turn:
            await asyncio.sleep(_POLL)
        for one in await context.read(context.log.read, summary.execution_id, after=after):
            after = one.seq
            if one.name == event:
                return one.seq
    return None


async def _cancel(request: Request) -> Posted:
    return Cancel((await decode_body(request, CancelRequest)).why)


async def _pause(request: Request) -> Posted:
    await decode_body(request, EmptyRequest)
    return Pause()


async def _unpause(request: Request) -> Posted:
    await decode_body(request, EmptyRequest)
    return Resume()


async def _signal(request: Request) -> Posted:
    wish = await decode_body(request, SignalRequest, MOST)
    by = caller_of(request).recorded_name or None
    return Signal(wish.name, value_of(wish.data, "data of a signal"), by=by)


_ONE = "/api/executions/{id}"
ROUTES = [
    Route(
        "GET",
        "/api/executions/{id}/waits",
        "read",
        "checked",
        waits,
        "What an execution waits for that is no part of it, such as workers; as far as this server knows.",
        gives=dict[str, list[str]],
    ),
    Route(
        "GET",
        "/api/executions",
        "read",
        "checked",
        list_executions,
        "The executions, the latest first.",
        gives=ExecutionPage,
        query={
            "limit": "how many, at most 1000",
            "cursor": "the `cursor` of the page before",
            "unfinished": "only those that are not over",
            "parent": "only those that this execution has started; empty: only those that none has",
        },
    ),
    Route(
        "GET",
        _ONE,
        "read",
        "checked",
        show_execution,
        "How an execution stands. The beginning of an id is enough.",
        gives=dict[str, Any],
        query={
            "view": "`summary`: no more than lists show",
            "full_output": "the output itself also where it lies in the result store, as far as `max_payload_bytes` goes",
        },
    ),
    Route(
        "POST",
        f"{_ONE}/cancel",
        "operate",
        "checked",
        action_endpoint("execution.cancelled", _cancel),
        "End an execution for good.",
        CancelRequest,
        RequestEffect,
        action="execution.cancel",
    ),
    Route(
        "POST",
        f"{_ONE}/pause",
        "operate",
        "checked",
        action_endpoint("execution.paused", _pause),
        "Start nothing new until it is unpaused.",
        EmptyRequest,
        RequestEffect,
        action="execution.pause",
    ),
    Route(
        "POST",
        f"{_ONE}/unpause",
        "operate",
        "checked",
        action_endpoint("execution.resumed", _unpause),
        "Let a paused execution go on.",
        EmptyRequest,
        RequestEffect,
        action="execution.unpause",
    ),
    Route(
        "POST",
        f"{_ONE}/signal",
        "operate",
        "checked",
        action_endpoint("signal.received", _signal),
        "Send a signal to whoever waits for it, now or later.",
        SignalRequest,
        RequestEffect,
        action="execution.signal",
    ),
]

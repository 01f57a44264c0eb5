"""Looking at executions: state, snapshot, lines, picture; and the playbooks they ran."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.ports import LogLine, PlaybookSource
from noetl.server.http.bodies import HttpProblem, number
from noetl.server.http.routes import JSON, ApiContext, Route, caller_of, json

#: of a page of lines
_MOST = 10_000
#: the header that says which event a snapshot stands behind
SEQ = "Noetl-Seq"
SVG = "image/svg+xml"


class NumberedLine(msgspec.Struct, frozen=True):
    """A line and its position."""

    at: int
    line: LogLine


class LogPage(msgspec.Struct):
    """What tools wrote."""

    lines: list[NumberedLine]
    #: what `after` is for the next page
    after: int
    more: bool


async def state(context: ApiContext, request: Request) -> Response:
    """GET …/state."""
    summary = await context.execution(request)
    at = number(request, "at", 0) or None
    if at is not None and at > summary.seq:
        raise HttpProblem(400, f"the log of {summary.execution_id} ends at event {summary.seq}")
    found = await context.state(summary.execution_id, at)
    return Response(msgspec.json.encode(found), media_type=JSON)


async def snapshot(context: ApiContext, request: Request) -> Response:
    """GET …/snapshot."""
    summary = await context.execution(request)
    found = await context.read(context.log.snapshot, summary.execution_id, upto=number(request, "upto", 0) or None)
    if found is None:
        return Response(status_code=204)
    return Response(found[1], headers={SEQ: str(found[0])}, media_type="application/octet-stream")


async def lines(context: ApiContext, request: Request) -> Response:
    """GET …/logs."""
    summary = await context.execution(request)
    after = number(request, "after", 0)
    found = await context.read(context.log.lines, summary.execution_id, after=after)
    page = [NumberedLine(at, line) for at, line in found[:_MOST]]
    return json(LogPage(page, page[-1].at if page else after, len(found) > _MOST))


async def graph(context: ApiContext, request: Request) -> Response:
    """GET …/graph."""
    summary = await context.execution(request)
    source = await context.read(context.log.source, summary.playbook)
    plans = (await context.state(summary.execution_id)).synthesized
    picture = await context.read(_draw_graph, context, source, list(plans))
    if picture is None:
        raise HttpProblem(404, f"the playbook of {summary.execution_id} is not there any more, or cannot be read")
    # It is shown as a page of its own when it is opened by its address.
    return Response(picture, headers={"Content-Security-Policy": "sandbox; script-src 'none'"}, media_type=SVG)


def _draw_graph(context: ApiContext, source: PlaybookSource | None, plans: list[dict[str, object]]) -> str | None:
    from noetl.draw import draw

    net: Net | None = context.control_plane.catalog.net(source) if source is not None else None
    return draw(context.control_plane.catalog.extend_net(net, plans), "svg") if net is not None else None


async def source(context: ApiContext, request: Request) -> Response:
    """GET /api/sources/{hash}."""
    found = await context.read(context.log.source, request.path_params["hash"])
    caller = caller_of(request)
    if found is not None and caller.paths and not caller.may_see(await context.read(_path_of, context, found)):
        found = None
    if found is None:
        raise HttpProblem(404, "there is no playbook of that hash")
    return json(found)


def _path_of(context: ApiContext, source: PlaybookSource) -> str:
    """The path of a playbook; one that cannot be read has none."""
    net: Net | None = context.control_plane.catalog.net(source)
    return net.playbook.path if net is not None else ""


async def latest(context: ApiContext, request: Request) -> Response:
    """GET /api/sources."""
    path = request.query_params.get("path", "")
    found = await context.read(context.log.latest, path) if caller_of(request).may_see(path) else None
    if found is None:
        raise HttpProblem(404, f"no playbook was run under the path {path!r}")
    return json(found)


_ONE = "/api/executions/{id}"
ROUTES = [
    Route(
        "GET",
        f"{_ONE}/state",
        "read",
        "checked",
        state,
        "The state of an execution, now or behind any event of its past.",
        gives=Execution,
        query={"at": "behind this event"},
    ),
    Route(
        "GET",
        f"{_ONE}/snapshot",
        "read",
        "checked",
        snapshot,
        f"The latest snapshot of the state, in the server's own form; the header `{SEQ}` has its event. 204: there is none.",
        gives="application/octet-stream",
        query={"upto": "not later than this event"},
    ),
    Route(
        "GET",
        f"{_ONE}/logs",
        "read",
        "checked",
        lines,
        "What the tools of an execution wrote.",
        gives=LogPage,
        query={"after": "only what is behind this position"},
    ),
    Route(
        "GET", f"{_ONE}/graph", "read", "checked", graph, "The net that it runs, planned steps too, as SVG.", gives=SVG
    ),
    Route(
        "GET",
        "/api/sources/{hash}",
        "read",
        "checked",
        source,
        "The text of a playbook that was run.",
        gives=PlaybookSource,
    ),
    Route(
        "GET",
        "/api/sources",
        "read",
        "checked",
        latest,
        "The playbook that was last run under a path.",
        gives=PlaybookSource,
        query={"path": "the path"},
    ),
]

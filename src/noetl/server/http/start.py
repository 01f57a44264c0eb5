"""Starting executions. One that is asked for with an `Idempotency-Key` is started once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.lang import Loaded
from noetl.lang.printing import diagnostic_report
from noetl.model.access import roles_with
from noetl.model.net import Net
from noetl.model.scope import merge_maps
from noetl.ports import EventLog, PlaybookSource, Summary
from noetl.server.core import LONGEST_KEY, KeyReused, StartKey, digest_request
from noetl.server.http.access import Caller
from noetl.server.http.bodies import MOST_START, MOST_TEXT, HttpProblem, decode_body, value_of
from noetl.server.http.routes import ApiContext, Route, caller_of, json

#: executions that are looked through at once, and how often
_PAGE, _PAGES = 1_000, 20
#: what a playbook without a file is called where it is invalid; one that runs goes by its name
_NAMELESS = "playbook"


class CalledPlaybook(msgspec.Struct, forbid_unknown_fields=True):
    """A playbook that comes along, because it is called."""

    text: str
    file: str
    #: what callers call it; where that is ambiguous, behind the folder of the caller
    names: list[str]


class StartRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request for a run: of a playbook's text, or of one that was run before under a path."""

    playbook: str | None = None
    #: where the text comes from: relative paths in it start at its folder
    file: str | None = None
    path: str | None = None
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    legacy: bool = False
    calls: list[CalledPlaybook] = []


class StartResponse(msgspec.Struct):
    """An execution that was started, now or when the same was first asked for."""

    execution_id: str
    status: str
    path: str
    #: it was there already
    repeated: bool = False


async def start(context: ApiContext, request: Request) -> Response:
    """POST /api/executions."""
    if context.draining:
        raise HttpProblem(503, "this server is about to end", {"Retry-After": "1"})
    wish = await decode_body(request, StartRequest, MOST_START)
    caller = caller_of(request)
    if (wish.playbook is None) == (wish.path is None):
        raise HttpProblem(400, "give either `playbook`, its text, or `path`, that of one that was run before")
    if (wish.playbook is not None or wish.calls) and not caller.may("author"):
        role = caller.token.role if caller.token is not None else "none"
        raise HttpProblem(
            403,
            f"the role `{role}` may start what was run before, by its `path`, but no other playbook; {roles_with('author')}",
        )
    payload = value_of(wish.payload, "payload")
    if not isinstance(payload, dict):
        raise HttpProblem(400, "`payload` is a map")
    source, net = await _playbook(context, caller, wish)
    request.state.object = net.playbook.path
    _check_payload(net, payload)
    calls = await _calls(context, caller, wish)
    if wish.path is not None and not calls:
        calls = await context.read(_calls_before, context.log, wish.path)
    name = caller.recorded_name
    asked = {"by": name} if name else {}
    key = request.headers.get("idempotency-key")
    if key is None:
        live = await context.control_plane.start(source, net, payload, calls=calls, asked=asked or None)
        return _answer(request, StartResponse(live.id, live.state.status, live.state.path))
    if not 0 < len(key) <= LONGEST_KEY:
        raise HttpProblem(400, f"an Idempotency-Key has 1 to {LONGEST_KEY} characters")
    start_key = StartKey(name, key, _digest(wish))
    async with context.lock_name(f"{name}\0{key}"):
        try:
            found = await context.control_plane.start_once(start_key, source, net, payload, calls=calls)
        except KeyReused as error:
            detail = "this Idempotency-Key was used for another request"
            raise HttpProblem(409, detail, execution_id=error.execution_id) from None
    if isinstance(found, Summary):
        return _answer(request, StartResponse(found.execution_id, found.status, found.path, repeated=True))
    return _answer(request, StartResponse(found.id, found.state.status, found.state.path))


def _answer(request: Request, started: StartResponse) -> Response:
    request.state.object = f"{started.execution_id} {started.path}"
    headers = {"Location": f"/api/executions/{started.execution_id}"}
    return json(started, 200 if started.repeated else 201, headers)


def _digest(wish: StartRequest) -> str:
    return digest_request({**msgspec.structs.asdict(wish), "payload": msgspec.json.decode(wish.payload)})


async def _playbook(context: ApiContext, caller: Caller, wish: StartRequest) -> tuple[PlaybookSource, Net]:
    if wish.playbook is not None:
        source, net = await _read(context, wish.playbook, wish.file, legacy=wish.legacy)
        caller.check_path(net.playbook.path)
        return source, net
    assert wish.path is not None
    known = await context.read(context.log.latest, wish.path) if caller.may_see(wish.path) else None
    return await _recorded(context, wish.path, known)


async def _recorded(context: ApiContext, path: str, source: PlaybookSource | None) -> tuple[PlaybookSource, Net]:
    if source is None:
        raise HttpProblem(404, f"no playbook was run under the path {path!r}")
    net = await context.read(context.control_plane.catalog.net, source)
    if net is None:
        raise HttpProblem(422, f"the playbook {path!r} can no longer be read by this version")
    return source, net


async def _read(context: ApiContext, text: str, file: str | None, *, legacy: bool) -> tuple[PlaybookSource, Net]:
    data = text.encode("utf-8", "surrogatepass")
    called = f"the playbook {file}" if file else "the playbook"
    if len(data) > MOST_TEXT:
        raise HttpProblem(413, f"{called} has {len(data):,} bytes; {MOST_TEXT:,} are allowed")
    source, loaded = await context.read(
        context.control_plane.catalog.read, Path(file or _NAMELESS), data, legacy=legacy
    )
    if loaded.net is None:
        raise HttpProblem(422, f"{called} is invalid", **diagnostics(loaded))
    if not file:  # messages must not name a file that does not exist
        source = msgspec.structs.replace(source, file=Path(loaded.net.playbook.name).name or _NAMELESS)
    return source, loaded.net


def diagnostics(loaded: Loaded) -> dict[str, Any]:
    """What is wrong with a playbook, in the form of `noetl validate --format json`."""
    told: dict[str, Any] = diagnostic_report.as_json([diagnostic_report.FileReport(loaded.source, loaded.diagnostics)])
    return told


def _check_payload(net: Net, payload: dict[str, Any]) -> None:
    schema = net.playbook.metadata.get("schema")
    if schema is None:
        return
    from noetl.lang import workload_violations

    wrong = [
        {"name": one.name, "message": one.said}
        for one in workload_violations(merge_maps(net.playbook.workload, payload), schema)
    ]
    if wrong:
        told = "; ".join(f"{one['name']}: {one['message']}" for one in wrong[:5])
        raise HttpProblem(422, f"the payload does not fit the playbook's schema: {told}", misfits=wrong)


async def _calls(context: ApiContext, caller: Caller, wish: StartRequest) -> dict[str, str]:
    """The playbooks that came along, kept; those with errors fail when they are called, as ones in a folder would."""
    found: dict[str, str] = {}
    for one in wish.calls:
        data = one.text.encode("utf-8", "surrogatepass")
        if len(data) > MOST_TEXT:
            raise HttpProblem(413, f"the playbook {one.file} has {len(data):,} bytes; {MOST_TEXT:,} are allowed")
        source = PlaybookSource(hashlib.sha256(data).hexdigest(), one.text, one.file, wish.legacy)
        if caller.paths and (net := await context.read(context.control_plane.catalog.net, source)) is not None:
            caller.check_path(net.playbook.path)  # it would be run under this path, and be the latest one there
        await context.control_plane.keep(source)
        found |= dict.fromkeys(one.names, source.hash)
    return found


def _calls_before(log: EventLog, path: str) -> dict[str, str]:
    """The playbooks that came with what was last run under a path, as far as that is not too long ago."""
    before: str | None = None
    for _ in range(_PAGES):
        page = log.summaries(limit=_PAGE, before=before)
        found = next((one for one in page if one.path == path), None)
        if found is not None:
            calls: dict[str, str] = log.read(found.execution_id, limit=1)[0].payload.get("calls", {})
            return calls
        if len(page) < _PAGE:
            break
        before = page[-1].execution_id
    return {}


ROUTES = [
    Route(
        "POST",
        "/api/executions",
        "operate",
        "checked",
        start,
        "Start an execution. The text of a playbook needs the role `author`; with an `Idempotency-Key` it is started once.",
        takes=StartRequest,
        gives=StartResponse,
        status=201,
        action="execution.start",
    )
]

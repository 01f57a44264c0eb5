"""Who may do what to what: every route, called by every role on what is theirs, what is not, and what is not there.

The expected answers are in `access_matrix.txt`, which is reviewed as it stands; the calls are made from the table of routes, so a
route that is not in the file fails here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from apiserver import HEAD, Api

from noetl.model.access import ROLES
from noetl.model.wire import Heartbeat, ServerReply, WorkerMessage, encode
from noetl.server.http.access import request_limits
from noetl.server.http.app import ROUTES
from noetl.server.http.routes import Route
from noetl.server.http.worker_routes import build_worker_routes

TABLE = Path(__file__).with_name("access_matrix.txt")
NAMED = HEAD.replace("name: %s", "name: %s, path: %s")
LARGE = NAMED + "  - {step: end, tool: {kind: noop, output: \"{{ ['x' * 1000] * 3000 }}\"}}\n"
WAITS = NAMED + "  - {step: end, tool: {kind: wait, signal: ok}}\n"
#: which object a route is called with
OBJECTS = ("own", "foreign", "missing")


class Things(NamedTuple):
    """What there is under one path."""

    path: str
    execution: str
    source: str
    ref: Any


class NoWorkers:
    """Says to every worker that there is nothing."""

    async def serve(self, _message: WorkerMessage, _call: object) -> ServerReply:
        return ServerReply()

    async def alive(self, _heartbeat: Heartbeat, _call: object) -> ServerReply:
        return ServerReply()


WORKER_ROUTES = build_worker_routes(NoWorkers())  # type: ignore[arg-type]
ALL: list[Route] = [*ROUTES, *WORKER_ROUTES]


class Matrix:
    """A server with things of two paths, and callers of all kinds."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.made = 0
        self.things = {
            "own": self._things("crm/sync"),
            "foreign": self._things("payroll/pay"),
            "missing": Things("crm/none", "01m7r2xv42jdy21h", "0" * 64, None),
        }
        ref = dict(self.things["own"].ref)
        ref["locator"] = {"path": f"01m7r2xv42jdy21h/{ref['locator']['path'].partition('/')[2]}"}
        self.things["missing"] = self.things["missing"]._replace(ref=ref)
        #: caller → token
        self.tokens = {"none": "", "unknown": "noetl_nobody", **{role: api.add_token(role, role) for role in ROLES}}
        limited = [role for role in ROLES if role != "worker"]
        self.limited = {role: api.add_token(f"crm-{role}", role, paths=("crm/*",)) for role in limited}

    def _things(self, path: str) -> Things:
        found = self.api.run(LARGE % (path.partition("/")[0], path))
        return Things(path, found["execution_id"], found["playbook"], found["output"]["ref"])

    def call(self, route: Route, kind: str, token: str) -> int:
        """Call a route about an object; the status."""
        things = self.things[kind]
        execution = things.execution
        if route.action.startswith("execution.") and "{id}" in route.path and kind != "missing":
            execution = self.api.start(WAITS % (kind, things.path))
        path = (
            route.path.replace("{id}", execution).replace("{hash}", things.source).replace("{name}", self._name(route))
        )
        path += {
            "/api/sources": f"?path={things.path}",
            "/api/results": f"?ref={quote(json.dumps(things.ref))}",
        }.get(route.path if route.method == "GET" else "", "")
        if route.path.endswith("/events"):
            path += "?limit=1"
        return self.api.call(route.method, path, self._body(route, things), token).status

    def _name(self, route: Route) -> str:
        """The name of a token that can be removed."""
        if "{name}" not in route.path:
            return ""
        self.made += 1
        self.api.add_token(f"t{self.made}", "viewer")
        return f"t{self.made}"

    def _body(self, route: Route, things: Things) -> Any:
        self.made += 1
        bodies: dict[str, Any] = {
            "/api/executions": {"path": things.path},
            "/api/executions/{id}/signal": {"name": "ok"},
            "/api/validate": {"playbook": WAITS % ("x", "x")},
            "/api/results": {"ref": things.ref},
            "/api/tokens": {"name": f"n{self.made}", "role": "viewer"},
            "/api/work": encode(WorkerMessage("w")),
            "/api/pulse": encode(Heartbeat("w")),
        }
        return bodies.get(route.path, {}) if route.method == "POST" else None

    def row(self, route: Route) -> str:
        """The line of a route: what each caller is answered; of a limited one, about each kind of object."""
        cells = [str(self.call(route, "own", token)) for token in self.tokens.values()]
        cells += ["/".join(str(self.call(route, kind, token)) for kind in OBJECTS) for token in self.limited.values()]
        return (
            f"{name_of(route):<40}"
            + "  ".join(f"{cell:<11}" if "/" in cell else f"{cell:<7}" for cell in cells).rstrip()
        )


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def expected() -> dict[str, str]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {" ".join(line.split()[:2]): line for line in lines}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    with pytest.MonkeyPatch.context() as patch, Api(tmp_path_factory.mktemp("m") / "home", more=WORKER_ROUTES) as api:
        patch.setattr(request_limits, "_GUESSES", 1e9)
        yield Matrix(api)


def test_every_route_is_in_the_reviewed_table_and_no_other() -> None:
    assert sorted(map(name_of, ALL)) == sorted(expected())


def test_what_is_not_theirs_is_answered_as_what_is_not_there() -> None:
    cells = [
        cell.split("/")
        for line in expected().values()
        for cell in line.split()[2:]
        if cell[0].isdigit() and "/" in cell
    ]
    assert len(cells) == 4 * len(ALL)
    assert [cell for cell in cells if cell[1] != cell[2]] == []


@pytest.mark.parametrize("route", ALL, ids=name_of)
def test_a_route_answers_each_caller_as_the_table_says(matrix: Matrix, route: Route) -> None:
    assert matrix.row(route) == expected()[name_of(route)]

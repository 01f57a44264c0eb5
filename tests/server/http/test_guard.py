"""Who may call what: roles and routes, hosts, other sites, and a server that would be open to others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import get_args

import pytest
from apiserver import APPROVAL, DOUBLE, Api
from noetl.server.http.api_tokens import MAY, ROLES, ApiTokens, Permission, Role
from noetl.server.http.guard import ServerNames
from starlette.requests import Request
from starlette.responses import Response

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.errors import NoetlError, UsageError
from noetl.server.http.app import ROUTES, build_app
from noetl.server.http.routes import ApiContext, Route, json
from noetl.stores.memory import MemoryLog

#: who may call a route, by its permission; written out, so that a change of one table shows in the other
ALLOWED: dict[str, set[Role]] = {
    "open": {"viewer", "operator", "author", "admin", "worker"},
    "read": {"viewer", "operator", "author", "admin"},
    "operate": {"operator", "author", "admin"},
    "author": {"author", "admin"},
    "admin": {"admin"},
    "work": {"admin", "worker"},
}
#: what each route is, by who may call it
OPEN = {"GET /health", "GET /ready", "GET /api/openapi.json"}
OPERATE = {"POST /api/executions", *(f"POST /api/executions/{{id}}/{verb}" for verb in ("cancel", "pause", "unpause", "signal"))}  # fmt: skip


async def _echo(_context: ApiContext, request: Request) -> Response:
    return json({"bytes": len(await request.body())})


WORK = Route("POST", "/api/work", "work", _echo, "Something for workers.", "application/octet-stream")


def test_roles_may_do_what_the_table_says() -> None:
    assert set(ALLOWED) == set(get_args(Permission))
    for role in ROLES:
        assert MAY[role] == {permission for permission, roles in ALLOWED.items() if role in roles}


def test_every_route_has_the_permission_that_was_meant() -> None:
    for route in ROUTES:
        name = f"{route.method} {route.path}"
        assert route.permission == ("open" if name in OPEN else "operate" if name in OPERATE else "read"), name


def test_a_server_with_a_route_that_says_not_who_may_call_it_does_not_start(tmp_path: Path) -> None:
    async def start() -> None:
        node = LocalNode(Settings(tmp_path), MemoryLog())
        forgotten = Route("GET", "/api/forgotten", None, _echo, "Nobody thought of it.")
        with pytest.raises(NoetlError, match="GET /api/forgotten"):
            build_app(node, tokens=ApiTokens(tmp_path / "none", time.time), more=[forgotten])

    import asyncio

    asyncio.run(start())


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com"])
def test_a_server_that_others_reach_does_not_start_without_a_token(tmp_path: Path, host: str) -> None:
    async def start() -> None:
        node, tokens = LocalNode(Settings(tmp_path), MemoryLog()), ApiTokens(tmp_path / "tokens.json", time.time)
        with pytest.raises(UsageError, match="noetl token add"):
            build_app(node, tokens=tokens, host=host)
        tokens.add("ann", "admin")
        build_app(node, tokens=tokens, host=host).state.context.close()

    import asyncio

    asyncio.run(start())


def test_the_matrix_of_roles_and_routes_holds(tmp_path: Path) -> None:
    with Api(tmp_path / "home", more=[WORK]) as api:
        known = api.run(DOUBLE)
        waits = api.start(APPROVAL)
        tokens = {role: api.tokens.add(role, role) for role in ROLES}
        for route in [*ROUTES, WORK]:
            path = route.path.replace("{id}", waits).replace("{hash}", known["playbook"])
            for role in ROLES:
                answer = api.call(route.method, path, token=tokens[role])
                assert route.permission is not None
                may = role in ALLOWED[route.permission]
                assert (answer.status not in (401, 403)) == may, (route.path, role, answer)
                assert answer.status != 500
            assert (api.call(route.method, path).status == 401) == (route.permission != "open")


def test_an_operator_starts_what_was_run_before_and_nothing_else(api: Api) -> None:
    api.run(DOUBLE)
    token = api.tokens.add("olga", "operator")
    answer = api.call("POST", "/api/executions", {"playbook": DOUBLE}, token)
    assert (answer.status, "but no other playbook; `author` and `admin` may" in answer.data["detail"]) == (403, True)
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.call("POST", "/api/executions", {"path": "double"}, token).status == 201


@pytest.mark.parametrize(
    ("role", "method", "path", "told"),
    [
        (
            "viewer",
            "POST",
            "/api/executions",
            "the role `viewer` may not do this; `operator`, `author` and `admin` may",
        ),
        (
            "worker",
            "GET",
            "/api/executions",
            "the role `worker` may not do this; `viewer`, `operator`, `author` and `admin` may",
        ),
    ],
)
def test_who_may_not_is_told_which_roles_may(api: Api, role: Role, method: str, path: str, told: str) -> None:
    token = api.tokens.add("ann", role)
    assert api.call(method, path, token=token).data["detail"] == told


def test_without_any_token_this_machine_may_do_everything_until_there_is_one(api: Api) -> None:
    assert api.get("/api/executions").status == 200
    token = api.tokens.add("ann", "viewer")
    assert api.get("/api/executions").status == 401
    assert api.call("GET", "/api/executions", token=token).status == 200
    api.tokens.remove("ann")
    # Whoever has had tokens wants them: the last one taken away opens nothing.
    assert api.call("GET", "/api/executions", token=token).status == 401
    assert api.get("/api/executions").status == 401


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_what_a_proxy_passes_on_needs_a_token_even_if_the_proxy_is_on_this_machine(api: Api, header: str) -> None:
    sent = {header: "127.0.0.1"}
    answer = api.get("/api/executions", **sent)
    assert answer.status == 401
    assert "noetl token add" in answer.data["detail"]
    assert api.get("/health", **sent).status == 200
    token = api.tokens.add("ann", "viewer")
    assert api.call("GET", "/api/executions", token=token, **sent).status == 200


@pytest.mark.parametrize("header", ["Bearer", "Bearer nonsense", "Basic eDp5", "noetl_x", "Bearer noetl_\xe9"])
def test_what_is_no_token_is_refused(api: Api, header: str) -> None:
    api.tokens.add("ann", "admin")
    answer = api.get("/api/executions", Authorization=header)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "set NOETL_TOKEN; `noetl token add NAME --role ROLE` at the server makes one" in answer.data["detail"]


def test_while_the_tokens_cannot_be_read_nobody_is_to_blame_and_may_come_again(api: Api) -> None:
    token = api.tokens.add("w", "worker")
    kept = api.tokens.path.read_bytes()
    api.tokens.path.write_bytes(kept[:-9])
    answer = api.call("GET", "/api/executions", token=token)
    assert (answer.status, answer.headers.get("retry-after")) == (503, "1")
    api.tokens.path.write_bytes(kept)
    assert api.call("GET", "/api/executions", token=token).status == 403


def test_a_token_that_has_expired_holds_no_longer(tmp_path: Path) -> None:
    now = 1000.0
    tokens = ApiTokens(tmp_path / "tokens.json", lambda: now)
    token = tokens.add("ann", "admin", lasts=60)
    assert tokens.of(token) is not None
    now = 1060.0
    assert tokens.of(token) is None


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8090", "[::1"])
def test_a_name_that_the_server_does_not_go_by_is_refused(api: Api, host: str) -> None:
    assert api.get("/api/executions", Host=host).status == 421
    assert api.get("/health", Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8090"])
def test_the_names_of_this_machine_are_known(api: Api, host: str) -> None:
    assert api.get("/api/executions", Host=host).status == 200


def test_a_server_goes_by_the_names_that_it_is_given() -> None:
    given = ServerNames("127.0.0.1", ["noetl.example"])
    assert given.is_known("NOETL.example:8090")
    assert not given.is_known("192.0.2.1")
    everywhere = ServerNames("0.0.0.0")
    assert everywhere.is_known("192.0.2.1:8090")
    assert not everywhere.is_known("evil.example")
    assert ServerNames("10.0.0.1", ["*"]).is_known("anything")


def test_a_page_of_another_site_can_do_nothing(api: Api) -> None:
    wish = {"playbook": DOUBLE}
    assert api.call("POST", "/api/executions", wish, Origin="https://evil.example").status == 403
    assert api.call("POST", "/api/executions", wish, Origin="null").status == 403
    # What a form can send without asking is not taken, whoever it comes from.
    assert api.call("POST", "/api/executions", wish, Content_Type="text/plain").status == 415
    assert api.call("POST", "/api/executions", wish, Origin=f"http://127.0.0.1:{api.port}").status == 201
    assert "access-control-allow-origin" not in api.call("OPTIONS", "/api/executions").headers


def test_what_is_not_there_is_a_problem_as_well(api: Api) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("PUT", "/health", 405),
        ("GET", "/api/executions/zzz", 404),
    ):
        answer = api.call(method, path)
        assert (answer.status, answer.data["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"

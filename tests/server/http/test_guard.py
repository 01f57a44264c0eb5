"""Who is admitted: roles, hosts, other sites, servers that would be open to others; and what of playbooks is whose."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from apiserver import APPROVAL, DOUBLE, HEAD, Api
from starlette.requests import Request
from starlette.responses import Response
from waiting import wait_until

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.errors import NoetlError, UsageError
from noetl.model.access import MAY, ROLES, Permission, Role, TokenRequest
from noetl.server.http.access import ServerNames, TokenFile, add_token, make_owner_token
from noetl.server.http.app import ROUTES, AccessSettings, build_app
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
OWN = HEAD.replace("{name: %s}", "{name: own, path: crm/own}") + "  - {step: end, tool: {kind: wait, signal: ok}}\n"
FOREIGN = OWN.replace("name: own, path: crm/own", "name: foreign, path: payroll/foreign")


async def _echo(_context: ApiContext, request: Request) -> Response:
    return json({"bytes": len(await request.body())})


def scenario(folder: Path, work: Callable[[LocalNode, AccessSettings], Any]) -> None:
    """Do something with a node in a running event loop."""

    async def run() -> None:
        node = LocalNode(Settings(folder), MemoryLog())
        result = work(node, AccessSettings(TokenFile(folder / "none")))
        if asyncio.iscoroutine(result):
            await result

    asyncio.run(run())


def test_roles_may_do_what_the_table_says() -> None:
    assert set(ALLOWED) == set(get_args(Permission))
    for role in ROLES:
        assert MAY[role] == {permission for permission, roles in ALLOWED.items() if role in roles}


@pytest.mark.parametrize(
    "forgotten",
    [
        Route("GET", "/api/forgotten", None, "none", _echo, "Nobody thought of who may call it."),
        Route("GET", "/api/forgotten", "read", None, _echo, "Nobody thought of tokens that are for some playbooks."),
    ],
)
def test_a_server_with_a_route_that_does_not_say_who_may_call_it_does_not_start(
    tmp_path: Path, forgotten: Route
) -> None:
    def start(node: LocalNode, access: AccessSettings) -> None:
        with pytest.raises(NoetlError, match="GET /api/forgotten"):
            build_app(node, access, more=[forgotten])

    scenario(tmp_path, start)


def test_every_route_that_changes_something_is_recorded() -> None:
    unrecorded = {f"{one.method} {one.path}" for one in ROUTES if one.method != "GET" and not one.action}
    assert unrecorded == {"POST /api/validate", "POST /api/results"}
    assert [one.path for one in ROUTES if one.method == "GET" and one.action] == []


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com", "::"])
def test_a_server_that_others_reach_does_not_start_without_a_token_though_its_owner_has_one(
    tmp_path: Path, host: str
) -> None:
    async def start(node: LocalNode, access: AccessSettings) -> None:
        open_to_others = AccessSettings(access.file, make_owner_token("noetl_owner"), host)
        with pytest.raises(UsageError, match="noetl token add"):
            build_app(node, open_to_others)
        await add_token(node.log.access(), access.file, TokenRequest("ann", "admin"), time.time)  # type: ignore[attr-defined]
        await build_app(node, open_to_others).state.context.close()

    scenario(tmp_path, start)


# --- tokens ------------------------------------------------------------------------------------------------------------


def test_nobody_is_admitted_without_a_token_also_on_this_machine(api: Api) -> None:
    for route in ROUTES:
        status = api.call(route.method, route.path.replace("{", "").replace("}", ""), token="").status
        assert (status == 401) == (route.permission != "open"), route.path
    assert api.call("GET", "/api/executions").status == 200


def test_the_owners_token_of_one_server_is_nothing_to_another(api: Api, tmp_path: Path) -> None:
    with Api(tmp_path / "other") as other:
        assert api.call("GET", "/api/executions", token=other.owner).status == 401


@pytest.mark.parametrize("header", ["Bearer", "Bearer nonsense", "Basic eDp5", "noetl_x", "Bearer noetl_\xe9"])
def test_what_is_no_token_is_refused(api: Api, header: str) -> None:
    answer = api.get("/api/executions", Authorization=header)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "set NOETL_TOKEN; `noetl token add NAME --role ROLE` at the server makes one" in answer.data["detail"]


def test_a_token_that_was_removed_is_refused_within_a_second_by_every_server(api: Api) -> None:
    token = api.add_token("ann", "viewer")
    with Api(api.home) as other:
        assert [one.call("GET", "/api/executions", token=token).status for one in (api, other)] == [200, 200]
        assert api.call("DELETE", "/api/tokens/ann").status == 200
        removed = time.monotonic()
        for one in (api, other):
            wait_until(lambda one=one: one.call("GET", "/api/executions", token=token).status == 401)  # type: ignore[misc]
        took = time.monotonic() - removed
        # What is believed without asking is half a second old at most; the rest is this machine's.
        assert took < 30


def test_a_stream_ends_when_its_token_is_removed(api: Api) -> None:
    execution_id = api.start(APPROVAL)
    token = api.add_token("ann", "viewer")
    stream = api.stream(f"/api/executions/{execution_id}/events", Authorization=f"Bearer {token}")
    assert next(stream)[0] == "id"
    api.remove_token("ann")
    time.sleep(0.6)  # what was said of a token is believed for half a second
    api.call("POST", f"/api/executions/{execution_id}/signal", {"name": "ok"})
    assert "playbook.processed" not in "".join(value for _, value in stream)


def test_a_page_that_was_waited_for_is_not_sent_once_the_token_is_removed(api: Api) -> None:
    execution_id = api.start(APPROVAL)
    seq = api.get(f"/api/executions/{execution_id}").data["seq"]
    token = api.add_token("ann", "viewer")
    api.remove_token("ann")
    assert api.call("GET", f"/api/executions/{execution_id}/events?after={seq}&wait=2", token=token).status == 401


def test_a_token_that_has_expired_is_refused(api: Api) -> None:
    token = api.add_token("ann", "admin", expires_s=0.3)
    wait_until(lambda: api.call("GET", "/api/executions", token=token).status == 401)


def test_while_the_tokens_cannot_be_read_nobody_is_to_blame_and_may_come_again(api: Api) -> None:
    api.file.path.write_text("[{")
    answer = api.call("GET", "/api/executions", token="noetl_whoever")
    assert (answer.status, answer.headers.get("retry-after")) == (503, "1")
    api.file.path.unlink()
    assert api.call("GET", "/api/executions", token="noetl_whoever").status == 401


def test_a_token_is_shown_once_and_never_again(api: Api) -> None:
    made = api.call("POST", "/api/tokens", {"name": "ann", "role": "viewer", "paths": ["crm/*"]})
    token = made.data["token"]
    assert (made.status, token[:6], len(token) >= 45) == (201, "noetl_", True)
    assert api.call("GET", "/api/executions", token=token).status == 200
    (listed,) = api.get("/api/tokens").data["tokens"]
    assert (listed["name"], listed["hint"], listed["paths"]) == ("ann", token[-4:], ["crm/*"])
    assert "sha256" not in listed
    for stored in api.home.iterdir():
        assert token.removeprefix("noetl_").encode() not in (stored.read_bytes() if stored.is_file() else b"")
    again = api.call("POST", "/api/tokens", {"name": "ann", "role": "admin"})
    assert (again.status, "already" in again.data["detail"]) == (409, True)
    assert api.call("DELETE", "/api/tokens/bob").status == 404


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"name": "", "role": "viewer"}, "no name for a token"),
        ({"name": "owner", "role": "viewer"}, "not `owner`"),
        ({"name": "a\nb", "role": "viewer"}, "no name for a token"),
        ({"name": "a" * 101, "role": "viewer"}, "up to 100"),
        ({"name": "a", "role": "king"}, "Invalid enum value"),
        ({"name": "a", "role": "viewer", "paths": ["*/x"]}, "is no path of playbooks"),
        ({"name": "a", "role": "viewer", "paths": ["/*"]}, "is no path of playbooks"),
        ({"name": "a", "role": "viewer", "paths": ["x"] * 101}, "up to 100 paths"),
        ({"name": "a", "role": "viewer", "pools": ["gpu"]}, "only a token with the role `worker`"),
        ({"name": "a", "role": "worker", "paths": ["crm/*"]}, "not by paths"),
        ({"name": "a", "role": "worker", "worker": "*"}, "names no worker"),
        ({"name": "a", "role": "viewer", "expires_s": -1}, "above zero"),
        ({"name": "a", "role": "viewer", "expires_s": 1e300}, "100 years"),
        ({"name": "a", "role": "viewer", "more": 1}, "unknown field"),
    ],
)
def test_a_token_that_cannot_be_is_refused(api: Api, wish: dict[str, Any], told: str) -> None:
    answer = api.call("POST", "/api/tokens", wish)
    assert (answer.status, told in answer.data["detail"]) == (400, True), answer
    assert api.get("/api/tokens").data["tokens"] == []


def test_when_a_token_was_last_used_is_kept(api: Api) -> None:
    token = api.add_token("ann", "viewer")
    before = time.time()
    api.call("GET", "/api/executions", token=token)
    wait_until(lambda: (api.get("/api/tokens").data["tokens"][0]["last_used"] or 0) >= before)


# --- roles and paths ---------------------------------------------------------------------------------------------------


def test_an_operator_starts_what_was_run_before_and_nothing_else(api: Api) -> None:
    api.run(DOUBLE)
    token = api.add_token("olga", "operator")
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
    token = api.add_token("ann", role)
    assert api.call(method, path, token=token).data["detail"] == told


def test_a_list_has_what_is_the_callers_alone_and_its_pages_are_full(api: Api) -> None:
    own = [api.start(text) for text in (OWN, FOREIGN, OWN, FOREIGN, OWN)][::2]
    foreign = api.start(FOREIGN)
    token = api.add_token("ann", "viewer", paths=("crm/*",))

    def listed(query: str = "") -> tuple[list[str], str | None]:
        page = api.call("GET", f"/api/executions?limit=2{query}", token=token).data
        return [one["execution_id"] for one in page["executions"]], page["cursor"]

    page, cursor = listed()
    assert (page, cursor) == (own[:0:-1], own[1])
    assert listed(f"&cursor={cursor}") == (own[:1], None)
    # The id of an execution that is not theirs is no place in their list.
    assert listed(f"&cursor={foreign}") == listed("&cursor=nobody") == (own[:0:-1], own[1])
    assert listed(f"&parent={foreign}") == ([], None)


def test_the_beginning_of_an_id_says_nothing_of_executions_that_are_not_the_callers(api: Api) -> None:
    own, foreign = api.start(OWN), api.start(FOREIGN)
    common = next(own[:at] for at in range(len(own), 0, -1) if foreign.startswith(own[:at]))
    token = api.add_token("ann", "viewer", paths=("crm/*",))
    assert api.get(f"/api/executions/{common}").status == 400
    assert api.call("GET", f"/api/executions/{common}", token=token).data["execution_id"] == own


def test_an_author_of_some_playbooks_runs_no_others_whatever_comes_along(api: Api) -> None:
    token = api.add_token("ann", "author", paths=("crm/*",))
    assert api.call("POST", "/api/executions", {"playbook": OWN}, token).status == 201
    refused = api.call("POST", "/api/executions", {"playbook": FOREIGN}, token)
    assert (refused.status, refused.data["detail"]) == (
        403,
        "this token is for the playbooks `crm/*`, and this one's path is 'payroll/foreign'",
    )
    # What comes along would be the latest under its path once it was called.
    called = {"text": FOREIGN, "file": "foreign.yaml", "names": ["foreign"]}
    assert api.call("POST", "/api/executions", {"playbook": OWN, "calls": [called]}, token).status == 403
    assert api.call("GET", "/api/sources?path=payroll/foreign", token=token).status == 404
    assert api.get("/api/sources?path=payroll/foreign").status == 404


# --- hosts and sites ---------------------------------------------------------------------------------------------------


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

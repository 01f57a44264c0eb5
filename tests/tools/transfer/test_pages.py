"""The pages of an API, from a real server: every way to the next page, and everything that goes wrong on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tool_world import Workshop, serving

from noetl.ports import Call
from noetl.tools.transfer import move as moving, page_reader as paging

duckdb = pytest.importorskip("duckdb")

ROWS = [{"id": n, "name": f"name {n}"} for n in range(25)]
FILE = {"kind": "file", "path": "o.ndjson"}
Answering = Callable[[web.Request], Any]


class Api:
    """A server of pages that remembers what it was asked, and may be told to fail."""

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        #: by path and query: answers to be given once, before the real one
        self.first: dict[str, list[web.Response]] = {}

    def note(self, request: web.Request) -> web.Response | None:
        self.asked.append(request.path_qs)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        waiting = self.first.get(request.path_qs)
        return waiting.pop(0) if waiting else None

    def at(self, offset: int) -> list[Any]:
        return ROWS[offset : offset + self.size]

    async def next(self, request: web.Request) -> web.Response:
        at = int(request.query.get("at", 0))
        more = at + self.size < len(ROWS)
        answer = {"items": self.at(at), "next": f"/next?at={at + self.size}" if more else None}
        return self.note(request) or web.json_response(answer)

    async def link(self, request: web.Request) -> web.Response:
        at = int(request.query.get("at", 0))
        headers = {"Link": '</link>; rel="first"'}
        if at + self.size < len(ROWS):
            headers["Link"] += f', </link?at={at + self.size}>; rel="next"'
        return self.note(request) or web.json_response(self.at(at), headers=headers)

    async def cursor(self, request: web.Request) -> web.Response:
        at = int(request.query.get("after", "c0")[1:])
        more = at + self.size < len(ROWS)
        answer = {"items": self.at(at), "meta": {"cursor": f"c{at + self.size}" if more else ""}}
        return self.note(request) or web.json_response(answer)

    async def search(self, request: web.Request) -> web.Response:
        self.note(request)
        asked = await request.json()
        at = int(asked.get("after", 0))
        more = at + self.size < len(ROWS)
        return web.json_response({"items": self.at(at), "after": at + self.size if more else None, "q": asked["q"]})

    async def number(self, request: web.Request) -> web.Response:
        at = (int(request.query["page"]) - 1) * self.size
        return self.note(request) or web.json_response(self.at(at))

    async def offset(self, request: web.Request) -> web.Response:
        at = int(request.query["offset"])
        answer = {"items": self.at(at), "more": at + self.size < len(ROWS)}
        return self.note(request) or web.json_response(answer)

    @property
    def routes(self) -> list[web.RouteDef]:
        ways = [web.get(f"/{name}", getattr(self, name)) for name in ("next", "link", "cursor", "number", "offset")]
        return [*ways, web.post("/search", self.search)]


WAYS: dict[str, dict[str, Any]] = {
    "next": {"path": "$.items", "next": "$.next"},
    "link": {"page": {"by": "link"}},
    "cursor": {"path": "$.items", "page": {"by": "cursor", "path": "$.meta.cursor", "param": "after"}},
    "number": {"page": {"by": "number"}},
    "offset": {"path": "$.items", "page": {"by": "offset", "more": "$.more"}},
}


async def run(world: Workshop, source: dict[str, Any], *targets: Any, progress: Any = None, **more: Any) -> Any:
    """The output of a transfer."""
    return await world.task(progress, kind="transfer", source={"kind": "http", **source}, targets=list(targets), **more)


async def moved(world: Workshop, source: dict[str, Any], *targets: Any, **more: Any) -> dict[str, Any]:
    output = await run(world, source, *targets, **more)
    assert output["error"] is None, output["error"]
    return dict(output["data"])


async def failing(world: Workshop, source: dict[str, Any], *targets: Any, **more: Any) -> dict[str, Any]:
    output = await run(world, source, *(targets or [FILE]), **more)
    assert output["status"] == "error", output
    return dict(output["error"])


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(world: Workshop) -> list[int]:
    with duckdb.connect(str(world.folder / "o.duckdb"), read_only=True) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM t ORDER BY rowid").fetchall()]


# --- every way --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 4, 8, 100])
@pytest.mark.parametrize("way", WAYS)
async def test_all_pages_are_read(world: Workshop, way: str, size: int) -> None:
    api = Api()
    async with serving(*api.routes) as url:
        told = await moved(world, {"url": f"{url}/{way}", **WAYS[way]}, FILE, chunk={"size": size})
    assert lines(world.folder / "o.ndjson") == ROWS
    assert (told["rows"], told["chunks"]) == (25, -(-25 // size))
    assert len(api.asked) == (8 if way == "number" else 7)  # pages by number end with one that has no rows


async def test_a_cursor_may_stand_in_the_body(world: Workshop) -> None:
    api = Api()
    page = {"by": "cursor", "path": "$.after", "param": "after", "in": "json"}
    async with serving(*api.routes) as url:
        source = {"url": f"{url}/search", "method": "POST", "json": {"q": "x"}, "path": "$.items", "page": page}
        await moved(world, source, FILE)
    assert lines(world.folder / "o.ndjson") == ROWS


async def test_the_next_pages_are_fetched_while_a_target_is_busy(world: Workshop) -> None:
    api, busy = Api(), asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        if not busy.is_set():
            async with asyncio.timeout(60):
                while len(api.asked) < 4:
                    await asyncio.sleep(0.01)
            busy.set()
        return web.json_response({})

    async with serving(*api.routes, web.post("/in", take)) as url:
        target = {"kind": "http", "url": f"{url}/in"}
        await moved(world, {"url": f"{url}/next", **WAYS["next"]}, target, chunk={"size": 4})
    assert busy.is_set()


async def test_pages_are_not_hoarded_while_a_target_is_busy(world: Workshop) -> None:
    api, seen = Api(1), []

    async def take(request: web.Request) -> web.Response:
        await asyncio.sleep(0.1)
        seen.append(len(api.asked))
        return web.json_response({})

    async with serving(*api.routes, web.post("/in", take)) as url:
        target = {"kind": "http", "url": f"{url}/in"}
        await moved(world, {"url": f"{url}/next", **WAYS["next"]}, target, chunk={"size": 2})
    assert seen[0] <= 10


# --- what goes wrong --------------------------------------------------------------------------------------------------------


async def test_a_page_that_is_not_json_is_named(world: Workshop) -> None:
    api = Api()
    async with serving(*api.routes) as url:
        for type_ in ("text/html", "application/json"):
            api.first["/next?at=8"] = [web.Response(text="<html>maintenance</html>", content_type=type_)]
            found = await failing(world, {"url": f"{url}/next", **WAYS["next"]})
            assert found["kind"] == "result-not-json"
            assert "page 3" in found["message"]
            assert "maintenance" in found["message"]
            assert f"{url}/next" in found["message"]
    assert not (world.folder / "o.ndjson").exists()


async def test_an_endless_body_ends(world: Workshop) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"[")
        while True:
            await response.write(b'{"id": 1},' * 1_000)

    async with serving(web.get("/", endless)) as url:
        found = await failing(world, {"url": url}, spec={"limits": {"output_bytes": 100_000}})
    assert found["kind"] == "limit"
    assert "100,000" in found["message"]


async def test_a_redirect_or_a_link_further_in_is_refused(world: Workshop) -> None:
    inside = "http://169.254.169.254/latest"
    api = Api()
    async with serving(*api.routes) as url:
        api.first["/next?at=4"] = [web.Response(status=302, headers={"Location": inside})]
        found = await failing(world, {"url": f"{url}/next", **WAYS["next"]})
        assert (found["kind"], "allow_hosts" in found["message"]) == ("http-transport", True)
        api.first["/next?at=4"] = [web.json_response({"items": [], "next": inside})]
        found = await failing(world, {"url": f"{url}/next", **WAYS["next"]})
        assert (found["kind"], "allow_hosts" in found["message"]) == ("http-transport", True)


@pytest.mark.parametrize("following", ["/next?at=4", "file:///etc/passwd", "https://", {"href": "x"}])
async def test_a_link_that_leads_nowhere_is_told(world: Workshop, following: Any) -> None:
    api = Api()
    async with serving(*api.routes) as url:
        api.first["/next?at=4"] = [web.json_response({"items": [{"id": 1}], "next": following})]
        found = await failing(world, {"url": f"{url}/next", **WAYS["next"]})
    assert found["kind"] in ("fail", "http-transport", "type")
    assert not found["retryable"]
    assert len(api.asked) == 2


async def test_a_server_that_does_not_know_the_parameter_is_noticed(world: Workshop) -> None:
    async def same(request: web.Request) -> web.Response:
        return web.json_response(ROWS)

    async with serving(web.get("/", same)) as url:
        found = await failing(world, {"url": url, "page": {"by": "number", "param": "seite"}})
    assert found["kind"] == "fail"
    assert "`seite`" in found["message"]
    assert "page.more" in found["message"]


async def test_pages_without_end_end(world: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(request: web.Request) -> web.Response:
        return web.json_response([{"id": int(request.query["page"])}])

    monkeypatch.setattr(paging, "_MOST_PAGES", 20)
    async with serving(web.get("/", endless)) as url:
        found = await failing(world, {"url": url, "page": {"by": "number"}})
    assert found["kind"] == "limit"


async def test_configuration_that_makes_no_sense_is_refused(world: Workshop) -> None:
    found = await failing(world, {"url": "http://127.0.0.1:1/", "page": {"by": "cursor"}})
    assert found["kind"] == "type"
    assert "`path`" in found["message"]


# --- who asks ---------------------------------------------------------------------------------------------------------------


async def test_another_host_hears_nothing_of_who_asks(world: Workshop) -> None:
    api, other = Api(), Api()
    async with serving(*api.routes) as url, serving(*other.routes) as elsewhere:
        away = {"items": ROWS[4:8], "next": f"{elsewhere}/next?at=20"}
        api.first["/next?at=4"] = [web.json_response(away)]
        other.first["/next?at=20"] = [web.json_response({"items": [], "next": f"{url}/next?at=8"})]
        headers = {"Cookie": "c=1", "X-Mine": "hush", "X-Api-Key": "k", "Accept-Language": "en"}
        source = {"url": f"{url}/next", **WAYS["next"], "auth": "api", "headers": headers}
        await moved(world, source, FILE, auths={"api": {"kind": "bearer", "token": "api-1"}})
    assert {one.get("authorization") for one in api.headers} == {"Bearer api-1"}
    assert {one.get("x-api-key") for one in api.headers} == {"k"}
    (heard,) = other.headers
    assert not {"authorization", "cookie", "x-mine", "x-api-key"} & heard.keys()
    assert heard["accept-language"] == "en"


@pytest.mark.parametrize("way", WAYS)
async def test_a_token_that_runs_out_is_renewed_on_the_way(world: Workshop, way: str) -> None:
    world.renewable = {"api"}
    api = Api()
    good = {"Bearer api-1"}

    @web.middleware
    async def guarded(request: web.Request, handler: Any) -> Any:
        if request.headers.get("Authorization") not in good:
            return web.json_response({}, status=401)
        if len(api.asked) == 2:
            good.clear()
            good.add("Bearer api-2")
        return await handler(request)

    async with serving(*api.routes, middlewares=[guarded]) as url:
        source = {"url": f"{url}/{way}", **WAYS[way], "auth": "api"}
        await moved(world, source, FILE, auths={"api": {"kind": "bearer", "token": "api-1"}})
        assert lines(world.folder / "o.ndjson") == ROWS
        good.clear()
        found = await failing(world, source, auths={"api": {"kind": "bearer", "token": "api-5"}})
    assert (found["kind"], found["status"]) == ("http-status", 401)


# --- going on ---------------------------------------------------------------------------------------------------------------

APPEND = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}


@pytest.mark.parametrize("size", [3, 4, 100])
@pytest.mark.parametrize("way", WAYS)
async def test_another_attempt_goes_on_at_the_page_that_failed(world: Workshop, way: str, size: int) -> None:
    api = Api()
    failed = {"number": "/number?page=4", "offset": "/offset?offset=12", "cursor": "/cursor?after=c12"}
    failed = {"next": "/next?at=12", "link": "/link?at=12", **failed}
    api.first[failed[way]] = [web.Response(status=429), web.Response(status=503)]
    targets = [APPEND, FILE, {"kind": "file", "path": "o.json"}]
    async with serving(*api.routes) as url:
        source = {"url": f"{url}/{way}", **WAYS[way]}
        for status in (429, 503):
            progress = world.said[-1] if world.said else None
            found = await failing(world, source, *targets, progress=progress, chunk={"size": size})
            assert (found["status"], found["retryable"]) == (status, True)
        assert table(world) == list(range(12))
        assert not (world.folder / "o.json").exists()
        before = len(api.asked)
        told = await moved(world, source, *targets, progress=world.said[-1], chunk={"size": size})
    assert before == 5
    assert api.asked[before] == failed[way]
    assert (told["rows"], [one["rows"] for one in told["targets"]]) == (25, [25, 25, 25])
    assert table(world) == list(range(25))
    assert lines(world.folder / "o.ndjson") == ROWS
    assert json.loads((world.folder / "o.json").read_text()) == ROWS
    assert not [path.name for path in world.folder.iterdir() if path.name.endswith(".part")]


async def test_an_error_of_an_api_has_what_it_answered(world: Workshop) -> None:
    api = Api()
    api.first["/next?at=12"] = [web.Response(status=429, headers={"X-Why": "slow down"})]
    async with serving(*api.routes) as url:
        source = {"kind": "http", "url": f"{url}/next", **WAYS["next"]}
        output = await world.task(kind="transfer", source=source, targets=[FILE])
        await world.close()  # what is kept for another attempt
    assert (output["error"]["kind"], output["http"]["status"]) == ("http-status", 429)
    assert output["http"]["headers"]["x-why"] == "slow down"
    assert "http" not in output["error"]


async def test_what_no_attempt_takes_up_is_removed_at_the_end(world: Workshop) -> None:
    api = Api()
    api.first["/next?at=12"] = [web.Response(status=503)]
    replaced = {**APPEND, "mode": "replace"}
    async with serving(*api.routes) as url:
        await failing(world, {"url": f"{url}/next", **WAYS["next"]}, FILE, replaced, chunk={"size": 3})
    assert [path.name for path in world.folder.iterdir() if path.name.endswith(".part")]
    await world.close()
    assert not [path.name for path in world.folder.iterdir() if path.name.endswith(".part")]
    with duckdb.connect(str(world.folder / "o.duckdb")) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []


async def interrupted(world: Workshop, source: dict[str, Any], after: int, **more: Any) -> Any:
    """A transfer that ends right after a record of its progress: what was recorded."""
    recorded, record = asyncio.Event(), world.progress

    async def progress(call: Call, said: Mapping[str, Any]) -> None:
        await record(call, said)
        if len(world.said) == after + 1:
            recorded.set()
            await asyncio.Event().wait()  # nothing follows that is not recorded

    world.progress = progress  # type: ignore[method-assign]
    plan = asyncio.ensure_future(run(world, source, {**APPEND, **more}, chunk={"size": 3}))
    await asyncio.wait_for(recorded.wait(), 60)
    plan.cancel()
    await asyncio.gather(plan, return_exceptions=True)
    world.progress = record  # type: ignore[method-assign]
    return world.said[after]


@pytest.mark.parametrize("way", WAYS)
async def test_a_stable_source_goes_on_in_the_page_where_it_was(
    world: Workshop, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_EVERY_S", 0.0)
    api = Api()
    async with serving(*api.routes) as url:
        source = {"url": f"{url}/{way}", **WAYS[way], "order_by": "id"}
        recorded = await interrupted(world, source, 5)
        assert recorded["rows"] == 15
        assert recorded["position"]["skip"] == 3
        await world.close()
        api.asked.clear()
        await moved(world, source, APPEND, progress=recorded, chunk={"size": 3})
    assert table(world) == list(range(25))
    assert len(api.asked) <= 5
    assert "12" in api.asked[0] or "page=4" in api.asked[0]


async def test_a_cursor_that_has_run_out_means_to_begin_with_the_first_page(
    world: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_EVERY_S", 0.0)
    api = Api()
    async with serving(*api.routes) as url:
        source = {"url": f"{url}/cursor", **WAYS["cursor"], "order_by": "id"}
        recorded = await interrupted(world, source, 5)
        await world.close()
        api.asked.clear()
        api.first["/cursor?after=c12"] = [web.Response(status=410)]
        await moved(world, source, APPEND, progress=recorded, chunk={"size": 3})
    assert table(world) == list(range(25))
    assert api.asked[:3] == ["/cursor?after=c12", "/cursor", "/cursor?after=c4"]


async def test_a_source_that_nobody_calls_stable_does_not_double_rows_after_a_crash(
    world: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_EVERY_S", 0.0)
    api = Api()
    async with serving(*api.routes) as url:
        source = {"url": f"{url}/next", **WAYS["next"]}
        recorded = await interrupted(world, source, 5)
        found = await failing(world, source, APPEND, progress=recorded, chunk={"size": 3})
        assert found["kind"] == "not-resumable"
        assert "`source.order_by` if it sorts by them, or use the mode upsert or replace" in found["message"]


async def test_a_secret_in_an_address_is_not_recorded(world: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_EVERY_S", 0.0)
    for secret in ("sig=abc", "access_token=abc", "x=hush"):

        async def page(request: web.Request, secret: str = secret) -> web.Response:
            at = int(request.query.get("at", 0))
            following = f"/next?at={at + 5}&{secret}" if at < 20 else None
            return web.json_response({"items": ROWS[at : at + 5], "next": following})

        async with serving(web.get("/next", page)) as url:
            world.said.clear()
            await moved(world, {"url": f"{url}/next", **WAYS["next"]}, FILE, chunk={"size": 3}, key=secret)
        assert len(world.said) > 5
        assert not any("page" in one["position"] for one in world.said)


async def test_rows_that_were_cut_short_are_cut_there_again(world: Workshop) -> None:
    """One target has lost what it had: all is read again, and the others know their chunks by number."""
    api = Api()
    api.first["/next?at=12"] = [web.Response(status=503)]
    targets = [APPEND, {"kind": "file", "path": "{{ chunk.index }}.ndjson"}]
    async with serving(*api.routes) as url:
        source = {"url": f"{url}/next", **WAYS["next"], "order_by": "id"}
        await failing(world, source, *targets, chunk={"size": 5})
        await world.close()  # what the files had is removed
        told = await moved(world, source, *targets, progress=world.said[-1], chunk={"size": 5})
    assert [told["rows"], told["chunks"]] == [25, 6]
    assert table(world) == list(range(25))
    assert [len(lines(world.folder / f"{n}.ndjson")) for n in range(6)] == [5, 5, 2, 5, 5, 3]

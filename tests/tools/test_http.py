"""kind: http, against a server on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace
from tool_world import Workshop, serving, until

from noetl.model.output import Spilled
from noetl.tools.registry import ToolKinds


async def echo(request: web.Request) -> web.Response:
    headers = {name.lower(): value for name, value in request.headers.items()}
    seen = {
        "method": request.method,
        "query": request.rel_url.raw_query_string,
        "headers": headers,
        "body": await request.text(),
    }
    return web.json_response(seen, headers={"X-Request-ID": "r-1"})


ECHO = web.route("*", "/echo", echo)


def replying(path: str, **reply: Any) -> web.RouteDef:
    async def reply_with(_: web.Request) -> web.Response:
        return web.Response(**reply)

    return web.get(path, reply_with)


async def test_a_get_sends_parameters_and_headers(world: Workshop) -> None:
    async with serving(ECHO) as url:
        params = {"page": 2, "q": "a b&c", "many": [1, "x"], "flag": True, "none": None}
        output = await world.run("http", url=f"{url}/echo", params=params, headers={"X-Trace": 7, "X-None": None})
        seen = output["data"]
        assert seen["query"] == "page=2&q=a+b%26c&many=1&many=x&flag=true"
        assert seen["headers"]["x-trace"] == "7"
        assert {"x-none", "idempotency-key", "cookie"} & seen["headers"].keys() == set()
        assert output["http"]["status"] == 200
        assert output["http"]["headers"]["x-request-id"] == "r-1"
        text = await world.run("http", url=f"{url}/echo?x=1", params="a=b&c=d%20e")
        assert text["data"]["query"] == "x=1&a=b&c=d+e"


@pytest.mark.parametrize(
    ("content", "body", "content_type"),
    [
        ({"json": {"name": "née", "tags": [1]}}, '{"name":"née","tags":[1]}', "application/json"),
        ({"json": None}, "null", "application/json"),
        ({"body": {"a": None}}, '{"a":null}', "application/json"),
        ({"body": [1, "two"]}, '[1,"two"]', "application/json"),
        ({"body": "plain <text>"}, "plain <text>", "text/plain; charset=utf-8"),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, "<a/>", "text/xml"),
        ({"form": {"a": "x y", "b": 2}}, "a=x+y&b=2", "application/x-www-form-urlencoded"),
        ({}, "", None),
    ],
)
async def test_content_is_sent_as_what_it_is(
    world: Workshop, content: dict[str, Any], body: str, content_type: str | None
) -> None:
    async with serving(ECHO) as url:
        seen = (await world.run("http", url=f"{url}/echo", method="post", **content))["data"]
    assert (seen["method"], seen["body"]) == ("POST", body)
    assert seen["headers"].get("content-type") == content_type or not content


async def test_a_request_that_changes_something_says_which_task_it_is(world: Workshop) -> None:
    async with serving(ECHO) as url:
        seen = await world.run("http", url=f"{url}/echo", method="PUT", key="e/7")
        assert seen["data"]["headers"]["idempotency-key"] == "e/7"
        seen = await world.run("http", url=f"{url}/echo", method="POST", headers={"idempotency-key": "mine"})
        assert seen["data"]["headers"]["idempotency-key"] == "mine"


@pytest.mark.parametrize(
    ("reply", "data"),
    [
        ({"text": "hello, wörld"}, "hello, wörld"),
        ({"body": "née".encode("latin-1"), "headers": {"Content-Type": "text/plain; charset=latin-1"}}, "née"),
        ({"body": b'{"a": 1}', "content_type": "application/problem+json"}, {"a": 1}),
        ({"body": b"12345678901234567890123", "content_type": "application/json"}, 12345678901234567890123),
        ({"body": b"", "content_type": "application/json"}, None),
        ({"status": 204}, None),
        ({"body": gzip.compress(b"[1]"), "headers": {"Content-Type": "text/json", "Content-Encoding": "gzip"}}, [1]),
    ],
)
async def test_json_is_parsed_and_everything_else_is_text(world: Workshop, reply: dict[str, Any], data: Any) -> None:
    async with serving(replying("/", **reply)) as url:
        output = await world.run("http", url=url)
    assert output["status"] == "ok"
    assert output["data"] == data


@pytest.mark.parametrize(
    ("body", "charset", "data"),
    [
        (b"+2AA-", "utf-7", "+2AA-"),
        (b"\\ud800", "unicode_escape", "\\ud800"),
        (b"\\ud800", "raw_unicode_escape", "\\ud800"),
        (b"a-9", "punycode", "a-9"),
        (b"xn--a", "idna", "xn--a"),
        (b"caf\xe9", "nonsense", "caf\ufffd"),
        (b"\xff\xfea\x00\x00\xd8", "utf-16", "a\ufffd"),
        (b"caf\xe9", "windows-1252", "café"),
        ("\u044f".encode("koi8-r"), "koi8-r", "\u044f"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
    ],
)
@pytest.mark.parametrize("spill", [None, 0])
async def test_a_body_is_decoded_with_charsets_of_text_alone(
    world: Workshop, body: bytes, charset: str, data: str, spill: int | None
) -> None:
    async with serving(replying("/", body=body, headers={"Content-Type": f"text/plain; charset={charset}"})) as url:
        output = await world.run("http", url=url, spill=spill)
    found = output["data"]
    assert (json.loads(Path(found.path).read_bytes()) if isinstance(found, Spilled) else found) == data


async def test_headers_and_the_reason_of_an_answer_are_always_text_that_can_be_written(world: Workshop) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 caf\xe9\r\nX-Name: caf\xe9\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        output = await world.run("http", url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert output["http"]["headers"]["x-name"] == "caf\ufffd"
    assert output["error"]["message"].endswith("500 caf\ufffd")
    msgspec.json.encode(output)


async def test_json_that_is_none_is_an_error(world: Workshop) -> None:
    async with serving(replying("/", text="<html>", content_type="application/json")) as url:
        output = await world.run("http", url=url)
    assert output["error"]["kind"] == "result-not-json"
    assert output["http"]["status"] == 200


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (404, False), (408, True), (425, True), (429, True), (500, True), (503, True)],
)
async def test_a_status_of_400_or_more_is_an_error(world: Workshop, status: int, *, retryable: bool) -> None:
    reply = {"status": status, "text": '{"why": "so"}', "content_type": "application/json"}
    async with serving(replying("/x", **reply)) as url:
        output = await world.run("http", url=f"{url}/x?token=secret")
        error = output["error"]
        assert output["data"] is None
        assert output["http"]["status"] == error["status"] == status
        assert output["http"]["headers"]["content-type"].startswith("application/json")
        assert (error["kind"], error["retryable"], error["body"]) == ("http-status", retryable, {"why": "so"})
        assert error["message"].startswith(f"GET {url}/x?token=***: {status} ")
        assert error["message"].endswith(': {"why": "so"}')
        assert "secret" not in json.dumps(output)


async def test_redirects_are_followed_unless_told_not_to_and_not_for_ever(world: Workshop) -> None:
    routes = [
        replying("/old", status=302, headers={"Location": "/new"}),
        replying("/new", text="at new"),
        replying("/round", status=307, headers={"Location": "/round"}),
        replying("/away", status=302, headers={"Location": "file:///etc/passwd"}),
    ]
    async with serving(*routes) as url:
        assert (await world.run("http", url=f"{url}/old"))["data"] == "at new"
        stay = await world.run("http", url=f"{url}/old", follow_redirects=False)
        assert (stay["status"], stay["http"]["status"]) == ("ok", 302)
        error = (await world.run("http", url=f"{url}/round"))["error"]
        assert (error["kind"], error["retryable"]) == ("http-transport", False)
        assert "redirects" in error["message"]
        assert (await world.run("http", url=f"{url}/away"))["error"]["kind"] == "http-transport"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "empty"),
        (None, "empty"),
        ("ftp://example.org/x", "http://"),
        ("file:///etc/passwd", "http://"),
        ("example.org/x", "http://"),
        ("http://", "host"),
        ("http://[::1", "no address"),
        ("http://127.0.0.1:99999/", "no address"),
    ],
)
async def test_a_bad_address_is_said_to_be_one(world: Workshop, url: Any, words: str) -> None:
    error = (await world.run("http", url=url))["error"]
    assert error["kind"] == "http-transport"
    assert not error["retryable"]
    assert words in error["message"]


async def test_a_map_that_is_none_is_an_error_of_type(world: Workshop) -> None:
    error = (await world.run("http", url="http://127.0.0.1:1/", headers=["a"]))["error"]
    assert (error["kind"], error["message"]) == ("type", "`headers` must be a map, not list")


async def raw(answer: bytes | None, *, reset: bool = False) -> asyncio.Server:
    """A server that says just this to whoever connects, and hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer:
            writer.write(answer)
            await writer.drain()
        if reset:
            writer.transport.abort()
        writer.close()

    return await asyncio.start_server(talk, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "broke off"),
        (b"nonsense\r\n\r\n", "not HTTP"),
    ],
)
async def test_a_broken_answer_is_an_error_of_transport(world: Workshop, answer: bytes | None, words: str) -> None:
    server = await raw(answer)
    async with server:
        port = server.sockets[0].getsockname()[1]
        output = await world.run("http", url=f"http://127.0.0.1:{port}/", method="POST")
    assert output["error"]["kind"] == "http-transport"
    assert output["error"]["retryable"]
    assert words in output["error"]["message"]


async def test_no_connection_is_an_error_of_transport_that_says_why(world: Workshop) -> None:
    output = await world.run("http", url="http://127.0.0.1:1/x?key=secret")
    assert "http" not in output
    assert output["error"]["kind"] == "http-transport"
    assert output["error"]["retryable"]
    assert "refused" in output["error"]["message"]
    assert "secret" not in output["error"]["message"]
    output = await world.run("http", url="http://no-such-host.invalid/")
    assert "DNS" in output["error"]["message"]


async def test_the_driver_tries_again_if_told_to(world: Workshop) -> None:
    tried = 0

    async def twice(request: web.Request) -> web.Response:
        nonlocal tried
        tried += 1
        if tried < 3:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="there")

    async with serving(web.post("/", twice)) as url:
        assert (await world.run("http", url=url, method="POST", spec={"retries": 2}))["data"] == "there"
        assert tried == 3


async def test_a_read_that_takes_too_long_is_a_timeout(world: Workshop) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(600)
        return web.Response()

    async with serving(web.get("/", slow)) as url:
        output = await world.run("http", url=url, spec={"timeout.connect": 5, "timeout.read": 0.2})
    assert output["error"]["kind"] == "timeout"
    assert output["error"]["retryable"]
    assert "for data" in output["error"]["message"]


async def test_a_body_that_is_too_large_is_a_limit(world: Workshop) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65_536)
        except ConnectionError:
            return response

    bomb = gzip.compress(b"\0" * 3_000_000)
    routes = [web.get("/endless", endless), replying("/bomb", body=bomb, headers={"Content-Encoding": "gzip"})]
    async with serving(*routes) as url:
        for path in ("endless", "bomb"):
            output = await world.run("http", url=f"{url}/{path}", spec={"limits.output_bytes": 1_000_000})
            assert output["error"]["kind"] == "limit"
            assert "1,000,000" in output["error"]["message"]


async def test_connections_are_used_again_and_cookies_are_not(world: Workshop) -> None:
    peers: list[Any] = []

    async def visit(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return web.Response(text=request.headers.get("Cookie", "none"), headers={"Set-Cookie": "a=1"})

    async with serving(web.get("/", visit)) as url:
        assert [(await world.run("http", url=url))["data"] for _ in range(3)] == ["none"] * 3
        await world.close()
    assert len(set(peers)) == 1


async def test_there_are_no_more_connections_at_once_than_the_size_of_the_pool(world: Workshop) -> None:
    now, most, wanted = 0, 0, 0

    async def visit(_request: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await until(lambda: most >= wanted)
        await asyncio.sleep(0.05)  # there may be more of them
        now -= 1
        return web.Response()

    async def visits(spec: dict[str, Any], expected: int) -> int:
        nonlocal most, wanted
        most, wanted = 0, expected
        await asyncio.gather(*(world.run("http", url=url, spec=spec) for _ in range(8)))
        return most

    async with serving(web.get("/", visit)) as url:
        assert await visits({"pool_size": 2}, 2) == 2
        assert await visits({}, 8) == 8
        output = await world.run("http", url=url, spec={"pool_size": "two"})
        assert output["error"]["kind"] == "type"
        await world.close()


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    ask = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    ask += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(ask, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_a_certificate_is_checked_unless_told_not_to(world: Workshop, self_signed: ssl.SSLContext) -> None:
    async with serving(replying("/", text="safe"), ssl_context=self_signed) as address:
        url = address.replace("http:", "https:")
        error = (await world.run("http", url=url))["error"]
        assert error["kind"] == "http-transport"
        assert "TLS" in error["message"]
        assert (await world.run("http", url=url, spec={"verify": False}))["data"] == "safe"


async def test_a_cancelled_request_is_dropped(world: Workshop) -> None:
    there, gone = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        there.set()
        try:
            await asyncio.sleep(600)
        finally:
            gone.set()
        return web.Response()

    async with serving(web.get("/", slow), handler_cancellation=True) as url:
        task = asyncio.create_task(world.run("http", url=url))
        await there.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 60)


async def test_hosts_that_are_not_allowed_are_not_called(world: Workshop) -> None:
    async with serving(ECHO) as url:
        for spec, said in (
            ({"allow_hosts": ["api.example.invalid"]}, "`allow_hosts` does not let this task call 127.0.0.1"),
            ({"network": "off"}, "`network: off`"),
        ):
            output = await world.run("http", url=f"{url}/echo", spec=spec)
            assert said in output["error"]["message"]
        allowed = await world.run("http", url=f"{url}/echo", spec={"allow_hosts": ["*.example.invalid", "127.0.0.1"]})
        assert allowed["status"] == "ok"


async def test_a_redirect_leads_no_further_than_the_allowed_hosts(world: Workshop) -> None:
    async def away(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://localhost:1/")

    async with serving(web.get("/away", away)) as url:
        output = await world.run("http", url=f"{url}/away", spec={"allow_hosts": ["127.0.0.1"]})
        assert "does not let this task call localhost" in output["error"]["message"]


async def test_an_error_shows_the_query_but_no_parameter_that_is_a_secret_by_its_name(world: Workshop) -> None:
    async with serving(replying("/x", status=404)) as url:
        output = await world.run("http", url=f"{url}/x?page=2", params={"q": "a b", "api_key": "hush"})
        assert output["error"]["message"].startswith(f"GET {url}/x?page=2&q=a+b&api_key=***: 404")
        long = await world.run("http", url=f"{url}/x", params={"q": "a" * 900})
        assert long["error"]["message"].startswith(f"GET {url}/x?…: 404")


async def test_a_timeout_names_its_key_and_its_seconds(world: Workshop) -> None:
    async def slow(_request: web.Request) -> web.Response:
        await asyncio.sleep(600)
        return web.Response()

    async with serving(web.get("/slow", slow)) as url:
        output = await world.run("http", url=f"{url}/slow", spec={"timeout.read": 0.05})
        assert output["error"]["message"] == f"GET {url}/slow: waited too long for data (`spec.timeout.read: 0.05`)"


async def test_an_error_behind_a_redirect_names_where_it_came_from_and_that_the_credential_stayed(
    world: Workshop,
) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=401)

    async with serving(web.get("/there", refuse)) as there:

        async def lead(_request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{there.replace('127.0.0.1', 'localhost')}/there")

        async with serving(web.get("/here", lead)) as here:
            auth = {"kind": "bearer", "token": "hush-hush"}
            call = replace(world.call(kind="http", url=f"{here}/here"), auth=auth)
            error = (await ToolKinds().module("http").run(call, world))["error"]
            assert f"redirected to {there.replace('127.0.0.1', 'localhost')}/there" in error["message"]
            assert "without `Authorization`, which is for the first host alone" in error["message"]


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another port", "the same origin"])
async def test_the_header_of_a_credential_is_for_the_origin_it_was_meant_for(world: Workshop, elsewhere: bool) -> None:
    """Another port of the same host may be another's server; `Authorization` is not the only name of such a header."""

    async def lead(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"{there if elsewhere else request.url.origin()}/echo")

    async with serving(ECHO) as there, serving(web.get("/here", lead), ECHO) as here:
        auth = {"kind": "header", "header": "X-Api-Key", "value": "hush-hush"}
        call = replace(world.call(kind="http", url=f"{here}/here"), auth=auth)
        output = await ToolKinds().module("http").run(call, world)
        assert ("hush-hush" in json.dumps(output["data"])) is not elsewhere

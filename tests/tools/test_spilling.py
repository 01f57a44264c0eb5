"""Tools that leave large data in a file when nobody looks into it, and what they do when that goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tool_world import Workshop, serving

from noetl.model.output import Spilled
from noetl.ports import StoreFailed

SPILL = 1_000
ROWS = [{"id": n, "text": 'é\n\0"' * 20} for n in range(100)]


def taken(output: dict[str, Any]) -> Any:
    """What an output left in a file."""
    spilled = output["data"]
    assert isinstance(spilled, Spilled), output
    value = json.loads(Path(spilled.path).read_bytes())
    Path(spilled.path).unlink()
    return value


def drafts(world: Workshop) -> list[str]:
    return [path.name for path in world.folder.glob(".drafts/*")]


# --- python ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    ["return [{'id': n, 'text': 'é\\n\\0\"' * 20} for n in range(100)]", "return {'a': ['x'] * 5000, 'b': {}}", "return 'ä\\ud83d\\ude00'.encode('utf-16', 'surrogatepass').decode('utf-16') * 1000", "return ({'n': n} for n in []) and tuple(range(5000))", "return [[i, {'d': [None, True, 1.5]}] for i in range(500)]"],
)  # fmt: skip
async def test_a_large_result_of_python_is_left_in_a_file(world: Workshop, code: str) -> None:
    inline = await world.python(f"def main(): {code}")
    left = await world.python(f"def main(): {code}", spill=SPILL)
    assert left["data"].rows == (len(inline["data"]) if isinstance(inline["data"], list) else None)
    assert taken(left) == inline["data"]
    assert drafts(world) == []


async def test_rows_of_python_come_with_their_columns(world: Workshop) -> None:
    left = await world.python("def main(): return [{'id': n, 'x': 0.5, 'm': [n]} for n in range(999)]", spill=SPILL)
    assert left["data"].columns == {"id": "BIGINT", "x": "DOUBLE", "m": "JSON"}


async def test_a_small_result_stays_in_hand(world: Workshop) -> None:
    for value in ("None", "[]", "'x' * 900", "{'a': [1, 2]}", "7"):
        output = await world.python(f"def main(): return {value}", spill=SPILL)
        assert not isinstance(output["data"], Spilled)
    assert drafts(world) == []


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("return [1.5] * 5000 + [float('nan')]", "result-not-json", "result[5000]"),
        ("return ['x' * 999] * 2000 + [object()]", "result-not-json", "result[2000]"),
        ("return ['x' * 999] * 200", "limit", "more than 100,000 bytes"),
        ("import os; os._exit(3)", "tool-crashed", "code 3"),
    ],
)
async def test_a_large_result_that_fails_leaves_nothing_behind(
    world: Workshop, code: str, kind: str, said: str
) -> None:  # fmt: skip
    spec = {"limits.output_bytes": 100_000 if kind == "limit" else 100_000_000}
    output = await world.python(f"def main():\n    {code}", spill=SPILL, spec=spec)
    assert output["error"]["kind"] == kind
    assert said in output["error"]["message"]
    assert drafts(world) == []
    assert (await world.python("def main(): return 1", spill=SPILL))["data"] == 1


async def test_code_that_speaks_to_the_engine_itself_gains_nothing(world: Workshop) -> None:
    """It knows the socket: what it says of files that it was not given is not believed."""
    for said in (
        {"spilled": 5, "rows": 1, "columns": None},
        {"spilled": 0, "rows": 1, "columns": {"a": "x'); DROP"}},
        {"ask": "draft", "x": 1},
    ):
        code = (
            "import os, json\n"
            f"body = json.dumps({said!r}).encode()\n"
            "for fd in range(3, 30):\n"
            "    try: os.write(fd, len(body).to_bytes(4, 'big') + body)\n"
            "    except OSError: pass\n"
            "os._exit(0)\n"
        )
        output = await world.python(code, spill=SPILL)
        assert output["error"]["kind"] in ("tool-crashed", "limit"), output
        assert drafts(world) == []


# --- http --------------------------------------------------------------------------------------------------------------


def answering(body: bytes, content_type: str) -> Any:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": content_type})

    return answer


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (json.dumps(ROWS).encode(), "application/json"),
        (json.dumps({"items": ROWS}, indent=2).encode(), "application/hal+json; charset=utf-8"),
        (json.dumps(ROWS, ensure_ascii=False).encode("latin-1"), "application/json; charset=latin-1"),
        ('grüße "\\\n\t'.encode() * 300, "text/plain; charset=utf-8"),
        ("grüße".encode("utf-16") * 300, "text/plain; charset=utf-16"),
        (bytes(range(256)) * 20, "application/octet-stream"),
        (b"x" * 5000, "text/plain; charset=klingon"),
    ],
)
async def test_a_large_response_is_left_in_a_file_just_as_it_would_be_read(
    world: Workshop, body: bytes, content_type: str
) -> None:
    async with serving(web.get("/", answering(body, content_type))) as url:
        inline = await world.run("http", url=url)
        left = await world.run("http", url=url, spill=SPILL)
    assert left["http"]["status"] == 200
    assert left["data"].rows == (len(inline["data"]) if isinstance(inline["data"], list) else None)
    assert taken(left) == inline["data"]
    assert drafts(world) == []


@pytest.mark.parametrize("body", [b'[{"a": 1}' + b" " * 2000, b"[" + b"1," * 2000 + b"]", b'"' + b"\xff" * 2000 + b'"'])
async def test_a_large_response_that_is_not_the_json_it_says_is_an_error_all_the_same(
    world: Workshop, body: bytes
) -> None:  # fmt: skip
    async with serving(web.get("/", answering(body, "application/json"))) as url:
        inline = await world.run("http", url=url)
        left = await world.run("http", url=url, spill=SPILL)
    assert inline["error"]["kind"] == left["error"]["kind"] == "result-not-json"
    assert left["http"]["status"] == 200
    assert drafts(world) == []


async def test_the_limit_of_a_response_holds_in_a_file_too(world: Workshop) -> None:
    async with serving(web.get("/", answering(b"x" * 500_000, "text/plain"))) as url:
        output = await world.run("http", url=url, spill=SPILL, spec={"limits.output_bytes": 100_000})
    assert output["error"]["kind"] == "limit"
    assert "spec.limits.output_bytes" in output["error"]["message"]
    assert drafts(world) == []


async def test_a_response_that_breaks_off_leaves_nothing_behind(world: Workshop) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100000"})
        await response.prepare(request)
        await response.write(b"x" * 50_000)
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving(web.get("/", answer)) as url:
        output = await world.run("http", url=url, spill=SPILL)
    assert output["error"]["kind"] == "http-transport"
    assert drafts(world) == []


# --- shell -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cmd",
    ["yes 'a \"line\" of ü' | head -n 1000", "yes err | head -n 1000 >&2; echo out", "printf '\\377\\200é' ; yes | head -n 2000; yes | head -n 2000 >&2"],
)  # fmt: skip
async def test_what_a_command_writes_at_length_is_left_in_a_file(world: Workshop, cmd: str) -> None:
    inline = await world.run("shell", cmd=cmd)
    left = await world.run("shell", cmd=cmd, spill=SPILL)
    assert taken(left) == inline["data"]
    assert drafts(world) == []


async def test_a_command_that_fails_at_length_tells_how_it_ended(world: Workshop) -> None:
    output = await world.run("shell", cmd="yes out | head -n 5000; yes err | head -n 5000 >&2; echo why >&2; exit 3", spill=SPILL)  # fmt: skip
    assert output["error"]["exit_code"] == 3
    assert output["error"]["stderr"].endswith("err\nwhy\n")
    assert output["error"]["stdout"].endswith("out\nout\n")
    assert drafts(world) == []


async def test_what_is_kept_with_the_result_is_not_kept_among_the_lines_again(world: Workshop) -> None:
    left = await world.run("shell", cmd="yes 0123456789 | head -n 50000", spill=SPILL)
    assert len(taken(left)["stdout"]) == 550_000
    assert len(world.logged("stdout")) < 150_000
    assert "… the rest is in the result" in world.logged("stdout")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
async def test_a_full_disk_is_no_failure_of_the_task(world: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "open_unnamed", lambda: Path("/dev/full").open("wb"))  # noqa: SIM115  its user closes it
    with pytest.raises(StoreFailed, match="the disk of NOETL_HOME is full: there is no room in "):
        await world.run("shell", cmd="yes | head -n 900000", spill=SPILL)

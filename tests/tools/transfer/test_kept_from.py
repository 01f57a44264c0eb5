"""Transfers that must not reach everything: what they are kept from, and when they are not begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tool_world import Workshop, serving, until

from noetl.drivers.datahost.pool import DataHosts

pytest.importorskip("duckdb")

DATA = {"kind": "data", "data": [{"a": 1}, {"a": 2}]}
FILE = {"kind": "file", "path": "out.json"}
BOUND = [{"network": "off"}, {"allow_hosts": ["api.example.com"]}, {"isolation": "strict"}]


async def ended(world: Workshop, spec: dict[str, Any], source: dict[str, Any], target: dict[str, Any]) -> Any:
    return await world.run("transfer", spec=spec, source=dict(source), targets=[dict(target)])


def has_filter(pid: int) -> bool:
    """Whether the kernel judges the calls of a process."""
    return "Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize("spec", BOUND)
async def test_without_a_network_rows_still_go_from_here_to_here(world: Workshop, spec: dict[str, Any]) -> None:
    for target in (FILE, {"kind": "duckdb", "file": "o.duckdb", "table": "t"}):
        output = await ended(world, spec, DATA, target)
        assert output["error"] is None
        assert output["data"]["rows"] == 2


@pytest.mark.parametrize("spec", BOUND)
async def test_the_process_of_a_restricted_transfer_has_no_sockets_and_others_keep_theirs(
    world: Workshop, spec: dict[str, Any]
) -> None:
    hosts = await DataHosts.of(world)
    for shared in (True, False):
        async with hosts.lease(shared=shared, spec=spec) as bound, hosts.lease(shared=shared, spec={}) as free:
            await until(lambda pid=bound.child._process.pid: has_filter(pid))  # type: ignore[misc]
            assert not has_filter(free.child._process.pid)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"network": "off"}, "`network: off` cannot be kept"),
        ({"isolation": "strict"}, "`isolation: strict` without `network: on` cannot be kept"),
    ],
)
async def test_a_transfer_from_or_to_an_api_is_not_begun_where_there_is_no_network(
    world: Workshop, spec: dict[str, Any], said: str
) -> None:
    api = {"kind": "http", "url": "http://127.0.0.1:1/"}
    for source, target, end in ((api, FILE, "the source"), (DATA, api, "target 1")):
        error = (await ended(world, spec, source, target))["error"]
        assert error["kind"] == "isolation"
        assert error["message"].startswith(f"{said}: {end} of the transfer (http) needs a network")
    assert not (world.folder / "out.json").exists()


async def test_requests_of_a_transfer_go_to_allowed_hosts_alone(world: Workshop) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response([{"a": 1}])

    async with serving(web.get("/", answer)) as address:
        source = {"kind": "http", "url": address}
        allowed = await ended(world, {"allow_hosts": ["127.0.0.1"]}, source, FILE)
        assert allowed["data"]["rows"] == 1
        refused = (await ended(world, {"allow_hosts": ["api.example.com"]}, source, FILE))["error"]
        assert "`allow_hosts` does not let this task call 127.0.0.1" in refused["message"]
        strict = await ended(world, {"isolation": "strict", "network": "on"}, source, FILE)
        assert strict["data"]["rows"] == 1

"""Where answers may lead: outward or sideways, never further in."""

from __future__ import annotations

import pytest
from aiohttp import web
from tool_world import Workshop, serving

from noetl.tools.http.network_zones import Resolver, Zone, zone_of


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        ("8.8.8.8", Zone.PUBLIC),
        ("2606:4700::1111", Zone.PUBLIC),
        ("10.1.2.3", Zone.PRIVATE),
        ("172.16.0.1", Zone.PRIVATE),
        ("192.168.1.1", Zone.PRIVATE),
        ("100.64.0.1", Zone.PRIVATE),
        ("fd00:ec2::254", Zone.PRIVATE),
        ("64:ff9b::10.0.0.1", Zone.PRIVATE),
        ("2002:0a00:0001::1", Zone.PRIVATE),
        ("127.0.0.1", Zone.LOOPBACK),
        ("127.8.8.8", Zone.LOOPBACK),
        ("0.0.0.0", Zone.LOOPBACK),
        ("::1", Zone.LOOPBACK),
        ("::ffff:127.0.0.1", Zone.LOOPBACK),
        ("64:ff9b::7f00:1", Zone.LOOPBACK),
        ("169.254.169.254", Zone.LINK),
        ("::ffff:169.254.169.254", Zone.LINK),
        ("fe80::1%eth0", Zone.LINK),
    ],
)
def test_every_address_has_a_zone(address: str, zone: Zone) -> None:
    assert zone_of(address) == zone


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f000001", "127.1", "0177.0.0.1"])
async def test_a_name_has_the_zone_of_its_address_however_it_is_spelled(host: str) -> None:
    resolver = Resolver()
    try:
        assert await resolver.zone(host) == Zone.LOOPBACK
    finally:
        await resolver.close()


async def test_what_was_looked_up_is_what_is_connected_to() -> None:
    resolver = Resolver()
    try:
        first = await resolver.resolve("localhost", 80)
        assert [one["port"] for one in await resolver.resolve("localhost", 81)] == [81] * len(first)
        assert [one["host"] for one in first] == [one["host"] for one in await resolver.resolve("localhost", 80)]
        with pytest.raises(OSError, match=r".+"):
            await resolver.zone("no-such-host.invalid")
    finally:
        await resolver.close()


async def test_a_redirect_further_in_is_refused(world: Workshop) -> None:
    asked = []

    async def away(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")

    async with serving(web.get("/", away)) as url:
        output = await world.run("http", url=url)
    assert asked == ["/"]
    assert output["error"] is not None
    assert output["error"]["kind"] == "http-transport"
    assert "169.254.169.254, which is an address of the local link" in output["error"]["message"]
    assert "allow_hosts" in output["error"]["message"]


async def test_a_redirect_to_the_side_is_followed(world: Workshop) -> None:
    async def there(request: web.Request) -> web.Response:
        return web.json_response("there")

    async with serving(web.get("/", there)) as url:
        beside = url.replace("127.0.0.1", "localhost")

        async def away(request: web.Request) -> web.Response:
            raise web.HTTPFound(beside)

        async with serving(web.get("/", away)) as first:
            assert (await world.run("http", url=first))["data"] == "there"

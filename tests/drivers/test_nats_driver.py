"""Addresses of NATS servers, and which servers are connected to."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import pytest
from servers import Subjects, standing_in

from noetl.config import Secret
from noetl.drivers.nats import (
    NatsAddress,
    NatsFailed,
    address_of,
    close_quietly,
    connect_nats,
    run_shielded,
    token_of,
    wait_until_closed,
)
from noetl.errors import UsageError


def test_servers_are_separated_with_commas_and_share_one_user() -> None:
    found = address_of("nats://me:a%40b@one:1, two/ignored-not", "X")
    assert found == NatsAddress(("nats://one:1", "nats://two:4222"), "ignored-not", "me", Secret("a@b"))


def test_a_name_alone_is_a_token() -> None:
    assert address_of("tls://s3cr3t@[::1]:7/p", "X") == NatsAddress(("tls://[::1]:7",), "p", token=Secret("s3cr3t"))


@pytest.mark.parametrize(
    "text",
    ["nats://", "http://me:hush@x", "nats://me:hush@x:port", "nats://me:12/hush@x", ",", "nats://h/a,nats://h/b"],
)
def test_what_is_no_address_is_told_without_its_password(text: str) -> None:
    with pytest.raises(UsageError, match=r"^X (is no address|names)") as caught:
        address_of(text, "X")
    assert "hush" not in str(caught.value)


def test_no_password_is_seen_in_what_an_address_looks_like() -> None:
    found = address_of("nats://me:hush@x", "X")
    assert "hush" not in f"{found} {found!r}"


def test_different_names_are_different_tokens() -> None:
    names = ["default", "a.b", "a b", "a=2Eb", "ä", "", "*", ">"]
    tokens = [token_of(name) for name in names]
    assert len(set(tokens)) == len(names)
    assert not set("".join(tokens)) & set(".*> \t")
    assert tokens[0] == "default"


@pytest.mark.parametrize("version", ["2.9.10", "2.10.22", "1.4.1", "none"])
def test_a_server_that_is_too_old_is_refused(version: str) -> None:
    async def scenario() -> None:
        async with standing_in(version) as url:
            with pytest.raises(NatsFailed, match=r"is version [\d.]+; 2\.10\.23 or later is needed") as caught:
                await connect_nats(address_of(url, "X"))
            assert not caught.value.retryable

    asyncio.run(scenario())


@pytest.mark.parametrize("version", ["2.10.23", "2.10.24-RC.1", "2.11.0", "3.0.0"])
def test_a_server_that_is_new_enough_is_not(version: str) -> None:
    async def scenario() -> None:
        async with standing_in(version) as url:
            await close_quietly(await connect_nats(address_of(url, "X")))

    asyncio.run(scenario())


def test_a_server_that_is_away_is_passed_over(nats: Subjects) -> None:
    async def scenario() -> None:
        address = address_of(f"nats://127.0.0.1:1,{nats.url}", "X")
        client = await connect_nats(address)
        assert client.is_connected
        await close_quietly(client)
        await asyncio.wait_for(wait_until_closed(client), 60)

    asyncio.run(scenario())


def test_a_connection_that_breaks_with_something_still_to_be_written_is_missed() -> None:
    import nats.errors

    async def scenario() -> None:
        async with standing_in("2.11.0", resets=True) as url:
            client = await connect_nats(address_of(url, "X"))
            noticed = asyncio.create_task(wait_until_closed(client))
            with contextlib.suppress(nats.errors.Error, OSError):
                while True:
                    await client.publish("x", b"y" * 100)
                    await asyncio.sleep(0)
            await asyncio.wait_for(noticed, 60)
            await close_quietly(client)

    asyncio.run(scenario())


def test_no_server_at_all_may_be_there_later() -> None:
    with pytest.raises(NatsFailed, match=r"127\.0\.0\.1:1 cannot be reached") as caught:
        asyncio.run(connect_nats(address_of("nats://me:hush@127.0.0.1:1", "X")))
    assert caught.value.retryable
    assert "hush" not in str(caught.value)


def test_a_server_that_says_nothing_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.drivers import nats

    monkeypatch.setattr(nats, "_CONNECT_S", 0.2)

    async def scenario() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            with pytest.raises(NatsFailed, match="cannot be reached: TimeoutError"):
                await connect_nats(address_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", "X"))

    asyncio.run(scenario())


def test_what_has_to_be_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats.aio.client", None)
    with pytest.raises(NatsFailed, match=r"pip install 'noetl\[nats\]'") as caught:
        asyncio.run(connect_nats(address_of("127.0.0.1:1", "X")))
    assert not caught.value.retryable


def test_whoever_is_cancelled_hears_of_it_although_the_library_keeps_it_to_itself() -> None:
    async def deaf() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)
        return "done"

    async def scenario() -> None:
        task = asyncio.create_task(run_shielded(deaf()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())

"""The bus over a real NATS server: hints come, and nothing that happens to the server stops them for good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from servers import Subjects, standing_in
from waiting import PATIENCE_S, until

from noetl.bus import nats_bus as bus_module
from noetl.bus.nats_bus import MOST_WAITING, NatsBus
from noetl.drivers import nats
from noetl.drivers.nats import NatsFailed, address_of
from noetl.ports.cluster import HINT_BYTES, ReceivedHint
from noetl.services.servers import NatsServer

Scenario = Callable[[Callable[[], Awaitable[NatsBus]]], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint that is late is lost, or comes twice, which is as it should be; but not in tests of something else."""
    for name in ("_OPEN_S", "_ACK_S", "_ANSWER_S", "_CLOSE_S"):
        monkeypatch.setattr(bus_module, name, 30.0)
    monkeypatch.setattr(nats, "_CONNECT_S", 30)


def run(url: str, scenario: Scenario) -> None:
    """Run something with buses that are closed at the end."""

    async def whole() -> None:
        async with AsyncExitStack() as stack:

            async def opened() -> NatsBus:
                bus = NatsBus(address_of(url, "NOETL_BUS"))
                stack.push_async_callback(bus.close)
                await bus.open()
                return bus

            await scenario(opened)

    asyncio.run(whole())


async def taken(bus: NatsBus, *pools: str, most: int = 10, within: float = 10.0) -> list[bytes]:
    """The next hints, acknowledged."""
    hints = await bus.next(pools or ("p",), most, within)
    for hint in hints:
        await hint.ack()
    return [hint.body for hint in hints]


async def found(bus: NatsBus, body: bytes) -> None:
    """This hint comes, whatever else does."""
    async with asyncio.timeout(PATIENCE_S):
        while body not in await taken(bus):
            pass


async def emptied(bus: NatsBus) -> None:
    """All hints were acknowledged: those that are not stay, however often they were handed out."""
    async with asyncio.timeout(PATIENCE_S):
        while (await bus._client.jsm().stream_info(bus.stream("p"))).state.messages:
            await asyncio.sleep(0.01)


async def listening(bus: NatsBus, *names: str) -> None:
    """The server knows to whom this one listens, and to whom no longer."""
    await until(lambda: [*bus._ears] == [*names] and len(bus._client._subs) == len(names))
    await bus._client.flush()


async def woken(server: NatsBus, worker: NatsBus) -> None:
    """A hint goes through, after some attempts if need be: that is what a sweep does."""
    end = time.monotonic() + PATIENCE_S
    number = 0
    while time.monotonic() < end:
        number += 1
        await server.wake("p", b"again %d" % number)
        if any(body.startswith(b"again") for body in await taken(worker, within=0.5)):
            return
    raise AssertionError(f"no hint came through: {server.trouble} | {worker.trouble}")


def test_a_hint_reaches_one_worker_of_its_pool(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, one, two, other = [await opened() for _ in range(4)]
        asked = [asyncio.create_task(taken(bus, "p", within=PATIENCE_S)) for bus in (one, two)]
        away = asyncio.create_task(taken(other, "q", within=PATIENCE_S))
        await asyncio.sleep(0.3)
        await server.wake("p", b"id-1")
        await asyncio.wait([*asked, away], return_when=asyncio.FIRST_COMPLETED)
        await server.wake("p", b"id-2")
        assert sorted(await asyncio.gather(*asked)) == [[b"id-1"], [b"id-2"]]
        await server.wake("q", b"id-3")
        assert await away == [b"id-3"]
        assert [server.trouble, one.trouble] == ["", ""]

    run(nats.url, scenario)


def test_a_worker_of_several_pools_gets_no_more_than_it_wants(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        said = {b"%s %d" % (pool.encode(), n): pool for pool in ("a", "b c", "d.e") for n in range(7)}
        for body, pool in said.items():
            await server.wake(pool, body)
        came: set[bytes] = set()
        async with asyncio.timeout(PATIENCE_S):
            while len(came) < len(said):
                some = await taken(worker, "a", "b c", "d.e", most=4)
                assert len(some) <= 4
                came.update(some)
        assert came == set(said)

    run(nats.url, scenario)


def test_hints_that_wait_come_at_once_and_time_runs_out_without_any(
    nats: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "_LINGER_S", 600.0)

    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        await server.wake("p", b"1")
        assert await taken(worker) == [b"1"]
        since = time.monotonic()
        assert await taken(worker, within=0.3) == []
        assert 0.25 < time.monotonic() - since < 300
        assert await taken(worker, within=0) == []

    run(nats.url, scenario)


def test_a_hint_that_is_not_acknowledged_comes_again(nats: Subjects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "_ACK_S", 0.5)

    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, dying, other = await opened(), await opened(), await opened()
        await server.wake("p", b"1")
        hints: list[ReceivedHint] = await dying.next(["p"], 1, 10)
        assert [hint.body for hint in hints] == [b"1"]
        assert await taken(other) == [b"1"]
        for hint in hints:  # late, and twice, does no harm
            await hint.ack()
            await hint.ack()
        await emptied(server)

    run(nats.url, scenario)


def test_a_worker_that_stops_asking_takes_no_hint_with_it(nats: Subjects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "_ACK_S", 0.5)

    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, leaving, other = await opened(), await opened(), await opened()
        await taken(other, within=0)
        for number in range(20):
            asked = asyncio.create_task(leaving.next(["p", "q"], 3, 600))
            await asyncio.sleep(0.01 + number / 1_000)
            await server.wake("p", b"%d" % number)
            asked.cancel()
            await asyncio.wait([asked], timeout=PATIENCE_S)
            assert asked.cancelled()
            await found(other, b"%d" % number)
            await emptied(server)
        assert await leaving.next(["p"], 0, 0.05) == []
        assert await leaving.next([], 3, 0.05) == []

    run(nats.url, scenario)


def test_the_same_hint_may_be_said_again_and_again(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        for _ in range(3):
            await server.wake("p", b"same")
            assert await taken(worker) == [b"same"]
        for _ in range(7):
            await server.wake("p", b"same")
        came: list[bytes] = []
        while len(came) < 7:  # each may be for another worker
            came += await taken(worker)
        assert came == [b"same"] * 7

    run(nats.url, scenario)


def test_data_does_not_travel(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        bus = await opened()
        for say in (bus.wake, bus.notify):
            with pytest.raises(AssertionError, match="ids travel"):
                await say("p", b"x" * HINT_BYTES)

    run(nats.url, scenario)


def test_a_worker_is_told_alone(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        heard: dict[str, list[bytes]] = {"w.1": [], "w 2": []}
        for name, bodies in (*heard.items(), *heard.items()):  # whoever listens twice hears it once
            worker.listen(name, bodies.append)
        await listening(worker, "w.1", "w 2")
        await server.notify("w.1", b"look")
        await server.notify("nobody", b"look")
        await server.notify("w.1", b"look again")
        await until(lambda: b"look again" in heard["w.1"])
        assert heard == {"w.1": [b"look", b"look again"], "w 2": []}

    run(nats.url, scenario)


def test_who_is_ignored_is_not_heard_and_nothing_is_left_of_it(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        heard: list[bytes] = []
        for name in ("old", "older"):
            worker.listen(name, heard.append)
        worker.stop_listening("older")  # before it was listened to at all
        await listening(worker, "old")
        worker.stop_listening("old")
        worker.stop_listening("nobody")
        worker.listen("new", heard.append)
        await listening(worker, "new")
        for name in ("old", "older", "new"):
            await server.notify(name, name.encode())
        await until(lambda: heard)
        assert heard == [b"new"]
        assert list(worker._heard) == ["new"]

    run(nats.url, scenario)


def test_what_was_said_last_is_said_before_the_end(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        worker, brief = await opened(), await opened()
        await brief.wake("p", b"bye")
        await brief.close()
        assert await taken(worker) == [b"bye"]

    run(nats.url, scenario)


async def _asking(bus: NatsBus, came: set[bytes]) -> None:
    while True:
        came.update(await taken(bus, within=1))


@pytest.mark.parametrize("wiped", [False, True], ids=["kept", "wiped"])
def test_hints_go_on_after_the_server_was_killed(tmp_path: Path, wiped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "_ANSWER_S", 2.0)  # what it was asked before is not answered
    with NatsServer(tmp_path / "n") as nats:

        async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
            server, worker = await opened(), await opened()
            came: set[bytes] = set()
            heard: list[bytes] = []
            worker.listen("w", heard.append)
            asking = asyncio.create_task(_asking(worker, came))
            for life in range(3):
                for number in range(30):
                    await server.wake("p", b"%d-%d" % (life, number))
                    if number == 15:
                        nats.kill()
                        if wiped:
                            nats.wipe()
                    await asyncio.sleep(0.005)
                nats.start()
                end = time.monotonic() + PATIENCE_S
                word = b"after %d" % life
                while not (word in came and word in heard) and time.monotonic() < end:
                    await server.wake("p", word)
                    await server.notify("w", word)
                    await asyncio.sleep(0.1)
                assert word in came, (server.trouble, worker.trouble)
                assert word in heard
            asking.cancel()

        run(nats.url("x"), scenario)


@pytest.mark.parametrize("gone", ["consumer", "stream"])
def test_what_was_deleted_is_made_again(nats: Subjects, gone: str) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        await woken(server, worker)
        for while_asking in (False, True):
            asked = asyncio.create_task(found(worker, b"while asking")) if while_asking else None
            await asyncio.sleep(0.1)
            manager = server._client.jsm()
            if gone == "stream":
                await manager.delete_stream(server.stream("p"))
            else:
                await manager.delete_consumer(server.stream("p"), "workers")
            if asked is not None:
                await asyncio.sleep(0.5)
                await server.wake("p", b"while asking")
                await asked
            await woken(server, worker)

    run(nats.url, scenario)


def test_a_stream_that_is_missing_when_a_hint_comes_is_made_for_it(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        await woken(server, worker)
        await server._client.jsm().delete_stream(server.stream("p"))
        for number in range(5):
            await server.wake("p", b"%d" % number)
        await found(worker, b"4")

    run(nats.url, scenario)


def test_a_stream_that_somebody_made_is_used_as_it_is(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        await server._client.jetstream().add_stream(name=server.stream("p"), subjects=[server.subject("p")], max_age=7)
        await woken(server, worker)
        info = await server._client.jsm().stream_info(server.stream("p"))
        assert info.config.max_age == 7

    run(nats.url, scenario)


def test_streams_are_bounded(nats: Subjects) -> None:
    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        server, worker = await opened(), await opened()
        await woken(server, worker)
        config = (await server._client.jsm().stream_info(server.stream("p"))).config
        assert (config.retention, config.storage, config.discard) == ("workqueue", "file", "old")
        assert 0 < config.max_age <= 300
        assert 0 < config.max_msgs <= 10_000
        assert config.max_bytes > 0

    run(nats.url, scenario)


def test_a_server_that_is_away_at_the_start_is_used_when_it_comes(tmp_path: Path) -> None:
    nats = NatsServer(tmp_path / "n")

    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            server, worker = await opened(), await opened()
        assert "cannot be reached" in server.trouble
        assert nats.password not in server.trouble
        async with asyncio.timeout(PATIENCE_S):  # nobody is waited for
            for number in range(MOST_WAITING + 500):
                await server.wake("p", b"%d" % number)
                await server.notify("w", b"x")
        assert await taken(worker, within=0.2) == []
        nats.start()
        came = set()
        async with asyncio.timeout(PATIENCE_S):
            while b"%d" % (MOST_WAITING + 499) not in came:
                came |= set(await taken(worker, most=500))
        # The oldest were forgotten.
        assert b"0" not in came

    try:
        run(nats.url("x"), scenario)
    finally:
        nats.stop()


def test_whatever_goes_wrong_with_a_connection_there_is_another_one(
    nats: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected, wrong = bus_module.connect_nats, [True]

    async def connecting(address: Any) -> Any:
        if wrong:
            raise ValueError("something that nobody has thought of")
        return await connected(address)

    monkeypatch.setattr(bus_module, "connect_nats", connecting)

    async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
        bus = await opened()
        assert "nobody has thought of" in bus.trouble
        wrong.clear()
        await woken(bus, bus)
        assert bus.trouble == ""

    run(nats.url, scenario)


def test_a_server_that_is_too_old_is_told_at_the_start() -> None:
    async def whole() -> None:
        async with standing_in("2.9.25") as url:
            bus = NatsBus(address_of(url, "NOETL_BUS"))
            with pytest.raises(NatsFailed, match=r"is version 2\.9\.25; 2\.10\.23 or later is needed"):
                await bus.open()

    asyncio.run(whole())


def test_a_wrong_password_is_told_at_the_start_and_never_shown(nats: Subjects) -> None:
    async def whole() -> None:
        bus = NatsBus(address_of(nats.url.replace(nats.server.password, "hush-hush"), "NOETL_BUS"))
        with pytest.raises(NatsFailed, match="refuses the user and password") as caught:
            await bus.open()
        assert "hush" not in str(caught.value)

    asyncio.run(whole())


def test_a_server_that_does_not_know_us_for_a_while_is_used_again(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "n") as nats:
        url, right = nats.url("x"), nats.password

        async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
            server, worker = await opened(), await opened()
            await woken(server, worker)
            nats.stop()
            nats.password = "another"
            nats.start()
            await until(lambda: "refuses" in server.trouble)
            assert right not in server.trouble
            nats.stop()
            nats.password = right
            nats.start()
            await woken(server, worker)
            assert server.trouble == ""

        run(url, scenario)


def test_the_permissions_that_the_documentation_lists_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "wake-workers-by-nats.md"
    listed = page.read_text(encoding="utf-8").rpartition("needs for each pool")[2].split("```")[1]
    configured = NatsServer._write_config

    def restricted(nats: NatsServer) -> Path:
        file = configured(nats)
        text = file.read_text().partition("authorization")[0]
        user = f'user: noetl, password: "{nats.password}", permissions: {{ {listed} }}'
        file.write_text(f"{text}authorization {{ users: [ {{ {user} }} ] }}\n")
        return file

    monkeypatch.setattr(NatsServer, "_write_config", restricted)
    with NatsServer(tmp_path / "n") as nats:

        async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
            server, worker = await opened(), await opened()
            heard: list[bytes] = []
            worker.listen("w", heard.append)
            await server.wake("default", b"1")
            assert await taken(worker, "default") == [b"1"]
            assert await taken(worker, "default", within=0.2) == []
            await server.notify("w", b"look")
            asked = asyncio.Event()
            ensure = server._ensure

            async def ensuring(client: Any, pool: str) -> None:
                if pool == "forbidden":
                    await asked.wait()
                await ensure(client, pool)

            monkeypatch.setattr(server, "_ensure", ensuring)
            await server.wake("forbidden", b"1")
            await server.wake("default", b"2")  # the other pool holds nothing up
            assert await taken(worker, "default") == [b"2"]
            monkeypatch.setattr(bus_module, "_ANSWER_S", 2.0)  # nobody will
            asked.set()
            await until(lambda: heard and "timeout" in server.trouble)
            assert heard == [b"look"]

        run(nats.url(), scenario)


def test_a_server_without_jetstream_is_trouble_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NatsServer, "_write_config", _without_jetstream(NatsServer._write_config))
    with NatsServer(tmp_path / "n") as nats:

        async def scenario(opened: Callable[[], Awaitable[NatsBus]]) -> None:
            bus = await opened()
            await bus.wake("p", b"1")
            assert await taken(bus, within=0.5) == []
            assert "ServiceUnavailable" in bus.trouble or "JetStream" in bus.trouble

        run(nats.url(), scenario)


def _without_jetstream(configured: Callable[[NatsServer], Path]) -> Callable[[NatsServer], Path]:
    def changed(nats: NatsServer) -> Path:
        file = configured(nats)
        lines = [line for line in file.read_text().splitlines() if not line.startswith("jetstream")]
        file.write_text("\n".join(lines))
        return file

    return changed

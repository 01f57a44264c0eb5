"""What a server knows of tokens: hashes in the store and in a file, believed for half a second."""

from __future__ import annotations

import asyncio
import stat
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from access_tokens import give_access

from noetl.errors import UsageError
from noetl.lru import LruCache
from noetl.model.access import ApiToken, TokenRequest
from noetl.ports import AccessStore, StoreFailed
from noetl.server.http.access import tokens as module
from noetl.server.http.access.tokens import (
    KnownTokens,
    TokenFile,
    add_token,
    hash_token,
    make_owner_token,
    new_token,
    remove_token,
)
from noetl.stores.memory import MemoryLog


class CountingStore:
    """A store that counts how often it is asked, and may be away."""

    def __init__(self) -> None:
        self._store = MemoryLog().access()
        self.asked = 0
        self.away = False
        self.go = threading.Event()
        self.go.set()

    def find_token(self, sha256: str) -> ApiToken | None:
        self.asked += 1
        assert self.go.wait(60)
        if self.away:
            raise StoreFailed("the store is away")
        return self._store.find_token(sha256)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Fixture:
    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.store = CountingStore()
        self.file = TokenFile(folder / "tokens.json")
        self.owner = new_token()
        self.known = KnownTokens(self.kept, self.file, lambda: self.now, make_owner_token(self.owner))

    @property
    def kept(self) -> AccessStore:
        return self.store  # type: ignore[return-value]

    async def add(self, name: str, **more: Any) -> str:
        return (await add_token(self.kept, self.file, TokenRequest(name, "viewer", **more), lambda: self.now))[0]


@pytest.fixture
def made(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def test_a_token_is_256_random_bits_and_known_by_its_hash() -> None:
    token = new_token()
    assert token != new_token()
    assert len(token) >= 6 + 43
    assert len(hash_token(token)) == 64


def test_a_token_is_found_until_it_is_removed(made: Fixture) -> None:
    async def run() -> None:
        token = await made.add("ann")
        assert not made.known.was_valid(token)
        found = await made.known.find(token)
        assert found is not None
        assert (found.name, found.hint) == ("ann", token[-4:])
        assert made.known.was_valid(token)
        assert await made.known.find(token[:-1]) is None
        assert await remove_token(made.kept, made.file, "ann") is not None
        made.known._known.put(found.sha256, made.known._known.get(found.sha256)._replace(until=0.0))  # type: ignore[union-attr]
        assert await made.known.find(token) is None
        assert not await made.known.is_valid(found)

    asyncio.run(run())


def test_what_the_store_said_is_believed_for_a_while_however_many_calls_there_are(
    made: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.BELIEVED_S < 1  # else a token that was removed would be admitted for longer than a second
    monkeypatch.setattr(module, "BELIEVED_S", 1e9)

    async def run() -> None:
        token = await made.add("ann")
        made.store.go.clear()
        asking = [asyncio.ensure_future(made.known.find(token)) for _ in range(50)]
        await asyncio.sleep(0.05)
        made.store.go.set()
        assert {one.name for one in await asyncio.gather(*asking) if one is not None} == {"ann"}
        for _ in range(50):
            await made.known.find(token)
        assert made.store.asked == 1

    asyncio.run(run())


def test_a_store_that_is_away_says_so_and_is_asked_again(made: Fixture) -> None:
    async def run() -> None:
        token = await made.add("ann")
        made.store.away = True
        with pytest.raises(StoreFailed):
            await made.known.find(token)
        assert (await made.known.find(made.owner)) is not None
        made.store.away = False
        assert await made.known.find(token) is not None

    asyncio.run(run())


def test_guesses_push_no_token_out_of_what_is_remembered(made: Fixture) -> None:
    async def run() -> None:
        token = await made.add("ann")
        await made.known.find(token)
        made.known._known = LruCache(2)
        await made.known.find(token)
        for at in range(20):
            assert await made.known.find(f"noetl_{at}") is None
        assert made.known.was_valid(token)

    asyncio.run(run())


def test_an_expired_token_is_none(made: Fixture) -> None:
    async def run() -> None:
        token = await made.add("ann", expires_s=60.0)
        found = await made.known.find(token)
        assert found is not None
        made.now = 1060.0
        assert await made.known.find(token) is None
        assert not await made.known.is_valid(found)

    asyncio.run(run())


def test_the_owners_token_is_no_configured_access(made: Fixture) -> None:
    assert not made.known.are_configured()
    asyncio.run(made.add("ann"))
    assert made.known.are_configured()


def test_the_tokens_of_a_file_are_admitted_and_removed_as_well(made: Fixture, tmp_path: Path) -> None:
    async def run() -> None:
        token = give_access(tmp_path)["NOETL_TOKEN"]
        found = await made.known.find(token)
        assert found is not None
        assert (found.name, found.role) == ("tests", "admin")
        assert made.known.are_configured()
        with pytest.raises(UsageError, match="already"):
            await made.add("tests")
        assert await remove_token(made.kept, made.file, "tests") is not None
        assert msgspec.json.decode(made.file.path.read_bytes()) == []
        assert stat.S_IMODE(made.file.path.stat().st_mode) == 0o600
        assert await remove_token(made.kept, made.file, "tests") is None

    asyncio.run(run())


def test_the_file_of_an_earlier_version_is_read(made: Fixture) -> None:
    token = new_token()
    earlier = {
        "name": "w1",
        "role": "worker",
        "sha256": hash_token(token),
        "hint": "x",
        "created_at": "",
        "expires": None,
    }
    made.file.path.write_bytes(msgspec.json.encode([earlier]))
    found = asyncio.run(made.known.find(token))
    assert found is not None
    assert found.may_be("any-name")
    assert found.foreign_pools(["gpu"]) == []


def test_a_file_that_cannot_be_read_admits_nobody(made: Fixture) -> None:
    made.file.path.write_text("[{")
    with pytest.raises(UsageError, match="cannot be read"):
        made.file.read()

"""Payloads in a NATS object store: what happens to its server, what it holds in memory, what is left of killed senders."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from result_stores import InNats
from servers import Subjects

from noetl.config import Settings
from noetl.drivers.nats import address_of
from noetl.errors import UsageError
from noetl.model.output import JSON
from noetl.ports import ResultDamaged, ResultGone, StoreFailed
from noetl.results.backend_addresses import open_payloads
from noetl.results.backends import nats_objects as shelf_module
from noetl.results.backends.backend import PayloadPlace
from noetl.results.backends.file_cache import FileCache
from noetl.results.backends.nats_objects import NatsBackend
from noetl.services.servers import NatsServer

MB = 1 << 20


@pytest.fixture
def own(tmp_path: Path) -> Iterator[NatsServer]:
    """A server that may be killed."""
    with NatsServer(tmp_path / "n") as server:
        yield server


@pytest.fixture
def store(tmp_path: Path, nats: Subjects) -> Iterator[InNats]:
    opened = InNats(tmp_path, nats)
    yield opened
    opened.close()


def shelf_at(url: str, folder: Path) -> NatsBackend:
    address = address_of(url, "X")
    return NatsBackend(lambda: address, str(address), "b", cache=FileCache(folder / "cache"))


def place(number: int, owner: str = "x") -> PayloadPlace:
    return PayloadPlace(owner, f"{number:032x}", JSON)


def drafted(folder: Path, size: int) -> tuple[Path, str]:
    """A file of so many bytes, and their hash."""
    import random

    body = random.Random(size).randbytes(size)
    path = folder / "draft"
    path.write_bytes(body)
    return path, hashlib.sha256(body).hexdigest()


def hash_at(shelf: NatsBackend, where: PayloadPlace) -> str:
    """The hash of what is brought, although it may be in the cache."""
    shelf._cache.forget(shelf._cache_name(where))
    return hashlib.sha256(shelf.local(where).read_bytes()).hexdigest()


@pytest.mark.parametrize("size", [0, 1, shelf_module._CHUNK, 3 * shelf_module._CHUNK + 1])
def test_files_of_any_size_come_back(tmp_path: Path, nats: Subjects, size: int) -> None:
    shelf = shelf_at(nats.url, tmp_path)
    draft, expected = drafted(tmp_path, size)
    shelf.put(draft, place(1))
    assert hash_at(shelf, place(1)) == expected
    assert [(one.place, one.bytes) for one in shelf.list_entries() if one.place == place(1)] == [(place(1), size)]
    shelf.remove(place(1))
    shelf.close()


MEASURED = """
import resource, sys
from pathlib import Path
from noetl.model.output import JSON
from noetl.results.backends.file_cache import FileCache
from noetl.results.backends.backend import PayloadPlace
from noetl.results.backends.nats_objects import NatsBackend
from noetl.drivers.nats import address_of
url, folder, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
address = address_of(url, "X")
shelf = NatsBackend(lambda: address, str(address), "big", cache=FileCache(folder / "cache"))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
def moved(number, size):
    draft = folder / "draft"
    with draft.open("wb") as file:
        for _ in range(size):
            file.write(bytes(1 << 20))
    where = PayloadPlace("x", "%032x" % number, JSON)
    shelf.put(draft, where)
    shelf._cache.forget(shelf._cache_name(where))
    assert shelf.local(where).stat().st_size == size << 20
    shelf.remove(where)
moved(1, 2)
before = peak()
moved(2, size)
print(peak() - before)
shelf.close()
"""


def test_a_large_payload_takes_little_memory(tmp_path: Path, own: NatsServer) -> None:
    command = [sys.executable, "-c", MEASURED, own.url(), str(tmp_path), "200"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 40


def test_a_server_that_is_away_is_asked_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_module, "PATIENCE_S", 0.5)
    store = open_payloads(Settings(tmp_path, results=("nats://me:hush-hush@127.0.0.1:1/b",)), {}.get, lambda: 0.0)
    with pytest.raises(StoreFailed, match=r"the result store nats://b at nats://127\.0\.0\.1:1: .*refused") as caught:
        asyncio.run(store.keep("x", {"a": 1}))
    assert "hush" not in str(caught.value)
    store.close()


def test_a_wrong_password_is_told_at_once_by_its_entry_and_never_shown(
    tmp_path: Path, nats: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"kind": "generic", "user": "noetl", "password": "not-the-password"}
    settings = Settings(tmp_path, results=(f"{nats.open_url}?auth=queue",))
    store = open_payloads(settings, {"queue": wrong}.get, lambda: 0.0)
    monkeypatch.setattr(shelf_module, "PATIENCE_S", 600.0)
    since = time.monotonic()
    with pytest.raises(StoreFailed, match=r"\(keychain entry `queue`\): .*refuses the user and password") as caught:
        asyncio.run(store.keep("x", {"a": 1}))
    assert time.monotonic() - since < 60
    assert "not-the-password" not in str(caught.value)
    store.close()


def test_what_has_to_be_installed_is_told(tmp_path: Path, nats: Subjects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats.errors", None)
    shelf = shelf_at(nats.url, tmp_path)
    with pytest.raises(StoreFailed, match=r"pip install 'noetl\[nats\]'"):
        shelf.put(drafted(tmp_path, 10)[0], place(1))
    shelf.close()


def test_an_entry_that_is_not_there_is_told(tmp_path: Path, nats: Subjects) -> None:
    store = open_payloads(Settings(tmp_path, results=(f"{nats.open_url}?auth=queue",)), {}.get, lambda: 0.0)
    with pytest.raises(StoreFailed, match="has no `queue`"):
        asyncio.run(store.keep("x", {"a": 1}))
    store.close()


def test_servers_of_one_cluster_are_one_store(tmp_path: Path, nats: Subjects) -> None:
    addresses = (f"nats://127.0.0.1:1/{nats.name}", str(tmp_path / "f"), nats.url)
    store = open_payloads(Settings(tmp_path, results=addresses), {}.get, lambda: 0.0)
    assert store.kinds == {"nats", "blob"}
    assert asyncio.run(store.keep("x", {"a": 1}))["locator"]["bucket"] == nats.name
    store.close()
    with pytest.raises(UsageError, match="must be the same"):
        open_payloads(Settings(tmp_path, results=("nats://a/b", "nats://a/c")), {}.get, lambda: 0.0)


def test_what_is_sent_while_the_server_is_killed_arrives(tmp_path: Path, own: NatsServer) -> None:
    shelf = shelf_at(own.url(), tmp_path)
    draft, expected = drafted(tmp_path, 60 * MB)
    kept = draft.read_bytes()
    shelf.put(draft, place(1))

    def disturbed() -> None:
        for _ in range(3):
            time.sleep(0.15)
            own.kill()
            time.sleep(0.1)
            own.start()

    for number, act in ((2, "put"), (3, "get")):
        draft.write_bytes(kept)
        killer = threading.Thread(target=disturbed)
        killer.start()
        if act == "put":
            shelf.put(draft, place(number))
        assert hash_at(shelf, place(1)) == expected
        killer.join()
    assert hash_at(shelf, place(2)) == expected
    shelf.close()


def test_a_store_that_was_wiped_has_lost_its_payloads_and_takes_new_ones(tmp_path: Path, own: NatsServer) -> None:
    shelf = shelf_at(own.url(), tmp_path)
    shelf.put(drafted(tmp_path, 1000)[0], place(1))
    own.kill()
    own.wipe()
    own.start()
    with pytest.raises(ResultGone, match="no longer there"):
        hash_at(shelf, place(1))
    draft, expected = drafted(tmp_path, 2000)
    shelf.put(draft, place(2))
    assert hash_at(shelf, place(2)) == expected
    shelf.close()


def test_a_bucket_that_was_deleted_is_made_again(store: InNats) -> None:
    lost = store.put({"a": 1})

    async def delete(bucket: Any) -> None:
        await bucket._js.delete_object_store(store.nats.name)

    store.with_bucket(delete)
    with pytest.raises(ResultGone):
        store.get(lost)
    assert store.store.kinds == {"nats"}
    assert list(store.store.find_expired()) == []
    again = asyncio.run(store.store.keep("x", {"b": 2}))
    assert store.get(again) == {"b": 2}


def test_a_bucket_that_is_full_is_told_at_once(
    tmp_path: Path, own: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nats

    monkeypatch.setattr(shelf_module, "PATIENCE_S", 600.0)

    async def small() -> None:
        client = await nats.connect(own.url())
        await client.jetstream().create_object_store("b", max_bytes=MB)
        await client.close()

    asyncio.run(small())
    shelf = shelf_at(own.url(), tmp_path)
    since = time.monotonic()
    with pytest.raises(StoreFailed, match="maximum bytes exceeded"):
        shelf.put(drafted(tmp_path, 3 * MB)[0], place(1))
    assert time.monotonic() - since < 60
    assert list(shelf.list_entries()) == []
    draft, expected = drafted(tmp_path, 1000)
    shelf.put(draft, place(2))
    assert hash_at(shelf, place(2)) == expected
    shelf.close()


def test_a_chunk_that_is_not_what_was_sent_is_noticed(store: InNats) -> None:
    reference = store.put([{"a": n} for n in range(100)])

    async def change(bucket: Any) -> None:
        info = await bucket.get_info(reference["locator"]["object"])
        subject = f"$O.{store.nats.name}.C.{info.nuid}"
        await bucket._js.purge_stream(bucket._stream, subject=subject)
        await bucket._js.publish(subject, b"something else")

    store.with_bucket(change)
    with pytest.raises(ResultDamaged, match="sha256 is another one"):
        store.get(reference)


def test_an_object_without_its_chunks_is_gone(store: InNats) -> None:
    reference = store.put({"a": "x" * 100})

    async def empty(bucket: Any) -> None:
        info = await bucket.get_info(reference["locator"]["object"])
        await bucket._js.purge_stream(bucket._stream, subject=f"$O.{store.nats.name}.C.{info.nuid}")

    store.with_bucket(empty)
    with pytest.raises(ResultGone):
        store.get(reference)


def test_what_a_killed_sender_left_is_removed_after_a_day(store: InNats) -> None:
    reference = store.put({"a": 1})

    async def cut_off(bucket: Any) -> None:
        for _ in range(3):
            await bucket._js.publish(f"$O.{store.nats.name}.C.cutoff", b"x" * 1000)

    store.with_bucket(cut_off)
    store.now = time.time() + 23 * 3600
    assert list(store.store.find_expired()) == []
    store.now = time.time() + 25 * 3600
    found = list(store.store.find_expired())
    assert [(one.display_name, one.bytes) for one in found] == [
        (f"nats://{store.nats.name}/$O.{store.nats.name}.C.cutoff", 3000)
    ]
    found[0].remove()
    found[0].remove()
    assert list(store.store.find_expired()) == []
    assert store.get(reference) == {"a": 1}


def test_what_others_keep_in_the_bucket_is_left_alone(store: InNats) -> None:
    store.put({"a": 1})

    async def more(bucket: Any) -> None:
        await bucket.put("somebody's", b"thing")
        await bucket.put("x/removed", b"thing")
        await bucket.delete("x/removed")
        await bucket._js.publish(f"$O.{store.nats.name}.M.c3RyYW5nZQ==", b"not json")

    store.with_bucket(more)
    assert len(list(store.store._readable[0].list_entries())) == 1


def test_a_bucket_without_direct_reading_is_read_as_well(tmp_path: Path, own: NatsServer) -> None:
    import nats

    async def plain() -> None:
        client = await nats.connect(own.url())
        await client.jetstream().add_stream(name="OBJ_b", subjects=["$O.b.C.>", "$O.b.M.>"], allow_rollup_hdrs=True)
        await client.close()

    asyncio.run(plain())
    shelf = shelf_at(own.url(), tmp_path)
    draft, expected = drafted(tmp_path, MB)
    shelf.put(draft, place(1))
    assert hash_at(shelf, place(1)) == expected
    assert len(list(shelf.list_entries())) == 1
    shelf.close()

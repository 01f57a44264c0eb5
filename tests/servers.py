"""Real servers for tests: one of each for a whole process of tests, a database, a bucket or a prefix for each test."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from noetl.services.servers import NatsServer, PostgresServer, S3Server

#: what is lost with the power is of no interest here, and disks of test machines are slow
QUICK = {"fsync": "off", "shared_buffers": "64MB", "max_connections": "200"}


class Database(NamedTuple):
    """A database that is empty and the test's own."""

    server: PostgresServer
    name: str

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    @property
    def credential(self) -> dict[str, object]:
        """The fields of a keychain entry for it."""
        at = self.server
        return {"host": at.host, "port": at.port, "user": at.user, "password": at.password, "database": self.name}


class Bucket(NamedTuple):
    """A bucket that is empty and the test's own."""

    server: S3Server
    name: str

    @property
    def folder(self) -> Path:
        """Where its objects are files."""
        return self.server.folder / self.name

    @property
    def credential(self) -> dict[str, object]:
        """The fields of a keychain entry for it."""
        at = self.server
        return {"endpoint": at.url, "region": "us-east-1", "access_key_id": at.access_key, "secret_access_key": at.secret_key}  # fmt: skip


class Subjects(NamedTuple):
    """Streams and buckets of a NATS server that nobody else uses: `name` is the prefix of a bus, or a bucket."""

    server: NatsServer
    name: str

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    @property
    def open_url(self) -> str:
        """The same without user and password."""
        return f"nats://{self.server.host}:{self.server.port}/{self.name}"

    @property
    def credential(self) -> dict[str, object]:
        """The fields of a keychain entry for it."""
        return {"username": self.server.user, "password": self.server.password}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    # Not below pytest's own folder: the server runs as a user of its own where tests run as root, and each session of
    # pytest closes that folder to all others again.
    with (
        TemporaryDirectory(prefix="noetl-postgres-") as name,
        PostgresServer(Path(name) / "data", settings=QUICK) as server,
    ):
        yield server


#: a database of which something of this is found is not used again: it is outside all schemas
_OUTSIDE_SCHEMAS = """
    WITH own AS (SELECT * FROM pg_database WHERE datname = current_database())
    SELECT 1 FROM own WHERE datconnlimit <> -1 OR datacl IS NOT NULL OR datdba <> 10
    UNION ALL SELECT 1 FROM pg_db_role_setting JOIN own ON own.oid = setdatabase
    UNION ALL SELECT 1 FROM pg_prepared_xacts JOIN own ON datname = database
    UNION ALL SELECT 1 FROM pg_replication_slots JOIN own ON datname = database
    UNION ALL SELECT 1 FROM pg_default_acl
    UNION ALL SELECT 1 FROM pg_largeobject_metadata
    UNION ALL SELECT 1 FROM pg_event_trigger
    UNION ALL SELECT 1 FROM pg_publication
    UNION ALL SELECT 1 FROM pg_foreign_data_wrapper
    UNION ALL SELECT 1 FROM pg_extension WHERE oid >= 16384
    UNION ALL SELECT 1 FROM pg_language WHERE oid >= 16384
    UNION ALL SELECT 1 FROM pg_cast WHERE oid >= 16384
"""
_DISCONNECT_OTHERS = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_DROP_SCHEMAS = """
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
            EXECUTE format('DROP SCHEMA %I CASCADE', name);
        END LOOP;
        CREATE SCHEMA public AUTHORIZATION pg_database_owner;
        GRANT USAGE ON SCHEMA public TO PUBLIC;
    END $$
"""


class DatabasePool:
    """Empty databases of one server. A used one is emptied and given out again: to create one takes ten times as long."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._empty: list[str] = []

    def take(self) -> Database:
        return Database(self._server, self._empty.pop() if self._empty else self._create())

    def put_back(self, database: Database) -> None:
        if self._clear(database):
            self._empty.append(database.name)
        else:
            self._execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')

    def _create(self) -> str:
        name = f"test_{uuid.uuid4().hex[:12]}"
        self._execute(f'CREATE DATABASE "{name}"')
        return name

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _clear(self, database: Database) -> bool:
        """Return whether the database is now as if it were new."""
        import psycopg

        try:
            with psycopg.connect(database.url, autocommit=True, options="-c client_min_messages=error") as connection:
                connection.execute(_DISCONNECT_OTHERS)
                if connection.execute(_OUTSIDE_SCHEMAS).fetchone():
                    return False
                connection.execute(_DROP_SCHEMAS)
        except psycopg.Error:  # such as a database that the test dropped
            return False
        return True


@pytest.fixture(scope="session")
def database_pool(postgres_server: PostgresServer) -> DatabasePool:
    return DatabasePool(postgres_server)


@pytest.fixture
def database(database_pool: DatabasePool) -> Iterator[Database]:
    taken = database_pool.take()
    yield taken
    database_pool.put_back(taken)


#: buckets that are there from the start: those that are made later are known to the server only a moment later
_BUCKETS = iter([f"test-{number}-{uuid.uuid4().hex[:8]}" for number in range(300)])
_READY: list[str] = []


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    _READY.extend(server.make_bucket(name) for name in _BUCKETS)
    with server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    return Bucket(s3_server, _READY.pop() if _READY else s3_server.make_bucket(f"test-{uuid.uuid4().hex[:12]}"))


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def nats(nats_server: NatsServer) -> Subjects:
    return Subjects(nats_server, f"test-{uuid.uuid4().hex[:12]}")


@asynccontextmanager
async def standing_in(version: str, *, resets: bool = False) -> AsyncIterator[str]:
    """A NATS server that says what version it is, and accepts anybody; its address. It may reset whoever publishes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = {"server_id": "x", "version": version, "max_payload": 1 << 20, "headers": True, "proto": 1}
        writer.write(b"INFO " + json.dumps(told).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
            elif resets and line.startswith(b"PUB"):
                at_once = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                break
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"

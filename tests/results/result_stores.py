"""Result stores over every kind of shelf, whose clock is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from servers import Bucket, Database, Subjects

from noetl.config import Settings
from noetl.results.backend_addresses import open_payloads
from noetl.results.store import PayloadStore

T = TypeVar("T")

KINDS = {"blob": "files", "object_store": "s3", "relational": "postgres", "nats": "nats"}


class Store:
    """A store, and a look behind it. What it has read is forgotten at once, so that it is always brought anew."""

    def __init__(self, folder: Path, *addresses: str, credentials: dict[str, Any] | None = None) -> None:
        self.folder, self.addresses = folder, addresses
        self.credentials = credentials or {}
        self.now = 1_000_000.0
        self._opened: list[PayloadStore] = []
        self.store = self.again()

    def again(self) -> PayloadStore:
        """The same store as another process sees it that has nothing in its cache."""
        cache = self.folder / "cache"
        if cache.exists():
            for path in cache.rglob("*"):
                if path.is_file():
                    path.unlink()
        named = Settings(self.folder, results=self.addresses)
        self._opened.append(open_payloads(named, self.credentials.get, lambda: self.now))
        return self._opened[-1]

    def put(self, value: Any, **more: Any) -> dict[str, Any]:
        return asyncio.run(self.store.keep("x", value, **more))

    def get(self, reference: dict[str, Any]) -> Any:
        return asyncio.run(self.again().read(reference))

    def some(self, reference: dict[str, Any], start: int, stop: int) -> list[Any]:
        return asyncio.run(self.store.rows(reference, start, stop))

    def close(self) -> None:
        for store in self._opened:
            store.close()

    # --- what lies there -----------------------------------------------------------------------------------------------

    def count(self) -> int:
        return len(list(self.raw()))

    def raw(self) -> dict[str, bytes]:
        """Every payload as it lies there."""
        shelf = self.folder / "results"
        return {str(path.relative_to(shelf)): path.read_bytes() for path in shelf.glob("x/*")}

    def damage(self, reference: dict[str, Any], body: bytes) -> None:
        (self.folder / "results" / reference["locator"]["path"]).write_bytes(body)


class InBucket(Store):
    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self.bucket = bucket
        credential = {**bucket.credential, "kind": "s3_credential"}
        super().__init__(folder, f"s3://{bucket.name}/some/place", credentials={"results": credential})

    def raw(self) -> dict[str, bytes]:
        shelf = self.bucket.folder / "some" / "place"
        return {str(path.relative_to(shelf)): path.read_bytes() for path in shelf.glob("x/*")}

    def damage(self, reference: dict[str, Any], body: bytes) -> None:
        (self.bucket.folder / reference["locator"]["key"]).write_bytes(body)


class InDatabase(Store):
    def __init__(self, folder: Path, database: Database) -> None:
        self.database = database
        credential = {**database.credential, "kind": "postgres_credential"}
        super().__init__(folder, "postgres", credentials={"results": credential})

    def raw(self) -> dict[str, bytes]:
        import psycopg

        query = "SELECT place, string_agg(body, ''::bytea ORDER BY part) FROM noetl_result_parts GROUP BY place"
        with psycopg.connect(self.database.url) as connection:
            return dict(connection.execute(query).fetchall())

    def damage(self, reference: dict[str, Any], body: bytes) -> None:
        import psycopg

        change = "UPDATE noetl_result_parts SET body = %s WHERE place = %s"
        with psycopg.connect(self.database.url) as connection:
            connection.execute(change, [body, reference["locator"]["key"]])


class InNats(Store):
    def __init__(self, folder: Path, nats: Subjects) -> None:
        self.nats = nats
        credential = {**nats.credential, "kind": "basic"}
        super().__init__(folder, nats.open_url, credentials={"results": credential})

    def with_bucket(self, action: Callable[[Any], Awaitable[T]]) -> T:
        """Look at the bucket as any other client of NATS does."""
        import nats

        async def whole() -> T:
            client = await nats.connect(self.nats.server.url())
            try:
                return await action(await client.jetstream().object_store(self.nats.name))
            finally:
                await client.close()

        return asyncio.run(whole())

    def raw(self) -> dict[str, bytes]:
        from nats.js.errors import NotFoundError

        async def look(bucket: Any) -> dict[str, bytes]:
            try:
                names = [info.name for info in await bucket.list(ignore_deletes=True)]
            except NotFoundError:
                return {}
            return {name: (await bucket.get(name)).data for name in names}

        return self.with_bucket(look)

    def damage(self, reference: dict[str, Any], body: bytes) -> None:
        self.with_bucket(lambda bucket: bucket.put(reference["locator"]["object"], body))


def made(kind: str, folder: Path, request: pytest.FixtureRequest) -> Store:
    if kind == "object_store":
        return InBucket(folder, request.getfixturevalue("bucket"))
    if kind == "relational":
        return InDatabase(folder, request.getfixturevalue("database"))
    if kind == "nats":
        return InNats(folder, request.getfixturevalue("nats"))
    return Store(folder)

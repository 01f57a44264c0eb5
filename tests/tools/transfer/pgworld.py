"""What tests of transfers from and to PostgreSQL have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from servers import Database
from tool_world import Workshop

PG = {"kind": "postgres", "auth": "pg"}


def auths(database: Database) -> dict[str, Any]:
    return {"pg": {"kind": "postgres_credential", **database.credential}}


def asked(database: Database, query: str) -> list[Any]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        return list(connection.execute(query.encode()).fetchall())


def told(database: Database, *statements: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


class Pg(Workshop):
    """A world with a database, and transfers between."""

    def __init__(self, folder: Path, database: Database) -> None:
        super().__init__(folder)
        self.database = database

    def ask(self, query: str) -> list[Any]:
        return asked(self.database, query)

    def tell(self, *statements: str) -> None:
        told(self.database, *statements)

    async def output(self, source: Any, *targets: Any, progress: Any = None, **more: Any) -> dict[str, Any]:
        given = {"auths": auths(self.database), **more}
        return dict(await self.task(progress, kind="transfer", source=source, targets=list(targets), **given))

    async def move(self, source: Any, *targets: Any, **more: Any) -> dict[str, Any]:
        output = await self.output(source, *targets, **more)
        assert output["error"] is None, output["error"]
        return dict(output["data"])

    async def fail(self, source: Any, *targets: Any, **more: Any) -> dict[str, Any]:
        output = await self.output(source, *targets, **more)
        assert output["status"] == "error", output
        return dict(output["error"])

    def left(self) -> list[Any]:
        """What a transfer must not leave: stages and markers."""
        names = self.ask("SELECT relname FROM pg_class WHERE relname LIKE 'noetl_stage%'")
        there = self.ask("SELECT to_regclass('noetl_transfers')::text")[0][0]
        return [*names, *(self.ask("SELECT * FROM noetl_transfers") if there else [])]


def query(text: str, **more: Any) -> dict[str, Any]:
    return {**PG, "query": text, **more}


def table(name: str, **more: Any) -> dict[str, Any]:
    return {**PG, "table": name, **more}


def data(*rows: Any) -> dict[str, Any]:
    return {"kind": "data", "data": list(rows)}

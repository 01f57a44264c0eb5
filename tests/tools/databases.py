"""A database of PostgreSQL with tasks that use it, and a way to it that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from servers import Database
from tool_world import Workshop


class Db:
    """A database, and tasks that use it."""

    def __init__(self, world: Workshop, database: Database) -> None:
        self.world = world
        self.database = database
        self.credential = {"kind": "postgres_credential", **database.credential}

    async def task(self, query: str, **task: Any) -> Any:
        return await self.world.task(kind="postgres", auth="db", query=query, **{"credential": self.credential, **task})

    async def rows(self, query: str, **task: Any) -> Any:
        output = await self.task(query, **task)
        assert output["error"] is None, output["error"]
        return output["data"]

    async def error(self, query: str, **task: Any) -> dict[str, Any]:
        output = await self.task(query, **task)
        assert output["status"] == "error", output
        return dict(output["error"])

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the server over a connection of its own."""
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            found = connection.execute(query.encode())
            return found.fetchall() if found.description else []

    def busy(self) -> list[tuple[Any, ...]]:
        """What the server does for tasks at the moment."""
        return self.ask(
            "SELECT state, query FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'noetl' AND state <> 'idle'"
        )


class Proxy:
    """Stands between client and server; once it sees `word` go by, it delivers it and cuts the way back."""

    def __init__(self, database: Database) -> None:
        self._target = (database.server.host, database.server.port)
        self.word: bytes | None = None
        #: whether the word still reaches the server
        self.delivers = True
        #: the code of an error that is told before the cut
        self.says: str | None = None
        self.cuts = 0
        self.port = 0
        self._serving: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for serving in self._serving:
                serving.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.append(asyncio.ensure_future(self._pass_on(reader, writer)))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        back = asyncio.ensure_future(_pump(there_reader, writer))
        try:
            while data := await reader.read(65_536):
                if self.word is not None and self.word in data:
                    self.word = None
                    self.cuts += 1
                    back.cancel()
                    await asyncio.wait([back])
                    if self.delivers:
                        there_writer.write(data)
                        await there_reader.read(65_536)  # it has happened by now
                    if self.says is not None:
                        writer.write(_error(self.says))
                        await writer.drain()
                    return
                there_writer.write(data)
        except OSError:
            pass
        finally:
            back.cancel()
            writer.transport.abort()
            there_writer.transport.abort()
            await asyncio.wait([back])
            await asyncio.sleep(0)


def _error(code: str) -> bytes:
    """What a server says that ends a session, in its protocol."""
    body = f"SFATAL\0VFATAL\0C{code}\0Mthe session is over\0\0".encode()
    return b"E" + (len(body) + 4).to_bytes(4, "big") + body


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

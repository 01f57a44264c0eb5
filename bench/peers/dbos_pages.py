"""The same in DBOS: a workflow with two steps for each page, several pages at once, what is done recorded in SQLite.

dbos_pages.py API DATABASE PAGES FILE    prints seconds
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

import aiohttp
import psycopg
from dbos import DBOS  # type: ignore[import-not-found]

logging.disable(logging.CRITICAL)
API, DATABASE, PAGES, FILE = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
AT_ONCE = 16
INSERT = "INSERT INTO events SELECT * FROM jsonb_populate_recordset(NULL::events, %s::jsonb)"
DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{FILE}", "run_admin_server": False})
shared: dict[str, Any] = {}


@DBOS.step()
async def fetch(page: int) -> str:
    async with shared["session"].get(f"{API}/pages?page={page}") as response:
        body: str = await response.text()
        return body


@DBOS.step()
async def store(body: str) -> int:
    import json

    connection = await shared["connections"].get()
    try:
        await connection.execute(INSERT, [json.dumps(json.loads(body)["items"])])
    finally:
        shared["connections"].put_nowait(connection)
    return 1


@DBOS.workflow()
async def load(pages: int) -> int:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(page: int) -> int:
        async with places:
            stored: int = await store(await fetch(page))
            return stored

    return sum(await asyncio.gather(*map(one, range(1, pages + 1))))


async def main() -> None:
    shared["connections"] = asyncio.Queue()
    async with aiohttp.ClientSession() as session:
        shared["session"] = session
        for _ in range(AT_ONCE):
            shared["connections"].put_nowait(await psycopg.AsyncConnection.connect(DATABASE, autocommit=True))
        started = time.perf_counter()
        assert await load(PAGES) == PAGES
        print(time.perf_counter() - started, flush=True)
        while not shared["connections"].empty():
            await shared["connections"].get_nowait().close()


DBOS.launch()
asyncio.run(main())
DBOS.destroy()

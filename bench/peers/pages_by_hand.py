"""The pages of an API into PostgreSQL, as somebody writes it who needs it once: aiohttp, and COPY for all of it.

pages_by_hand.py API DATABASE    prints seconds
"""

from __future__ import annotations

import asyncio
import sys
import time

import aiohttp
import msgspec
import psycopg

COLUMNS = ("id", "name", "city", "amount", "day", "flag", "note", "qty")


async def main(api: str, database: str) -> None:
    started = time.perf_counter()
    following: str | None = "/pages?page=1"
    async with (
        aiohttp.ClientSession() as session,
        await psycopg.AsyncConnection.connect(database) as connection,
        connection.cursor() as cursor,
        cursor.copy(f"COPY events ({', '.join(COLUMNS)}) FROM STDIN") as copy,
    ):
        while following:
            async with session.get(api + following) as response:
                page = msgspec.json.decode(await response.read())
            for row in page["items"]:
                await copy.write_row([row[column] for column in COLUMNS])
            following = page["next"]
    print(time.perf_counter() - started)


asyncio.run(main(*sys.argv[1:]))

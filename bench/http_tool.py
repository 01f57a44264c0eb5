"""Requests a second of kind: http, as a ratio to bare aiohttp, both against the same server in a process of its own.

    python bench/http_tool.py    a table; exit code 1 when a limit is broken

Rounds alternate; the medians are compared.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

import aiohttp
from python_task import World, call_of

from noetl.tools import http

REQUESTS = 2_000
ROUNDS = 7
AT_ONCE = 32
LEAST_RATIO = 0.35
SERVER = """
from aiohttp import web
async def rows(request):
    return web.json_response([{"id": n, "name": "row"} for n in range(20)])
application = web.Application()
application.add_routes([web.get("/", rows)])
async def started(_):
    print("ready", flush=True)
application.on_startup.append(started)
import socket
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
web.run_app(application, sock=listening, print=None)
"""


async def rate(request: Callable[[], Awaitable[None]]) -> float:
    """Requests a second, so many at once."""
    left = REQUESTS

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await request()

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return REQUESTS / (time.perf_counter() - started)


async def measure(url: str, folder: str) -> tuple[float, float]:
    """The medians of both."""
    world = World(folder)
    call = call_of("http", {"url": url})

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def bare() -> None:
            async with session.get(url) as response:
                assert len(await response.json()) == 20

        async def ours() -> None:
            output = await http.run(call, world)
            assert len(output["data"]) == 20

        pairs = [(await rate(ours), await rate(bare)) for _ in range(ROUNDS + 1)][1:]
    await world.close()
    return statistics.median(one for one, _ in pairs), statistics.median(other for _, other in pairs)


def main() -> int:
    """Measure, print a line, say whether the limit holds."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        server.stdout.readline()
        try:
            with tempfile.TemporaryDirectory() as folder:
                ours, theirs = asyncio.run(measure(url, folder))
        finally:
            server.kill()
    kept = ours / theirs >= LEAST_RATIO
    print(
        f"http requests, {AT_ONCE} at once  {ours:6.0f}/s  {ours / theirs:4.2f}× of {theirs:.0f}/s (bare aiohttp), "
        f"limit {LEAST_RATIO:g}×  {'ok' if kept else 'BROKEN'}"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

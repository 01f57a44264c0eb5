"""What a worker's exchange with a server costs: CPU time of the asyncio transport, as a ratio to aiohttp.

    python bench/client.py    a table; exit code 1 when a limit is broken

Both call the same server in a process of its own, over a kept connection. Rounds alternate; the medians are compared.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp

from noetl.client.address import parse_address
from noetl.client.asyncio_transport import AsyncTransport

REQUESTS, ROUNDS = 2_000, 7
MOST_RATIO = 0.6
MESSAGE = b'{"worker": "host-1-abcdef", "pools": ["default"], "room": 8, "reports": []}'
SERVER = r"""
import asyncio

BODY = b'{"assignments": [], "stops": []}'
HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\n"
    b"content-type: application/json\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n\r\n" % len(BODY)
)


async def serve(reader, writer):
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
        writer.write(HEAD + BODY)


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
"""


async def cost(request: Callable[[], Awaitable[object]]) -> float:
    """Microseconds of CPU for one request."""
    before = time.process_time()
    for _ in range(REQUESTS):
        await request()
    return (time.process_time() - before) / REQUESTS * 1e6


async def measure(url: str) -> tuple[float, float]:
    """The medians of both."""
    transport = AsyncTransport(parse_address(url))
    limit, headers = aiohttp.ClientTimeout(total=60), {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:

        async def theirs() -> None:
            async with session.post(f"{url}/api/work", data=MESSAGE, headers=headers, timeout=limit) as answer:
                await answer.read()

        def ours() -> Awaitable[object]:
            return transport.request("POST", "/api/work", MESSAGE, 60.0)

        rounds = [(await cost(ours), await cost(theirs)) for _ in range(ROUNDS)]
    transport.close()
    mine, other = zip(*rounds, strict=True)
    return statistics.median(mine), statistics.median(other)


def main() -> int:
    """Measure, print a table, say whether the limit holds."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            mine, other = asyncio.run(measure(f"http://127.0.0.1:{int(server.stdout.readline())}"))
        finally:
            server.kill()
    holds = mine / other <= MOST_RATIO
    print(f"an exchange of a worker   {mine:.0f} µs   {mine / other:.2f} × aiohttp ({other:.0f} µs)   ≤ {MOST_RATIO} ×")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())

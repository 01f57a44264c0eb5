"""A process that writes down what is done to it, for good: the world outside, which remembers every effect and its key.

`python ledger.py FILE` prints its port, then answers POST /LABEL. A line is written and synced before its answer goes out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path


class Ledger:
    """Lines that came at the same time are synced together."""

    def __init__(self, file: Path) -> None:
        self._out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lines: list[str] = []
        self._synced: asyncio.Future[None] | None = None

    async def write(self, line: str) -> None:
        self._lines.append(line)
        if self._synced is None:
            loop = asyncio.get_running_loop()
            self._synced = loop.create_future()
            loop.call_soon(self._sync, self._synced)
        await self._synced

    def _sync(self, synced: asyncio.Future[None]) -> None:
        lines, self._lines, self._synced = self._lines, [], None
        os.write(self._out, "".join(lines).encode())
        os.fdatasync(self._out)
        synced.set_result(None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
                await reader.readexactly(int(headers.get("content-length") or 0))
                label, key = first.split(" ")[1].strip("/"), headers.get("idempotency-key", "-")
                await self.write(f"{json.dumps([label, key, time.time()])}\n")
                body = json.dumps({"label": label.split("/")[1:]}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def main(file: Path) -> None:
    server = await asyncio.start_server(Ledger(file).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

"""A message that a server cannot read is refused for good: a worker that is told so does not send it again."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from fleet import OWNER, serving

from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.memory import MemoryLog

DEEP = b'{"worker": "w", "reports": [{"x": ' + b"[" * 3_000 + b"]" * 3_000 + b"}]}"


@pytest.mark.parametrize("route", ["/api/work", "/api/pulse"])
@pytest.mark.parametrize("body", [DEEP, b'{"worker": "\xff"}', b"{"], ids=["deep", "no UTF-8", "half"])
async def test_what_cannot_be_read_is_an_invalid_request(tmp_path: Path, route: str, body: bytes) -> None:
    async with serving(MemoryLog(), MemoryRegistry(30.0), tmp_path) as server, aiohttp.ClientSession() as session:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {OWNER}"}
        async with session.post(f"{server.url}{route}", data=body, headers=headers) as answer:
            assert answer.status == 400
            assert (await answer.json(content_type=None))["detail"].startswith("the message cannot be read: ")

"""Requests that carry chunks to an API."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from noetl.ports import Call, World
from noetl.tools.datahost.hosts import CallFailed, Reply
from noetl.tools.transfer.feeding import with_auth


async def send(call: Call, world: World, reply: Reply, *, key: str, auth: Any) -> None:
    """Send what a target made of a chunk, in order. A request that is sent again has the same key."""
    from noetl.tools import http

    requests, at = reply.value["requests"], 0
    for number, request in enumerate(requests):
        body = reply.blob[at : at + request["size"]]
        at += request["size"]
        config = {
            "url": request["url"],
            "method": request["method"],
            "headers": request["headers"],
            "body": body.decode(),
        }
        own = key if len(requests) == 1 else f"{key}/{number}"
        sent = with_auth(replace(call, kind="http", config=config, key=own), auth)
        output = await http.run(sent, world)
        if output["error"] is not None:
            raise CallFailed(output["error"])

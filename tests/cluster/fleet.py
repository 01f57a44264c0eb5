"""Servers and workers of a cluster, in this process: real sockets, and a log that they share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import uvicorn

from noetl.app.worker import WorkerNode
from noetl.config import Settings
from noetl.ports import EventLog
from noetl.ports.cluster import WorkerRegistry
from noetl.server.cluster.server_node import ClusterStore, ServerNode
from noetl.server.core.catalog import Catalog
from noetl.server.core.control_plane import Effects
from noetl.server.http.access import TokenFile, make_owner_token, new_token
from noetl.server.http.app import AccessSettings, build_app
from noetl.server.http.worker_routes import build_worker_routes
from noetl.tools.registry import ToolKinds

#: what the owner's token is at every server here
OWNER = new_token()


class Server:
    """A station behind a socket of loopback."""

    def __init__(self, station: ServerNode, url: str) -> None:
        self.station, self.url = station, url


@contextlib.asynccontextmanager
async def serving(
    log: EventLog,
    registry: WorkerRegistry,
    folder: Path,
    *,
    lease_s: float = 2.0,
    cluster_store: ClusterStore | None = None,
    effects: Effects | None = None,
) -> AsyncIterator[Server]:
    """A server that listens."""
    async with ServerNode(
        log, Catalog(ToolKinds()), registry, lease_s=lease_s, cluster_store=cluster_store, effects=effects
    ) as station:
        access = AccessSettings(TokenFile(folder / "tokens.json"), make_owner_token(OWNER))
        made = build_app(station, access, more=build_worker_routes(station.worker_api))
        config = uvicorn.Config(made, port=0, log_level="warning", lifespan="off", http="httptools")
        web = uvicorn.Server(config)
        web.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        task = asyncio.create_task(web.serve())
        while not web.started:
            await asyncio.sleep(0.01)
        port = web.servers[0].sockets[0].getsockname()[1]
        try:
            yield Server(station, f"http://127.0.0.1:{port}")
        finally:
            station.worker_api.drain()
            web.should_exit = web.force_exit = True
            await task
            await made.state.context.close()


@contextlib.asynccontextmanager
async def working(urls: Sequence[str], home: Path, *, beat_s: float = 0.7, **more: object) -> AsyncIterator[WorkerNode]:
    """A worker that sends heartbeats often, and whose lease outlasts whatever holds this process up."""
    settings = Settings(home=home, lease_s=2.0, worker_lease_s=60.0, environment={"PATH": "/usr/bin:/bin"})
    async with WorkerNode(settings, urls, **{"token": OWNER, **more}) as outpost:  # type: ignore[arg-type]
        beating = asyncio.create_task(_beat(outpost, beat_s))
        try:
            yield outpost
        finally:
            beating.cancel()


async def _beat(outpost: WorkerNode, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        if outpost._heartbeats is not None:
            outpost._heartbeats.beat()

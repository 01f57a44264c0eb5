"""A server process: a node, its API and the socket they listen on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from noetl.app import tune_gc
from noetl.app.access import open_access
from noetl.app.http_server import address_of, bind_socket, describe_bus, describe_store
from noetl.app.local import LocalNode, open_catalog, open_log, open_registry, open_results
from noetl.bus import open_bus
from noetl.config import Settings
from noetl.ports import StoreUnreachable
from noetl.results import PayloadSender
from noetl.server.cluster import ServerNode
from noetl.server.core import MARKS, Watchdog, resume_unowned
from noetl.server.http import build_app, build_worker_routes

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette

T = TypeVar("T")

#: seconds for which a database that does not answer is tried again, and between two tries
_PATIENCE_S, _PAUSE_S = 60.0, 0.3


class PreparedServer(NamedTuple):
    """A server that is about to listen."""

    node: Any
    api: Starlette
    listening: socket.socket
    address: str
    #: the line to print when it listens
    ready_line: str


@contextlib.asynccontextmanager
async def prepare_server(
    found: Settings, host: str, port: int, url: str | None = None, *, print_line: Callable[[str], None]
) -> AsyncIterator[PreparedServer]:
    """A server of a cluster; its pipelines run on workers."""
    tune_gc()
    listening = bind_socket(host, port)
    address = (url or address_of(listening)).rstrip("/")
    bus = open_bus(found) if found.bus is not None else None
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(contextlib.closing(listening))
        access = stack.enter_context(open_access(found, host, listening, print_line))
        if bus is not None:
            stack.push_async_callback(bus.close)
        log, results = await _open_with_retries(open_log, found, print_line), open_results(found)
        stack.callback(results.close)
        shared: Any = log if found.store is not None else None
        registry = await _open_with_retries(open_registry, found, print_line)
        made = ServerNode(
            log,
            open_catalog(),
            registry,
            lease_s=found.lease_s,
            bus=bus,
            url=address,
            cluster_store=shared,
            watchdog=Watchdog(found.home / MARKS),
        )
        node = await stack.enter_async_context(made)
        node.print_line = node.worker_api.roster.print_line = print_line
        if bus is not None:
            await bus.open()
        routes = build_worker_routes(node.worker_api)
        sender = PayloadSender(results)
        api = build_app(node, access, results=sender, more=routes)
        ready_line = f"listening on {address}; executions are kept in {describe_store(found)}{describe_bus(found)}"
        yield PreparedServer(node, api, listening, address, ready_line)


@contextlib.asynccontextmanager
async def prepare_local_server(
    found: Settings, host: str, port: int, *, print_line: Callable[[str], None]
) -> AsyncIterator[PreparedServer]:
    """A server that runs pipelines in its own process. Executions that no process runs are resumed first."""
    listening = bind_socket(host, port)
    address = address_of(listening)
    with contextlib.closing(listening), open_access(found, host, listening, print_line) as access:
        async with LocalNode(found, open_log(found), serves=True) as node:
            sender = PayloadSender(node.results)
            api = build_app(node, access, results=sender)
            node.print_line = print_line
            for execution_id, error in await resume_unowned(node):
                print_line(f"{execution_id} is left as it is: {error}")
            ready_line = f"listening on {address}; executions are kept in {describe_store(found)}"
            yield PreparedServer(node, api, listening, address, ready_line)


async def _open_with_retries(opening: Callable[[Settings], T], found: Settings, print_line: Callable[[str], None]) -> T:
    """Open what is in the database, which may be starting as well, or again."""
    until, reported = time.monotonic() + _PATIENCE_S, False
    while True:
        try:
            return opening(found)
        except StoreUnreachable as error:
            if time.monotonic() > until:
                raise
            if not reported:
                print_line(f"{error}; it is asked again for {_PATIENCE_S:g} s")
                reported = True
        await asyncio.sleep(_PAUSE_S)

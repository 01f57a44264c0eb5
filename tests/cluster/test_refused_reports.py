"""A worker whose report is refused has lost its pipeline: it stops, and does nothing more for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from aiohttp import web
from fleet import working
from waiting import until

from noetl.engine.net_index import NetIndex
from noetl.engine.reaction import start_execution as open_execution
from noetl.model.orders import RunPipeline
from noetl.model.requests import OpenExecution
from noetl.model.wire import (
    ExecutionBrief,
    PipelineReport,
    ServerReply,
    WorkAssignment,
    WorkerMessage,
    decode_message,
    encode,
)
from noetl.ports import PlaybookSource
from noetl.server.core.catalog import Catalog
from noetl.tools.registry import ToolKinds

BOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two}
workflow:
- step: a
  tool:
    - {name: one, kind: shell, cmd: "echo one >> %(folder)s/notes"}
    - {name: two, kind: shell, cmd: "echo two >> %(folder)s/notes"}
"""


class Server:
    """Gives one pipeline to the worker that asks first, and refuses what it reports after the first task has run."""

    def __init__(self, folder: Path) -> None:
        catalog = Catalog(ToolKinds())
        self.notes = folder / "notes"
        self.source, loaded = catalog.read(folder / "two.yaml", (BOOK % {"folder": folder}).encode())
        assert loaded.net is not None, loaded.diagnostics
        opened = OpenExecution("x", self.source.hash)
        _, decision = open_execution(NetIndex(loaded.net, catalog), opened, 1_000.0, lambda: "id")
        (self.order,) = [order for order in decision.orders if isinstance(order, RunPipeline)]
        self.given = False
        self.refused: list[PipelineReport] = []

    def reply(self, message: WorkerMessage) -> ServerReply:
        refused = [at for at, _ in enumerate(message.reports) if self.notes.exists()]
        self.refused += [message.reports[at] for at in refused]
        if self.given or not message.room:
            return ServerReply(refused)
        self.given = True
        brief = ExecutionBrief(self.source.hash, self.source.file)
        return ServerReply(refused, assignments=[WorkAssignment("x", self.order, "fence")], briefs={"x": brief})

    async def work(self, request: web.Request) -> web.Response:
        message = decode_message(await request.read())
        if self.given and not message.reports:
            await asyncio.sleep(0.05)
        return web.Response(body=encode(self.reply(message)), content_type="application/json")

    async def pulse(self, _request: web.Request) -> web.Response:
        return web.Response(body=encode(ServerReply()), content_type="application/json")

    async def assigned(self, _request: web.Request) -> web.Response:
        source: PlaybookSource = self.source
        return web.Response(body=msgspec.json.encode(source), content_type="application/json")


async def test_a_pipeline_whose_report_is_refused_does_nothing_more(tmp_path: Path) -> None:
    """Another worker has it by then: what this one still did would be done twice."""
    server = Server(tmp_path)
    app = web.Application()
    app.router.add_post("/api/work", server.work)
    app.router.add_post("/api/pulse", server.pulse)
    app.router.add_get("/api/assigned/{hash}", server.assigned)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with working([f"http://127.0.0.1:{runner.addresses[0][1]}"], tmp_path / "w") as worker:
            await until(lambda: server.refused)
            await worker.drain(60.0)
    finally:
        await runner.cleanup()
    assert server.notes.read_text().split() == ["one"]

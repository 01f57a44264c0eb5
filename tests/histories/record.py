"""Write the recorded store and the recorded messages anew: `python tests/histories/record.py FOLDER`.

What is in `home.tar.xz` and `recorded.json` was made by an earlier version, and stays as it is: stores of that version exist.
A later version that stores something new records it in a folder of its own, and `test_histories.py` reads both.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.history.log_queries import snapshot_of, state_at
from noetl.model.events import Event, Fact
from noetl.model.orders import Gather, LoopRow, RunPipeline
from noetl.model.requests import Cancel, Denied, Pause, Resume, Signal, encode_request
from noetl.model.wire import (
    CredentialCheck,
    CredentialCheckResult,
    ExecutionBrief,
    Heartbeat,
    HeldPipeline,
    LogRecord,
    PipelineReport,
    ServerReply,
    WorkAssignment,
    WorkerMessage,
    encode,
)
from noetl.server.core import service
from noetl.server.core.service import LiveExecution
from noetl.stores.sqlite_log import SqliteLog

HERE = Path(__file__).parent


async def start(node: LocalNode, name: str, execution_id: str) -> LiveExecution:
    """Start a playbook, whose file is named as seen from the folder: the recording names no machine."""
    source, loaded = node.catalog.read(Path(f"{name}.yaml"))
    assert loaded.net is not None, loaded.diagnostics
    called, _ = node.catalog.read(Path("called.yaml"))
    await node.keep(called)
    return await node.start(source, loaded.net, {}, execution_id=execution_id, calls={"called": called.hash})


async def until(holds: Callable[[], Any]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def is_done(live: LiveExecution, step: str) -> bool:
    return step in live.state.steps and live.state.steps[step].status == "done"


async def record_home() -> None:
    """Run the playbooks in the current folder until each is where the recording ends."""
    async with LocalNode(Settings(Path("home")), SqliteLog(Path("home/noetl.db"))) as node:
        finished = await start(node, "finished", "finished")
        await until(lambda: "approved" in finished.state.listeners)
        node.service.post("finished", [Signal("approved", {"by": "someone"})])
        await finished.finished
        interrupted = await start(node, "interrupted", "interrupted")
        each = interrupted.state.runs["each-1"]
        await until(lambda: each.loop is not None and each.loop.succeeded == 2)
        await until(lambda: each.loop is not None and all(one.is_open for one in each.loop.running.values()))
        await until(lambda: interrupted.state.listeners and len(node.service.live) == 2)
        child = next(name for name in node.service.live if name != "interrupted")
        await until(lambda: node.service.live[child].state.listeners)
        for name in ("paused", "unwanted", "denied"):
            live = await start(node, "waiting", name)
            await until(lambda live=live: is_done(live, "before"))
        await node.service.record("paused", [Pause()])
        await asyncio.sleep(0.1)
    log = SqliteLog(Path("home/noetl.db"))
    for execution_id, request in (
        ("interrupted", Pause()),
        ("interrupted", Resume()),
        ("interrupted", Signal("go", {"n": 7})),
        (child, Signal("child")),
        ("unwanted", Cancel("nobody wants it")),
        ("denied", Denied("held-1", None, {"kind": "concurrency", "message": "there is no room", "retryable": False})),
    ):
        log.post(execution_id, encode_request(request))
    await log.close()


def record_states(log: SqliteLog) -> dict[str, Any]:
    """The state of each execution, as a snapshot holds it: at its end, and on the way."""
    found = {}
    for summary in log.summaries(limit=100):
        middle = summary.seq // 2
        found[summary.execution_id] = {
            str(seq): snapshot_of(state_at(log, summary.execution_id, upto=seq)).decode()
            for seq in (middle, summary.seq)
        }
    return found


def record_requests() -> dict[str, str]:
    kinds = (
        Signal("go", {"n": 7}),
        Cancel("nobody wants it"),
        Pause(with_parent=True),
        Resume(with_parent=True),
        Denied("held-1", 3, {"kind": "concurrency"}),
    )
    return {type(one).__name__: encode_request(one).decode() for one in kinds}


def record_wire() -> dict[str, str]:
    """One message of each type, with every field and every type that it can hold."""
    fact = Fact("task.done", "a-1", {"do": "continue"}, "success", "one", "a-1.one.1", "2.0", 1, 4)
    event = Event(
        "x-3", "x", 3, "2026-01-01T00:00:00.000000+00:00", "worker", "task.started", "task", "one", "in_progress",
        {"n": 10**30}, "x-2", "a-1", "a-1.one.1", 0, 1,
    )  # fmt: skip
    brief = ExecutionBrief("hash", "main.yaml", {"n": 1}, {"net": False}, [{"step": "a", "steps": []}])
    reference = {"type": "blob", "locator": "x", "auth_reference": None, "meta": {}}
    order = RunPipeline(
        "a-1", "a", 0, {"ctx": {"n": 1}}, {"status": "success", "data": 1}, 2, begun=True, since=3,
        rows=(LoopRow(0, "row", reference, 4),), gather=Gather([1, None], {"1": reference}, {"total": 2}),
    )  # fmt: skip
    message = WorkerMessage(
        "worker-1",
        [PipelineReport("x", "a-1", "2.0", "fence", [fact], last=True), PipelineReport("x", "b-1", None, "fence", broken="why", returned=True)],
        [LogRecord("x", {"timestamp": "t", "step": "a", "task": "one", "iteration": None, "stream": "stdout", "text": "hi"})],
        [CredentialCheckResult(1), CredentialCheckResult(2, {"kind": "credential", "message": "none"})],
        ["default"],
        room=3,
        wait=20.0,
    )  # fmt: skip
    reply = ServerReply(
        [0], [1], [WorkAssignment("x", order, "fence", [event], alone=True)], {"x": brief}, {"x": {"ctx": {"n": 1}}},
        [("x", "a-1", "2.0")], ["y"], ["x"], [CredentialCheck(1, "x", brief)], lost=True,
    )  # fmt: skip
    holding = Heartbeat(
        "worker-1", [HeldPipeline("x", "a-1", 0, "fence", "worker-1", 2)], 5.0, {"pools": ["default"]}, leaving=True
    )
    return {"message": encode(message).decode(), "reply": encode(reply).decode(), "holding": encode(holding).decode()}


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "playbooks", folder, dirs_exist_ok=True)
        os.chdir(folder)
        service.SNAPSHOT_EVERY = 7
        asyncio.run(record_home())
        log = SqliteLog(Path("home/noetl.db"))
        recorded = {"states": record_states(log), "requests": record_requests(), "wire": record_wire()}
        asyncio.run(log.close())
        with sqlite3.connect("home/noetl.db") as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("VACUUM")
        (target / "recorded.json").write_text(json.dumps(recorded, indent=1) + "\n")
        with tarfile.open(target / "home.tar.xz", "w:xz") as archive:
            for path in sorted(Path("home").rglob("*")):
                if path.is_file() and not path.name.endswith(("-wal", "-shm", ".lock")):
                    archive.add(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())

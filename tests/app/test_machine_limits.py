"""A machine that has too little of something: tasks wait for it, and do not fail."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tool_world import serving

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.drivers.exhaustion import check_machine
from noetl.errors import MachineExhausted
from noetl.model.requests import Signal, encode_request
from noetl.ports import OVER
from noetl.stores import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\nworkload: {url: x}\nworkflow:\n"
TASKS = {
    "shell": "{kind: shell, cmd: echo done}",
    "python": "{kind: python, code: 'result = 1'}",
    "http": "{kind: http, url: '{{ workload.url }}'}",
}


async def answer(_request: web.Request) -> web.Response:
    return web.json_response(1)


@contextmanager
def no_more_files() -> Iterator[None]:
    """Take every open file that this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", TASKS)
def test_a_task_waits_for_open_files_and_does_not_fail(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        settings = Settings(tmp_path / "home")
        async with (
            serving(web.get("/", answer)) as url,
            LocalNode(settings, SqliteLog(settings.database)) as node,
        ):
            file = tmp_path / "p.yaml"
            # The first step has everything opened that later ones share.
            file.write_text(
                f"{HEAD}  - step: start\n    tool: {{kind: shell, cmd: 'true'}}\n"
                f"    next: {{arcs: [{{step: wait}}]}}\n"
                f"  - step: wait\n    tool: {{kind: wait, signal: go}}\n    next: {{arcs: [{{step: end}}]}}\n"
                f"  - step: end\n    tool: {TASKS[kind]}\n"
            )
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None
            live = await node.start(source, loaded.net, {"url": f"{url}/"})
            while "go" not in live.state.listeners:
                await asyncio.sleep(0.01)
            reported: list[str] = []
            node.print_line = reported.append
            with no_more_files():
                node.log.post(live.id, encode_request(Signal("go", None)))
                while not any("open" in line for line in reported):
                    await asyncio.sleep(0.02)
                    reported += [line.text for _, line in node.log.lines(live.id)]
            while (summary := node.log.summary(live.id)) is None or summary.status not in OVER:
                await asyncio.sleep(0.02)
            assert summary.status == "completed", [(e.name, e.payload) for e in node.log.read(live.id)][-4:]
            ends = [event for event in node.log.read(live.id) if event.name == "task.done" and event.attempt == 1]
            assert [event.status for event in ends] == ["success"] * 3

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_a_client_in_c_reports_as_text_is_known_too(number: int) -> None:
    with pytest.raises(MachineExhausted):
        check_machine(RuntimeError(f"connection failed: {os.strerror(number)}"))


def test_what_passes_is_told_from_what_is_lacking() -> None:
    again = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    check_machine(again)
    with pytest.raises(MachineExhausted, match="processes"):
        check_machine(again, starting=True)
    check_machine(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))

"""Workers of an earlier version beside a server of this one: they get what they understand, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet import Server, serving, working
from test_handing_out import start, until

from noetl.dispatch import waits
from noetl.model.wire import WorkerMessage, decode_message, encode
from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.memory import MemoryLog
from noetl.worker import agent


def saga(folder: Path) -> str:
    return f"""workflow:
- step: book
  spec: {{policy: {{compensation: {{kind: shell, cmd: 'echo undone >> {folder}/marks'}}}}}}
  tool: {{kind: shell, cmd: 'echo booked >> {folder}/marks'}}
  next: {{arcs: [{{step: pay}}]}}
- step: pay
  tool: {{kind: shell, cmd: 'false'}}
"""


def waits_for_an_upgrade(server: Server, execution_id: str) -> bool:
    return any("of an older version" in why for why in waits(server.station.dispatcher, execution_id))


async def test_an_older_worker_never_gets_a_compensation_which_it_would_take_for_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "PROTOCOL", 0)
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "old"),
    ):
        live = await start(server, tmp_path, saga(tmp_path))
        await until(lambda: waits_for_an_upgrade(server, live.id))
        assert (tmp_path / "marks").read_text().split() == ["booked"]
        monkeypatch.undo()
        async with working([server.url], tmp_path / "new"):
            await live.finished
    assert live.state.status == "failed"
    assert (tmp_path / "marks").read_text().split() == ["booked", "undone"]


@pytest.mark.parametrize("policy", ["before", "after", "finally"])
async def test_nor_a_step_with_tasks_around_it_which_it_would_leave_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setattr(agent, "PROTOCOL", 0)
    workflow = f"""workflow:
- step: plain
  tool: {{kind: noop}}
  next: {{arcs: [{{step: hooked}}]}}
- step: hooked
  spec: {{policy: {{{policy}: [{{kind: shell, cmd: 'echo {policy} >> {tmp_path}/marks'}}]}}}}
  tool: {{kind: noop}}
"""
    log = MemoryLog()
    async with (
        serving(log, MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "old"),
    ):
        live = await start(server, tmp_path, workflow)
        await until(lambda: waits_for_an_upgrade(server, live.id))
        assert [event.entity_id for event in log.read(live.id) if event.name == "step.done"] == ["plain"]
        assert not (tmp_path / "marks").exists()
        monkeypatch.undo()
        async with working([server.url], tmp_path / "new"):
            await live.finished
    assert live.state.status == "completed"
    assert (tmp_path / "marks").read_text().split() == [policy]


def test_a_message_of_an_earlier_version_declares_nothing() -> None:
    before = b'{"worker":"w","pools":["default"],"room":5}'
    assert decode_message(before).protocol == 0
    assert decode_message(encode(WorkerMessage("w", protocol=1))).protocol == 1

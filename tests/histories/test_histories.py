"""A store and messages that an earlier version wrote: this version reads them, and resumes what was interrupted."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.cli.app import run
from noetl.engine.fold import replay
from noetl.history.log_queries import read_snapshot, state_at
from noetl.model.requests import decode_request, encode_request
from noetl.model.wire import decode_heartbeat, decode_message, decode_reply, encode
from noetl.stores.sqlite_log import SqliteLog

HERE = Path(__file__).parent
RECORDED: dict[str, dict[str, Any]] = json.loads((HERE / "recorded.json").read_text())
#: message → how it is read
WIRE: dict[str, Callable[[bytes], Any]] = {
    "message": decode_message,
    "reply": decode_reply,
    "holding": decode_heartbeat,
}
INTERRUPTED = ("interrupted", "paused", "unwanted", "denied")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the recorded playbooks with the recorded home, which is the current one."""
    shutil.copytree(HERE / "playbooks", tmp_path, dirs_exist_ok=True)
    with tarfile.open(HERE / "home.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def log(folder: Path) -> Iterator[SqliteLog]:
    opened = SqliteLog(folder / "home" / "noetl.db")
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def noetl(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*arguments: str) -> tuple[int, str]:
        code = run(arguments)
        return code, "".join(capsys.readouterr())

    return call


def holds(written: Any, recorded: Any) -> bool:
    """Whether all that was recorded is written now; a later version may write more fields."""
    if isinstance(recorded, dict):
        return isinstance(written, dict) and all(
            key in written and holds(written[key], value) for key, value in recorded.items()
        )
    if isinstance(recorded, list):
        return isinstance(written, list) and len(written) == len(recorded) and all(map(holds, written, recorded))
    return bool(written == recorded)


@pytest.mark.parametrize("execution_id", RECORDED["states"])
def test_recorded_events_fold_to_the_recorded_state(log: SqliteLog, execution_id: str) -> None:
    """The fold is compared with what the version that ran it had in memory, in the middle and at the end."""
    for seq, body in RECORDED["states"][execution_id].items():
        recorded = read_snapshot(body.encode())
        assert recorded.seq == int(seq)
        assert replay(execution_id, log.read(execution_id, limit=int(seq))) == recorded
        assert state_at(log, execution_id, upto=int(seq)) == recorded


def test_recorded_snapshots_are_read_and_equal_the_fold_of_the_events(log: SqliteLog) -> None:
    found = 0
    for execution_id in RECORDED["states"]:
        for seq in range(1, len(log.read(execution_id)) + 1):
            kept = log.snapshot(execution_id, upto=seq)
            if kept is not None and kept[0] == seq:
                found += 1
                assert read_snapshot(kept[1]) == replay(execution_id, log.read(execution_id, limit=seq))
    assert found >= 3


@pytest.mark.parametrize("kind", RECORDED["requests"])
def test_recorded_requests_are_read_and_written_as_they_were(kind: str) -> None:
    """Requests lie in the inbox of a store while nobody owns the execution, over an upgrade as well."""
    body = RECORDED["requests"][kind].encode()
    assert holds(json.loads(encode_request(decode_request(body))), json.loads(body))


@pytest.mark.parametrize("kind", WIRE)
def test_recorded_messages_between_servers_and_workers_are_read_and_written_as_they_were(kind: str) -> None:
    body = RECORDED["wire"][kind].encode()
    assert holds(json.loads(encode(WIRE[kind](body))), json.loads(body))


def test_what_was_interrupted_is_resumed_and_the_requests_left_for_it_take_effect(
    folder: Path, noetl: Callable[..., tuple[int, str]]
) -> None:
    left = sqlite3.connect(folder / "home" / "noetl.db").execute("SELECT body FROM inbox").fetchall()
    assert [decode_request(body) for (body,) in left] != []
    (folder / "go").touch()
    noetl("resume", "--all")
    assert noetl("unpause", "paused")[0] == 0
    assert noetl("signal", "paused", "go")[0] == 0
    noetl("resume", "paused")
    shown = {name: json.loads(noetl("show", name, "--json")[1]) for name in INTERRUPTED}
    assert {name: one["status"] for name, one in shown.items()} == {
        "interrupted": "completed",
        "paused": "completed",
        "unwanted": "cancelled",
        "denied": "failed",
    }
    assert shown["interrupted"]["output"] == {"seen": [1, 2, 3, 4], "go": {"n": 7}, "below": 10}
    assert shown["paused"]["output"] == "over"
    assert "there is no room" in json.dumps(shown["denied"]["error"])


def test_commands_read_the_recorded_store(noetl: Callable[..., tuple[int, str]]) -> None:
    code, listed = noetl("ps", "--json")
    assert code == 0
    assert {one["execution_id"] for one in json.loads(listed)} >= {"finished", *INTERRUPTED}
    for name in ("finished", *INTERRUPTED):
        for command in ("show", "events", "why"):
            code, said = noetl(command, name)
            assert code == 0, said
            assert name in said or command == "events"
    assert '"approved"' in noetl("result", "finished")[1]
    assert noetl("result", "finished", "large")[1].count("does not fit into an event") == 4
    assert "item 3" in noetl("logs", "finished")[1]
    code, said = noetl("fsck")
    assert code == 0, said

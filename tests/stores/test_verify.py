"""Whatever is changed in a store behind its back is found, and where."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from log_contract import events, timestamp

from noetl.model.events import Event, encode
from noetl.ports import StoreFailed, Summary
from noetl.stores.appends import link, root
from noetl.stores.memory import MemoryLog
from noetl.stores.sqlite_log import SqliteLog
from noetl.stores.verify import StoreProblem, verify_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def fill() -> None:
        log = SqliteLog(tmp_path / "noetl.db")
        for name in ("a", "x", "z"):
            await log.append(events(name, 1, 9), status="running")
        await log.close()

    asyncio.run(fill())
    return tmp_path / "noetl.db"


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER event_is_final")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def found(path: Path, execution_id: str | None = None) -> list[tuple[str, str | None, int | None]]:
    log = SqliteLog(path)
    problems = [(one.kind, one.execution_id, one.seq) for one in verify_store(log, execution_id)]
    asyncio.run(log.close())
    return problems


WHERE = "WHERE execution_id = 'x' AND seq"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([], []),
        ([f"UPDATE event SET body = replace(body, 'start', 'stare') {WHERE} = 4"], [("chain", 4)]),
        ([f"UPDATE event SET hash = zeroblob(32) {WHERE} = 9"], [("chain", 9)]),
        ([f"UPDATE event SET body = x'00' {WHERE} = 4"], [("chain", 4), ("body", 4)]),
        ([f"DELETE FROM event {WHERE} = 1"], [("gap", 1)]),
        ([f"DELETE FROM event {WHERE} BETWEEN 4 AND 5"], [("gap", 4)]),
        ([f"DELETE FROM event {WHERE} = 9"], [("summary", 9), ("summary", None)]),
        (
            [
                f"UPDATE event SET seq = 99 {WHERE} = 4",
                f"UPDATE event SET seq = 4 {WHERE} = 5",
                f"UPDATE event SET seq = 5 {WHERE} = 99",
            ],
            [("chain", 4), ("identity", 4), ("chain", 5), ("identity", 5), ("parent", 4), ("time", 5), ("chain", 6)],
        ),
        (["DELETE FROM execution WHERE execution_id = 'x'"], [("summary", None)]),
        (["DELETE FROM event WHERE execution_id = 'x'"], [("summary", 1)]),
        (["UPDATE execution SET path = 'other' WHERE execution_id = 'x'"], [("summary", None)]),
        (["UPDATE execution SET start_key = 'k' WHERE execution_id = 'x'"], [("summary", None)]),
    ],
)  # fmt: skip
def test_what_was_changed_is_found_at_its_place(
    path: Path, statements: list[str], expected: list[tuple[str, int | None]]
) -> None:
    change(path, *statements)
    problems = found(path)
    assert {execution_id for _, execution_id, _ in problems} <= {"x"}
    assert sorted(problems, key=str) == sorted(((kind, "x", seq) for kind, seq in expected), key=str)


def test_a_log_that_was_changed_is_not_read_and_the_others_are(path: Path) -> None:
    change(path, f"UPDATE event SET body = replace(body, 'start', 'stare') {WHERE} = 4")
    log = SqliteLog(path)
    for after in (0, 2, 3):
        with pytest.raises(StoreFailed, match="event 4"):
            log.read("x", after=after)
    assert len(log.read("x", limit=3)) == 3
    assert len(log.read("x", after=4)) == 5
    assert len(log.read("a")) == 9
    asyncio.run(log.close())


def test_an_event_cannot_be_changed_by_accident(path: Path) -> None:
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute("UPDATE event SET body = x'00'")
    connection.close()


def test_one_execution_can_be_looked_at_alone(path: Path) -> None:
    change(path, f"UPDATE event SET hash = zeroblob(32) {WHERE} = 9")
    assert found(path, "a") == []
    assert found(path, "x") == [("chain", "x", 9)]


def test_a_damaged_page_is_found(path: Path) -> None:
    data = bytearray(path.read_bytes())
    # the leaves of the tables lie behind the schema; all but the first two pages are spoilt
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)
    assert "unreadable" in {kind for kind, _, _ in found(path)}


def forged(*changed: Event) -> Iterator[StoreProblem]:
    """A log whose chain is whole although its events are not."""
    log = MemoryLog()
    asyncio.run(log.append(events("x", 1, 9), status="running"))
    rows, digest = log._shared.events["x"], root("x")
    bodies = {seq: body for seq, body, _ in rows} | {event.seq: encode(event) for event in changed}
    for seq, body in bodies.items():
        digest = link(digest, body)
        rows[seq - 1] = seq, body, digest
    return verify_store(log)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"execution_id": "y"}, "identity"),
        ({"event_id": "x-6"}, "identity"),
        ({"parent_id": "x-5"}, "parent"),
        ({"parent_id": "x-0"}, "parent"),
        ({"parent_id": "y-1"}, "parent"),
        ({"parent_id": "x-04"}, "parent"),
        ({"timestamp": timestamp(3)}, "time"),
    ],
)
def test_an_event_that_was_written_wrong_is_found(changes: dict[str, str], kind: str) -> None:
    event = msgspec.structs.replace(events("x", 5, 5)[0], **changes)
    assert [(one.kind, one.seq) for one in forged(event)] == [(kind, 5)]


def test_a_summary_that_shows_another_end_than_the_log_is_found() -> None:
    end = msgspec.structs.replace(events("x", 9, 9)[0], name="playbook.processed", payload={"status": "failed"})
    assert [one.message for one in forged(end)] == ["status is 'running' in the summary and 'failed' in the log"]


def test_further_checks_see_the_events_of_logs_that_are_sound(path: Path) -> None:
    change(path, f"DELETE FROM event {WHERE} = 4")
    seen = []

    def check(log: list[Event], summary: Summary) -> list[StoreProblem]:
        seen.append((summary.execution_id, len(log)))
        return [StoreProblem("replay", "differs", summary.execution_id)]

    log = SqliteLog(path)
    kinds = [(one.kind, one.execution_id) for one in verify_store(log, checks=[check])]
    assert seen == [("a", 9), ("z", 9)]
    assert kinds == [("replay", "a"), ("gap", "x"), ("replay", "z")]
    asyncio.run(log.close())

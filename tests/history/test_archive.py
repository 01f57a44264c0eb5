"""Archives and the files they are in."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import IO, Any

import pytest

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.history import archive
from noetl.history.archive import restore_archive, write_archive
from noetl.lang.loader import load
from noetl.ports import LogLine, PlaybookSource
from noetl.stores.memory import MemoryLog
from noetl.tools.registry import ToolKinds

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sample}
workflow:
  - {step: only, tool: {kind: noop}}
"""


async def archived(folder: Path) -> tuple[MemoryLog, Path]:
    """A log with one execution that is over, and the same execution in a file."""
    log = MemoryLog()
    net = load(TEXT, ToolKinds(), name="sample.yaml").net
    assert net is not None
    async with LocalNode(Settings(folder), log) as node:
        live = await node.start(PlaybookSource("hash", TEXT, str(folder / "sample.yaml")), net, {}, execution_id="x")
        await live.finished
    summary = log.summary("x")
    assert summary is not None
    return log, write_archive(log, summary, folder / "kept")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[IO[bytes]]:
    """The compressed files that were opened."""
    files: list[IO[bytes]] = []
    real: Any = gzip.open

    def noted(*given: Any, **more: Any) -> Any:
        files.append(real(*given, **more))
        return files[-1]

    monkeypatch.setattr(gzip, "open", noted)
    return files


async def changed(folder: Path) -> tuple[MemoryLog, Path]:
    """The same, but the log has more of it than the file."""
    log, path = await archived(folder)
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    seq = len(log.read("x"))
    path.write_bytes(
        gzip.compress(b"".join([lines[0].replace(b'"events":%d' % seq, b'"events":%d' % (seq - 1)), *lines[1:-1]]))
    )
    return log, path


def test_a_file_is_closed_when_what_it_holds_is_there_and_differs(tmp_path: Path, opened: list[IO[bytes]]) -> None:
    log, path = asyncio.run(changed(tmp_path))
    with pytest.raises(NoetlError, match="differs from it, at event") as refused:
        asyncio.run(restore_archive(log, path))
    # As long as the error is in hand, so is all that was in use where it was raised.
    assert refused.value.__traceback__ is not None
    assert [file.closed for file in opened] == [True]


def test_a_file_is_closed_when_its_execution_is_back(tmp_path: Path, opened: list[IO[bytes]]) -> None:
    _, path = asyncio.run(archived(tmp_path))
    found = asyncio.run(restore_archive(MemoryLog(), path))
    assert (found.summary.execution_id, found.restored) == ("x", True)
    assert [file.closed for file in opened] == [True]


async def resumed(tmp_path: Path) -> None:
    log, path = await archived(tmp_path)
    said = [LogLine("2026-01-01T00:00:00Z", "only", "task", None, "stdout", f"{n}") for n in range(3)]
    log.write_lines("x", said)
    summary = log.summary("x")
    assert summary is not None
    path = write_archive(log, summary, tmp_path / "kept")
    half = MemoryLog()
    await half.append(log.read("x"), status="completed")
    half.write_lines("x", said[:1])
    assert not (await restore_archive(half, path)).restored
    assert [line for _, line in half.lines("x")] == said


def test_lines_that_a_restore_did_not_come_to_are_added(tmp_path: Path) -> None:
    asyncio.run(resumed(tmp_path))


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LONGEST", 1000)
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 100_000))
    with pytest.raises(NoetlError, match="more than 1,000 bytes"):
        asyncio.run(restore_archive(MemoryLog(), path))

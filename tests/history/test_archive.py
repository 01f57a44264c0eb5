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
from noetl.history.archive import restore_archive, write_archive
from noetl.lang.loader import load
from noetl.ports import PlaybookSource
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


def test_a_file_is_closed_when_what_it_holds_is_there_already(tmp_path: Path, opened: list[IO[bytes]]) -> None:
    log, path = asyncio.run(archived(tmp_path))
    with pytest.raises(NoetlError, match="is there already") as refused:
        asyncio.run(restore_archive(log, path))
    # As long as the error is in hand, so is all that was in use where it was raised.
    assert refused.value.__traceback__ is not None
    assert [file.closed for file in opened] == [True]


def test_a_file_is_closed_when_its_execution_is_back(tmp_path: Path, opened: list[IO[bytes]]) -> None:
    _, path = asyncio.run(archived(tmp_path))
    assert asyncio.run(restore_archive(MemoryLog(), path)).execution_id == "x"
    assert [file.closed for file in opened] == [True]

"""kind: wait, and what else reads a time: one without a zone is UTC, wherever the machine stands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tool_world import Workshop

from noetl.tools import wait

NOON = datetime(2030, 7, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "text", ["2030-07-01T12:00:00", "2030-07-01 12:00", "2030-07-01T12:00:00Z", "2030-07-01T14:00:00+02:00"]
)
def test_a_time_is_the_same_moment_on_every_machine(new_york: None, tmp_path: Path, text: str) -> None:
    call = Workshop(tmp_path).call(kind="wait", until=text)
    assert wait.suspend(call, now=0.0) == {"until": NOON, "fixed": True}


async def test_rows_of_duckdb_are_the_same_on_every_machine(new_york: None, world: Workshop) -> None:
    pytest.importorskip("duckdb")
    world.environment = {**world.environment, "TZ": "America/New_York"}
    query = "SELECT TIMESTAMP '2030-07-01 12:00:00' AS plain, '2030-07-01 12:00:00'::TIMESTAMPTZ AS zoned"
    output = await world.task(kind="duckdb", query=query)
    assert output["error"] is None, output["error"]
    row: dict[str, Any] = output["data"][0]
    assert datetime.fromisoformat(row["plain"]).replace(tzinfo=UTC).timestamp() == NOON
    assert datetime.fromisoformat(row["zoned"]).timestamp() == NOON

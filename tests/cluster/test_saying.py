"""What servers say on stderr while they run has the time in front."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.app import prepare_server
from noetl.cli.output.printing import note_with_time
from noetl.config import Settings
from noetl.ports import LogDamaged

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


async def test_all_that_a_server_says_has_the_time_in_front(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with prepare_server(Settings(home=tmp_path), "127.0.0.1", 0, print_line=note_with_time) as made:
        station = made.node
        station.worker_api.roster.report_joined("w", {"slots": 2, "pools": ["default"]})
        assert station.service.on_lost is not None
        station.service.on_lost("x1", LogDamaged("it is damaged at event 3"))
        station.notices._warn("x2: `metadata.on_failure` reached nobody: the answer was 500")
    assert [re.sub(f"^{STAMP} ", "TIME ", line) for line in capsys.readouterr().err.splitlines()] == [
        "TIME worker w joined: 2 slots, pools default",
        "TIME warning: x1 cannot be gone on with, and is tried again every 60 s: it is damaged at event 3",
        "TIME warning: x2: `metadata.on_failure` reached nobody: the answer was 500",
    ]

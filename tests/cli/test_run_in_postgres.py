"""Executions recorded in PostgreSQL: the same commands, another place."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from servers import Database

from cli.conftest import Shell
from cli.playbooks import HEAD

SLOW = HEAD % "count" + "  - {step: start, loop: {in: [1, 2, 3, 4], iterator: n}, tool: {kind: shell, cmd: 'sleep 0.4; echo {{ iter.n }} >> counted.txt'}}\n"  # fmt: skip


def test_a_run_that_is_killed_goes_on_where_it_was(
    shell: Shell, database: Database, tmp_path: Path, folder: Path
) -> None:
    import subprocess

    (folder / "slow.yaml").write_text(SLOW)
    home, store = str(tmp_path / "other"), database.url
    environment = {**shell.environment, "NOETL_HOME": home, "NOETL_STORE": store, "NOETL_LEASE": "2"}
    running = subprocess.Popen(shell.command("run", "slow.yaml"), env=environment, cwd=folder)
    counted = folder / "counted.txt"
    while not counted.exists():
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    settings = {"NOETL_HOME": home, "NOETL_STORE": store, "NOETL_LEASE": "2"}
    until = time.monotonic() + 120
    while (done := shell("resume", "last", "--json", **settings)).code != 0 and time.monotonic() < until:
        time.sleep(0.2)  # it is believed to live for some seconds
    assert done.code == 0, done.err
    assert json.loads(done.out)["status"] == "completed"
    assert sorted(set(counted.read_text().split())) == ["1", "2", "3", "4"]
    listed = json.loads(shell("ps", "--json", **settings).out)
    assert [one["status"] for one in listed] == ["completed"]
    assert shell("fsck", **settings).code == 0
    assert not (tmp_path / "other" / "noetl.db").exists()

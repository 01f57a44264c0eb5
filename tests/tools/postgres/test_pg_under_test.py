"""PostgreSQL tasks in tests of playbooks: recorded once on a real server, and played without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from servers import Database

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: recorded
keychain:
  - {name: db, kind: postgres_credential, from: {env: DATABASE}}
workload:
  n: 3
workflow:
  - step: start
    tool:
      kind: postgres
      auth: db
      query: "SELECT n, pg_backend_pid() > 0 AS there FROM generate_series(1, {{ workload.n }}) n"
"""
TEST = """\
playbook: recorded.yaml
tests:
  - name: three rows
    expect: {output: [{n: 1, there: true}, {n: 2}, {n: 3}]}
"""


def test_answers_of_a_database_are_recorded_and_played(tmp_path: Path, database: Database) -> None:
    (tmp_path / "recorded.yaml").write_text(PLAYBOOK)
    (tmp_path / "recorded.test.yaml").write_text(TEST)
    environment = {**os.environ, "NOETL_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "noetl", "test", "recorded.test.yaml"]

    def call(*more: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    recorded = call("--record", DATABASE=database.url)
    assert recorded.returncode == 0, recorded.stderr + recorded.stdout
    kept = (tmp_path / "recorded.cassette.json").read_text()
    assert "generate_series" in kept
    assert database.server.password not in kept
    played = call()
    assert played.returncode == 0, played.stderr + played.stdout
    (tmp_path / "recorded.yaml").write_text(PLAYBOOK.replace("generate_series(1", "generate_series(2"))
    assert call().returncode == 1

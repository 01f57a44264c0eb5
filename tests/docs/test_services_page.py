"""The page about local services does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "local-services.md"


def test_the_services_of_the_page_are_there_for_its_playbook() -> None:
    pytest.importorskip("duckdb")
    page = PAGE.read_text(encoding="utf-8")
    [playbook] = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    # Not below pytest's own folder, which a PostgreSQL that root starts cannot enter.
    with TemporaryDirectory(prefix="noetl-services-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "try.yaml").write_text(playbook)
        command = [sys.executable, "-m", "noetl.services", "services"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            said = [running.stdout.readline() for _ in range(3)]
            try:
                assert said[2] in page
                assert "".join(said[:2]) == (folder / "services" / "exports").read_text()
                run = f'. services/exports; exec "{sys.executable}" -m noetl run try.yaml --json'
                environment = {**os.environ, "NOETL_HOME": str(folder / "home")}
                done = subprocess.run(
                    ["sh", "-c", run], cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                assert json.loads(done.stdout)["output"] == [{"people": 2}], done.stdout + done.stderr
                assert (folder / "services" / "s3" / "lake" / "people.csv").read_text() == "id,name\n1,Ada\n2,Grace\n"
            finally:
                running.terminate()
        assert running.returncode == 0

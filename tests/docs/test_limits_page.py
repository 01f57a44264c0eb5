"""The page about limits does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "limit-concurrency.md"
FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_playbook_of_the_page_fetches_two_pages_at_a_time(tmp_path: Path) -> None:
    (text,) = FENCE.findall(PAGE.read_text(encoding="utf-8"))
    (tmp_path / "sync.yaml").write_text(text)
    environment = {**os.environ, "NOETL_HOME": str(tmp_path / "home")}

    def noetl(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "noetl", *arguments]
        return subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    assert json.loads(noetl("run", "sync.yaml", "--json").stdout)["output"] == [f"page {page}" for page in range(1, 7)]
    under_way, most = 0, 0
    for line in noetl("events", "last", "--json").stdout.splitlines():
        name = json.loads(line)["name"]
        under_way += {"task.started": 1, "loop.iteration.done": -1}.get(name, 0)
        most = max(most, under_way)
    assert most == 2

"""The page about Python shows a program that does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-from-python.md"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run_program(folder: Path, environment: dict[str, str]) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "greet.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stderr, done.stdout


def test_the_program_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    blocks = dict(FENCE.findall(PAGE.read_text(encoding="utf-8")))
    (tmp_path / "greet.yaml").write_text(blocks["yaml"], encoding="utf-8")
    (tmp_path / "greet.py").write_text(blocks["python"], encoding="utf-8")
    environment = {**os.environ, "NOETL_HOME": str(tmp_path / "home")}
    server = subprocess.Popen(
        [sys.executable, "-m", "noetl", "dev", "--port", "0"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        url = server.stderr.readline().removeprefix("listening on ").partition(";")[0].strip()
        # Twice: a program with a fixed key can be repeated.
        runs = [run_program(tmp_path, {**environment, "NOETL_SERVER": url}) for _ in range(2)]
    finally:
        server.terminate()
        server.communicate(timeout=120)
    assert runs == [("", blocks["console"].partition("\n")[2])] * 2

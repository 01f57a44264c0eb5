"""The page about clusters does what it says, with a server and a worker that show tokens to each other."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from servers import Database

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def noetl(folder: Path, *arguments: str, **env: str) -> str:
    command = [sys.executable, "-m", "noetl", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def running(folder: Path, *arguments: str, **env: str) -> Iterator[str]:
    """A process for as long as it is needed; the first line that it writes."""
    command = [sys.executable, "-m", "noetl", *arguments]
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **env}, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield process.stderr.readline()
    finally:
        process.terminate()
        process.communicate(timeout=120)
    assert process.returncode == 0


def test_three_processes_run_what_the_page_shows(tmp_path: Path, database: Database) -> None:
    page = (ROOT / "docs" / "howto" / "run-a-cluster.md").read_text(encoding="utf-8")
    (squares,) = (text for language, text in FENCE.findall(page) if language == "yaml" and "{name: squares}" in text)
    (console,) = (text for language, text in FENCE.findall(page) if language == "console")
    (tmp_path / "squares.yaml").write_text(squares)
    home = str(tmp_path / "server")
    tokens = {
        role: noetl(tmp_path, "token", "add", role, "--role", role, NOETL_HOME=home, NOETL_STORE=database.url).strip()
        for role in ("worker", "author")
    }
    with running(tmp_path, "server", "--port", "0", NOETL_HOME=home, NOETL_STORE=database.url) as said:
        url = said.removeprefix("listening on ").partition(";")[0]
        shared = {"NOETL_SERVER": url, "NOETL_RESULTS": f"file://{tmp_path}/results"}
        worker = {**shared, "NOETL_HOME": str(tmp_path / "worker"), "NOETL_TOKEN": tokens["worker"]}
        with running(tmp_path, "worker", "--slots", "4", **worker) as told:
            assert told.startswith("worker ")
            author = {**shared, "NOETL_HOME": str(tmp_path / "author"), "NOETL_TOKEN": tokens["author"]}
            commands = [line[8:].split() for line in console.splitlines() if line.startswith("$ noetl ")]
            assert commands
            assert [noetl(tmp_path, *one, **author) for one in commands][-1].strip() == console.splitlines()[-1]

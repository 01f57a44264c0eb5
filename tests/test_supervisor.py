"""No process outlives a test run, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from supervisor import descendants, is_alive
from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a supervisor the orphans of a run")

TESTS = Path(__file__).parent
#: a test with all that tests start: servers, both fork servers, and a process in a session of its own
HANGS = """
import subprocess
import time
from pathlib import Path

import host_forkserver


def test_hangs(postgres_server, nats_server, s3_server, forkserver):
    host_forkserver.address()
    started = forkserver.start(cwd=Path.cwd(), env={}, program=Path("sleeper.py"))
    subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1001"], start_new_session=True)
    Path("ready").touch()
    time.sleep(1000)
"""
#: pytest, with SIGINT as in the foreground of a shell: in the background it is ignored, and would be here
RUN = (
    "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "sys.exit(pytest.main(sys.argv[1:]))"
)
STARTED = {"postgres", "nats-server", "rclone", "forkserver.py", "host_forkserver.py", "sleep"}


def command_line(pid: int) -> list[str]:
    try:
        return [Path(word).name for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
    except OSError:
        return []


@pytest.fixture
def run(tmp_path: Path, workers: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run of pytest with this folder's conftest.py, in the middle of a test."""
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "sleeper.py").write_text("import time\ntime.sleep(1000)\n")
    outside = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-c", RUN, "-q", "-n", workers, "-p", "conftest", "--rootdir", ".", "test_hangs.py"]
    with (tmp_path / "log").open("wb") as log:
        # Not in this one's process group: the run is interrupted by a signal to its main process alone.
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**outside, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent / 'src'}"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(lambda: (tmp_path / "ready").exists() or process.poll() is not None, 300)
        assert process.poll() is None, (tmp_path / "log").read_text()
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "workers", "send"),
    [
        (signal.SIGINT, "0", os.kill),
        (signal.SIGTERM, "0", os.kill),
        (signal.SIGKILL, "1", os.kill),
        (signal.SIGKILL, "0", os.killpg),
    ],
    ids=["SIGINT", "SIGTERM", "SIGKILL", "SIGKILL of the group"],
)
def test_an_interrupted_run_leaves_no_process(
    run: subprocess.Popen[bytes], how: signal.Signals, send: Callable[[int, int], None]
) -> None:
    # A process that was just forked still has the command line of its parent.
    wait_until(lambda: {word for pid in descendants(run.pid) for word in command_line(pid)} >= STARTED)
    started = descendants(run.pid)
    send(run.pid, how)
    run.wait(300)
    wait_until(lambda: not [pid for pid in started if is_alive(pid)], 300)

"""A process whose date is set back, and nothing else: its waits and retries end in their time."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE_S, wait_until

#: while the file SWITCH exists, the date is an hour back
SETS_DATE_BACK = """
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *at) {
    int done = syscall(SYS_clock_gettime, which, at);
    if (done == 0 && which == CLOCK_REALTIME && access(SWITCH, F_OK) == 0) at->tv_sec -= 3600;
    return done;
}
"""
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: main}
workflow:
  - {step: start, tool: {kind: wait, seconds: 1}, next: {arcs: [{step: end}]}}
  - step: end
    tool:
      kind: noop
      spec: {policy: {rules: [{when: "{{ _attempt < 2 }}", then: {do: retry, attempts: 3, delay: 0.5}}]}}
"""


def test_a_run_whose_date_is_set_back_by_an_hour_takes_no_longer(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library, switch = tmp_path / "date.so", tmp_path / "switch"
    command = [compiler, "-shared", "-fPIC", f'-DSWITCH="{switch}"', "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=SETS_DATE_BACK, text=True, check=True)
    (tmp_path / "main.yaml").write_text(PLAYBOOK)
    running = subprocess.Popen(
        [sys.executable, "-m", "noetl", "run", "main.yaml"],
        cwd=tmp_path,
        env={**os.environ, "NOETL_HOME": str(tmp_path / "home"), "LD_PRELOAD": str(library)},
        stderr=subprocess.PIPE,
    )

    def waits() -> bool:
        file = f"file:{tmp_path / 'home' / 'noetl.db'}?mode=ro"
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(file, uri=True)) as found:
            return found.execute("SELECT 1 FROM event WHERE instr(body, 'task.started')").fetchone() is not None
        return False

    try:
        wait_until(waits)
        switch.touch()
        said = running.communicate(timeout=PATIENCE_S)[1]
    finally:
        running.kill()
    assert running.returncode == 0, said

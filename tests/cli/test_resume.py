"""noetl resume, behind kills and interruptions."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until as until

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Noetl, Running, Shell

    Start = Callable[..., Running]

SHELL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shell}
workflow:
  - step: work
    tool: {kind: shell, cmd: "test -e go && exit; echo $$ > pid; exec sleep 60"}
"""


def go(noetl: Noetl, execution: str = "last") -> None:
    """Let both steps of `gated` go on, now or when they are there."""
    for name in ("one", "two"):
        assert noetl("signal", execution, name).code == 0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.usefixtures("playbooks")


def test_a_run_that_was_killed_goes_on_where_it_was(noetl: Noetl, start: Start) -> None:
    running = start("run", "gated.yaml")
    running.wait_for("one started")
    noetl("signal", "last", "one")
    running.wait_for("two started")
    running.kill()
    listed = json.loads(noetl("ps", "--json").out)[0]
    assert (listed["status"], listed["alive"]) == ("running", False)
    noetl("signal", "last", "two")
    done = noetl("resume", listed["execution_id"], "--json")
    assert done.code == 0
    document = json.loads(done.out)
    assert document["execution_id"] == listed["execution_id"]
    assert document["output"] == "over"
    assert document["steps"]["one"]["runs"] == 1
    assert noetl("fsck").code == 0


def test_all_that_was_killed_goes_on_side_by_side(noetl: Noetl, start: Start) -> None:
    for _ in range(2):
        running = start("run", "gated.yaml")
        running.wait_for("one started")
        running.kill()
        go(noetl)
    noetl("run", "choice.yaml", "--json")
    done = noetl("resume", "--all", "--json")
    assert done.code == 0
    assert [json.loads(line)["status"] for line in done.out.splitlines()] == ["completed", "completed"]
    assert "nothing to resume" in noetl("resume", "--all").err


def test_a_child_that_was_killed_with_its_parent_goes_on_with_it(noetl: Noetl, start: Start) -> None:
    running = start("run", "parent.yaml")
    running.wait_for("waits for the signal `ok`")
    running.kill()
    resumed = start("resume", "last")
    child = json.loads(noetl("show", "last", "--json").out)["children"][0]
    noetl("signal", child, "ok", "1")
    assert resumed.end().code == 0
    assert noetl("fsck").code == 0


def test_what_runs_elsewhere_is_not_resumed(noetl: Noetl, start: Start) -> None:
    running = start("run", "gated.yaml")
    running.wait_for("one started")
    done = noetl("resume", "last")
    assert done.code == 1
    assert "is being run by another process" in done.err
    assert "nothing to resume" in noetl("resume", "--all").err
    go(noetl)
    assert running.end().code == 0


def test_what_is_over_is_told_again(noetl: Noetl) -> None:
    noetl("run", "failing.yaml", "--json")
    done = noetl("resume", "last")
    assert done.code == 1
    execution = json.loads(noetl("show", "last", "--json").out)["execution_id"]
    assert f"has already failed, and cannot be resumed; `noetl rerun {execution}` runs it again" in done.err
    assert "✗ failing failed" in done.err


def test_a_run_that_was_paused_before_its_process_ended_says_at_the_start_how_to_unpause_it(
    noetl: Noetl, start: Start
) -> None:
    running = start("run", "gated.yaml")
    running.wait_for("one started")
    noetl("pause", "last")
    running.kill()
    go(noetl)
    execution = json.loads(noetl("show", "last", "--json").out)["execution_id"]
    for options in ((), ("--json",)):
        resumed = start("resume", "last", *options)
        resumed.wait_for(f"is paused: this command waits until you run `noetl unpause {execution}`")
        resumed.kill()
    resumed = start("resume", "last")
    resumed.wait_for("is paused", "goes on behind event")
    noetl("unpause", "last")
    assert resumed.end().code == 0


def test_one_execution_or_all_has_to_be_said(noetl: Noetl) -> None:
    assert noetl("resume").code == 2
    assert noetl("resume", "last", "--all").code == 2


def test_ctrl_c_cancels_for_good(noetl: Noetl, start: Start) -> None:
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal `ok`")
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    assert ended.code == 130
    assert "cancelling; Ctrl-C again" in ended.err
    assert json.loads(noetl("show", "last", "--json").out)["status"] == "cancelled"


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["SIGTERM", "SIGHUP"])
def test_a_run_that_is_terminated_leaves_no_process_behind_and_can_be_resumed(
    noetl: Noetl, start: Start, folder: Path, how: signal.Signals, code: int
) -> None:
    (folder / "shell.yaml").write_text(SHELL)
    running = start("run", "shell.yaml")
    running.wait_for("work started")
    pid = folder / "pid"
    until(lambda: pid.exists() and pid.read_text().strip() != "")
    running.process.send_signal(how)
    ended = running.end()
    assert ended.code == code
    assert "`noetl resume" in ended.err
    until(lambda: not is_alive(int(pid.read_text())))
    (folder / "go").write_text("")
    assert json.loads(noetl("resume", "last", "--json").out)["status"] == "completed"


def test_without_a_terminal_a_resumed_loop_tells_at_once_where_it_goes_on(
    noetl: Noetl, start: Start, folder: Path
) -> None:
    running = start("run", "long.yaml")
    running.wait_for("each goes over 60 items")
    until(lambda: json.loads(noetl("show", "last", "--json").out)["events"] > 40)
    running.kill()
    (folder / "go").touch()
    since = time.monotonic()
    done = noetl("resume", "last")
    took = time.monotonic() - since
    assert done.code == 0
    first, second, *more = done.err.splitlines()
    assert re.fullmatch(r" +0\.000s  playbook long  [0-9a-z]{16} goes on behind event \d+", first)
    assert re.fullmatch(r" +0\.000s  each goes on at \d+/60", second)
    seconds = next(float(line.split("s  ")[0]) for line in more if "each done in" in line)
    assert 0.5 < seconds <= took  # counted from the resumption, not from the first event behind it


def test_the_rate_of_a_resumed_loop_counts_what_this_process_has_seen(
    noetl: Noetl, start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start("run", "long.yaml")
    running.wait_for("each goes over 60 items")
    until(lambda: json.loads(noetl("show", "last", "--json").out)["events"] > 60)
    running.kill()
    (folder / "go").touch()
    monkeypatch.setattr("noetl.cli.output.progress_lines._REPORT", 0.5)
    done = noetl("resume", "last")
    before = re.search(r"each goes on at (\d+)/60", done.err)
    told = re.findall(r"([\d.]+)s  each (\d+)/60, ([\d.]+)/s, ", done.err)
    assert before
    assert told
    for seconds, over, rate in told:
        seen = int(over) - int(before[1])
        assert float(rate) == pytest.approx(seen / float(seconds), rel=0.1)


def test_an_edited_playbook_goes_on_as_it_was_and_that_is_said(noetl: Noetl, start: Start, folder: Path) -> None:
    running = start("run", "gated.yaml")
    running.wait_for("one started")
    running.kill()
    go(noetl)
    file = folder / "gated.yaml"
    file.write_text(file.read_text().replace("output: over", "output: changed"))
    done = noetl("resume", "last")
    assert "gated.yaml was edited since; the run goes on with the playbook as it was\n" in done.err
    assert "output: over" not in file.read_text()
    assert '  output: "over"\n' in done.err


def test_a_second_ctrl_c_behind_a_recorded_end_says_that_it_is_final(noetl: Noetl, start: Start, folder: Path) -> None:
    (folder / "shell.yaml").write_text(SHELL)
    running = start("run", "shell.yaml")
    running.wait_for("work started")
    pid = folder / "pid"
    until(lambda: pid.exists() and pid.read_text().strip() != "")
    running.process.send_signal(signal.SIGINT)
    running.wait_for("work cancelled")
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    assert ended.code == 130
    assert "noetl resume" not in ended.err
    assert "cancelled" in ended.err  # it ended by itself, or says what is recorded
    assert json.loads(noetl("show", "last", "--json").out)["status"] == "cancelled"
    until(lambda: not is_alive(int(pid.read_text())))


def test_a_second_ctrl_c_before_the_end_is_recorded_kills_and_the_run_can_be_resumed(
    noetl: Noetl, start: Start, folder: Path, home: Path
) -> None:
    (folder / "shell.yaml").write_text(SHELL)
    running = start("run", "shell.yaml")
    running.wait_for("work started")
    pid = folder / "pid"
    until(lambda: pid.exists() and pid.read_text().strip() != "")
    blocker = sqlite3.connect(home / "noetl.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")  # the decision to cancel cannot be written now
    running.process.send_signal(signal.SIGINT)
    running.wait_for("cancelling; Ctrl-C again ends everything at once")
    time.sleep(0.2)
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    blocker.execute("ROLLBACK")
    blocker.close()
    assert ended.code == 130
    assert "killed; `noetl resume" in ended.err
    until(lambda: not is_alive(int(pid.read_text())))
    (folder / "go").write_text("")
    assert json.loads(noetl("resume", "last", "--json").out)["status"] == "completed"


def test_after_the_first_ctrl_c_a_run_is_not_over_before_its_tools_are(
    noetl: Noetl, start: Start, folder: Path
) -> None:
    (folder / "shell.yaml").write_text(SHELL)
    running = start("run", "shell.yaml")
    running.wait_for("work started")
    pid = folder / "pid"
    until(lambda: pid.exists() and pid.read_text().strip() != "")
    running.process.send_signal(signal.SIGINT)
    running.wait_for("■ shell cancelled")
    assert not is_alive(int(pid.read_text()))
    assert running.end().code == 130


FULL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: full}
workflow:
  - step: make
    tool: %s
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, output: fine}}
"""


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: python, code: \"def main(): return [{'i': i, 't': str(i) * 9} for i in range(100000)]\"}",
        "{kind: shell, cmd: seq 1 900000}",
        "{kind: duckdb, query: 'SELECT i, md5(i::VARCHAR) AS t FROM range(200000) t(i)'}",
    ],
    ids=["python", "shell", "duckdb"],
)
def test_a_disk_without_room_for_a_result_interrupts_the_run_and_does_not_fail_it(
    shell: Shell, folder: Path, home: Path, tool: str
) -> None:
    (folder / "full.yaml").write_text(FULL % tool)
    # No file may have more than 750 kB: to whoever writes one, that is a disk that is full.
    limited = ["sh", "-c", 'ulimit -f 1500; exec "$@"', "sh", *shell.command("run", "full.yaml")]
    done = subprocess.run(
        limited, check=False, capture_output=True, text=True, env={**shell.environment, "NOETL_HOME": str(home)}
    )
    assert done.returncode == 1
    assert f"the disk of NOETL_HOME is full: there is no room in {home}" in done.stderr
    assert "noetl resume" in done.stderr
    assert "failed" not in done.stderr
    assert "interrupted" in shell("show", "last", NOETL_HOME=str(home)).out
    again = shell("resume", "last", "--json", NOETL_HOME=str(home))
    assert json.loads(again.out)["output"] == "fine"

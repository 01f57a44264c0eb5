"""noetl run --key: a run is started once, however often the command is repeated, and wherever it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.devserver import Dev

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Noetl, Running, Shell

    Start = Callable[..., Running]

pytestmark = pytest.mark.usefixtures("playbooks")


def executions(noetl: Noetl, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(noetl("ps", "--json", *more).out)
    return found


def test_a_repeated_command_reports_the_run_that_was_started(noetl: Noetl, files: Path) -> None:
    first = noetl("run", "good.yaml", "--key", "nightly 2026-11-16", "--json")
    assert first.code == 0
    again = noetl("run", "good.yaml", "--key", "nightly 2026-11-16", "--json")
    assert (again.code, json.loads(again.out)) == (0, json.loads(first.out))
    told = noetl("run", "good.yaml", "--key", "nightly 2026-11-16").err
    assert f"{json.loads(first.out)['execution_id']} was started with this key before" in told
    assert [one["key"] for one in executions(noetl)] == ["nightly 2026-11-16"]
    assert noetl("run", "good.yaml", "--key", "nightly 2026-11-17").code == 0
    assert len(executions(noetl)) == 2


def test_a_failed_run_stays_failed_under_its_key(noetl: Noetl, folder: Path, good: str) -> None:
    (folder / "fails.yaml").write_text(good.replace("{{ workload.n }}", "{{ workload.none }}"))
    codes = [noetl("run", "fails.yaml", "--key", "k").code for _ in range(2)]
    assert codes == [1, 1]
    assert len(executions(noetl)) == 1


def test_a_key_of_another_request_is_refused(noetl: Noetl, files: Path) -> None:
    started = json.loads(noetl("run", "good.yaml", "--key", "k", "--json").out)["execution_id"]
    for other in (("good.yaml", "--set", "n=4"), ("odd.yaml",)):
        code, _, told = noetl("run", *other, "--key", "k")
        assert code == 2
        assert f"the key 'k' was used for another request, which started {started}; use another key" in told
    assert len(executions(noetl)) == 1


def test_a_run_that_another_process_has_is_waited_for(noetl: Noetl, start: Start) -> None:
    first = start("run", "gated.yaml", "--key", "k", "--json")
    second = start("run", "gated.yaml", "--key", "k", "--json")
    waiting = [first, second]
    for name in ("one", "two"):
        while noetl("signal", "last", name).code:
            pass
    ends = [one.end() for one in waiting]
    assert [one.code for one in ends] == [0, 0]
    assert json.loads(ends[0].out) == json.loads(ends[1].out)
    assert len(executions(noetl)) == 1


def test_a_run_whose_process_was_killed_is_resumed_by_the_repeated_command(noetl: Noetl, start: Start) -> None:
    running = start("run", "gated.yaml", "--key", "k")
    running.wait_for("one started")
    noetl("signal", "last", "one")
    running.wait_for("two started")
    running.kill()
    noetl("signal", "last", "two")
    done = noetl("run", "gated.yaml", "--key", "k", "--json")
    assert (done.code, json.loads(done.out)["steps"]["one"]["runs"]) == (0, 1)
    assert len(executions(noetl)) == 1


def test_a_server_is_given_the_key(noetl: Noetl, shell: Shell, files: Path) -> None:
    with Dev(shell) as dev:
        first = noetl("run", "good.yaml", "--key", "k", "--json", "--server", dev.url)
        again = noetl("run", "good.yaml", "--key", "k", "--json", "--server", dev.url)
        assert (first.code, json.loads(again.out)) == (0, json.loads(first.out))
        refused = noetl("run", "good.yaml", "--set", "n=4", "--key", "k", "--server", dev.url)
        assert refused.code == 2
        assert json.loads(first.out)["execution_id"] in refused.err
        assert len(executions(noetl, "--server", dev.url)) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "naïve", "two\nlines"])
def test_a_key_that_no_header_can_hold_is_refused(noetl: Noetl, files: Path, key: str) -> None:
    code, _, told = noetl("run", "good.yaml", "--key", key)
    assert (code, "--key takes 1 to 255 printable ASCII characters" in told) == (2, True)


def test_a_plan_takes_no_key(noetl: Noetl, files: Path) -> None:
    assert noetl("run", "good.yaml", "--plan", "--key", "k").code == 2


def test_an_archived_execution_frees_its_key_and_takes_it_back(noetl: Noetl, files: Path) -> None:
    first = json.loads(noetl("run", "good.yaml", "--key", "k", "--json").out)["execution_id"]
    assert noetl("archive", first, "--to", "kept").code == 0
    assert noetl("archive", "--restore", "kept").code == 0
    assert json.loads(noetl("run", "good.yaml", "--key", "k", "--json").out)["execution_id"] == first
    assert noetl("archive", first, "--to", "kept").code == 0
    second = json.loads(noetl("run", "good.yaml", "--key", "k", "--json").out)["execution_id"]
    assert second != first
    refused = noetl("archive", "--restore", "kept")
    assert (refused.code, "the key 'k'" in refused.err) == (1, True)
    assert noetl("fsck").code == 0


def test_a_store_may_be_another_file(noetl: Noetl, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_STORE", "sqlite:///runs.db")
    assert noetl("run", "good.yaml").code == 0
    assert (files / "runs.db").is_file()
    assert not (files / "home" / "noetl.db").exists()
    assert len(executions(noetl)) == 1
    assert noetl("show", executions(noetl)[0]["execution_id"][:14]).code == 0

"""noetl run, and what it shows."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.playbooks import HEAD

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell

pytestmark = pytest.mark.usefixtures("playbooks")


def told(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    text = re.sub(r"[0-9a-z]{16}\b", "ID", text)
    text = re.sub(r"^ +\d+\.\d{3}s  ", "", text, flags=re.MULTILINE)
    return re.sub(r"in \d+(\.\d)? m?s", "in TIME", text).splitlines()


def test_the_document_has_exactly_the_agreed_keys(noetl: Noetl) -> None:
    done = noetl("run", "choice.yaml", "--json")
    document = json.loads(done.out)
    assert done.code == 0
    assert done.err == ""
    assert done.out.count("\n") == 1
    assert list(document) == [
        "execution_id",
        "status",
        "output",
        "ctx",
        "error",
        "steps",
        "stalled",
        "unmatched",
        "duration_ms",
    ]
    assert document["output"] == {"n": 3}
    assert document["steps"]["each"] == {"status": "done", "runs": 1}


def test_without_a_terminal_progress_is_a_line_per_event_that_matters(noetl: Noetl) -> None:
    done = noetl("run", "choice.yaml")
    assert done.out == ""
    assert told(done.err) == [
        "playbook choice  ID",
        "start started",
        "start done in TIME",
        "each started",
        "each goes over 3 items, sequential",
        "each done in TIME, 3 of 3 went well",
        "end started",
        "end done in TIME",
        "✓ choice completed in TIME  ID",
        '  output: {"n":3}',
    ]


def test_a_failure_is_told_with_its_place_its_kind_and_what_to_do_next(noetl: Noetl) -> None:
    done = noetl("run", "failing.yaml")
    assert done.code == 1
    problem = "template: in `{{ workload.missing }}`: `missing` is missing in `workload`"
    assert told(done.err) == [
        "playbook failing  ID",
        "start started",
        f"start.flaky failed ({problem}), attempt 2 in TIME",
        f"start failed in TIME: task flaky: {problem} (after 2 attempts)",
        "✗ failing failed in TIME  ID",
        f"  step start, task flaky: {problem} (after 2 attempts)",
        "  at failing.yaml:9, `output`",
        "  look closer: noetl why ID · noetl show ID · noetl logs ID",
        "  run again: noetl rerun ID --from start",
    ]


SEEN = """\
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: seen}]}}
  - {step: one, tool: {kind: wait, seconds: 600}}
  - {step: seen, tool: {kind: shell, cmd: "until [ -e go ]; do sleep 0.05; done"}, next: {arcs: [{step: two, cancel: [one]}]}}
  - {step: two, tool: {kind: noop, output: over}}
"""


def test_at_a_terminal_the_steps_are_a_tree(shell: Shell, home: Path, folder: Path) -> None:
    (folder / "seen.yaml").write_text(HEAD % "seen" + SEEN)
    go = folder / "go"
    seen = shell.at_terminal("run", "seen.yaml", NOETL_HOME=str(home), seen_then=("waits until", go))
    assert "▶ one" in seen
    assert "✓ two" in seen
    assert "✓ seen completed" in seen
    assert seen.rstrip().endswith('output: "over"')


def test_a_run_that_is_over_at_once_shows_its_tree_without_rich(shell: Shell, home: Path) -> None:
    seen = shell.at_terminal("run", "choice.yaml", NOETL_HOME=str(home), NO_COLOR="1")
    assert "✓ each" in seen
    assert "3/3" in seen
    assert "\x1b[3" not in seen


def test_the_start_of_a_run_imports_neither_rich_nor_a_schema_validator(shell: Shell, home: Path) -> None:
    code = (
        "import sys; from noetl.cli.app import run; run(['run', 'choice.yaml']);"
        "print(sorted({'rich', 'jsonschema', 'importlib.metadata'} & set(sys.modules)))"
    )
    shell.environment["NOETL_HOME"] = str(home)
    assert shell.python(code).strip() == "[]"


def test_an_invalid_playbook_is_told_with_all_its_mistakes_and_nothing_is_run(noetl: Noetl, files: Path) -> None:
    assert noetl("run", "bad.yaml").code == 2
    assert json.loads(noetl("run", "bad.yaml", "--json").out)["diagnostics"]
    assert json.loads(noetl("ps", "--json").out) == []


def test_a_home_that_cannot_be_made_is_told_without_a_traceback(
    noetl: Noetl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("NOETL_HOME", str(folder / "file" / "home"))
    done = noetl("run", "choice.yaml")
    assert done.code == 1
    assert done.err.startswith("noetl: ")


def test_a_durability_that_does_not_exist_is_refused(noetl: Noetl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_DURABILITY", "eternal")
    done = noetl("run", "choice.yaml")
    assert done.code == 2
    assert "write `process`, or `power`" in done.err


def test_an_older_playbook_is_refused_by_the_name_it_was_given_and_with_a_command_to_copy(
    noetl: Noetl, folder: Path
) -> None:
    (folder / "old one.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: old}\nworkflow:\n"
        '  - {step: start, tool: {kind: python}, code: "result = 1"}\n'
    )
    done = noetl("run", "old one.yaml")
    assert done.code == 2
    assert done.err.startswith("old one.yaml:5:")
    assert "`noetl migrate 'old one.yaml'` rewrites it" in done.err
    assert "FILE" not in done.err
    assert str(folder) not in done.err


def test_a_playbook_that_was_run_before_is_run_again_by_its_path(noetl: Noetl, folder: Path) -> None:
    file = folder / "nightly.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: nightly, path: etl/nightly}\nworkflow:\n"
        "  - {step: a, tool: {kind: shell, cmd: 'printf %s \"$PWD\"', output: '{{ output.data.stdout }}'}}\n"
    )
    assert noetl("run", "nightly.yaml", "--json").code == 0
    again = noetl("run", "etl/nightly")
    assert again.code == 0
    assert again.err.startswith("runs what was recorded of nightly.yaml\n")
    assert str(folder) in again.err  # relative paths still start at its folder
    file.write_text(file.read_text().replace("printf", "false; printf"))
    again = noetl("run", "etl/nightly")
    assert again.code == 0
    assert "it was edited since, `noetl run nightly.yaml` runs it as it is now" in again.err
    file.unlink()
    again = noetl("run", "etl/nightly", "--json")
    assert (json.loads(again.out)["status"], again.err) == ("completed", "")


def test_a_path_that_nobody_ran_is_refused_and_makes_no_home(noetl: Noetl, home: Path) -> None:
    done = noetl("run", "etl/unknown")
    assert (done.code, done.out) == (2, "")
    assert "etl/unknown: there is no such file" in done.err
    assert "nor was a playbook run under that path" in done.err
    assert not home.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "choice.yaml", "--set", "a=\udcff"),
        ("run", "choice.yaml", "--payload", '{"a": "\udcff"}'),
        ("run", "choice.yaml", "--payload", "[" * 100_000),
        ("run", "\udcff.yaml"),
        ("run", "\udcff"),
        ("show", "\udcff"),
        ("signal", "last", "\udcff"),
        ("signal", "last", "ok", "[" * 100_000),
    ],
    ids=["set", "payload", "deep payload", "file", "path", "execution", "signal", "deep signal"],
)
def test_arguments_that_nobody_can_read_are_refused_without_a_traceback(
    noetl: Noetl, folder: Path, arguments: tuple[str, ...]
) -> None:
    (folder / "\udcff.yaml").write_text((folder / "choice.yaml").read_text())
    assert noetl("run", "choice.yaml", "--json").code == 0
    done = noetl(*arguments)
    assert done.code == 2
    assert done.err.startswith("noetl: ")


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_a_run_goes_on_when_nobody_can_be_told(shell: Shell, home: Path, closed: str) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", *shell.command("run", "slow.yaml")]
    environment = {**shell.environment, "NOETL_HOME": str(home), "PYTHONUNBUFFERED": ""}
    assert subprocess.run(command, check=False, env=environment, timeout=120).returncode == 0
    assert "completed" in shell("ps", NOETL_HOME=str(home)).out


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NOETL_HOME", "~nobody-of-that-name/x", "NOETL_HOME"),
        ("NOETL_SERVER", "elsewhere", "is no address of a server"),
        ("NOETL_BUS", "amqp://me:hush@elsewhere", "no address of a NATS server"),
        ("NOETL_STORE", "mysql://elsewhere", "NOETL_STORE is not the address of a store"),
    ],
)
def test_a_setting_that_cannot_be_kept_is_refused_before_anything_runs(
    noetl: Noetl, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    done = noetl("run", "choice.yaml")
    assert done.code == 2
    assert said in done.err
    assert "hush" not in done.err


def test_what_a_condition_saw_is_written_down_if_it_was_a_function_too(noetl: Noetl, playbooks: Path) -> None:
    arc = "next: {arcs: [{step: end, when: '{{ now is callable }}'}]}"
    (playbooks / "asks.yaml").write_text(
        HEAD % "asks" + f"- {{step: start, tool: {{kind: noop}}, {arc}}}\n- step: end\n"
    )
    assert noetl("run", "asks.yaml").code == 0
    assert '"now":"a function"' in noetl("events", "last", "--json").out

"""noetl migrate."""

from __future__ import annotations

import json
import os
import subprocess
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell


needs_dialects = pytest.mark.skipif(
    not hasattr(import_module("noetl.lang.legacy"), "migrate"), reason="the older dialects are not there yet"
)

OLD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: old}
workload: {n: 3}
workflow:
  - step: start
    args: {n: "{{ workload.n }}"} # kept
    tool: {kind: noop, output: "{{ input.n }}"}
"""


@needs_dialects
def test_a_file_is_rewritten_in_place_and_every_rewrite_is_told(noetl: Noetl, folder: Path) -> None:
    (folder / "old.yaml").write_text(OLD)
    result = noetl("migrate", "old.yaml")
    assert result.code == 0
    assert result.out == ""
    assert result.err.startswith("old.yaml:7: ")
    assert result.err.endswith("old.yaml: rewritten (1 rewritten)\n")
    assert 'input: {n: "{{ workload.n }}"} # kept' in (folder / "old.yaml").read_text()
    assert noetl("validate", "--strict", "old.yaml").code == 0


@needs_dialects
def test_check_exits_with_1_and_writes_nothing(noetl: Noetl, folder: Path, good: str) -> None:
    (folder / "old.yaml").write_text(OLD)
    (folder / "new.yaml").write_text(good)
    assert noetl("migrate", "--check", "old.yaml").code == 1
    assert noetl("migrate", "--check", "new.yaml").code == 0
    assert (folder / "old.yaml").read_text() == OLD


@needs_dialects
def test_stdout_is_a_playbook_and_nothing_else(noetl: Noetl, shell: Shell, folder: Path) -> None:
    (folder / "old.yaml").write_text(OLD)
    printed = noetl("migrate", "--stdout", "old.yaml").out
    assert printed.startswith("apiVersion: noetl.io/v2\n")
    assert shell("migrate", "-", given=OLD.encode()).out == printed
    assert (folder / "old.yaml").read_text() == OLD


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: [1\n", "error[yaml-syntax]"),
        (b"- 1\n", "error[wrong-type]"),
        (b"", "error[wrong-type]"),
        (b"name: caf\xe9\n", "old.yaml:1:10: error[yaml-syntax]"),
        (b"services: {}\n", "noetl: old.yaml: this is not a playbook"),
        (b"apiVersion: v1\nkind: Pod\n", "noetl: old.yaml: this is not a playbook"),
    ],
)
def test_what_is_no_playbook_at_all_exits_with_2(noetl: Noetl, folder: Path, data: bytes, said: str) -> None:
    (folder / "old.yaml").write_bytes(data)
    result = noetl("migrate", "old.yaml")
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert (folder / "old.yaml").read_bytes() == data


ASKED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asked}
workflow:
  - step: fetch
    tool: {kind: http, endpoint: "{{ env.HOST }}/users"}
    next: [{step: show}]
  - step: show
    tool:
      kind: python
      args: {n: "{{ fetch.total }}"}
      code: "result = n"
"""


def test_the_summary_of_a_file_says_what_was_rewritten_assumed_and_is_to_do(noetl: Noetl, folder: Path) -> None:
    (folder / "old.yaml").write_text(ASKED)
    result = noetl("migrate", "old.yaml")
    assert result.code == 0
    lines = result.err.splitlines()
    assert "old.yaml:6: assumed: `env.HOST` is not part of the language → `workload.HOST`" in lines
    todo = next(line for line in lines if "TODO: " in line)
    number = int(todo.split(":")[1])
    assert "# TODO noetl:" in (folder / "old.yaml").read_text().splitlines()[number - 1]
    assert lines[-1].startswith("old.yaml: rewritten (")
    assert lines[-1].endswith("assumed, 1 to do)")


def test_a_canonical_file_stays_as_it_is_and_its_open_decisions_are_told(noetl: Noetl, folder: Path, good: str) -> None:
    (folder / "new.yaml").write_text(f"{good}# TODO noetl: which\n")
    result = noetl("migrate", "new.yaml")
    assert result.code == 0
    number = (folder / "new.yaml").read_text().count("\n")
    assert result.err == f"new.yaml:{number}: TODO: which\nnew.yaml: already canonical (1 to do)\n"


def test_a_folder_is_migrated_file_by_file_and_one_that_fails_is_not_written(
    noetl: Noetl, folder: Path, good: str
) -> None:
    """Duplicate keys leave less than the text says, so that nothing may be made of it."""
    twice = OLD.replace("workload: {n: 3}", "workload: {n: 3}\nworkload: {n: 4}")
    for name, text in (("a", OLD), ("b", twice), ("c", good), ("d", "apiVersion: noetl.io/v2\nworkflow: [\n")):
        (folder / f"{name}.yaml").write_text(text)
    result = noetl("migrate", str(folder))
    assert result.code == 2
    assert "input:" in (folder / "a.yaml").read_text()
    assert (folder / "b.yaml").read_text() == twice
    assert (folder / "c.yaml").read_text() == good
    assert "not rewritten: line 5: `workload` is already given on line 4 [duplicate-key]" in result.err
    assert result.err.endswith("4 files: 1 rewritten, 1 already canonical, 2 not rewritten\n")


def test_the_report_as_json_is_one_document(noetl: Noetl, folder: Path, good: str) -> None:
    (folder / "a.yaml").write_text(ASKED)
    (folder / "b.yaml").write_text(good)
    result = noetl("migrate", "--report", "json", "--check", "a.yaml", "b.yaml")
    assert (result.code, result.err) == (1, "")
    document = json.loads(result.out)
    first, second = document["files"]
    assert (first["file"], first["status"], second["status"]) == ("a.yaml", "pending", "canonical")
    assert {one["code"] for one in first["assumed"]} == {"legacy-habit"}
    assert {(one["code"], one["line"]) for one in first["rewritten"]} >= {("legacy-next-list", 7)}
    assert first["todo"][0]["line"] == 6
    assert first["todo"][0]["result_line"] == 6
    assert document["summary"] == {
        "files": 2, "rewritten": 0, "pending": 1, "canonical": 1, "failed": 0, "todo": 1, "different": 0
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [("--stdout", "a.yaml"), ("-",)])
def test_report_and_playbook_do_not_both_go_to_stdout(noetl: Noetl, folder: Path, arguments: tuple[str, ...]) -> None:
    (folder / "a.yaml").write_text(OLD)
    result = noetl("migrate", "--report", "json", *arguments)
    assert result.code == 2
    assert "cannot both go to stdout" in result.err


def test_verify_writes_a_file_that_does_the_same(noetl: Noetl, folder: Path) -> None:
    (folder / "old.yaml").write_text(ASKED)
    result = noetl("migrate", "--verify", "old.yaml")
    assert result.code == 0, result.err
    assert "old.yaml:5: fetch: same (" in result.err
    assert "old.yaml:8: show: same (" in result.err
    assert "2 steps: 2 same" in result.err
    assert "# TODO noetl:" in (folder / "old.yaml").read_text()


def test_verify_writes_nothing_where_a_step_reads_something_else(noetl: Noetl, folder: Path) -> None:
    """`step.exit` came after failures too; the migrated text takes it for success, with a TODO."""
    exits = ASKED.replace(
        "next: [{step: show}]", "next: {arcs: [{step: show, when: \"{{ event.name == 'step.exit' }}\"}]}"
    )
    exits = exits.replace("{{ fetch.total }}", "1")
    (folder / "old.yaml").write_text(exits)
    result = noetl("migrate", "--verify", "old.yaml")
    assert result.code == 1, result.err
    assert (folder / "old.yaml").read_text() == exits
    assert "old.yaml:8: show: different, with status 404: " in result.err
    assert '    older:    {"input":{"n":' in result.err
    assert '    migrated: "not called"' in result.err
    assert "old.yaml: not rewritten: the migrated text does not do the same" in result.err


def test_verify_names_what_it_cannot_compare(noetl: Noetl, folder: Path) -> None:
    sink = ASKED.replace('/users"}', '/users", sink: [{tool: {kind: file, path: a.csv}}]}')
    (folder / "old.yaml").write_text(sink)
    result = noetl("migrate", "--verify", "--check", "old.yaml")
    assert "old.yaml:5: fetch: not compared: `sink` of a tool" in result.err
    assert "show: not compared: comes after `fetch`: `sink` of a tool" in result.err


def test_verify_runs_no_code_that_has_effects(noetl: Noetl, folder: Path) -> None:
    code = "import pathlib\nresult = pathlib.Path('left').write_text('x')\n"
    (folder / "old.yaml").write_text(ASKED.replace('"result = n"', json.dumps(code)))
    result = noetl("migrate", "--verify", "old.yaml")
    assert result.code == 0, result.err
    assert "its code was not run, since it imports `pathlib`" in result.err
    assert not (folder / "left").exists()


def test_verify_runs_no_tool_of_a_plugin(shell: Shell, folder: Path) -> None:
    about = folder / "site" / "marking-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: marking\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[noetl.tools]\nmark = tool_mark\n")
    source = (
        "from pathlib import Path\nfrom noetl.plugin import *\n"
        "KIND = ToolKind(name='mark', doc='d', keys={}, input=InputRole.CONFIGURES, output='x', effect_free=%s)\n"
        f"%sdef run(call, world):\n    Path({str(folder / 'left')!r}).touch()\n    return ok(1)\n"
    )
    paths = os.pathsep.join([str(folder / "site"), shell.environment["PYTHONPATH"]])
    environment = {**shell.environment, "PYTHONPATH": paths, "NOETL_HOME": str(folder / "home")}
    text = OLD + "    next: [{step: marked}]\n  - {step: marked, tool: {kind: mark}}\n"
    for effect_free, how in (("False", "async "), ("True", "")):
        (folder / "site" / "tool_mark.py").write_text(source % (effect_free, how))
        (folder / "old.yaml").write_text(text)
        done = subprocess.run(
            shell.command("migrate", "--verify", "old.yaml"),
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "compared on made-up answers" in done.stderr, done.stderr
        assert not (folder / "left").exists()

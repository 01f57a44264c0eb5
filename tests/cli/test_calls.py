"""What a playbook calls and is not there, and its warnings before a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.conftest import GOOD, ODD
from cli.playbooks import HEAD

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Noetl

pytestmark = pytest.mark.usefixtures("home")


def test_a_called_file_that_is_not_there_is_told_where_it_is_called(noetl: Noetl, folder: Path) -> None:
    steps = "  - {step: a, tool: {kind: playbook, path: no/such.yaml}}\n  - {step: end, tool: {kind: playbook, path: good.yaml}}\n"
    (folder / "calls.yaml").write_text(HEAD % "calls" + steps)
    (folder / "good.yaml").write_text(GOOD)
    code, out, _ = noetl("validate", "calls.yaml")
    assert code == 0
    assert "calls.yaml:5:" in out
    assert "there is no file `no/such.yaml` beside this playbook" in out
    assert "`good.yaml`" not in out
    assert noetl("validate", "calls.yaml", "--strict").code == 2
    assert [one["code"] for one in json.loads(noetl("validate", "calls.yaml", "--json").out)["diagnostics"]] == [
        "unreachable-step",
        "missing-playbook",
    ]


def test_warnings_are_told_briefly_before_a_run(noetl: Noetl, files: Path) -> None:
    code, out, told = noetl("run", "odd.yaml")
    assert code == 0
    assert out == ""
    assert told.startswith("odd.yaml:11: warning: ")
    assert "[unreachable-step]" in told
    assert "run `noetl validate odd.yaml` for details" in told
    assert noetl("run", "odd.yaml", "--json").err == ""
    assert "validate" not in noetl("run", "good.yaml").err


def test_of_many_warnings_the_first_are_told(noetl: Noetl, folder: Path) -> None:
    lost = "".join(f"  - {{step: lost_{n}, tool: {{kind: noop}}}}\n" for n in range(9))
    (folder / "many.yaml").write_text(ODD + lost)
    told = noetl("run", "many.yaml").err.splitlines()
    assert sum("warning: " in line for line in told) == 3
    assert "… and 7 more" in told


def test_a_folder_says_what_it_skips_and_takes_what_nearly_is_a_playbook(noetl: Noetl, files: Path) -> None:
    (files / "bad.yaml").unlink()
    (files / "compose.yaml").write_text("services: {db: {image: postgres}}\n")
    (files / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\n")
    code, _, told = noetl("validate", ".")
    assert code == 0
    assert "skipped, as no playbook: compose.yaml, pod.yaml" in told
    (files / "near.yaml").write_text(GOOD.replace("apiVersion:", "apiversion:"))
    (files / "kind.yaml").write_text(
        GOOD.replace("kind: Playbook", "kind: playbook").replace("noetl.io/v2", "noetl.io")
    )
    (files / "bare.yaml").write_text("workflow:\n  - step: start\n    tool: {kind: noop}\n")
    code, out, _ = noetl("validate", ".")
    assert code == 2
    assert all(f"{name}.yaml:" in out for name in ("near", "kind", "bare"))


INPUTS = (
    HEAD % "inputs" + "  - {step: start, tool: {kind: noop, output: '{{ workload.limit }}'}}\nworkload: {limit: 1}\n"
)


def test_a_set_that_can_have_no_effect_is_refused_with_the_nearest_input(noetl: Noetl, folder: Path) -> None:
    (folder / "inputs.yaml").write_text(INPUTS)
    code, _, told = noetl("run", "inputs.yaml", "--set", "limti=5")
    assert code == 2
    assert "the playbook has no input `limti`, and nothing in it reads one; did you mean `limit`?" in told
    assert noetl("run", "inputs.yaml", "--set", "zzz=5", "--plan").code == 2
    assert noetl("run", "inputs.yaml", "--set", "limit=5").code == 0


def test_a_payload_may_hold_more_than_is_read(noetl: Noetl, folder: Path) -> None:
    (folder / "inputs.yaml").write_text(INPUTS)
    assert noetl("run", "inputs.yaml", "--payload", '{"other": 1}').code == 0


@pytest.mark.parametrize("path", ["other", "other.yaml", "sub/other"])
def test_a_called_playbook_with_errors_is_told_with_its_first_one(noetl: Noetl, folder: Path, path: str) -> None:
    (folder / "sub").mkdir()
    for file in ("other.yaml", "sub/other.yaml"):
        (folder / file).write_text(HEAD % "other" + "  - {step: start, tool: {kind: nop}}\n")
    (folder / "calls.yaml").write_text(HEAD % "calls" + f"  - {{step: a, tool: {{kind: playbook, path: {path}}}}}\n")
    code, out, _ = noetl("validate", "calls.yaml")
    assert code == 0
    assert f"the playbook `{path}` has errors, the first at other.yaml:5: there is no tool kind `nop`" in out
    assert "[invalid-playbook]" in out or "invalid-playbook" in out
    assert noetl("validate", "calls.yaml", "--strict").code == 2


def test_a_path_that_no_playbook_of_the_folder_has_is_told(noetl: Noetl, folder: Path) -> None:
    (folder / "calls.yaml").write_text(HEAD % "calls" + "  - {step: a, tool: {kind: playbook, path: nowhere/to_be}}\n")
    assert "there is no playbook `nowhere/to_be` beside this one" in noetl("validate", "calls.yaml").out


def test_steps_that_the_called_playbook_does_not_have_are_told(noetl: Noetl, folder: Path) -> None:
    (folder / "good.yaml").write_text(GOOD)
    tool = "{kind: playbook, path: good, entry_step: strat, return_step: start}"
    (folder / "calls.yaml").write_text(HEAD % "calls" + f"  - {{step: a, tool: {tool}}}\n")
    out = noetl("validate", "calls.yaml").out
    assert "the playbook `good` has no step `strat` (`entry_step`)" in out
    assert "(`return_step`)" not in out


def test_a_playbook_that_calls_itself_is_not_told(noetl: Noetl, folder: Path) -> None:
    (folder / "self.yaml").write_text(HEAD % "self" + "  - {step: a, tool: {kind: playbook, path: self}}\n")
    assert noetl("validate", "self.yaml").out.count("playbook") <= 1


def test_a_revision_is_refused_before_anything_runs_and_by_a_template_when_it_is_called(
    noetl: Noetl, folder: Path
) -> None:
    (folder / "good.yaml").write_text(GOOD)
    steps = "  - {step: a, tool: {kind: playbook, path: good, version: %s}}\nworkload: {v: 3}\n"
    (folder / "calls.yaml").write_text(HEAD % "calls" + steps % "3")
    code, _, told = noetl("run", "calls.yaml")
    assert code == 2
    assert "revision `3` of the playbook is unknown" in told
    (folder / "later.yaml").write_text(HEAD % "later" + steps % "'{{ workload.v }}'")
    code, out, _ = noetl("run", "later.yaml", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (1, "playbook")

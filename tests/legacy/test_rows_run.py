"""Every row of the tables of older dialects runs: as it stands with `--legacy`, and migrated without, with the same outcome.

`ROWS` says what runs each of them: cases of the conformance suite, as area/name, and files of `rows/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from both_ways import Scene, both_ways, call
from match import expect_same  # type: ignore[import-not-found]

HERE = Path(__file__).parent
CASES = sorted((HERE / "rows").glob("*.yaml"))
CONFORMANCE = HERE.parent / "conformance" / "cases"
LANGUAGE = HERE.resolve().parents[2] / "shared" / "spec" / "LANGUAGE.md"
#: the start of each row of both tables, in their order → what runs it
ROWS = {
    "`args` (tool, step)": "legacy/args-become-input",
    "`next.arcs[].args`, read": "legacy/arc-args arc-args-of-two-tokens",
    "`outcome`, `outcome.result`": "legacy/outcome legacy/outcome-of-http examples/doc003-streaming-pagination",
    "`set_ctx`, `set_iter`": "legacy/outcome legacy/set-iter-and-vars examples/doc003-streaming-pagination",
    "`outcome.status == 'success'`, `result_ref`": "legacy/outcome-success result-ref",
    "`set_vars`, `set_shared`, `set_prev`": "legacy/set-iter-and-vars set-shared legacy/set-prev",
    "`vars.x` (step), root `vars`": "legacy/set-iter-and-vars legacy/root-vars",
    "tool `eval:": "legacy/eval-retry-and-jump legacy/eval-unmatched-error-fails",
    "step `when`": "legacy/step-when step-when-fires-once step-when-outside-of-the-oldest-dialect",
    "`next: [ … ]`, `spec.next_mode`": "legacy/next-list-fans-out legacy/next-list-with-conditions legacy/next-mode",
    "`loop: {collection,": "legacy/loop-collection legacy/loop-collection-parallel iterator-type",
    "`{{ element }}` bare": "legacy/loop-collection legacy/step-result",
    "step `result: name`": "legacy/step-result step-result-as-and-bind",
    "tool `result: name`": "tool-result-name legacy/tool-result-as legacy/tool-result-pick collect-list-and-merge",
    "tool `sink: […]`": "legacy/sink-with-chunks save-and-step-level-sink",
    "`chunk` on a": "chunk-of-a-database-tool",
    "in a sink: `args`": "sink-args sink-one-argument",
    "in a sink: the tool's result name": "sink-args sink-names-of-the-result",
    "in a sink: map form": "sink-spellings sink-auth",
    "`collect.mode: merge`": "collect-list-and-merge step-result-as-and-bind",
    "step-level `retry`": "step-level-retry",
    "`tool.spec.<config>`": "legacy/v1-tool-spec legacy/v1-step-type v1-step-that-calls",
    "`step.<id>.status.*`": "legacy/step-status-namespace",
    "`{{ name }}` bare": "legacy/bare-names legacy/step-result",
    "`workbook`/`secrets` tasks": "legacy/workbook-name-in-a-list secrets-in-a-list",
    "`pipe`, `case:": "pipe-and-case case-with-rules",
    "`{{ step_name.field }}`": "legacy/habit-step-names",
    "`input_data`, `result": "habit-python",
    "`shell` `cmds:`": "habit-tool-keys",
    "tool-level `timeout`": "habit-timeouts habit-tool-retry legacy/habit-timeout-and-retry",
    "`event.name` of": "legacy/habit-event-names habit-step-exit",
    "`execution_id`, `job": "habit-ids-and-environment",
    "`this`, `result`, `response`": "habit-names-in-rules",
    "`output.data.data`": "habit-data-data",
    "http `auth: {type": "habit-inline-auth habit-keychain habit-keychain-map",
    "`when:` with `else:`": "habit-rules-and-arcs",
    "`workbook` as a list": "habit-workbook-list",
    "keys one level": "habit-depth",
}


def read(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return case


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_row_runs_as_it_stands_and_migrated_with_the_same_outcome(path: Path, tmp_path: Path) -> None:
    case = read(path)
    scene = Scene(case.get("http", ()), case.get("files", {}), case.get("payload", {}), case.get("env", {}))
    found = both_ways(case["playbook"], tmp_path, scene, only_migrated=case.get("only_migrated", ()))
    expected = case["expect"]
    assert found.status == expected.get("status", "completed"), found.error
    for name, value in expected.items():
        expect_same(name, value, getattr(found, name), subset=name in ("ctx", "files", "steps", "error"))


def test_set_shared_in_a_parallel_loop_asks_for_its_reducer_both_ways(tmp_path: Path) -> None:
    text = read(HERE / "rows" / "set-shared.yaml")["playbook"].replace(
        "iterator: n", "iterator: n, spec: {mode: parallel}"
    )
    file = tmp_path / "playbook.yaml"
    file.write_text(text, encoding="utf-8")
    assert "parallel-ctx-write" in call("run", str(file), "--json", "--legacy")[1]
    assert call("migrate", str(file))[0] == 0
    assert "# TODO noetl: choose a reducer" in file.read_text(encoding="utf-8")
    assert "parallel-ctx-write" in call("run", str(file), "--json")[1]


def test_what_runs_a_row_is_there_and_nothing_runs_for_no_row() -> None:
    named = {name for names in ROWS.values() for name in names.split()}
    assert {name for name in named if "/" not in name} == {path.stem for path in CASES}
    for name in named:
        case = read(CONFORMANCE / f"{name}.yaml") if "/" in name else {"legacy": True}
        assert case.get("legacy"), f"{name} does not run both ways"


@pytest.mark.skipif(not LANGUAGE.exists(), reason="the language page is not part of this repository")
def test_every_row_of_both_tables_is_run() -> None:
    section = LANGUAGE.read_text(encoding="utf-8").split("## 13. ")[1].split("\n## ")[0]
    cells = [line.removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    rows = [cell for cell in cells if not cell.startswith(("older |", "habit |"))]
    assert len(rows) == len(ROWS)
    assert [row for row, start in zip(rows, ROWS, strict=True) if not row.startswith(start)] == []

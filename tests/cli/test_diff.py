"""noetl diff: two executions side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli.conftest import Noetl, Shell
from cli.playbooks import HEAD

WEIGH = (
    HEAD.replace("workflow", "workload: {total: 740, limit: 500, parts: [a, b]}\nworkflow") % "weigh"
    + """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: side}, {step: weigh}]}
  - {step: side, tool: {kind: noop, output: aside}}
  - step: weigh
    tool: {kind: noop, output: {large: "{{ workload.total > workload.limit }}"}}
    set: {ctx.order.large: "{{ output.data.large }}"}
    next:
      arcs:
        - {step: ask, when: "{{ workload.total > workload.limit }}"}
        - {step: pack}
  - {step: ask, tool: {kind: noop}}
  - step: pack
    loop: {in: "{{ workload.parts }}", iterator: part}
    tool: {kind: noop, output: "{{ iter.part }}"}
"""
)


def two(noetl: Noetl, folder: Path) -> tuple[str, str]:
    """A run that asks, and one that packs."""
    (folder / "weigh.yaml").write_text(WEIGH)
    noetl("run", "weigh.yaml")
    noetl("run", "weigh.yaml", "--set", "total=20")
    second, first = (one["execution_id"] for one in json.loads(noetl("ps", "--json").out)[:2])
    return first, second


def test_the_point_where_they_part_stands_with_its_guard_and_both_values(
    noetl: Noetl, folder: Path, home: Path
) -> None:
    said = noetl("diff", *two(noetl, folder))
    assert said.code == 0
    assert "behind weigh-1\n" in said.out
    guard = "ask: {{ workload.total > workload.limit }}  (workload.total = "
    assert "went to ask\n" in said.out
    assert f"✓ {guard}740, workload.limit = 500)" in said.out
    assert "went to pack\n" in said.out
    assert f"✗ {guard}20, workload.limit = 500)" in said.out
    assert "workload.total: 740 → 20" in said.out
    assert "ctx.order.large: true → false" in said.out
    assert "output.data.large: true → false" in said.out
    assert "\x1b" not in said.out


def test_as_data_it_has_every_part(noetl: Noetl, folder: Path, home: Path) -> None:
    found: dict[str, Any] = json.loads(noetl("diff", *two(noetl, folder), "--json").out)
    assert found["same"] is False
    assert found["parting"]["a"]["taken"] == ["ask"]
    assert found["parting"]["b"]["taken"] == ["pack"]
    assert found["workload"] == [{"path": "workload.total", "a": 740, "b": 20}]
    steps = {one["step"]: one for one in found["steps"]}
    assert steps["ask"]["b"] is None
    assert steps["pack"]["a"] is None
    assert steps["pack"]["b"]["loop"]["completed"] == 2
    assert found["playbook"] is None


def test_the_same_twice_came_to_the_same(noetl: Noetl, folder: Path, home: Path) -> None:
    first, _ = two(noetl, folder)
    noetl("rerun", first, "--yes")
    said = noetl("diff", first, "last").out
    assert "they came to the same" in said
    assert "where they part" not in said
    assert json.loads(noetl("diff", first, "last", "--json").out)["same"] is True


def test_playbooks_that_differ_are_shown_with_the_step(noetl: Noetl, folder: Path, home: Path) -> None:
    first, _ = two(noetl, folder)
    (folder / "other.yaml").write_text(WEIGH.replace("output: aside", "output: away"))
    noetl("run", "other.yaml")
    said = noetl("diff", first, "last").out
    assert "+++ other.yaml" in said
    assert "@@ step side" in said
    assert "+  - {step: side, tool: {kind: noop, output: away}}" in said
    assert 'output.data: "aside" → "away"' in said


def test_a_token_that_was_let_in_on_one_side_only_is_told(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "gate.yaml").write_text(
        HEAD.replace("workflow", "workload: {open: true}\nworkflow") % "gate"
        + """\
  - {step: start, next: {arcs: [{step: gate}]}}
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ workload.open }}", then: {allow: true}}]}}}
    tool: {kind: noop}
"""
    )
    noetl("run", "gate.yaml")
    noetl("run", "gate.yaml", "--set", "open=false")
    second, first = (one["execution_id"] for one in json.loads(noetl("ps", "--json").out)[:2])
    said = noetl("diff", first, second).out
    assert "at gate-1" in said
    assert "gate was admitted" in said
    assert "✗ {{ workload.open }}  (workload.open = false)" in said
    assert "stalled at gate" in said
    assert "at gate-1" in noetl("diff", second, first).out


def test_different_playbooks_and_unfinished_runs_can_be_compared(noetl: Noetl, playbooks: Path) -> None:
    noetl("run", "choice.yaml")
    noetl("run", "failing.yaml")
    second, first = (one["execution_id"] for one in json.loads(noetl("ps", "--json").out)[:2])
    said = noetl("diff", first, second)
    assert said.code == 0
    assert "B  step start, task flaky: template:" in said.out
    assert "never ran" in said.out


def test_colours_are_for_terminals(shell: Shell, noetl: Noetl, folder: Path, home: Path) -> None:
    first, second = two(noetl, folder)
    assert "\x1b[1mwhere they part" in shell.at_terminal("diff", first, second, NOETL_HOME=str(home))


def test_an_unknown_execution_is_refused(noetl: Noetl, folder: Path, home: Path) -> None:
    first, _ = two(noetl, folder)
    result = noetl("diff", first, "zzz")
    assert result.code == 2
    assert "zzz" in result.err


LARGE = (
    HEAD.replace("workflow", "workload: {k: 2}\nworkflow") % "large"
    + """\
  - step: make
    tool:
      kind: python
      input: {k: "{{ workload.k }}"}
      code: |
        def main(k):
            return [{"id": i, "v": i * k, "text": "x" * 20} for i in range(3000)]
    set: {ctx.rows_ref: "{{ output.ref }}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ ctx.rows_ref }}", iterator: row, spec: {mode: parallel}}
    tool: {kind: noop, output: "{{ iter.row }}"}
"""
)


def test_what_is_stored_is_compared_by_its_content_and_not_by_its_place(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "large.yaml").write_text(LARGE)
    runs = [json.loads(noetl("run", "large.yaml", "--set", f"k={k}", "--json").out)["execution_id"] for k in (2, 2, 3)]
    same = noetl("diff", *runs[:2])
    assert "they came to the same" in same.out
    other: dict[str, Any] = json.loads(noetl("diff", *runs[1:], "--json").out)
    steps = {one["step"]: one for one in other["steps"]}
    assert [change["path"] for change in steps["make"]["output"]] == [
        "output.data.stored.bytes",
        "output.data.stored.sha256",
    ]
    assert "output.data.stored.sha256" in [change["path"] for change in steps["each"]["output"]]
    assert "ctx.rows_ref.stored.sha256" in [change["path"] for change in other["ctx"]]
    assert other["same"] is False


def test_a_stored_list_that_is_gone_is_not_called_the_same(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "large.yaml").write_text(LARGE)
    runs = [json.loads(noetl("run", "large.yaml", "--json").out)["execution_id"] for _ in range(2)]
    for index in (home / "results" / runs[0]).glob("*.parts.json.zst"):
        index.unlink()
    said = noetl("diff", *runs)
    assert said.code == 0
    assert "they came to the same" not in said.out
    assert 'unreadable: "it is gone"' in said.out

"""noetl explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl


FLOW = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flow, path: demo/flow}
executor: {spec: {timeout: 30}}
keychain: [{name: api, kind: bearer}]
workload: {cities: [a, b]}
workflow:
  - step: start
    desc: Where it starts
    next: {arcs: [{step: each, set: {ctx.n: 1}}]}
  - step: each
    input: {n: "{{ ctx.n }}"}
    spec:
      policy:
        admit:
          fire: once
          rules: [{when: "{{ done('start') }}", then: {allow: true}}, {else: {then: {allow: false}}}]
          join: {from: {start: 2}, rest: ignore}
        lifecycle: {timeout_s: 60}
    loop: {in: "{{ workload.cities }}", iterator: city, spec: {mode: parallel, max_in_flight: 5}}
    tool:
      - name: compute
        kind: python
        input: {city: "{{ iter.city }}", n: "{{ input.n }}"}
        code: |
          def main(city, n):
              return [city, n]
        set: {iter.seen: true}
        spec:
          network: "on"
          policy:
            on_unmatched: fail
            rules:
              - when: "{{ output.error.kind == 'timeout' }}"
                then: {do: retry, attempts: 4, set: {iter.late: true}}
      - choose:
          - when: "{{ iter.seen }}"
            then: [{name: yes, kind: noop, output: "{{ _prev }}"}]
    output: "{{ output.data | length }}"
    set: {ctx.all: "{{ output.data }}"}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: end, when: "{{ ctx.all }}"}
        - {terminate: failed, when: "{{ event.name == 'step.failed' }}", cancel: [end]}
  - step: end
workbook:
  greet: {kind: noop, output: hello}
"""


@pytest.fixture
def flow(folder: Path) -> str:
    (folder / "flow.yaml").write_text(FLOW)
    return "flow.yaml"


def test_the_whole_net_is_told_in_words(noetl: Noetl, flow: str) -> None:
    result = noetl("explain", flow)
    assert (result.code, result.err) == (0, "")
    for line in (
        "playbook    flow, path demo/flow",
        "order       start → each → end",
        "keychain    api: bearer",
        "  router      no task; the server ends it at once",
        "  from        the start of the execution",
        "  next        each  on success",
        "                set ctx.n = 1",
        "  input       n = {{ ctx.n }}",
        "  admitted    when {{ done('start') }} → yes",
        "              else → no",
        "  fires       once in an execution",
        "  join        all of start ×2; rest: ignore",
        "  loop        for each city in {{ workload.cities }}, parallel",
        "              max_in_flight: 5",
        "  timeout_s   60 s",
        "    code        def main(city, n): … (2 lines)",
        "                an error that no rule matches → fail",
        "    spec        timeout = 30  (executor.spec)",
        "                network = on  (task.spec)",
        "  next, all   end  when {{ ctx.all }}",
        '                cancel ["end"]',
        "workbook greet",
    ):
        assert f"\n{line}" in f"\n{result.out}", line
    assert "task yes  noop  line 38  of choose choose_2\n" in result.out
    assert result.out.endswith(
        "\npasses      read → lower → shape → build → check → compile → analyze  (how the file was read; --json says what each does)\n"
    )


def test_maps_of_a_tool_are_told_key_by_key(noetl: Noetl, folder: Path) -> None:
    source, targets = "{kind: file, path: in.csv}", "[{kind: file, path: a.csv}, {kind: s3, bucket: b, path: c}]"
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n  - step: start\n"
    (folder / "copy.yaml").write_text(f"{head}    tool: {{kind: transfer, source: {source}, targets: {targets}}}\n")
    assert (
        "    source      kind = file\n"
        "                path = in.csv\n"
        "    targets     - kind = file\n"
        "                  path = a.csv\n"
        "                - kind = s3\n"
        "                  bucket = b\n"
        "                  path = c\n"
    ) in noetl("explain", "copy.yaml").out


def test_text_inside_of_a_map_stands_under_its_key(noetl: Noetl, folder: Path) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n  - step: start\n"
    (folder / "note.yaml").write_text(
        f"{head}    tool:\n      kind: noop\n      output:\n        note: |\n          one\n          two\n        n: 1\n"
    )
    assert ("    output      note =\n                  one\n                  two\n                n = 1\n") in noetl(
        "explain", "note.yaml", "start"
    ).out


def test_one_step_is_told_with_all_its_text(noetl: Noetl, flow: str) -> None:
    told = noetl("explain", flow, "each").out
    assert told.startswith("step each  line 11\n")
    assert "    code\n      def main(city, n):\n          return [city, n]\n" in told
    assert "step start" not in told


def test_the_same_as_data(noetl: Noetl, flow: str) -> None:
    whole = json.loads(noetl("explain", flow, "--json").out)
    step = json.loads(noetl("explain", flow, "each", "--json").out)
    assert whole["order"] == ["start", "each", "end"]
    assert whole["steps"][1] == step
    assert step["tasks"][0]["spec"]["timeout"] == {"value": 30, "origin": "executor.spec"}


def test_an_unknown_step_is_answered_with_the_nearest(noetl: Noetl, flow: str) -> None:
    assert noetl("explain", flow, "eech") == (
        2,
        "",
        "noetl: flow.yaml: there is no step `eech`; did you mean `each`?\n",
    )
    assert "steps: start, each, end" in noetl("explain", flow, "wholly_other").err


def test_an_invalid_playbook_is_answered_with_its_problems(noetl: Noetl, files: Path) -> None:
    result = noetl("explain", "bad.yaml")
    assert (result.code, result.out) == (2, "")
    assert "error[unknown-kind]" in result.err
    result = noetl("explain", "bad.yaml", "--json")
    assert (result.code, len(json.loads(result.out)["diagnostics"])) == (2, 2)


def test_a_folder_is_no_file(noetl: Noetl, folder: Path) -> None:
    assert noetl("explain", ".") == (2, "", "noetl: .: this is a folder, not a file\n")


def test_what_cannot_happen_is_not_explained_and_whole_numbers_are_written_whole(noetl: Noetl, folder: Path) -> None:
    rules = "[{when: '{{ output.status == \"error\" }}', then: {do: retry}}]"
    (folder / "p.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\nworkflow:\n"
        f"  - {{step: a, tool: {{kind: shell, cmd: x, spec: {{policy: {{rules: {rules}}}}}}}}}\n"
    )
    told = noetl("explain", "p.yaml").out
    assert "no rule matches" not in told
    assert told.count("max_delay 300\n") == 1

"""Names, `args` and constructs in the wild run: as they stand, and migrated, with the same outcome, and the right one."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from both_ways import Outcome, Scene, both_ways, migrated, perform

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"


def v10_both_ways(body: str, folder: Path, *, left: bool = False) -> Outcome:
    """A v10 text without a flag, and migrated; `left` says that migration leaves the `args` where they are."""
    text = HEAD + textwrap.dedent(body)
    old = perform(text, folder / "old", Scene())
    if left:
        return old
    new = perform(migrated(text, folder), folder / "new", Scene())
    before, after = asdict(old), asdict(new)
    for one in (before, after):  # what arcs carried is in `ctx` now
        one.pop("ctx")
    assert before == after
    return old


def test_names_that_the_document_defines_are_read_everywhere(tmp_path: Path) -> None:
    text = """\
    workload: {payload: {user: 7}, namespace: prod, env: {name: dev}, loop: {total: 4}}
    workflow:
      - step: job
        result: error
        tool: {kind: python, code: "def main():\\n    return {'uuid': 'mine', 'kind': 'own'}\\n"}
        next: [{step: each, when: "{{ error.kind == 'own' and loop.total == 4 }}"}]
      - step: each
        result: rows
        loop: {collection: [{n: 1}, {n: 2}], element: event}
        tool: {kind: python, args: {code: "{{ event.n + loop.total }}"}, code: "def main(code):\\n    return code\\n"}
        next: [{step: show, when: "{{ rows == [5, 6] }}"}]
      - step: show
        tool:
          kind: python
          args: {a: "{{ job.uuid }}", b: "{{ payload['user'] }}", c: "{{ none | default(namespace, true) }}", d: "{% for x in rows %}{{ x }}{{ env.name }}{% endfor %}"}
          code: "def main(a, b, c, d):\\n    return [a, b, c, d]\\n"
    """
    found = both_ways(HEAD + textwrap.dedent(text), tmp_path, Scene())
    assert found.status == "completed", found.error
    assert found.output == ["mine", 7, "prod", "5dev6dev"]


def test_args_of_a_cycle_are_handed_on(tmp_path: Path) -> None:
    found = v10_both_ways(
        """\
        workflow:
          - step: start
            next: {arcs: [{step: page, args: {n: 1, seen: []}}]}
          - step: page
            tool: {kind: python, args: {n: "{{ args.n }}"}, code: "def main(n):\\n    return n * 10\\n"}
            next:
              arcs:
                - {step: page, when: "{{ args.n < 3 }}", args: {n: "{{ args.n + 1 }}", seen: "{{ args.seen + [output.data] }}"}}
                - {step: show, args: {seen: "{{ args['seen'] + [output.data] }}"}}
          - {step: show, tool: {kind: noop, output: "{{ args.seen }}"}}
        """,
        tmp_path,
    )
    assert found.output == [10, 20, 30]


def test_concurrent_tokens_keep_their_own_args_to_the_end_of_their_step(tmp_path: Path) -> None:
    """The first token's step outlives the arrival of the second: its arc still sees what it brought itself."""
    body = """\
    workflow:
      - step: start
        next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
      - {step: a, tool: {kind: noop}, next: {arcs: [{step: work, args: {k: slow, s: 0.5}}]}}
      - {step: b, tool: {kind: noop}, next: {arcs: [{step: work, args: {k: fast, s: 0}}]}}
      - step: work
        tool: {kind: python, args: {s: "{{ args.s }}"}, code: "import time\\ndef main(s):\\n    time.sleep(s)\\n    return s\\n"}
        next: {arcs: [{step: slow, when: "{{ args.k == 'slow' }}"}, {step: fast, when: "{{ args.k == 'fast' }}"}]}
      - {step: slow, tool: {kind: noop}}
      - {step: fast, tool: {kind: noop}}
    """
    text = HEAD + textwrap.dedent(body)
    made = migrated(text, tmp_path)
    assert "input.k == 'slow'" in made
    for name, one in {"old": text, "new": made}.items():
        found = perform(one, tmp_path / name, Scene())
        assert (found.steps["slow"]["runs"], found.steps["fast"]["runs"]) == (1, 1), found.steps


def test_tokens_that_wait_together_are_not_migrated_into_one_key(tmp_path: Path) -> None:
    body = """\
    workflow:
      - step: start
        next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
      - {step: a, tool: {kind: noop}, next: {arcs: [{step: work, args: {k: 1}}]}}
      - {step: b, tool: {kind: noop}, next: {arcs: [{step: work, args: {k: 2}}]}}
      - step: work
        spec: {policy: {admit: {rules: [{when: "{{ done('a') and done('b') and args.k == 1 }}", then: {allow: true}}]}}}
        tool: {kind: noop, output: "{{ args.k }}"}
    """
    assert v10_both_ways(body, tmp_path, left=True).output == 1


def test_args_that_nothing_brings_are_empty(tmp_path: Path) -> None:
    found = v10_both_ways(
        """\
        workflow:
          - step: start
            tool: {kind: python, args: {n: "{{ args.n | default(4) }}"}, code: "def main(n):\\n    return n\\n"}
            next: {arcs: [{step: end, when: "{{ args.x is not defined }}"}]}
          - {step: end, tool: {kind: noop, output: "{{ args.y | default('none') }}"}}
        """,
        tmp_path,
    )
    assert found.output == "none"


WILD: dict[str, tuple[str, Any]] = {
    "branches that meet": (
        """\
        workflow:
          - {step: start, next: [{step: a}, {step: b b}]}
          - {step: a, tool: {kind: noop, output: 1}, next: [{step: both}]}
          - {step: b b, tool: {kind: python, libs: {nap: {from: time, import: sleep}}, code: "nap(0.2)\\nresult = 2"}, next: [{step: both}]}
          - {step: both, tool: {kind: noop, output: "{{ a }}"}}
        """,
        1,
    ),
    "a cursor": (
        """\
        workflow:
          - step: fill
            tool: {kind: duckdb, database: q.duckdb, commands: ["CREATE OR REPLACE TABLE q AS SELECT i AS id, false AS seen FROM range(3) r(i)"]}
            next: [{step: work}]
          - step: work
            loop:
              cursor: {kind: duckdb, file: q.duckdb, claim: "UPDATE q SET seen = true WHERE id = (SELECT min(id) FROM q WHERE NOT seen) RETURNING id"}
              iterator: item
              spec: {mode: cursor, max_in_flight: 1}
            tool: [{name: show, kind: noop, output: "{{ item.id * 10 }}", set: {iter.last: "{{ output.data }}"}}]
            next: [{step: count}]
          - {step: count, tool: {kind: duckdb, database: q.duckdb, query: "SELECT count(*) AS n FROM q WHERE seen"}}
        """,
        [{"n": 3}],
    ),
    "a workbook with an assertion": (
        """\
        workbook:
          - {name: double, tool: python, assert: {expects: [size], returns: [twice]}, code: "def main(size):\\n    return {'twice': size * 2}\\n"}
        workflow:
          - {step: start, tool: {kind: workbook, name: double, args: {size: 4}}}
        """,
        {"twice": 8},
    ),
}


@pytest.mark.parametrize("name", WILD)
def test_a_construct_in_the_wild_runs_both_ways(name: str, tmp_path: Path) -> None:
    body, output = WILD[name]
    found = both_ways(HEAD + textwrap.dedent(body), tmp_path, Scene())
    assert found.status == "completed", found.error
    assert found.output == output

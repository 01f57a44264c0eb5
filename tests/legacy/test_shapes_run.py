"""Older results read in their older shape, in plain words and in disguise: as they stand with `--legacy`, and migrated.

Every reader must find what the older engine gave it: what came of both runs is compared with the right values.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from both_ways import Scene, both_ways

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: shapes}\n"
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child}
workload: {n: 1}
workflow:
  - step: start
    tool: {kind: noop, output: {score: "{{ workload.n * 2 }}"}}
"""
USERS = {"path": "/users", "reply": {"status": 201, "json": {"items": [{"id": 4}, {"id": 5}], "total": 2}}}

QUERY = """\
- step: ask
  tool: {kind: duckdb, commands: "SELECT 3 AS n, 'x' AS t UNION ALL SELECT 4, 'y' ORDER BY n"}
"""
HTTP = """\
- step: ask
  tool: {kind: http, method: GET, endpoint: "{{ workload.api_url }}/users"}
"""
LOOP = """\
- step: ask
  loop: {collection: "{{ workload.numbers }}", element: number}
  tool: {kind: python, args: {i: "{{ number }}"}, code: "def main(i):\\n    return {'n': i * 10}\\n"}
"""
PLAYBOOK = """\
- step: ask
  tool: {kind: playbook, path: child, payload: {n: 21}}
"""
PIPELINE = """\
- step: ask
  tool:
    - {name: fetch, kind: python, code: "def main():\\n    return {'items': [1, 2, 3]}\\n"}
    - {name: done, kind: python, code: "def main():\\n    return 'last'\\n"}
"""
PYTHON = """\
- step: ask
  tool: {kind: python, code: "def main():\\n    return {'n': 5}\\n"}
"""
OWN_DATA = """\
- step: ask
  tool: {kind: python, code: "def main():\\n    found = {'k': 6}\\n    return {'n': 5, 'data': found, 'rows': [7]}\\n"}
"""
HTTP_LOOP = """\
- step: ask
  loop: {collection: "{{ workload.numbers }}", element: number}
  tool: {kind: http, method: GET, endpoint: "{{ workload.api_url }}/users"}
"""
SCENE = Scene(routes=[USERS], files={"child.yaml": CHILD}, payload={"numbers": [1, 2]})

#: by writer: code that reads its result as `r`, and what that gives
CODES: dict[str, list[tuple[str, Any]]] = {
    QUERY: [
        ("result = r['row_count']", 2),
        ("rows = r.get('rows') or []\nresult = [row['n'] for row in rows]", [3, 4]),
        ("data = r if isinstance(r, dict) else {}\nresult = sum(row.get('n', 0) for row in data.get('rows', []))", 7),
        (
            "def rows_of(answer):\n    return answer.get('command_0', {}).get('rows', [])\ndef main(r):\n    return len(rows_of(r))\n",
            2,
        ),
        ("first, *rest = r['rows']\nresult = f\"{first['t']}{len(rest)}\"", "x1"),
        ("result = sorted(k for k in r.keys() if k in ('rows', 'row_count'))", ["row_count", "rows"]),
        ("result = [row['t'] for row in r]", ["x", "y"]),
        ("count, columns = r['row_count'], r['columns']\nresult = [count, columns]", [2, ["n", "t"]]),
        ("result = input_data['r']['rows'][-1]['n']", 4),
        (
            "def main(**kwargs):\n    found = kwargs['r']\n    for key, value in found.items():\n        if key == 'rows':\n            return len(value)\n    return None\n",
            2,
        ),
        (
            "out = []\nfor i, row in enumerate(r['data']['rows'] if 'data' in r else r['rows']):\n    out.append([i, row['n']])\nresult = out",
            [[0, 3], [1, 4]],
        ),
        ("key = 'row' + '_count'\nresult = r[key]", 2),
    ],
    HTTP: [
        ("result = [r['status_code'], r['data']['total']]", [201, 2]),
        ("body = r.get('body') or r.get('data') if isinstance(r, dict) else []\nresult = len(body['items'])", 2),
        (
            "def body_of(answer):\n    wrapped = answer\n    return wrapped.get('data', {})\ndef main(r):\n    return [i['id'] for i in body_of(r).get('items', [])]\n",
            [4, 5],
        ),
        ("ok = (r or {}).get('status_code') == 201\nresult = ok", True),
        ("result = r['total']", 2),
        ("result = 'application/json' in r['headers']['content-type']", True),
        (
            "result = sorted(r) if isinstance(r, dict) and 'elapsed' in r else []",
            ["data", "elapsed", "headers", "status_code", "url"],
        ),
    ],
    LOOP: [
        ("result = [r['stats']['total'], r['stats']['success'], r['stats']['failed']]", [2, 2, 0]),
        (
            "results = r.get('results', []) if isinstance(r, dict) else []\nresult = sum(one['n'] for one in results)",
            30,
        ),
        (
            "def total(answer):\n    stats = answer.get('stats') or {}\n    return stats.get('total', -1)\ndef main(r):\n    return total(r)\n",
            2,
        ),
        ("result = max(r, key=lambda one: one['n'])['n']", 20),
        ("result = {str(i): one['n'] for i, one in enumerate(r['results'])}", {"0": 10, "1": 20}),
    ],
    PLAYBOOK: [
        ("result = [r['status'], r['result']['score']]", ["completed", 42]),
        ("child = r.get('result') or {}\nresult = child.get('score', 0)", 42),
        ("result = len(r['execution_id']) > 4 and r.get('status') == 'completed'", True),
        ("result = r['score']", 42),
    ],
    PIPELINE: [
        ("result = [r['results']['fetch']['items'], r['results']['done']]", [[1, 2, 3], "last"]),
        ("by_task = r.get('results', {})\nresult = len(by_task.get('fetch', {}).get('items', []))", 3),
    ],
    PYTHON: [
        ("result = r['n']", 5),
        ("result = r['data']['n']", 5),
        ("inner = r.get('data', r)\nresult = inner['n']", 5),
        ("inner = r['result'] if 'result' in r else r\nresult = inner['n']", 5),
    ],
    OWN_DATA: [
        ("result = [r['n'], r['data']['k'], r['rows'][0]]", [5, 6, 7]),
        ("inner = r.get('data') or {}\nresult = inner.get('k')", 6),
    ],
    HTTP_LOOP: [
        ("result = [one['data']['total'] for one in r['results']]", [2, 2]),
        ("result = [one.get('status_code') for one in r.get('results', [])] + [r['stats']['failed']]", [201, 201, 0]),
    ],
}

#: by writer: templates that read its result, and what they give
TEMPLATES: dict[str, list[tuple[str, Any]]] = {
    QUERY: [
        ("{{ ask.row_count }}", 2),
        ("{{ ask.data.rows[0].n + ask['row_count'] }}", 5),
        ("{{ ask.get('rows', [])[1].t }}", "y"),
        ("{{ ask.command_0.rows | map(attribute='n') | sum }}", 7),
        ("{% for row in ask.rows %}{{ row.t }}{% endfor %}", "xy"),
        ("{% set found = ask %}{{ found.row_count }}", "2"),
        ("{{ (ask.get('command_0', {}).get('rows', []) | first).n }}", 3),
        ("{{ ask.columns | join(',') }}", "n,t"),
        ("{{ ask | jsonpath('$.rows[*].t') }}", ["x", "y"]),
        ("{{ ask | attr('row_count') }}", 2),
        ("{{ ask.rows | length if ask.row_count > 1 else 0 }}", 2),
        ("{{ (ask.row_count | default(0)) * 2 }}", 4),
        ("{{ ask | length }}", 2),
    ],
    HTTP: [
        ("{{ ask.status_code }}", 201),
        ("{{ ask.data.total ~ ask['data']['items'][0].id }}", "24"),
        ("{{ ask.body['items'] | length }}", 2),
        ("{{ ask.get('status_code', 0) in [200, 201] }}", True),
        ("{{ ask.url.endswith('/users') }}", True),
        ("{{ ask.total }}", 2),
        ("{% if ask.status_code == 201 %}made{% endif %}", "made"),
    ],
    LOOP: [
        ("{{ ask.results[0].n }}", 10),
        ("{{ ask.results | length + ask.stats.total }}", 4),
        ("{{ ask.stats.get('failed', 9) }}", 0),
        ("{% for one in ask.results %}{{ one.n }}{% endfor %}", "1020"),
        ("{{ ask[1].n }}", 20),
        ("{{ ask.stats }}", {"total": 2, "success": 2, "failed": 0}),
    ],
    PLAYBOOK: [
        ("{{ ask.result.score }}", 42),
        ("{{ ask.status == 'completed' and ask.get('result').score == 42 }}", True),
        ("{{ ask.score }}", 42),
    ],
    PIPELINE: [
        ("{{ ask.results.fetch['items'] | length }}", 3),
        ("{{ ask.results['done'] }}", "last"),
        ("{{ ask }}", "last"),
    ],
    PYTHON: [("{{ ask.data.n + ask.result.n + ask.n }}", 15)],
    OWN_DATA: [("{{ ask.data.k + ask.rows[0] + ask.n }}", 18), ("{{ ask.get('data').k }}", 6)],
    HTTP_LOOP: [("{{ ask.results[0].data.total + ask[1].data.total }}", 4), ("{{ ask.results[1].status_code }}", 201)],
}
NAMES = {QUERY: "query", HTTP: "http", LOOP: "loop", PLAYBOOK: "playbook", PIPELINE: "pipeline", PYTHON: "python",
         OWN_DATA: "own-data", HTTP_LOOP: "http-loop"}  # fmt: skip


def _chain(writer: str, readers: list[str]) -> str:
    """A playbook that runs a writer, then each reader; what reader 3 gave is `ctx.out_3`."""
    steps = [textwrap.indent(writer, "  ") + "    next: [{step: reader_0}]\n"]
    for at, tool in enumerate(readers):
        after = f"    next: [{{step: reader_{at + 1}}}]\n" if at + 1 < len(readers) else ""
        steps.append(
            f"  - step: reader_{at}\n    tool: {tool}\n    set: {{ctx.out_{at}: '{{{{ output.data }}}}'}}\n{after}"
        )
    return f"{HEAD}workflow:\n{''.join(steps)}"


@pytest.mark.parametrize("writer", CODES, ids=lambda writer: NAMES[writer])
def test_code_reads_an_older_result_in_its_older_shape(writer: str, tmp_path: Path) -> None:
    cases = CODES[writer]
    readers = [json.dumps({"kind": "python", "args": {"r": "{{ ask }}"}, "code": code}) for code, _ in cases]
    outcome = both_ways(_chain(writer, readers), tmp_path, _scene(), without={"ask"})
    assert outcome.status == "completed", outcome.error
    assert [outcome.ctx[f"out_{at}"] for at in range(len(cases))] == [given for _, given in cases]


@pytest.mark.parametrize("writer", TEMPLATES, ids=lambda writer: NAMES[writer])
def test_templates_read_an_older_result_in_its_older_shape(writer: str, tmp_path: Path) -> None:
    cases = TEMPLATES[writer]
    readers = [json.dumps({"kind": "noop", "output": text}) for text, _ in cases]
    outcome = both_ways(_chain(writer, readers), tmp_path, _scene(), without={"ask"})
    assert outcome.status == "completed", outcome.error
    assert [outcome.ctx[f"out_{at}"] for at in range(len(cases))] == [given for _, given in cases]


def _scene() -> Scene:
    return SCENE


RULES = """\
workflow:
  - step: claim
    tool:
      - name: take
        kind: duckdb
        command: "SELECT range AS n FROM range({{ workload.most }})"
        spec: {policy: {rules: [{when: "{{ output.data.row_count == 0 }}", then: {do: break, set: {ctx.none: true}}}, {else: {then: {do: continue}}}]}}
        set: {iter.taken: "{{ output.data.rows }}"}
      - {name: work, kind: python, args: {rows: "{{ _prev.rows }}", taken: "{{ iter.taken }}"}, code: "result = [len(rows), len(taken)]"}
    next: [{step: fin, when: "{{ claim is defined }}"}]
  - {step: fin, tool: {kind: noop}}
"""


@pytest.mark.parametrize(("most", "ctx"), [(0, {"none": True}), (2, {})])
def test_a_rule_and_a_set_of_a_query_read_its_rows(most: int, ctx: dict[str, Any], tmp_path: Path) -> None:
    outcome = both_ways(HEAD + RULES, tmp_path, Scene(payload={"most": most}), without={"claim"})
    assert outcome.status == "completed"
    assert outcome.ctx == ctx


FAILING = """\
workflow:
  - step: ask
    tool: {kind: duckdb, command: "SELECT * FROM nowhere"}
    set: {ctx.n: "{{ output.data.row_count }}"}
    next:
      arcs:
        - {step: many, when: "{{ output.data.row_count > 0 }}"}
        - {step: failed, when: "{{ event.name == 'call.error' }}"}
  - {step: many, tool: {kind: noop}}
  - {step: failed, tool: {kind: noop}}
"""


def test_a_query_that_failed_has_no_number_of_rows_and_its_failure_arc_is_taken(tmp_path: Path) -> None:
    outcome = both_ways(HEAD + FAILING, tmp_path, Scene())
    assert outcome.status == "completed"
    assert outcome.ctx == {}
    assert set(outcome.steps) == {"ask", "failed"}


CONTEXT = """\
workflow:
  - step: ask
    tool: {kind: duckdb, commands: "SELECT 3 AS n"}
    next: [{step: fetch}]
  - step: fetch
    tool: {kind: http, method: GET, endpoint: "{{ workload.api_url }}/users"}
    next: [{step: each}]
  - step: each
    loop: {collection: [1, 2], element: i}
    tool: {kind: python, args: {i: "{{ i }}"}, code: "result = i"}
    next: [{step: show}]
  - step: show
    tool:
      kind: python
      args: {n: "{{ ask.row_count }}"}
      code: |
        def main(context, n):
            rows = context.get('ask', {}).get('rows', [])
            answer = context['fetch']
            return [n, rows[0]['n'], answer.get('status_code'), answer['data']['total'], sum(context.get('each')['results'])]
"""


def test_code_that_reads_steps_from_its_context_finds_their_older_shape(tmp_path: Path) -> None:
    outcome = both_ways(HEAD + CONTEXT, tmp_path, SCENE, without={"fetch"})
    assert outcome.output == [1, 3, 201, 2, 3]


def test_code_that_reads_steps_as_results_finds_what_they_gave(tmp_path: Path) -> None:
    text = (
        CONTEXT.replace("main(context, n)", "main(results, n)")
        .replace("context.get", "results.get")
        .replace("context[", "results[")
    )
    assert both_ways(HEAD + text, tmp_path, SCENE, without={"fetch"}).output == [1, 3, 201, 2, 3]


RAW = """\
workflow:
  - step: start
    tool:
      - {name: ask, kind: duckdb, commands: "SELECT 3 AS n", set: {asked: "{{ output }}"}}
      - {name: fetch, kind: http, method: GET, endpoint: "{{ workload.api_url }}/users", set: {fetched: "{{ output }}"}}
      - {name: make, kind: python, code: "result = {'n': 5, 'data': {'k': 6}}", set: {made: "{{ output }}"}}
      - name: use
        kind: python
        args: {a: "{{ asked.rows[0].n }}", b: "{{ fetched.status_code }}", c: "{{ fetched.data.total }}", d: "{{ made.data.k + made.n }}", all: "{{ asked }}"}
        code: "result = [a, b, c, d, all['row_count']]"
    next: [{step: fin}]
  - {step: fin, tool: {kind: noop, output: "{{ start }}"}}
"""


def test_a_task_that_writes_all_of_its_output_wrote_the_raw_result(tmp_path: Path) -> None:
    outcome = both_ways(HEAD + RAW, tmp_path, SCENE)
    assert outcome.output == [3, 201, 2, 11, 1]


NESTED = """\
workflow:
  - step: ask
    tool: {kind: duckdb, commands: "SELECT 3 AS n"}
    next: [{step: show}]
  - step: show
    args: {found: "{{ ask }}"}
    tool:
      - {name: one, kind: python, args: {all: {inner: "{{ ask }}", list: ["{{ ask.rows }}"]}}, code: "result = [all['inner']['row_count'], len(all['list'][0])]"}
      - {name: two, kind: python, args: {before: "{{ one }}"}, code: "result = [before, found.get('rows', [])[0]['n']]"}
      - {name: three, kind: workbook, task: count, args: {r: "{{ ask }}", before: "{{ _prev }}"}}
workbook:
  count: {kind: python, code: "result = [before, r['row_count']]"}
"""


def test_results_inside_of_other_values_and_of_called_tasks_have_their_older_shape(tmp_path: Path) -> None:
    outcome = both_ways(HEAD + NESTED, tmp_path, SCENE)
    assert outcome.output == [[[1, 1], 3], 1]


HANDED_ON = """\
workflow:
  - step: ask
    tool: {kind: duckdb, commands: "SELECT 3 AS n"}
    next: [{step: wrap}]
  - step: wrap
    tool: {kind: python, args: {res: "{{ ask }}", plain: "{{ ask.rows }}"}, code: "found = {'answer': res, 'rows': plain}\\nresult = found"}
    next: [{step: show}]
  - step: show
    tool:
      kind: python
      args: {n: "{{ wrap.answer.row_count }}", all: "{{ wrap }}", text: "{{ ask | tojson }}", maybe: "{{ ask | default({}) }}"}
      code: |
        import json
        read = json.loads(text)
        result = [n, all['answer']['rows'][0]['n'], all['rows'][0]['n'], read['row_count'], maybe.get('rows', [])[0]['n']]
"""


def test_what_code_hands_on_and_templates_turn_into_text_keeps_its_shape(tmp_path: Path) -> None:
    outcome = both_ways(HEAD + HANDED_ON, tmp_path, SCENE)
    assert outcome.output == [1, 3, 3, 1, 3], outcome.error


TASKS = """\
workflow:
  - step: page
    tool:
      - {name: fetch, kind: http, method: GET, endpoint: "{{ workload.api_url }}/users"}
      - {name: look, kind: python, args: {code: "{{ fetch.status_code }}", total: "{{ fetch.data.total }}", all: "{{ fetch }}"}, code: "result = [code, total, all['data']['total']]"}
    next: [{step: show, args: {seen: "{{ page }}"}}]
  - step: show
    tool: {kind: python, args: {a: "{{ page.results.fetch.data.total }}", b: "{{ page.results.look[0] }}", c: "{{ page }}", d: "{{ -(page.results.look[0]) }}"}, code: "result = [a, b, c, d]"}
    next: [{step: one}]
  - step: one
    tool: [{name: only, kind: duckdb, commands: "SELECT 1 AS n; SELECT 2 AS n UNION ALL SELECT 3 ORDER BY n"}]
    next: [{step: fin}]
  - step: fin
    tool: {kind: noop, output: ["{{ ctx.shown }}", "{{ one.results.only.row_count }}", "{{ one.command_1.rows[0].n }}", "{{ 5 - one.row_count }}", "{{ -one.row_count }}"]}
"""


def test_tasks_of_a_pipeline_are_read_by_later_tasks_and_steps(tmp_path: Path) -> None:
    text = TASKS.replace(
        "    next: [{step: one}]\n", '    set: {ctx.shown: "{{ output.data }}"}\n    next: [{step: one}]\n'
    )
    outcome = both_ways(HEAD + text, tmp_path, SCENE, without={"show_seen"})
    assert outcome.output == [[2, 201, [201, 2, 2], -201], 2, 2, 3, -2], outcome.error

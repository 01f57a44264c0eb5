"""Habits of playbooks in the wild, each in plain words and in disguise: as they stand with `--legacy`, and migrated.

Both runs come to the same and right values, and nothing is left for a person to decide.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from both_ways import Outcome, Scene, both_ways

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: wild}\n"
WEATHER = {"path": "/weather", "reply": {"json": {"celsius": 21}, "headers": {"x-zone": "north"}}}
SCENE = Scene(routes=[WEATHER])
Form = tuple[str, Any]


def outcome_of(body: str, folder: Path, scene: Scene = SCENE, brought: Collection[str] = ()) -> Outcome:
    """What came of a playbook both ways, with nothing left to decide; `brought` is in `ctx` only once it is migrated."""
    found = both_ways(HEAD + textwrap.dedent(body), folder, scene, only_migrated=list(brought))
    text = (folder / "playbook.yaml").read_text(encoding="utf-8")
    assert "TODO noetl" not in text, text
    assert found.status == "completed", f"{found.error}\n{text}"
    return found


#: what an arc carries, by how the next step asks for it
BROUGHT: list[tuple[list[str], str, Any]] = [
    (
        ["label_mass", "label_unit"],
        """\
        workflow:
          - step: weigh
            tool: python
            code: "def main():\\n    return {'kilos': 4}\\n"
            next: [{step: label, args: {mass: "{{ weigh.kilos }}", unit: kg}}]
          - {step: label, tool: python, code: "def main(mass, unit):\\n    return f'{mass} {unit}'\\n"}
        """,
        "4 kg",
    ),
    (
        ["label_mass"],
        """\
        workflow:
          - step: weigh
            tool: {kind: python, code: "def main():\\n    return {'kilos': 4}\\n"}
            case:
              - when: "{{ event.name == 'step.exit' and response is defined and response.kilos > 3 }}"
                then: {next: [{step: label, args: {mass: "{{ response.kilos }}"}}]}
          - step: label
            tool:
              kind: python
              args: {mass: null, unit: g}
              code: |
                grams = input_data.get('mass', 0) * 1000
                result = f"{grams} {unit}"
        """,
        "4000 g",
    ),
    (
        ["label_mass", "tell_heavy"],
        """\
        workbook:
          tag: {kind: python, code: "def main(mass, unit='kg'):\\n    return f'{mass}{unit}'\\n"}
        workflow:
          - {step: weigh, tool: {kind: noop, output: {kilos: 4}}, next: [{step: label, with: {mass: "{{ weigh.kilos * 2 }}"}}]}
          - {step: label, tool: {kind: workbook, name: tag}, next: [{step: tell, data: {heavy: "{{ label == '8kg' }}"}}]}
          - {step: tell, tool: {kind: noop, output: "{{ 'heavy' if heavy else 'light' }}"}}
        """,
        "heavy",
    ),
    (
        ["each_sizes", "each_factor"],
        """\
        workload: {size: 1}
        workflow:
          - {step: first, tool: {kind: noop}, next: [{step: each, args: {sizes: [2, 3], factor: 10}}]}
          - step: each
            loop: {collection: "{{ sizes }}", element: size}
            tool: {kind: python, args: {s: "{{ size }}"}, code: "def main(s, factor):\\n    return s * factor\\n"}
        """,
        [20, 30],
    ),
    (
        ["greet_word"],
        """\
        workflow:
          - {step: first, tool: {kind: noop}, next: [{step: greet, args: {word: hello}}]}
          - step: greet
            args: {word: "good {{ workload.day }}", mark: "!"}
            tool: {kind: python, code: "def main(word, mark):\\n    return word + mark\\n"}
        workload: {day: morning}
        """,
        "hello!",
    ),
]

#: what code asks for without being given it
ASKED_FOR: list[Form] = [
    (
        """\
        workload: {rate: 2}
        workflow:
          - {step: count, tool: python, code: "def main(rate):\\n    return {'n': rate * 5}\\n", next: [{step: show}]}
          - {step: show, tool: python, code: "def main(count, workload):\\n    return [count['n'], workload['rate']]\\n"}
        """,
        [10, 2],
    ),
    (
        """\
        workflow:
          - step: ask
            tool: {kind: duckdb, command: "SELECT 7 AS n"}
            next: [{step: show}]
          - step: show
            tool:
              kind: python
              code: |
                def main(ask, limit=3, skipped=None):
                    rows = ask.get('rows', []) if isinstance(ask, dict) else []
                    return [rows[0]['n'], limit, skipped]
          - {step: skipped, tool: {kind: noop}}
        workload: {limit: 9}
        """,
        [7, 9, None],
    ),
    (
        """\
        workflow:
          - step: each
            loop: {collection: [{n: 1}, {n: 2}], element: thing}
            tool: {kind: python, code: "async def main(thing):\\n    return thing['n'] + 1\\n"}
        """,
        [2, 3],
    ),
]

#: what code uses without importing it, and what `context` held besides
PROVIDED: list[Form] = [
    (
        """\
        workflow:
          - {step: a, tool: python, code: "def main():\\n    return json.loads('[1]') + [uuid.UUID(int=0).hex[:2]]\\n"}
        """,
        [1, "00"],
    ),
    (
        """\
        workflow:
          - step: a
            tool:
              kind: python
              code: |
                day = datetime.date(2024, 5, 6)
                def note(value):
                    return json.dumps({'day': value})
                result = note(day.isoformat())
        """,
        '{"day": "2024-05-06"}',
    ),
    (
        """\
        workflow:
          - step: a
            tool: {kind: python, args: {json: "own"}, code: "result = [json, os.sep]"}
        """,
        ["own", "/"],
    ),
    (
        """\
        workload: {zone: west}
        workflow:
          - step: a
            tool: {kind: python, args: {}, code: "result = context.get('workload', {}).get('zone')"}
        """,
        "west",
    ),
    (
        """\
        workload: {zone: west}
        workflow:
          - {step: a, tool: python, code: "def main():\\n    return {'k': 5}\\n", next: [{step: b}]}
          - step: b
            tool: python
            code: |
              def main(context):
                  place = context['zone']
                  return [place, context.get('a', {}).get('k'), len(context.get("execution_id", "unknown")) > 8]
        """,
        ["west", 5, True],
    ),
]


@pytest.mark.parametrize(("keys", "body", "output"), BROUGHT)
def test_what_an_arc_brings_is_found_by_templates_and_code(
    keys: list[str], body: str, output: Any, tmp_path: Path
) -> None:
    assert outcome_of(body, tmp_path, brought=keys).output == output


@pytest.mark.parametrize(("body", "output"), ASKED_FOR)
def test_code_is_given_the_results_and_the_workload_that_it_asks_for(body: str, output: Any, tmp_path: Path) -> None:
    assert outcome_of(body, tmp_path).output == output


@pytest.mark.parametrize(("body", "output"), PROVIDED)
def test_code_has_its_modules_and_its_context(body: str, output: Any, tmp_path: Path) -> None:
    assert outcome_of(body, tmp_path).output == output


#: names with quotes on their way into a table, and what is stored
QUOTES: list[Form] = [
    (
        """\
        workload: {who: "O'Neil"}
        workflow:
          - step: store
            tool:
              kind: duckdb
              commands: |
                CREATE TABLE people (who TEXT, note TEXT);
                INSERT INTO people VALUES ('{{ who | replace("'", "''") }}', {{ missing | default('NULL') }});
                SELECT * FROM people;
            args: {missing: null}
        """,
        [{"who": "O'Neil", "note": None}],
    ),
    (
        """\
        workload: {people: [{who: "O'Neil", age: 40}, {who: Ann, age: null}]}
        workflow:
          - step: clean
            tool: python
            args: {people: "{{ people }}"}
            code: |
              def quoted(text):
                  return str(text).replace("'", "''")
              def main(people):
                  found = [{'who': quoted(one['who']), 'age': one['age']} for one in people]
                  return {'rows': found, 'count': len(found)}
            next: [{step: store}]
          - step: store
            tool: duckdb
            database: people.duckdb
            loop: {collection: "{{ clean.rows }}", element: one, mode: sequential}
            command: |
              CREATE TABLE IF NOT EXISTS people (who TEXT, age INTEGER);
              INSERT INTO people VALUES ('{{ one.who }}', {{ one.age if one.age is not none else 'NULL' }});
            next: [{step: read}]
          - {step: read, tool: duckdb, database: people.duckdb, query: "SELECT * FROM people ORDER BY who DESC"}
        """,
        [{"who": "O'Neil", "age": 40}, {"who": "Ann", "age": None}],
    ),
    (
        """\
        workload: {who: "O'Neil", nick: null, tags: ["it's", b]}
        workflow:
          - step: prepare
            tool: python
            args: {who: "{{ who }}", nick: "{{ nick }}", tags: "{{ tags }}"}
            code: |
              text = who if isinstance(who, str) else ''
              result = {
                  'who': "'" + text.replace("'", "''") + "'" if text else 'NULL',
                  'nick': "'" + nick.replace("'", "''") + "'" if nick else 'NULL',
                  'values': ', '.join("('" + tag.replace("'", "''") + "')" for tag in tags),
              }
            next: [{step: store}]
          - step: store
            tool: duckdb
            query: |
              SELECT {{ prepare.who }} AS who, {{ prepare.nick }} AS nick,
                     (SELECT count(*) FROM (VALUES {{ prepare['values'] }}) AS t(x) WHERE x IN ('{{ tags | join("','") }}')) AS n,
                     $${{ who }}$$ AS plain, {{ 'true' if nick else 'false' }} AS named
        """,
        [{"who": "O'Neil", "nick": None, "n": 2, "plain": "O'Neil", "named": False}],
    ),
    (
        """\
        workload: {ids: [2, 3], who: "O'Neil", order: down}
        workflow:
          - step: ask
            tool: {kind: python, code: "result = {'who': input_data['w'].strip().replace(\\"'\\", \\"''\\").upper()}"}
            args: {w: "{{ who }}"}
            next: [{step: read}]
          - step: read
            tool: duckdb
            command: |
              SELECT i, '{{ ask.who }}' AS who, {{ "'" ~ who | replace("'", "''") ~ "'" if ids else 'NULL' }} AS own,
                     {% if order == 'up' %}NULL{% else %}'{{ ask['who'] }}'{% endif %} AS again
              FROM range(5) AS r(i) WHERE i IN ({{ ids | join(',') }}) ORDER BY i {{ 'DESC' if order == 'down' else 'ASC' }}
        """,
        [
            {"i": 3, "who": "O'NEIL", "own": "O'Neil", "again": "O'NEIL"},
            {"i": 2, "who": "O'NEIL", "own": "O'Neil", "again": "O'NEIL"},
        ],
    ),
]


@pytest.mark.parametrize(("body", "output"), QUOTES)
def test_what_was_quoted_for_a_statement_is_stored_as_it_was(body: str, output: Any, tmp_path: Path) -> None:
    assert outcome_of(body, tmp_path).output == output


def test_statements_that_code_put_together_are_run_one_by_one(tmp_path: Path) -> None:
    body = """\
    workload: {names: ["O'Neil", "a;b"]}
    workflow:
      - step: build
        tool: python
        args: {names: "{{ names }}"}
        code: |
          def main(names):
              lines = ["CREATE TABLE people (who TEXT)"]
              for name in names:
                  safe = name.replace("'", "''")
                  lines.append(f"INSERT INTO people VALUES ('{safe}')")
              return {'sql': ';\\n'.join(lines)}
        next: [{step: store}]
      - {step: store, tool: duckdb, database: p.duckdb, command: "{{ build.sql }}", next: [{step: read}]}
      - {step: read, tool: duckdb, database: p.duckdb, query: "SELECT who FROM people ORDER BY who"}
    """
    assert outcome_of(body, tmp_path).output == [{"who": "O'Neil"}, {"who": "a;b"}]


#: defaults with templates, and what their readers find
DEFAULTS: list[tuple[str, dict[str, Any], Any]] = [
    (
        """\
        workload: {user: "{{ payload.user }}", base: "http://h", url: "{{ workload.base }}/users"}
        workflow:
          - {step: a, tool: {kind: noop, output: "{{ workload.url }}/{{ workload.user }}"}, next: [{step: b}]}
          - {step: b, tool: {kind: noop, output: "{{ a }}"}}
        """,
        {"user": 7},
        "http://h/users/7",
    ),
    (
        """\
        workload:
          run: "{{ job.uuid }}"
          paths: {root: "/data/{{ region }}", logs: "{{ workload.paths.root }}/logs"}
          region: "{{ payload.region | default('eu') }}"
        workflow:
          - step: a
            loop: {collection: "{{ [paths.logs, workload['region']] }}", element: one}
            tool: {kind: python, args: {one: "{{ one }}", same: "{{ workload.run == execution_id }}"}, code: "result = [one, same]"}
        """,
        {},
        [["/data/eu/logs", True], ["eu", True]],
    ),
    (
        """\
        spec: {url: "{{ spec.base }}/x", base: "http://h", limit: "{{ payload.most }}"}
        workflow:
          - {step: a, tool: {kind: python, args: {u: "{{ spec.url | upper }}", n: "{{ spec.limit + 1 }}"}, code: "result = [u, n]"}}
        """,
        {"most": 4, "url": "http://given"},
        ["HTTP://GIVEN", 5],
    ),
]


@pytest.mark.parametrize(("body", "payload", "output"), DEFAULTS)
def test_a_default_with_a_template_is_what_it_makes_of_the_run(
    body: str, payload: dict[str, Any], output: Any, tmp_path: Path
) -> None:
    assert outcome_of(body, tmp_path, Scene(payload=payload)).output == output


#: tables that outlive the task that made them
TABLES: list[Form] = [
    (
        """\
        workflow:
          - {step: make, tool: duckdb, command: "CREATE TABLE IF NOT EXISTS stock (n INTEGER); DELETE FROM stock;", next: [{step: fill}]}
          - {step: fill, tool: duckdb, loop: {collection: [1, 2], element: k}, command: "INSERT INTO stock VALUES ({{ k }})", next: [{step: sum}]}
          - {step: sum, tool: duckdb, query: "SELECT sum(n)::INTEGER AS n FROM stock"}
        """,
        [{"n": 3}],
    ),
    (
        """\
        workflow:
          - step: make
            tool:
              - {name: first, kind: duckdb, commands: ["create or replace view v as select 5 as n", "SELECT 1"]}
              - {name: last, kind: duckdb, query: "SELECT n FROM main.v"}
        """,
        [{"n": 5}],
    ),
    (
        """\
        workflow:
          - step: each
            loop: {collection: [1, 2], element: k}
            tool: {kind: duckdb, query: "CREATE OR REPLACE TABLE own AS SELECT {{ k }} AS n; SELECT n FROM own"}
            next: [{step: other}]
          - {step: other, tool: {kind: duckdb, query: "SELECT count(*) AS n FROM duckdb_tables() WHERE NOT temporary"}}
        """,
        [{"n": 0}],
    ),
]


@pytest.mark.parametrize(("body", "output"), TABLES)
def test_a_table_of_duckdb_lives_as_long_as_its_readers_need_it(body: str, output: Any, tmp_path: Path) -> None:
    assert outcome_of(body, tmp_path).output == output


#: branches of which only one may be taken
BRANCHES: list[Form] = [
    (
        """\
        workload: {go: "true"}
        workflow:
          - step: a
            case:
              - {when: "{{ workload.go }} == true", then: [{step: b}, {step: c}]}
              - {when: "{{ workload.go }} != true", then: [{step: d}]}
          - {step: b, tool: {kind: noop}}
          - {step: c, tool: {kind: noop}}
          - {step: d, tool: {kind: noop}}
        """,
        ["b", "c"],
    ),
    (
        """\
        workload: {n: 5}
        workflow:
          - step: a
            next:
              - {when: "{{ n > 3 }}", then: [{step: b}, {step: c}]}
              - {when: "{{ n > 1 }}", then: [{step: d}]}
              - else: [{step: e}]
          - {step: b, tool: {kind: noop}}
          - {step: c, tool: {kind: noop}}
          - {step: d, tool: {kind: noop}}
          - {step: e, tool: {kind: noop}}
        """,
        ["b", "c"],
    ),
    (
        """\
        workload: {n: 2}
        workflow:
          - step: a
            tool: {kind: router}
            next:
              - {when: "{{ n > 3 }}", then: [{step: b}, {step: c}]}
              - {when: "{{ n == 3 or n == 4 }}", then: [{step: d}]}
              - else: [{step: e}, {step: d}]
          - {step: b, tool: {kind: noop}}
          - {step: c, tool: {kind: noop}}
          - {step: d, tool: router, next: [{step: f}]}
          - {step: e, tool: {kind: noop}}
          - {step: f, tool: {kind: noop}}
        """,
        ["d", "e", "f"],
    ),
]


@pytest.mark.parametrize(("body", "taken"), BRANCHES)
def test_only_the_first_branch_that_holds_is_taken(body: str, taken: list[str], tmp_path: Path) -> None:
    steps = outcome_of(body, tmp_path).steps
    assert sorted(name for name, found in steps.items() if found["runs"] and name != "a") == taken


#: a loop that saves once, at its end
ENDED: list[Form] = [
    (
        """\
        workflow:
          - step: squares
            type: iterator
            collection: [2, 3]
            element: n
            task: {type: python, data: {n: "{{ n }}"}, code: "def main(n):\\n    return {'square': n * n}\\n"}
            save: {storage: duckdb, database: s.duckdb, table: s, data: {list: "{{ results | tojson }}", n: "{{ count }}"}}
        """,
        {"s": [{"list": '[{"square": 4}, {"square": 9}]', "n": 2}]},
    ),
    (
        """\
        workflow:
          - step: squares
            loop: {collection: [2, 3], element: n}
            tool: {kind: python, args: {n: "{{ n }}"}, code: "result = {'square': n * n}"}
            sink: [{duckdb: {database: s.duckdb, table: s}}]
        """,
        {"s": [{"square": 4}, {"square": 9}]},
    ),
    (
        """\
        workflow:
          - step: squares
            loop: {collection: [2, 3], element: n}
            tool: {kind: python, args: {n: "{{ n }}"}, code: "result = {'square': n * n}"}
            sink:
              tool: duckdb
              database: s.duckdb
              command: "CREATE TABLE s AS SELECT {{ squares.results | length }} AS n, '{{ result[1].square }}' AS last"
        """,
        {"s": [{"n": 2, "last": "9"}]},
    ),
]


@pytest.mark.parametrize(("body", "tables"), ENDED)
def test_what_a_loop_saves_at_its_end_is_saved_once(body: str, tables: Any, tmp_path: Path) -> None:
    assert outcome_of(body, tmp_path).files["s.duckdb"] == tables


#: sinks of a request that read the status of the response, and the body
RESPONSES: list[Form] = [
    (
        """\
        - step: ask
          tool: http
          url: "{{ workload.api_url }}/weather"
          sink:
            {tool: duckdb, database: w.duckdb, table: w, args: {status: "{{ this.data.status_code }}", c: "{{ this.data.data.celsius }}", u: "{{ this.data.url }}"}}
        """,
        [{"status": 200, "c": 21, "u": "API/weather"}],
    ),
    (
        """\
        - step: ask
          tool:
            kind: http
            url: "{{ workload.api_url }}/weather"
            save:
              storage: duckdb
              database: w.duckdb
              statement: "CREATE TABLE w AS SELECT '{{ params.zone }}' AS zone, {{ params.quick }} AS quick, '{{ params.all }}' AS body"
              data:
                zone: "{{ result.data.headers['x-zone'] if result is defined and result.data is defined else '' }}"
                quick: "{{ (this.data.elapsed | default(99)) < 90 }}"
                all: "{{ (this.data.data | tojson) if this.data is defined else '' }}"
        """,
        [{"zone": "north", "quick": True, "body": '{"celsius": 21}'}],
    ),
    (
        """\
        - step: ask
          tool: {kind: http, endpoint: "{{ workload.api_url }}/weather", sink: {duckdb: {database: w.duckdb, table: w, args: {c: "{{ this.data.celsius }}", s: "{{ this.status_code }}"}}}}
        """,
        [{"c": 21, "s": 200}],
    ),
]


@pytest.mark.parametrize(("step", "rows"), RESPONSES)
def test_a_sink_of_a_request_finds_the_response_and_its_body(step: str, rows: Any, tmp_path: Path) -> None:
    found = outcome_of("workflow:\n" + textwrap.dedent(step), tmp_path)
    assert found.files["w.duckdb"]["w"] == rows

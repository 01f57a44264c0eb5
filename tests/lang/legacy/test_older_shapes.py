"""Shapes of older results: what code reads of them, what templates become, and what is left to a person."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from migrating import errors, migrated

from noetl.lang.legacy.shapes.code_reads import read_code
from noetl.lang.legacy.shapes.code_values import ReadTree


def reads(tree: ReadTree) -> dict[str, Any]:
    """How a value is read, as plain data: keys, and `*` for elements."""
    return {key: reads(child) for key, child in tree.children.items()}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("result = r['rows'][0]['n']", {"rows": {"*": {"n": {}}}}),
        ("a = r\nb = a.get('rows') or []\nresult = [x['n'] for x in b]", {"rows": {"*": {"n": {}}}}),
        ("r = r.get('data')\nresult = r['n']", {"data": {"n": {}}}),
        ("def f(x, key='n'):\n    return x['rows']\nresult = f(r)", {"rows": {}}),
        ("def main(r):\n    def inner():\n        return r['n']\n    return inner()", {"n": {}}),
        ("if 'rows' in r:\n    out = r['rows']\nelse:\n    out = r['data']\nresult = len(out)", {"rows": {}, "data": {}}),
        ("for key, value in r.items():\n    result = value['n']", {"*": {"n": {}}}),
        ("result = sorted(r['rows'], key=lambda row: row['n'])", {"rows": {"*": {"n": {}}}}),
        ("(a, b), c = (r['x'], r['y']), 1\nresult = a", {"x": {}, "y": {}}),
        ("match r:\n    case {'rows': [first, *_]}:\n        result = first['n']", {"rows": {"*": {"n": {}}}}),
        ("result = f\"{r['a']} {r.get('b', '')}\"", {"a": {}, "b": {}}),
        ("if (n := r.get('n')) is not None:\n    result = n", {"n": {}}),
        ("try:\n    x = r['a']\nexcept KeyError:\n    x = r['b']\nresult = x", {"a": {}, "b": {}}),
        ("import json\nresult = json.loads(r)['a']", {"a": {}}),
        ("while r['next']:\n    r = r['next']\nresult = r['n']", {"next": {"next": {"n": {}}, "n": {}}, "n": {}}),
        ("result = {**r['a'], 'k': r['b'] | r['c']}", {"a": {}, "b": {}, "c": {}}),
        ("def main(**given):\n    return given['r']['n']", {"n": {}}),
        ("def main(input_data):\n    return input_data.get('r')['n']", {"n": {}}),
    ],
)  # fmt: skip
def test_reads_of_code_are_found_whatever_names_they_go_by(code: str, expected: dict[str, Any]) -> None:
    assert reads(read_code(code, frozenset({"r"})).inputs["r"]) == expected


@pytest.mark.parametrize(
    ("code", "keys"),
    [
        ("def main():\n    return {'n': 1, 'data': 2}", {"n", "data"}),
        ("out = {}\nout['data'] = 1\nresult = out", {"data"}),
        ("result = dict(rows=[1], **{'x': 2})", {"rows"}),
        ("def main(r):\n    if r:\n        return {'a': 1}\n    return {'b': 2}", {"a", "b"}),
        ("def make():\n    return {'data': 1}\ndef main():\n    return make()", {"data"}),
        ("out = {'a': 1}\nout.update({'data': 2})\nresult = out", {"a", "data"}),
        ("return {'top': 1}", {"top"}),
    ],
)
def test_keys_that_code_puts_into_its_result_are_found(code: str, keys: set[str]) -> None:
    assert set(read_code(code, frozenset({"r"})).returned.keys) == keys


@pytest.mark.parametrize("code", ["def (", "result = " + "(" * 300, "x" * 10 + "\x00"])
def test_code_that_cannot_be_parsed_shows_nothing(code: str) -> None:
    assert not read_code(code, frozenset({"r"})).is_known


def test_functions_that_call_themselves_come_to_an_end() -> None:
    code = "def f(x):\n    return f(x['n']) + f(x['m'])\nresult = f(r)"
    assert {"n", "m"} <= read_code(code, frozenset({"r"})).inputs["r"].keys()


@pytest.mark.parametrize(
    "code",
    [
        "".join(f"{' ' * depth}for x{depth} in r:\n" for depth in range(90)) + " " * 90 + "x = r['a']",
        "x = r\n" + "x = {'a': x, 'b': x}\n" * 200 + "result = x",
        "x = r\n" + "x = [x, x]\n" * 200 + "result = x",
        "x = r\n" + "x = x or {'a': x, 'b': [x]}\n" * 200 + "result = x",
        "def f(a):\n" + "".join(f"    g{at} = f(a)\n" for at in range(50)) + "    return a\nresult = f(r)",
    ],
    ids=["loops within loops", "maps of itself", "lists of itself", "either of two", "calls of itself"],
)
def test_code_that_would_take_for_ever_to_read_is_given_up(code: str) -> None:
    read_code(code, frozenset({"r"}))


@pytest.mark.parametrize(
    "task",
    [
        "module: mine\ncallable: work",
        "code: |\n  print 'of an older Python'",
        "code: |\n"
        + "".join(f"{' ' * depth}  for x{depth} in rows:\n" for depth in range(40))
        + " " * 42
        + "rows['rows']",
    ],
    ids=["a module", "no Python of today", "too complex"],
)
def test_what_code_that_cannot_be_analyzed_reads_is_asked_about(task: str) -> None:
    _, todo = migrated(f"""
workflow:
  - step: ask
    tool: {{kind: postgres, auth: pg, query: "SELECT 1"}}
    next: [{{step: use}}]
  - step: use
    tool:
      kind: python
      input: {{rows: "{{{{ ask }}}}"}}
{textwrap.indent(task, "      ")}
""")
    assert ["older engines gave it `{rows, row_count, columns …}`" in one for one in todo] == [True], todo


ASK = """\
workflow:
  - step: ask
    tool: {kind: postgres, command: "%s"}
    next: [{step: end, when: "{{ %s }}"}]
  - step: end
"""


@pytest.mark.parametrize(
    ("command", "read", "written"),
    [
        ("SELECT 1", "ask.row_count > 0", "(output.data | length if output.status == 'ok') > 0"),
        ("SELECT 1", "output.status == 'ok' and output.data.row_count > 0", "output.status == 'ok' and output.data | length > 0"),
        ("UPDATE t SET a = 1", "ask.row_count > 0", "output.pg.rowcount > 0"),
        ("UPDATE t SET a = 1 RETURNING a", "ask.rows[0].a", "output.data[0].a"),
        ("DELETE FROM a; SELECT ';' -- ; no", "ask.command_1.rows[0].a", "output.data[0].a"),
        ("SELECT 1", "ask.data.result.rows[0].a", "output.data[0].a"),
    ],
)  # fmt: skip
def test_rows_and_their_number_are_what_the_statement_gives(command: str, read: str, written: str) -> None:
    text, todo = migrated(ASK % (command, read))
    assert "{{ " + written + " }}" in text
    assert todo == []


@pytest.mark.parametrize("read", ["ask.command_0.rows[0].a == 1", "ask.total > 1"])
def test_what_only_the_older_engine_knew_is_asked_about(read: str) -> None:
    text, todo = migrated(ASK % ("DELETE FROM a; SELECT 1", read))
    assert len(todo) == 1
    assert f"# TODO noetl: {todo[0]}" in text


def test_rows_of_a_list_without_other_signs_are_reported_as_a_habit() -> None:
    body = """\
    workflow:
      - step: ask
        tool: {kind: duckdb, query: SELECT 1}
        set: {ctx.n: "{{ output.data.row_count | default(0) }}"}
    """
    assert errors(body) == ["legacy-habit"]
    assert errors(body, legacy=True) == []
    assert "output.data | length" in migrated(body)[0]


def test_a_document_of_today_keeps_its_own_keys() -> None:
    body = """\
    workflow:
      - step: ask
        tool: {kind: http, url: "https://example.org"}
        set: {ctx.ask: "{{ output.data }}"}
        next: {arcs: [{step: show}]}
      - step: show
        input: {r: "{{ ctx.ask }}"}
        tool: {kind: python, input: {d: "{{ ctx.ask.data.rows }}"}, code: "result = [d, r['status_code'], r.get('data')]"}
    """
    text, todo = migrated(body)
    assert text == textwrap.dedent(body)
    assert todo == []


@pytest.mark.parametrize(
    ("when", "written"),
    [
        ("output.error.kind == 'server_error'", "output.http.status >= 500"),
        ("'rate_limit' == output.error.kind", "output.http.status == 429"),
        ("output.error.kind != 'auth'", "(output.status == 'error' and not (output.http.status in [401, 403]))"),
        ("output.error.kind in ['server_error', 'rate_limit', 'timeout']",
         "(output.http.status >= 500 or output.http.status == 429 or output.error.kind == 'timeout')"),
        ("error.kind == 'client_error' and true",
         "(output.http.status >= 400 and output.http.status < 500) and true"),
        ("output.error.kind == 'connection_error'", "output.error.kind == 'http-transport'"),
        ("output.error.kind == 'timeout'", "output.error.kind == 'timeout'"),
        ("output.error.type == 'timeout_error'", "output.error.kind == 'timeout'"),
    ],
)  # fmt: skip
def test_an_older_kind_of_error_is_a_condition_on_the_status(when: str, written: str) -> None:
    rule = f'[{{when: "{{{{ {when} }}}}", then: {{do: retry}}}}]'
    text, todo = migrated(
        f"workflow:\n  - step: a\n    tool: {{kind: http, endpoint: u, spec: {{policy: {{rules: {rule}}}}}}}\n"
    )
    assert "{{ " + written + " }}" in text
    assert todo == []


def test_an_older_kind_of_error_in_a_list_with_names_is_asked_about() -> None:
    rule = "[{when: \"{{ output.error.kind in ['auth', workload.kind] }}\", then: {do: retry}}]"
    text, todo = migrated(
        f"workflow:\n  - step: a\n    tool: {{kind: http, url: u, spec: {{policy: {{rules: {rule}}}}}}}\nworkload: {{kind: x}}\n"
    )
    assert "output.error.kind in ['auth', workload.kind]" in text
    assert len(todo) == 1


def test_an_older_kind_of_error_of_something_that_is_no_request_is_asked_about() -> None:
    rule = "[{when: \"{{ output.error.kind == 'auth' }}\", then: {do: retry}}]"
    _, todo = migrated(
        f"workflow:\n  - step: a\n    tool: {{kind: postgres, sql: SELECT 1, spec: {{policy: {{rules: {rule}}}}}}}\n"
    )
    assert len(todo) == 1


FAN = """\
workflow:
  - step: start
    next: [{step: a}, {step: b}]
  - {step: a, tool: {kind: noop}, next: %s}
  - {step: b, tool: {kind: noop}, next: [{step: both}]}
  - {step: both, tool: {kind: noop}%s}
  - {step: other, tool: {kind: noop}, next: [{step: both}]}
"""


@pytest.mark.parametrize(
    ("arcs", "beside", "expected", "todos"),
    [
        ("[{step: both}]", ", next: [{step: start}]", "", 1),
        ("[{step: both, when: '{{ ctx.x }}'}]", "", "quiet()", 0),
        ("[{step: both}]", "", "quiet()", 0),
        ("[{step: both}]", ", when: '{{ ctx.x }}'", "ctx.x", 0),
    ],
)
def test_branches_that_may_not_arrive_meet_when_all_is_quiet(arcs: str, beside: str, expected: str, todos: int) -> None:
    text, todo = migrated(FAN % (arcs, beside))
    assert len(todo) == todos
    assert expected in text
    assert "join:" not in text


def test_branches_that_surely_arrive_are_counted() -> None:
    text, todo = migrated(
        (FAN % ("[{step: both}]", "")).replace("  - {step: other, tool: {kind: noop}, next: [{step: both}]}\n", "")
    )
    assert "from: [a, b]" in text
    assert todo == []


def test_a_branch_to_which_no_token_comes_is_not_waited_for() -> None:
    text, todo = migrated(
        """\
        workflow:
          - {step: start, next: [{step: a}, {step: both}]}
          - {step: a, tool: {kind: noop}}
          - {step: lost, tool: {kind: noop}, next: [{step: b}, {step: both}]}
          - {step: b, tool: {kind: noop}, next: [{step: both}]}
          - {step: both, tool: {kind: noop}}
        """
    )
    assert "admit" not in text
    assert todo == []


def test_the_branches_of_the_nearest_fan_out_are_counted() -> None:
    text, todo = migrated(
        """\
        workflow:
          - {step: start, next: [{step: in_time, when: "{{ workload.x }}"}, {step: late, when: "{{ not workload.x }}"}]}
          - {step: late, tool: {kind: noop}}
          - {step: in_time, next: [{step: a}, {step: b}]}
          - {step: a, tool: {kind: noop}, next: [{step: both}]}
          - {step: b, tool: {kind: noop}, next: [{step: both}]}
          - {step: both, tool: {kind: noop}}
        workload: {x: true}
        """
    )
    assert "from: [a, b]" in text
    assert todo == []


def test_meetings_are_found_in_a_time_that_grows_with_the_document() -> None:
    diamond = "- {step: s%d, next: [{step: a%d}, {step: b%d}]}\n" + "".join(
        f"- {{step: {one}%d, tool: {{kind: noop}}, next: [{{step: s%d}}]}}\n" for one in "ab"
    )
    many = 400
    steps = "".join(diamond % (at, at, at, at, at + 1, at, at + 1) for at in range(many))
    text, todo = migrated(f"workflow:\n{steps}- {{step: s{many}, tool: {{kind: noop}}}}\n")
    assert text.count("join:") == many
    assert todo == []


def test_in_a_document_of_today_branches_that_meet_are_asked_about() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: start
            next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
          - {step: a, tool: {kind: noop}, next: {arcs: [{step: both}]}}
          - {step: b, tool: {kind: noop}, next: {arcs: [{step: both}]}}
          - {step: both, tool: {kind: noop}}
        """
    )
    assert len(todo) == 1
    assert "join:" not in text.replace("admit.join", "")

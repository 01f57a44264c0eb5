"""A step's name as its result: what its output has no longer is told."""

import pytest
from migrating import migrated

from noetl.lang.legacy.name_rewrite import ChainRename, names_in, rewrite

STEPS = """\
workflow:
  - step: a
    %s
    tool: %s
    next: {arcs: [{step: b}]}
  - {step: b, tool: {kind: noop, output: "{{ %s }}"}}
"""


@pytest.mark.parametrize("read", ["a.rows", "a.data.rows", "a.command_0.rows", "a.data.result.command_0.rows"])
def test_the_rows_of_a_statement_are_its_output_however_they_were_wrapped(read: str) -> None:
    text, todo = migrated(STEPS % ("desc: x", "{kind: duckdb, query: SELECT 1}", read))
    assert "{{ ctx.a }}" in text
    assert todo == []


@pytest.mark.parametrize(
    ("beside", "tool", "read"),
    [
        ("desc: x", "{kind: duckdb, query: SELECT 1}", "a.command_1.rows"),
        ("desc: x", "{kind: duckdb, query: SELECT 1}", "a.status"),
        ("loop: {in: [1], iterator: i}", "{kind: noop}", "a.first"),
        ("desc: x", "{kind: http, url: '{{ input.u }}'}", "a.url"),
        ("desc: x", "{kind: duckdb, query: DELETE FROM t}", "a.row_count"),
    ],
)
def test_a_field_that_an_output_has_no_longer_is_told(beside: str, tool: str, read: str) -> None:
    _, todo = migrated(STEPS % (beside, tool, read))
    assert len(todo) == 1


def test_the_first_row_and_methods_of_it_are_no_doubt() -> None:
    _, todo = migrated(STEPS % ("desc: x", "{kind: duckdb, query: SELECT 1}", "a.0.n or a[0].n or a.data.count(1)"))
    assert todo == []


def test_the_status_of_a_response_in_its_own_arcs_is_that_of_http() -> None:
    text, todo = migrated(
        "workflow:\n  - step: a\n    tool: {kind: http, url: u}\n"
        '    next: {arcs: [{step: end, when: "{{ a.status_code == 200 }}"}]}\n  - step: end\n'
    )
    assert "{{ output.http.status == 200 }}" in text
    assert todo == []


@pytest.mark.parametrize(
    ("code", "told"), [("result = r.get('command_0')", 0), ("result = r.get('command_1')", 1), ("result = r['total']", 1), ("result = r", 0)]
)  # fmt: skip
def test_code_that_reads_what_a_result_never_had_is_told(code: str, told: int) -> None:
    _, todo = migrated(
        "workflow:\n  - step: a\n    tool: {kind: duckdb, query: SELECT 1}\n    next: {arcs: [{step: b}]}\n"
        f'  - {{step: b, tool: {{kind: python, input: {{r: "{{{{ a }}}}"}}, code: "{code}"}}}}\n'
    )
    assert len(todo) == told


TARGET = """\
workflow:
  - step: s
    loop: {in: [1], iterator: x}
    tool: [{kind: noop, set: {a: 1}}, {kind: noop, output: "{{ a }}"}]
    next: {arcs: [{step: b}]}
  - {step: b, tool: {kind: noop, output: "{{ a }}"}}
"""


def test_a_target_without_a_scope_is_read_from_that_scope_only_where_it_is_known() -> None:
    text, todo = migrated(TARGET)
    assert 'set: {iter.a: 1}}, {kind: noop, output: "{{ iter.a }}"}' in text
    assert "- step: b\n    # TODO noetl: " + todo[0] + '\n    tool: {kind: noop, output: "{{ a }}"}\n' in text


RULE = "workflow: [{step: a, tool: {kind: %s, spec: {policy: {rules: [{when: '{{ %s }}', then: {do: retry}}]}}}}]\n"


@pytest.mark.parametrize(
    ("kind", "read", "written", "told"),
    [
        ("http, url: u", "error.status == 503", "output.http.status == 503", 0),
        ("http, url: u", "error.status_code == 503", "output.http.status == 503", 0),
        ("http, url: u", "error.kind == 1", "output.error.kind == 1", 0),
        ("noop", "error.status == 503", "output.error.status == 503", 1),
    ],
)
def test_the_status_of_an_error_is_that_of_the_response_or_told(kind: str, read: str, written: str, told: int) -> None:
    text, todo = migrated(RULE % (kind, read))
    assert ("{{ " + written + " }}" in text, len(todo)) == (True, told)


@pytest.mark.parametrize("text", ["{{ context.a }}{% x", "{% set a", "{{ context.a }} {% for b in c"])
def test_a_tag_that_does_not_end_is_left_to_the_author(text: str) -> None:
    assert names_in(text) >= ({"context"} if "context" in text else set())


def test_names_that_a_template_binds_are_its_own_where_they_are_bound() -> None:
    text = "{{ a }}{% for a in a if a.x %}{{ a }}{{ loop }}{% set b = b %}{{ b }}{% endfor %}{{ a }}{{ b }}{{ loop }}"
    free = "{{ F }}{% for a in F if a.x %}{{ a }}{{ loop }}{% set b = F %}{{ b }}{% endfor %}{{ F }}{{ F }}{{ F }}"
    assert rewrite(text, lambda _chain: ChainRename(1, "F")) == free
    many = "".join(f"{{% set a{number} = b %}}" for number in range(20_000))
    assert names_in(many) == {"b"}, "as long as the template, not as long as all that it binds at each of its names"

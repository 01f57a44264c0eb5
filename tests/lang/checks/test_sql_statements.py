"""Statements of SQL that are nothing but a template."""

import pytest

from noetl.expr import compile_sql
from noetl.lang.loader import load
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkload: {q: x}\nworkflow:\n"


def told(text: str) -> list[Diagnostic]:
    return [one for one in load(text, ToolKinds()).diagnostics if one.code == "sql-statement"]


@pytest.mark.parametrize(
    "sql", ["{{ q }}", " {{ q }} ; ", "SELECT 1; {{ q }}", "-- why\n{{ q }}", "/* a */ {{ q }}", "{{ a }} {{ b }}"]
)
def test_a_statement_of_templates_alone_is_bare(sql: str) -> None:
    assert compile_sql(sql).has_bare_statement


@pytest.mark.parametrize(
    "sql", ["SELECT {{ q }}", "{{ q | sql }}", "", ";", "SELECT 1; {{ q | sql }}", "CALL {{ q }}()", "({{ q }})"]
)
def test_a_statement_with_words_of_its_own_is_not(sql: str) -> None:
    assert not compile_sql(sql).has_bare_statement


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: duckdb, query: '{{ workload.q }}'}",
        "[{run: {kind: duckdb, command: '{{ workload.q }}'}}]",
        "[{choose: [{else: [{kind: duckdb, command: '{{ workload.q }}'}]}]}]",
        "{kind: transfer, source: {kind: duckdb, query: '{{ workload.q }}'}, targets: [{kind: http, url: 'http://a'}]}",
        "{kind: transfer, input: {source: {kind: duckdb, query: '{{ workload.q }}'}, targets: [{kind: http, url: 'http://a'}]}}",
    ],
)
def test_it_is_found_wherever_sql_may_stand_and_only_its_author_may_say_that_it_is_meant(tool: str) -> None:
    text = f"{HEAD}  - {{step: a, tool: {tool}}}\n"
    (found,) = told(text)
    assert found.edits == ()
    assert told(text.replace("workload.q }}", "workload.q | sql }}")) == []


def test_in_data_that_only_looks_like_a_task_it_is_none() -> None:
    text = f"{HEAD}  - {{step: a, tool: {{kind: python, code: 'result = plan', input: {{plan: {{kind: duckdb, query: '{{{{ workload.q }}}}'}}}}}}}}\n"
    assert told(text) == []

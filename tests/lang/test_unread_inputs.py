"""Inputs that a playbook has, reads or mentions, and those that it does not."""

import pytest

from noetl.lang.unread_inputs import find_unread_inputs

BOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, schema: {required: [key], properties: {region: {type: string}, db: {properties: {port: {type: integer}}}}}}
workload: {limit: 1, db: {host: a}, options: {}, items: [1]}
workflow:
  - step: a
    tool: {kind: python, code: "result = context.workload.get('mode')", input: {x: "{{ workload.since | default('') }}"}}
"""


def unread(*names: str, text: str = BOOK) -> list[str]:
    return [one.name for one in find_unread_inputs(text, names)]


@pytest.mark.parametrize("name", ["limit", "db", "options", "items", "region", "mode", "since", "key"])
def test_what_is_declared_or_mentioned_is_read(name: str) -> None:
    assert unread(name) == []


@pytest.mark.parametrize(("name", "found"), [("limt", "limt"), ("host", "host"), ("result", ""), ("x", "x")])
def test_what_nothing_declares_or_mentions_is_found(name: str, found: str) -> None:
    assert unread(name) == ([found] if found else [])  # `result` stands in the code


@pytest.mark.parametrize(
    "reader",
    [
        '{kind: noop, output: "{{ workload }}"}',
        '{kind: noop, output: "{{ workload | tojson }}"}',
        '{kind: noop, output: "{{ workload[ctx.name] }}"}',
        "{kind: python, code: 'result = dict(context.workload.items())'}",
        "{kind: python, code: 'result = context.workload.get(name)'}",
        "{kind: python, module: mine, callable: run}",
    ],
)
def test_where_the_whole_workload_is_read_every_input_may_be(reader: str) -> None:
    assert unread("anything", text=f"workload: {{a: 1}}\nworkflow: [{{step: a, tool: {reader}}}]\n") == []


def test_a_schema_that_says_what_else_there_may_be_knows_every_input() -> None:
    text = "metadata: {schema: {additionalProperties: {type: string}}}\nworkload: {a: 1}\nworkflow: []\n"
    assert unread("anything", text=text) == []


def test_a_text_that_is_no_playbook_is_left_to_the_loader() -> None:
    assert unread("x", text="- 1") == []
    assert unread("x", text="{") == []

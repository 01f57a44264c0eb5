"""The JSON Schema of playbooks against the conformance suite, and schemas inside of playbooks."""

from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from suite import cases

from noetl.lang.grammar.json_schema import check_schema, playbook_schema
from noetl.lang.loader import load
from noetl.lang.reading.node import plain_value
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"
#: what a schema can know; the others take knowledge of names, templates and order
EXPRESSIBLE = {
    "unknown-key",
    "missing-key",
    "wrong-type",
    "wrong-value",
    "bad-name",
    "unknown-kind",
    "input-conflict",
    "set-target",
    "set-under-spec",
    "empty-step",
    "control-outside-task",
    "until-in-parallel",
    "arc-payload",
    "template-in-when",
}


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(playbook_schema(ToolKinds()))


def document(text: str) -> Any:
    return plain_value(read_yaml(text, Diagnostics(Source(text))))


def accepts(text: str) -> bool:
    return validator().is_valid(document(text))


def expected_errors(case: dict[str, Any]) -> set[str]:
    listed = case.get("expect", {}).get("diagnostics") or []
    return {one if isinstance(one, str) else one["code"] for one in listed if not _is_optional(one)}


def _is_optional(one: Any) -> bool:
    return isinstance(one, dict) and bool(one.get("optional"))


def is_of_today(case: dict[str, Any]) -> bool:
    """Whether a case's playbook is canonical: not one that is there to be migrated."""
    return not case.get("legacy") and case.get("actions") != ["migrate"]


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in cases().items() if is_of_today(case)])
def test_the_schema_agrees_with_the_conformance_suite(case: dict[str, Any]) -> None:
    errors = expected_errors(case)
    if not errors:
        assert [error.message for error in validator().iter_errors(document(case["playbook"]))] == []
    elif errors & EXPRESSIBLE:
        assert not accepts(case["playbook"])


def test_the_schema_is_a_valid_schema_and_every_definition_is_used() -> None:
    made = playbook_schema(ToolKinds())
    Draft202012Validator.check_schema(made)
    text = str(made)
    assert [name for name in made["$defs"] if f"#/$defs/{name}'" not in text] == []


def test_every_key_has_a_description_so_that_editors_can_show_it() -> None:
    made = playbook_schema(ToolKinds())
    for name in ("Step", "Loop", "Arc", "Then", "task.http", "task.wait", "KeychainEntry"):
        for key, value in made["$defs"][name]["properties"].items():
            assert value["description"], f"{name}.{key}"
    assert made["$defs"]["Then"]["properties"]["attempts"]["default"] == 3
    assert made["$defs"]["Admit"]["properties"]["mode"]["deprecated"] is True


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: http, url: x}",
        "{kind: http, input: {url: x}}",
        '{kind: http, input: "{{ workload.request }}"}',
        '{kind: http, url: x, method: "{{ workload.method }}", spec: {timeout: "{{ workload.t }}"}}',
        "{kind: script, cmd: ls}",
        "{kind: workbook, name: greet}",
        "[{fetch: {kind: http, url: x}}, {name: keep, kind: noop}, {kind: noop}]",
        '[{choose: [{when: "{{ true }}", then: [{kind: noop}]}, {else: [{go: {kind: noop}}]}]}]',
        '[{name: again, while: {when: "{{ false }}", do: [{until: {when: true, do: [{kind: noop}]}}]}}]',
        "{kind: wait, seconds: 1, spec: {timeout: {total: 3}}}",
    ],
)
def test_a_task_in_any_of_its_shapes_is_accepted(tool: str) -> None:
    assert accepts(f"{HEAD}workflow: [{{step: start, tool: {tool}}}]")


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: htp, url: x}",
        "{kind: http, urll: x}",
        "{kind: http}",
        "{kind: http, url: 1}",
        "{kind: http, url: x, method: FETCH}",
        "{kind: http, url: x, json: {}, body: y}",
        "{kind: http, url: x, input: {url: y}}",
        "{url: x}",
        "[]",
        "[{workbook: {kind: noop, nope: 1}}]",
        "[{one: {kind: noop}, two: {kind: noop}}]",
        "[{kind: workbook, name: greet}]",
        "[{choose: []}]",
        '[{while: {when: "{{ true }}"}}]',
        "[{choose: [{then: [{kind: noop}]}]}]",
        "{kind: noop, spec: {policy: {rules: [{when: maybe, then: {}}]}}}",
        "{kind: noop, spec: {policy: {rules: [{else: {then: {do: jump}}}]}}}",
        "{kind: noop, set: {workload.x: 1}}",
        "text",
    ],
)
def test_a_task_that_is_wrong_is_refused_by_the_schema_and_by_the_language(tool: str) -> None:
    text = f"{HEAD}workflow: [{{step: start, tool: {tool}}}]"
    assert not accepts(text)
    assert not load(text, ToolKinds()).ok


@pytest.mark.parametrize(
    "loop",
    [
        "{in: [1], iterator: x, spec: {mode: parallel, policy: {reduce: {ctx.n: sum}}}}",
        "{in: [1], iterator: x, spec: {policy: {mode: parallel, reduce: {ctx.n: sum}}}}",
        '{in: "{{ workload.a }}", iterator: x, loop: {in: "{{ iter.x }}", iterator: y, spec: {until: "{{ true }}"}}}',
    ],
)
def test_loops_are_accepted_also_within_loops(loop: str) -> None:
    assert accepts(f"{HEAD}workflow: [{{step: start, tool: {{kind: noop}}, loop: {loop}}}]")


@pytest.mark.parametrize(
    "loop",
    [
        '{in: [1], iterator: x, spec: {mode: parallel, until: "{{ true }}"}}',
        "{in: [1], iterator: x, spec: {policy: {reduce: {ctx.n: sum}}}}",
        "{in: [1], iterator: x, spec: {mode: parallel, policy: {reduce: {ctx.n: average}}}}",
        "{in: 3, iterator: x}",
        "{in: [1]}",
        "{in: [1], iterator: x, loop: {in: [1], iterator: 'not a name'}}",
    ],
)
def test_loops_that_are_wrong_are_refused(loop: str) -> None:
    assert not accepts(f"{HEAD}workflow: [{{step: start, tool: {{kind: noop}}, loop: {loop}}}]")


def test_root_keys_that_begin_with_x_are_free_and_others_are_not() -> None:
    steps = "workflow: [{step: end}]\n"
    assert accepts(f"{HEAD}{steps}x-anything: [1]\n")
    assert not accepts(f"{HEAD}{steps}vars: {{}}\n")


def test_only_the_kinds_that_are_given_are_in_the_schema() -> None:
    kinds = ToolKinds()
    made = playbook_schema({"noop": kinds["noop"]})
    assert made["$defs"]["Task"]["properties"]["kind"]["enum"] == ["noop"]
    assert "task.http" not in made["$defs"]


# --- schemas inside of a playbook ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {},
        True,
        {"type": "object", "required": ["a"], "properties": {"a": {"type": ["string", "null"]}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "string"}}},
        {"$schema": "https://example.com/mine", "type": "object"},
    ],
)
def test_a_json_schema_is_one(value: object) -> None:
    assert check_schema(value) is None


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ([1], "a map"),
        ({"type": "strng"}, "type"),
        ({"properties": {"a": {"minimum": "1"}}}, "properties.a.minimum"),
        ({"required": "a"}, "required"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
        ({"$schema": [1]}, "$schema"),
    ],
)
def test_what_is_no_json_schema_is_told_with_its_place(value: object, part: str) -> None:
    assert part in (check_schema(value) or "")

"""Values of the right shape that will not do what they look like."""

from __future__ import annotations

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"


def told(steps: str, root: str = "") -> list[Diagnostic]:
    return list(load(f"{HEAD}{root}workflow:\n  - {steps}\n", KINDS).diagnostics)


def codes(steps: str, root: str = "") -> list[str]:
    return [one.code for one in told(steps, root)]


def output(template: str) -> str:
    return f'{{step: a, tool: {{kind: noop, output: "{template}"}}}}'


def test_an_input_that_is_not_declared_is_told_with_those_that_are() -> None:
    (found,) = told(output("{{ workload.b }}"), "workload: {a: 1, city: x}\n")
    assert (found.code, found.severity.value) == ("undeclared-input", "warning")
    assert found.message == "`workload` declares no `b`"
    assert found.fix is not None
    assert found.fix.endswith("declared: a, city")


@pytest.mark.parametrize(
    ("template", "root"),
    [
        ("{{ workload.b }}", ""),
        ("{{ workload.b | default(1) }}", "workload: {a: 1}\n"),
        ("{{ 1 if workload.b is defined else 2 }}", "workload: {a: 1}\n"),
        ("{{ workload }}", "workload: {a: 1}\n"),
        ("{{ workload.a }}", "workload: {a: 1}\n"),
    ],
)
def test_an_input_is_not_told_that_may_be_left_out_or_where_none_are_declared(template: str, root: str) -> None:
    assert codes(output(template), root) == []


def test_a_schema_says_which_inputs_there_are() -> None:
    text = f"{HEAD.replace('name: t', 'name: t, schema: {type: object}')}workload: {{a: 1}}\n"
    assert not load(f"{text}workflow:\n  - {output('{{ workload.b }}')}\n", KINDS).diagnostics


def test_a_guard_forgives_an_input_that_is_left_out() -> None:
    step = "{step: a, tool: {kind: noop}, next: {arcs: [{step: end, when: '{{ workload.dry }}'}]}}\n  - {step: end}"
    assert codes(step, "workload: {city: 1}\n") == []


def test_a_template_among_the_defaults_is_told() -> None:
    assert codes("{step: end}", "workload: {a: 1, deep: [{b: 'x{{ workload.a }}'}]}\n") == ["template-in-workload"]


@pytest.mark.parametrize(("items", "found"), [("'a, b'", ["loop-over-text"]), ("[a]", []), ("'{{ [1] }}'", [])])
def test_a_loop_over_literal_text_is_told(items: str, found: list[str]) -> None:
    assert codes(f"{{step: a, loop: {{in: {items}, iterator: x}}, tool: {{kind: noop}}}}") == found


@pytest.mark.parametrize(
    ("items", "fix"),
    [
        ("workload.cities", 'write `"{{ workload.cities }}"`'),
        ("'ctx.found.rows'", 'write `"{{ ctx.found.rows }}"`'),
        ("cities", 'write `"{{ workload.cities }}"`'),
        ("iter.x", None),
        ("example.com", None),
        ("a", None),
    ],
)
def test_the_items_of_a_loop_over_text_are_marked_and_a_path_is_told_with_its_braces(
    items: str, fix: str | None
) -> None:
    (found,) = told(
        f"{{step: a, loop: {{in: {items}, iterator: a}}, tool: {{kind: noop}}}}", "workload: {cities: [a]}\n"
    )
    assert found.span is not None
    assert (found.span.line, found.span.column) == (6, len("  - {step: a, loop: {in: ") + 1)
    assert found.span.end_column == found.span.column + len(items)
    assert found.fix == (fix or 'write a list, or a template that yields one: `"{{ … }}"`')


def test_an_inner_loop_over_the_text_of_a_path_may_mean_the_iteration_around_it() -> None:
    loop = "loop: {in: [[1]], iterator: city, loop: {in: iter.city, iterator: hotel}}"
    (found,) = told(f"{{step: a, {loop}, tool: {{kind: noop}}}}")
    assert found.fix == 'write `"{{ iter.city }}"`'


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ("{else: {then: {do: jump, to: x}}}", True),
        ("{when: true, then: {do: jump, to: x}}", True),
        ("{when: '{{ true }}', then: {do: jump, to: x}}", True),
        ("{when: '{{ _attempt > 3 }}', then: {do: break}}, {else: {then: {do: jump, to: x}}}", False),
        ("{when: '{{ output.data }}', then: {do: jump, to: x}}", False),
    ],
)
def test_a_task_that_jumps_to_itself_whatever_happens_is_told(rules: str, *, found: bool) -> None:
    step = f"{{step: a, tool: [{{name: x, kind: noop, spec: {{policy: {{rules: [{rules}]}}}}}}]}}"
    assert ("endless-jump" in codes(step)) is found


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("api.example.com/x", True),
        ("localhost:8080", True),
        ("https://api.example.com", False),
        ("'{{ ctx.host }}/x'", False),
    ],
)
def test_an_address_without_a_scheme_is_told(url: str, *, found: bool) -> None:
    assert ("url-without-scheme" in codes(f"{{step: a, tool: {{kind: http, url: {url}}}}}")) is found
    assert ("url-without-scheme" in codes(f"{{step: a, tool: {{kind: http, input: {{url: {url}}}}}}}")) is found


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("iter.city", "write `iter.parent.city`"),
        ("iter.parent.hotel", "write `iter.hotel`"),
        ("iter.parent.parent.city", "write `iter.parent.city`"),
        ("iter.parent.city ~ iter.hotel ~ iter.index ~ iter.parent.index", ""),
    ],
)
def test_the_iterator_of_the_loop_around_is_told_with_its_way(path: str, fix: str) -> None:
    loop = "loop: {in: [[1]], iterator: city, loop: {in: '{{ iter.city }}', iterator: hotel}}"
    found = told(f"{{step: a, {loop}, tool: {{kind: noop, output: '{{{{ {path} }}}}'}}}}")
    assert [one.fix for one in found if one.code == "never-set"] == ([fix] if fix else [])

"""Who reads what of a step's results; and what is lifted is enough for whoever reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from noetl.errors import TemplateError
from noetl.expr.result_policy import find_result_reads, select_paths
from noetl.expr.templates import template
from noetl.lang.loader import load
from noetl.model.playbook import Playbook, Step
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"

# --- lifting -----------------------------------------------------------------------------------------------------------

KEYS = ["a", "b", "items", "0", "length", "x y"]
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "a", "text"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=15,
)
STEPS = st.one_of(
    st.sampled_from(["a", "b", "items", "length"]).map(lambda key: f".{key}"),
    st.sampled_from(KEYS).map(lambda key: f"['{key}']"),
    st.sampled_from(["[0]", "[1]", "[-1]", "[ctx.key]", "[:1]"]),
)
TAILS = st.sampled_from(
    ["", " | default('none')", " is defined", " | length", " | tojson", " == 1", " | first", " | list", " | join(',')", " or 0", " | jsonpath('$..a')", ".a | default(output.data.b)"]
)  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn) -> str:
    path = "output.data" + "".join(draw(st.lists(STEPS, max_size=3)))
    return "{{ " + path + draw(TAILS) + " }}"


def outcome(text: str, data: Any) -> Any:
    try:
        value = template(text).evaluate({"output": {"data": data}, "ctx": {"key": "a"}})
    except TemplateError as error:
        return type(error), error.kind
    return repr(value)


def step_with(*expressions: str) -> tuple[Step, Playbook]:
    values = ", ".join(f"ctx.v{number}: {one!r}" for number, one in enumerate(expressions))
    values = values.replace("\\'", "''")
    net = load(f"{HEAD}- step: a\n  tool: {{kind: noop}}\n  set: {{{values}}}\n", KINDS).net
    assert net is not None
    return net.steps["a"], net.playbook


@settings(deadline=None, max_examples=400)
@given(st.lists(expressions(), min_size=1, max_size=3), DATA)
def test_what_is_lifted_gives_every_template_just_what_the_whole_would(texts: list[str], data: Any) -> None:
    ways = _ways(texts)
    shown = select_paths(data, ways)
    for text in texts:
        assert outcome(text, shown) == outcome(text, data), (shown, ways)


def _ways(texts: list[str]) -> list[tuple[str, ...]]:
    return [read.path[2:] for text in texts for read in template(text).reads if read.path[:2] == ("output", "data")]


def test_only_what_is_read_is_lifted() -> None:
    step, playbook = step_with("{{ output.data.meta.total }}", "{{ output.data.items[0].id }}", "{{ output.status }}")
    ways = find_result_reads(step, playbook).data
    data = {"meta": {"total": 3, "more": "x" * 99}, "items": [{"id": 1, "long": "y"}], "rest": "z" * 99}
    assert select_paths(data, ways) == {"meta": {"total": 3}, "items": [{"id": 1}]}


# --- who reads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "read"),
    [
        ("[{name: a, kind: noop}, {name: b, kind: noop}]", set()),
        ("[{name: a, kind: noop}, {name: b, kind: noop, output: '{{ _prev }}'}]", {"a"}),
        ("[{name: a, kind: noop}, {name: b, kind: http, url: '{{ output.data.url }}'}]", {"a"}),
        ("[{name: a, kind: noop, output: '{{ output.data.x }}'}, {name: b, kind: noop}]", {"a"}),
        ("[{name: a, kind: noop, set: {step.n: '{{ output.data.n }}'}}, {name: b, kind: noop}]", {"a"}),
        ("[{name: a, kind: noop, set: {step.r_ref: '{{ output.ref }}'}}, {name: b, kind: noop, output: '{{ output.status }}'}]", set()),
        ("[{name: a, kind: noop}, {name: b, kind: noop}, {name: c, kind: shell, cmd: 'x {{ _prev }}'}]", {"a", "b"}),
        ("[{name: a, kind: noop, spec: {policy: {rules: [{when: '{{ output.data.n > 1 }}', then: {do: break}}]}}}, {name: b, kind: noop}]", {"a"}),
        ("[{name: a, kind: noop, input: {n: '{{ _prev }}'}}, {name: b, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: a}}}]}}}]", {"a", "b"}),
        ("[{name: a, kind: python, code: 'def main(context): pass'}, {name: b, kind: noop}]", set()),
        ("[{name: a, kind: noop}, {name: b, kind: python, code: 'def main(context): pass'}]", {"a"}),
        ("[{name: a, kind: noop}, {name: b, kind: python, module: m, callable: f}]", {"a"}),
        ("[{name: a, kind: http, url: '{{ output.data.next | default(1) }}', spec: {policy: {rules: [{else: {then: {do: retry}}}]}}}, {name: b, kind: noop}]", {"a"}),
    ],
)  # fmt: skip
def test_a_payload_is_held_only_for_those_who_read_it(tasks: str, read: set[str]) -> None:
    net = load(f"{HEAD}- step: a\n  tool: {tasks}\n", KINDS).net
    assert net is not None
    found = find_result_reads(net.steps["a"], net.playbook)
    assert found.inside == read
    assert not found.at_end
    assert found.data == ()


def test_the_steps_own_output_reads_what_its_tasks_end_with() -> None:
    net = load(f"{HEAD}- {{step: a, tool: [{{name: x, kind: noop}}, {{name: y, kind: noop}}], output: '{{{{ output.data.n }}}}'}}\n", KINDS).net  # fmt: skip
    assert net is not None
    found = find_result_reads(net.steps["a"], net.playbook)
    assert found.at_end
    assert found.inside == {"x", "y"}


def test_arcs_and_the_admission_of_others_are_readers_too() -> None:
    text = (
        "- {step: a, tool: {kind: noop}, next: {arcs: [{step: b, when: '{{ output.data.x > 1 }}', set: {ctx.y: '{{ event.output.data.y }}'}}]}}\n"
        "- {step: b, spec: {policy: {admit: {rules: [{when: '{{ event.output.data.z }}', then: {allow: true}}]}}}, tool: {kind: noop}}\n"
    )
    net = load(HEAD + text, KINDS).net
    assert net is not None
    assert find_result_reads(net.steps["a"], net.playbook).data == (("x",), ("y",), ("z",))

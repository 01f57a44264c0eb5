"""From nodes to the typed playbook: names, sugar, writes, joins, loops, and what is left out when it is wrong."""

from typing import Any

import pytest

from noetl.lang.building.playbook import build
from noetl.lang.loader import load
from noetl.lang.reading.node import MapNode
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source
from noetl.model.playbook import Playbook, Step
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()


def built(text: str) -> Playbook:
    """The playbook of any text, right or wrong."""
    source = Source(text)
    root = read_yaml(text, Diagnostics(source))
    assert isinstance(root, MapNode)
    return build(root, KINDS, source)[0]


def step_of(step: str) -> Step:
    return built(f"{HEAD}workflow:\n  - {step}\n").steps[0]


def tasks(tool: str) -> list[str]:
    return [task.name for task in step_of(f"{{step: a, tool: {tool}}}").tasks]


# --- tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        ("{kind: noop}", ["a"]),
        ("{name: x, kind: noop}", ["x"]),
        ("[{kind: noop}]", ["task_1"]),
        ("[{kind: noop}, {name: x, kind: noop}, {kind: noop}]", ["task_1", "x", "task_3"]),
        ("[{x: {kind: noop}}, {y: {kind: noop}}]", ["x", "y"]),
        ("[{x: {kind: noop, name: z}}]", ["x"]),
        ("{kind: workbook, name: w}", ["a"]),
        ("[{name: x, kind: workbook, task: w}]", ["x"]),
    ],
)
def test_tasks_are_named_by_their_shape(tool: str, names: list[str]) -> None:
    assert tasks(tool) == names


def test_in_the_single_shape_the_name_is_what_is_called() -> None:
    (task,) = step_of("{step: a, tool: {kind: workbook, name: w}}").tasks
    assert task.config["task"] == "w"


def test_an_alias_of_a_kind_is_that_kind() -> None:
    (task,) = step_of("{step: a, tool: {kind: script, cmd: ls}}").tasks
    assert (task.kind, task.config["cmd"].tree) == ("shell", "ls")


def test_python_code_is_never_a_template() -> None:
    (task,) = step_of("{step: a, tool: {kind: python, code: \"x = '{{ y }}'\"}}").tasks
    assert task.config["code"] == "x = '{{ y }}'"


def test_what_has_the_wrong_shape_is_left_out_and_the_rest_is_built() -> None:
    playbook = built(
        f"{HEAD}workflow: [5, {{tool: {{kind: noop}}}}, {{step: a, tool: [5, {{kind: noop}}], set: [1], next: 5}}]\n"
    )
    assert [step.name for step in playbook.steps] == ["a"]
    assert [task.name for task in playbook.steps[0].tasks] == ["task_2"]
    assert (playbook.steps[0].set, playbook.steps[0].router.arcs) == ((), ())


# --- rules -----------------------------------------------------------------------------------------------------


def test_a_rule_has_the_defaults_of_the_language() -> None:
    rules = "[{when: true, then: {do: retry}}, {when: true, then: {}}, {else: {then: {do: fail, message: no}}}]"
    (task,) = step_of(f"{{step: a, tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}}}").tasks
    assert task.policy is not None
    retry, nothing, otherwise = (rule.then for rule in task.policy.rules)
    assert (retry.attempts, retry.backoff, retry.delay, retry.max_delay, retry.jitter) == (
        3,
        "fixed",
        1.0,
        300.0,
        False,
    )
    assert nothing.do == "continue"
    assert (otherwise.do, otherwise.message and otherwise.message.tree) == ("fail", "no")
    assert task.policy.rules[2].when is None
    assert task.policy.on_unmatched == "continue"


# --- set -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("{ctx.a: 1}", [("ctx", ("a",), 1)]),
        ("{ctx.a.b: 1}", [("ctx", ("a", "b"), 1)]),
        ("{ctx: {a: 1, b.c: 2}}", [("ctx", ("a",), 1), ("ctx", ("b", "c"), 2)]),
        ("{ctx: {a: {b: 1}}}", [("ctx", ("a",), {"b": 1})]),
        ("{ctx.a: {b: 1}}", [("ctx", ("a",), {"b": 1})]),
        ("{step.x: 1, ctx.y: [2]}", [("step", ("x",), 1), ("ctx", ("y",), [2])]),
        ("{ctx: 5}", [("ctx", (), 5)]),
    ],
)
def test_a_set_is_flat_and_only_its_first_level_is_unfolded(text: str, writes: list[Any]) -> None:
    step = step_of(f"{{step: a, tool: {{kind: noop}}, set: {text}}}")
    assert [(one.scope, one.path, one.value.tree) for one in step.set] == writes


# --- admission -------------------------------------------------------------------------------------------------


def admission(text: str) -> Any:
    return step_of(f"{{step: a, spec: {{policy: {{admit: {text}}}}}, tool: {{kind: noop}}}}").admission


@pytest.mark.parametrize(
    ("text", "places", "need", "rest"),
    [
        ("{from: [b, c]}", {"b": 1, "c": 1}, None, "keep"),
        ("{from: [b, c], need: all}", {"b": 1, "c": 1}, None, "keep"),
        ("{from: [b, c], need: 1, rest: cancel}", {"b": 1, "c": 1}, 1, "cancel"),
        ("{from: {b: 3}}", {"b": 3}, None, "keep"),
        ("{from: {b: }}", {"b": 1}, None, "keep"),
    ],
)
def test_a_join_counts_the_tokens_of_its_predecessors(text: str, places: Any, need: int | None, rest: str) -> None:
    join = admission(f"{{join: {text}}}").join
    assert (join.places, join.need, join.rest) == (places, need, rest)


def test_the_number_of_tokens_may_be_an_expression() -> None:
    join = admission("{join: {from: {b: '{{ workload.n }}'}}}").join
    assert join.places["b"].evaluate({"workload": {"n": 3}}) == 3


def test_no_admission_is_not_the_same_as_no_rule() -> None:
    assert admission("{fire: once}").rules is None
    assert admission("{rules: []}").rules == ()
    assert admission("{fire: once}").fire == "once"
    rules = admission("{rules: [{when: true, then: {allow: true}}, {else: {then: {allow: false}}}]}").rules
    assert [(rule.when is None, rule.allow) for rule in rules] == [(False, True), (True, False)]


# --- loops -----------------------------------------------------------------------------------------------------


def test_a_loop_has_the_defaults_of_the_language() -> None:
    loop = step_of("{step: a, loop: {in: [1], iterator: x}, tool: {kind: noop}}").loop
    assert loop is not None
    assert (loop.items.tree, loop.iterator, loop.mode, loop.max_in_flight, loop.complete_rest, loop.exec, loop.reduce) == (
        [1], "x", "sequential", 16, "cancel", None, {})  # fmt: skip


@pytest.mark.parametrize(
    "spec",
    ["{mode: parallel, max_in_flight: 5}", "{policy: {mode: parallel, max_in_flight: 5}}"],
    ids=["spec", "policy"],
)
def test_mode_and_max_in_flight_may_stand_under_the_policy(spec: str) -> None:
    loop = step_of(f"{{step: a, loop: {{in: [1], iterator: x, spec: {spec}}}, tool: {{kind: noop}}}}").loop
    assert loop is not None
    assert (loop.mode, loop.max_in_flight) == ("parallel", 5)


def test_loops_may_be_nested() -> None:
    loop = step_of("{step: a, loop: {in: [1], iterator: x, loop: {in: [2], iterator: y}}, tool: {kind: noop}}").loop
    assert loop is not None
    assert loop.inner is not None
    assert (loop.inner.iterator, loop.inner.inner) == ("y", None)


# --- sugar -----------------------------------------------------------------------------------------------------


def expanded(item: str) -> list[tuple[str, bool, list[tuple[str | None, str, str | None]]]]:
    """Name, whether silent, and the rules of each task that a list of one piece of sugar becomes."""
    return [
        (
            task.name,
            task.silent,
            [(rule.when and rule.when.source, rule.then.do, rule.then.to) for rule in task.policy.rules]
            if task.policy
            else [],
        )
        for task in step_of(f"{{step: a, tool: [{item}]}}").tasks
    ]


def test_choose_jumps_to_a_branch_and_all_branches_meet_at_its_end() -> None:
    assert expanded("{choose: [{when: '{{ 1 }}', then: [{kind: noop}, {name: q, kind: noop}]}, {when: '{{ 2 }}', then: []}, {else: [{kind: noop}]}]}") == [
        ("choose_1", True, [("{{ 1 }}", "jump", "choose_1_1_task_1"), ("{{ 2 }}", "jump", "choose_1_end"), (None, "jump", "choose_1_3_task_1")]),
        ("choose_1_1_task_1", False, []),
        ("q", False, []),
        ("choose_1_1_end", True, [(None, "jump", "choose_1_end")]),
        ("choose_1_3_task_1", False, []),
        ("choose_1_3_end", True, [(None, "jump", "choose_1_end")]),
        ("choose_1_end", True, []),
    ]  # fmt: skip


def test_choose_without_else_goes_on_when_nothing_matched() -> None:
    assert expanded("{name: pick, choose: [{when: '{{ 1 }}', then: [{kind: noop}]}]}")[0] == (
        "pick", True, [("{{ 1 }}", "jump", "pick_1_task_1"), (None, "jump", "pick_end")])  # fmt: skip


def test_while_asks_before_and_until_after_its_tasks() -> None:
    assert expanded("{while: {when: '{{ 1 }}', do: [{kind: noop}]}}") == [
        ("while_1", True, [("{{ 1 }}", "continue", None), (None, "jump", "while_1_end")]),
        ("while_1_task_1", False, []),
        ("while_1_next", True, [(None, "jump", "while_1")]),
        ("while_1_end", True, []),
    ]
    assert expanded("{until: {when: '{{ 1 }}', do: [{p: {kind: noop}}]}}") == [
        ("p", False, []),
        ("until_1_check", True, [("{{ 1 }}", "continue", None), (None, "jump", "p")]),
        ("until_1_end", True, []),
    ]


def test_sugar_within_sugar_keeps_its_labels_apart() -> None:
    names = [name for name, _, _ in expanded("{while: {when: true, do: [{choose: [{else: [{kind: noop}]}]}]}}")]
    assert names == [
        "while_1", "while_1_choose_1", "while_1_choose_1_1_task_1", "while_1_choose_1_1_end", "while_1_choose_1_end",
        "while_1_next", "while_1_end",
    ]  # fmt: skip
    assert len(names) == len(set(names))


def test_until_that_begins_with_sugar_starts_again_at_its_first_task() -> None:
    rules = {
        name: rules
        for name, _, rules in expanded("{until: {when: '{{ 1 }}', do: [{choose: [{else: [{kind: noop}]}]}]}}")
    }
    assert rules["until_1_check"][1] == (None, "jump", "until_1_choose_1")


# --- the document ----------------------------------------------------------------------------------------------


def test_the_path_is_the_name_unless_it_is_given() -> None:
    assert built(f"{HEAD}workflow: []\n").path == "t"
    assert built(f"{HEAD.replace('name: t', 'name: t, path: a/t')}workflow: []\n").path == "a/t"


def test_the_workload_is_plain_data_templates_included() -> None:
    assert built(f"{HEAD}workload: {{a: '{{{{ x }}}}', b: [1]}}\nworkflow: []\n").workload == {"a": "{{ x }}", "b": [1]}


def test_the_workbook_inherits_from_the_executor() -> None:
    playbook = built(
        f"{HEAD}executor: {{spec: {{timeout: 3}}}}\nworkbook: {{w: {{kind: noop}}, v: [{{kind: noop}}]}}\nworkflow: []\n"
    )
    assert {name: [task.name for task in tasks] for name, tasks in playbook.workbook.items()} == {
        "w": ["w"],
        "v": ["task_1"],
    }
    assert playbook.workbook["w"][0].spec["timeout"].origin == "executor.spec"


def test_a_router_knows_its_mode_arcs_and_plan() -> None:
    router = step_of(
        "{step: a, next: {spec: {mode: inclusive, synthesize: {from: '{{ output.data }}', allow_kinds: [http]}},"
        " arcs: [{step: b, cancel: [c], set: {ctx.k: 1}}, {terminate: failed}]}}"
    ).router
    assert (router.mode, [(arc.step, arc.cancel, arc.terminate) for arc in router.arcs]) == (
        "inclusive", [("b", ("c",), None), (None, (), "failed")])  # fmt: skip
    assert router.synthesize is not None
    assert (router.synthesize.max_steps, router.synthesize.allow_kinds) == (20, ("http",))


def test_a_playbook_with_an_error_has_no_net() -> None:
    assert load(f"{HEAD}workflow: [{{step: a}}]\n", KINDS).net is None
    assert load(f"{HEAD}workflow: [{{step: end}}]\n", KINDS).net is not None

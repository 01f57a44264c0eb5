"""The document around the steps: of two values side by side, none is lost."""

import pytest
from migrating import migrated

from noetl.lang.legacy import migrate
from noetl.tools.registry import ToolKinds

END = "workflow: [{step: end}]\n"


def metadata(text: str) -> str:
    result = migrate(f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {text}\n{END}", ToolKinds())
    assert result is not None
    return result.text


def test_vars_and_workload_of_one_name_keep_both_values() -> None:
    text, todo = migrated(
        "workload: {k: 2}\nvars: {k: 1}\nworkflow:\n"
        '  - {step: a, tool: {kind: noop, output: "{{ vars.k }} {{ workload.k }}"}}\n'
    )
    assert "workload: {k: 2, vars_k: 1}" in text
    assert "{{ workload.vars_k }} {{ workload.k }}" in text
    assert todo == []


def test_labels_that_are_a_list_join_the_tags() -> None:
    assert "tags: [b, a]" in metadata("{name: t, labels: [a], tags: [b, a]}")


def test_a_label_is_not_replaced_by_an_unknown_key_of_that_name() -> None:
    text = metadata("{name: t, team: one, labels: {team: two}}")
    assert "team: two" in text
    assert 'said `team: "one"`: decide which holds' in text


def test_a_workbook_task_without_a_name_is_not_dropped() -> None:
    text, todo = migrated(f"workbook: [{{name: w, kind: noop}}, {{kind: noop}}]\n{END}")
    assert "workbook: [{name: w, kind: noop}, {kind: noop}]" in text
    assert len(todo) == 1


def test_a_default_with_a_template_inside_a_map_is_told() -> None:
    text, todo = migrated(f'workload:\n  a:\n    b: ["{{{{ execution_id }}}}"]\n{END}')
    assert len(todo) == 1
    assert f"# TODO noetl: {todo[0]}" in text


@pytest.mark.parametrize(
    ("said", "told"),
    [("no_next_is_error: false", 0), ("no_next_is_error: true", 1), ("final_step: end", 0), ("final_step: a", 1)],
)
def test_a_setting_of_another_executor_goes_only_where_it_says_what_is_the_case(said: str, told: int) -> None:
    text, todo = migrated(
        f"executor: {{spec: {{{said}}}}}\nworkflow: [{{step: a, tool: {{kind: noop}}}}, {{step: end}}]\n"
    )
    assert (len(todo), said in text) == (told, bool(told))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{w: {tool: {kind: noop}}}", "{w: {kind: noop}}"),
        ("{w: {desc: x, tool: {kind: noop}}}", "{w: {kind: noop, desc: x}}"),
        ("{w: {tool: [{kind: noop}]}}", "{w: [{kind: noop}]}"),
    ],
)
def test_a_workbook_task_inside_of_tool_is_taken_out_in_the_file_too(before: str, after: str) -> None:
    text, todo = migrated(f"workbook: {before}\n{END}")
    assert (f"workbook: {after}\n" in text, todo) == (True, [])


def test_the_habits_of_a_workbook_task_are_mended_as_those_of_a_step_are() -> None:
    text, todo = migrated(
        "workbook:\n"
        "  w: {kind: python, libs: {np: numpy}, auth: {}, code: result = 1}\n"
        f"  v: {{kind: postgres, auth: p, with: {{commands: select 1}}, pool: {{max_size: 3}}}}\n{END}"
    )
    assert "  w:\n    kind: python\n    code: |-\n      import numpy as np\n      result = 1\n" in text
    assert "  v: {kind: postgres, auth: p, spec: {pool_size: 3}, command: select 1}\n" in text
    assert todo == []


def test_a_habit_is_not_called_an_older_spelling() -> None:
    result = migrate(f"description: x\nvars: {{a: 1}}\n{END}", ToolKinds())
    assert result is not None
    assert [one.message for one in result.diagnostics] == [
        "`description` at the root is not part of the language",
        "root `vars` is an older spelling",
    ]

"""A step's body: what stands side by side is not lost."""

from migrating import HEAD, KINDS, errors, migrated

from noetl.lang.loader import load


def test_args_and_input_that_disagree_are_left_to_a_person() -> None:
    text, todo = migrated("workflow:\n  - step: a\n    input: {x: 1}\n    args: {x: 2, y: 3}\n    tool: {kind: noop}\n")
    assert todo == ["`args` said `x: 2`: decide which holds"]
    assert "y: 3" in text


def test_args_beside_an_input_that_is_one_template_are_not_dropped() -> None:
    body = 'workflow:\n  - step: a\n    input: "{{ workload.all }}"\n    args: {y: 3}\n    tool: {kind: noop}\n'
    text, todo = migrated(body)
    assert 'input: "{{ workload.all }}"' in text
    assert "args: {y: 3}" in text
    assert len(todo) == 1
    assert errors(body, legacy=True) == ["legacy-args"]


def test_what_stands_beside_the_tasks_of_an_iterator_is_not_dropped() -> None:
    text, _ = migrated(
        "workflow:\n  - step: a\n    tool: {kind: iterator, in: [1], iterator: x, tasks: [{kind: noop}], set: {ctx.k: 1}}\n"
    )
    assert "set: {ctx.k: 1}" in text
    assert load(HEAD + text, KINDS).ok


def test_next_mode_keeps_what_else_the_router_says() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: a
            spec: {next_mode: inclusive}
            tool: {kind: noop}
            next: {spec: {mode: exclusive, synthesize: {from: "{{ output.data }}"}}, arcs: [{step: end}]}
          - step: end
        """
    )
    assert "synthesize" in text
    assert todo == ['`next_mode` said `mode: "inclusive"`: decide which holds']


def test_what_stands_beside_the_label_of_a_task_is_the_tasks() -> None:
    text, todo = migrated("workflow:\n  - step: a\n    tool:\n      - fetch: {kind: noop}\n        desc: x\n")
    assert "- fetch: {kind: noop, desc: x}\n" in text
    assert todo == []

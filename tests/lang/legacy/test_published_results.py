"""Results: what a block says beyond what is understood is told to a person."""

import pytest
from migrating import errors, migrated

STEP = "workflow:\n  - step: a\n    tool: {kind: noop%s}\n    %s\n"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("{as: r, ttl: 5}", "`result` said `ttl: 5` here: write it with `output` or `set`"),
        ("{collect: {into: all, path: x}}", '`collect` said `path: "x"` here: write it with `output` or `set`'),
        (
            "{collect: {mode: append, strategy: y}}",
            '`collect` said `strategy: "y"` here: write it with `output` or `set`',
        ),
    ],
)
def test_what_else_a_result_said_is_told(block: str, said: str) -> None:
    _, todo = migrated(STEP % (f", result: {block}", "desc: x"))
    assert todo == [said]


def test_a_pick_beside_an_output_is_told() -> None:
    text, todo = migrated(STEP % (", output: 1, result: {pick: 2}", "desc: x"))
    assert todo == ["`pick` said `output: 2`: decide which holds"]
    assert "output: 1" in text


def test_a_result_beside_an_output_stays() -> None:
    body = STEP % ("", 'output: 1\n    result: {x: "{{ output.data }}"}')
    text, todo = migrated(body)
    assert 'result: {x: "{{ output.data }}"}' in text
    assert len(todo) == 1
    assert errors(body, legacy=True) == ["legacy-result"]


def test_the_name_of_a_result_is_read_in_its_own_pipeline() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: a
            tool:
              - one: {kind: noop, result: r}
              - two: {kind: noop, output: "{{ r.x }}"}
              - three: {kind: noop, output: "{{ r.data.x }}"}
        """
    )
    assert not todo
    assert text.count("step.r.x") == 2
    assert 'one: {kind: noop, set: {step.r: "{{ output.data }}"}}' in text


def test_the_name_of_a_result_inside_of_a_loop_is_of_the_iteration() -> None:
    text, _ = migrated(
        """\
        workflow:
          - step: a
            loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
            tool:
              - one: {kind: noop, result: r}
              - two: {kind: noop, output: "{{ r.x }}"}
        """
    )
    assert 'output: "{{ iter.r.x }}"' in text


def test_a_result_that_later_steps_read_is_that_of_its_own_task() -> None:
    text, _ = migrated(
        """\
        workflow:
          - step: a
            tool:
              - one: {kind: noop, result: r}
              - two: {kind: noop}
            next: {arcs: [{step: b}]}
          - {step: b, tool: {kind: noop, output: "{{ r.x }}"}}
        """
    )
    assert 'one: {kind: noop, set: {ctx.r: "{{ output.data }}"}}' in text
    assert 'output: "{{ ctx.r.x }}"' in text


def test_what_a_sequential_loop_merges_finds_what_is_there() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: a
            loop: {in: [1, 2], iterator: x}
            tool: {kind: noop, result: {collect: {into: all, mode: merge}}}
        """
    )
    assert 'set: {ctx.all: "{{ dict(ctx.all | default({}), **output.data) }}"}' in text
    assert "replaced, not merged" in todo[0]

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

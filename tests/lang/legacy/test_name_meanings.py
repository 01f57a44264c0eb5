"""Words of older runtimes: a status compared in whatever way, an event that came after both ends."""

import pytest
from migrating import migrated

STEP = """\
workload: {n: 1}
workflow:
  - step: a
    tool: {kind: http, url: u}
    next: {arcs: [{step: end, when: "{{ %s }}"}]}
  - step: end
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("'success' == outcome.status", "'ok' == output.status"),
        ("outcome.status in ['success', 'error']", "output.status in ['ok', 'error']"),
        ("outcome.status not in ('success',)", "output.status not in ('ok',)"),
        ("outcome.status!='success'", "output.status!='ok'"),
        ("'success' == n", "'success' == workload.n"),
        ("event.name in ['call.done', 'call.error']", "event.name in ['step.done', 'step.failed']"),
        (
            "event.name == 'step.exit' and error is not defined",
            "event.name == 'step.done' and output.error is not defined",
        ),
        ("event.name == 'step.exit' and event.error", "event.name == 'step.failed' and event.error"),
    ],
)
def test_a_word_that_is_compared_is_renamed_on_either_side(before: str, after: str) -> None:
    text, todo = migrated(STEP % before)
    assert "{{ " + after + " }}" in text
    assert todo == []


def test_a_status_that_goes_through_a_filter_is_left_to_a_person() -> None:
    _, todo = migrated(STEP % "outcome.status | lower == 'success'")
    assert todo == ["a status is `ok` or `error`, and never `success`"]


def test_step_exit_alone_is_left_to_a_person() -> None:
    text, todo = migrated(STEP % "event.name == 'step.exit'")
    assert "event.name == 'step.done'" in text
    assert len(todo) == 1


def test_step_exit_of_a_step_that_cannot_fail_is_its_end() -> None:
    _, todo = migrated((STEP % "event.name == 'step.exit'").replace("{kind: http, url: u}", "{kind: noop}"))
    assert todo == []


def test_a_name_that_a_step_has_and_another_step_writes_is_left_to_a_person() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: fetch
            tool: {kind: noop}
            next: {arcs: [{step: other}]}
          - step: other
            tool: {kind: noop}
            set: {ctx.fetch: 1}
            next: {arcs: [{step: last}]}
          - {step: last, tool: {kind: noop, output: "{{ fetch.id }}"}}
        """
    )
    assert "{{ fetch.id }}" in text
    assert todo == ["`fetch` is a step, and another step writes a `fetch`: write `ctx.fetch` and say whose it is"]

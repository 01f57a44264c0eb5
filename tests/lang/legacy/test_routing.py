"""Routing: a `case` becomes arcs and rules, or stays as it is; nothing of it is dropped."""

import pytest
from migrating import errors, migrated

CASE = """\
workflow:
  - step: a
    tool: {kind: http, url: u}
    case:
%s
  - {step: b, tool: {kind: noop}}
  - step: end
"""


@pytest.mark.parametrize(
    "items",
    [
        "      - {when: \"{{ event.name == 'call.done' }}\", then: [{pipe: [{x: {kind: noop}}], catch: {cond: []}}]}",
        "      - {when: \"{{ event.name == 'call.done' }}\", then: {sink: {tool: postgres}, next: [{step: b}]}}",
        "      - {when: \"{{ event.name == 'call.done' }}\", then: {retry: {params: {page: 2}}}}",
        "      - {when: \"{{ event.name == 'step.enter' }}\", then: {set: {k: 1}}}",
        '      - {when: "{{ output.data.x }}", then: {set: {k: 1}}}',
        "      - {then: {set: {k: 1}}}\n      - {then: {next: [{step: b}]}}",
        "      - {then: [{set: {k: 1}}, {set: {k: 2}}, {step: b}]}",
        "      - {then: b}",
    ],
)
def test_a_case_that_says_more_than_arcs_and_rules_do_stays_as_it_is(items: str) -> None:
    text, todo = migrated(CASE % items)
    assert len(todo) == 1
    assert text.replace(f"    # TODO noetl: {todo[0]}\n", "") == CASE % items
    assert errors(CASE % items, legacy=True) == ["legacy-case"]


def test_a_list_of_writes_in_a_case_goes_with_each_of_its_arcs() -> None:
    text, todo = migrated(CASE % "      - {then: {set: [{name: k, value: 1}], next: [{step: b}, {step: end}]}}")
    assert text.count("ctx.k: 1") == 2
    assert todo == []


def test_writes_of_the_only_branch_are_the_steps_own() -> None:
    text, todo = migrated(CASE % "      - {when: \"{{ event.name == 'call.done' }}\", then: {set: {k: 1}}}")
    assert "set: {ctx.k: 1}" in text
    assert todo == []


def test_a_retry_for_some_errors_only_says_which() -> None:
    items = (
        "      - {when: \"{{ event.name == 'call.error' and error.status == 503 }}\", then: {retry: {max_attempts: 2}}}"
    )
    text, todo = migrated(CASE % items)
    assert "do: retry" in text
    assert todo == ["the retry was meant for: {{ event.name == 'call.error' and error.status == 503 }}"]

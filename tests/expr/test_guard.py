"""Guard: a `when`, in which an undefined is false and every other error an error."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr import guard, template

SCOPES: dict[str, Any] = {
    "ctx": {},
    "workload": {"n": 1, "rows": [{"a": 1}, {}]},
    "output": {"status": "error", "http": {"status": 503}},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (True, True),
        (False, False),
        ("true", True),
        (" false ", False),
        ("{{ true }}", True),
        ("{{ output.status == 'error' and output.http.status in [429, 503] }}", True),
        ("{{ ctx.missing }}", False),
        ("{{ ctx.missing.flag }}", False),
        ("{{ nowhere }}", False),
        ("{{ ctx.missing > 3 }}", False),
        ("{{ ctx.missing < 3 }}", False),
        ("{{ ctx.missing == 0 }}", False),
        ("{{ ctx.missing != 0 }}", False),
        ("{{ 5 > ctx.missing.deep.er }}", False),
        ("{{ workload.n == ctx.missing }}", False),
        ("{{ workload.n != ctx.missing }}", False),
        ("{{ ctx.missing == ctx.missing }}", False),
        ("{{ 1 in ctx.missing }}", False),
        ("{{ 1 not in ctx.missing }}", False),
        ("{{ ctx.missing in [1] }}", False),
        ("{{ ctx.missing not in [1] }}", False),
        ("{{ 0 < ctx.missing < 3 }}", False),
        ("{{ ctx.missing is eq 1 }}", False),
        ("{{ ctx.missing is ne 1 }}", False),
        ("{{ ctx.missing is not eq 1 }}", False),
        ("{{ ctx.missing is not ne 1 }}", False),
        ("{{ ctx.missing is not in [1] }}", False),
        ("{{ 1 is not in ctx.missing }}", False),
        ("{{ 1 is not in [2] }}", True),
        ("{{ not ctx.missing is eq 1 }}", True),
        ("{{ not (ctx.missing is eq 1) }}", True),
        ("{{ not ctx.missing is not eq 1 }}", True),
        ("{{ [nowhere] != [1] }}", False),
        ("{{ [nowhere] == [1] }}", False),
        ("{{ {'a': [nowhere]} != {'a': [1]} }}", False),
        ("{{ 1 not in [nowhere] }}", False),
        ("{{ [nowhere] not in [[1]] }}", False),
        ("{{ 1 in [1, nowhere] }}", True),
        ("{{ ctx.missing > 3 or true }}", True),
        ("{{ not (ctx.missing == 1) }}", True),
        ("{{ ctx.missing is not defined }}", True),
        ("{{ ctx.missing is none }}", False),
        ("{{ ctx.n | default(0) < 2 }}", True),
        ("{{ workload.rows | selectattr('a', 'eq', 1) | list | length == 1 }}", True),
        ("{{ workload.rows }}", True),
        ("{{ [] }}", False),
        ("{{ 'false' }}", True),
        ("{{ ('a' if false) == 'a' }}", False),
        ("{{ [] | first == 1 }}", False),
    ],
)
def test_a_guard_is_a_boolean_and_forgives_undefined_per_comparison(text: str | bool, expected: bool) -> None:
    found = guard(text)
    assert found.form_ok
    assert found.evaluate(SCOPES) is expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ workload.n / 0 > 1 }}",
        "{{ ctx.missing + 1 > 0 }}",
        "{{ ctx.missing | length > 0 }}",
        "{{ ctx.missing | upper == 'A' }}",
        "{{ 'a' < 1 }}",
        "{{ nope() }}",
        "{{ 1 + }}",
    ],
)
def test_any_other_error_is_an_error_that_quotes_the_expression(text: str) -> None:
    with pytest.raises(TemplateError) as caught:
        guard(text).evaluate(SCOPES)
    assert text.strip("{} ") in str(caught.value)
    assert caught.value.kind == "template"


@pytest.mark.parametrize(
    "text", ["workload.x == 1", "{{ true }} or {{ false }}", "yes {{ true }}", "True", "", "{% if a %}true{% endif %}"]
)
def test_a_text_that_is_neither_an_expression_nor_a_literal_has_the_wrong_form(text: str) -> None:
    found = guard(text)
    assert not found.form_ok
    with pytest.raises(TemplateError):
        found.evaluate(SCOPES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{{ é is not eq 1 }}", False), ("{{ not é is eq 1 }}", True), ("{{ not (é is eq 1) }}", True)],
)
def test_is_not_means_the_same_where_jinja_has_to_read_it(text: str, expected: bool) -> None:
    assert guard(text).evaluate(SCOPES) is expected


@pytest.mark.parametrize("text", ["{{ [nowhere] != [1] }}", "{{ nowhere is not eq 1 }}", "{{ 1 not in [nowhere] }}"])
def test_outside_of_a_guard_comparing_with_an_undefined_is_an_error(text: str) -> None:
    with pytest.raises(UndefinedValue, match="nowhere"):
        template(text).evaluate(SCOPES)


def test_a_guard_tells_what_it_reads_and_calls() -> None:
    found = guard("{{ done('a') and output.data.total > 3 }}")
    assert [read.path for read in found.reads] == [("output", "data", "total")]
    assert [call.name for call in found.calls] == ["done"]
    assert guard(True).reads == ()
    assert guard("{{ x | nope }}").problems[0].code == "unknown-filter"

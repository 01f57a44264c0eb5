"""References show their four fields, and reaching further is an error that names the way out."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expr import guard, template
from noetl.expr.member_access import REF_FIELDS, Ref, is_reference

REF = Ref(type="blob", locator={"path": "x"}, auth_reference=None, meta={"bytes": 9})
SCOPES: dict[str, Any] = {"ctx": {"big_ref": REF, "refs": [REF]}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ ctx.big_ref.meta.bytes }}", 9),
        ("{{ ctx.big_ref['type'] }}", "blob"),
        ("{{ ctx.big_ref.auth_reference }}", None),
        ("{{ ctx.big_ref.meta.rows | default(0) }}", 0),
        ("{{ ctx.refs[0].locator.path }}", "x"),
        ("{{ ctx.big_ref is mapping }}", True),
        ("{{ 'patients' in ctx.big_ref }}", False),
    ],
)
def test_what_a_reference_shows(text: str, expected: Any) -> None:
    assert template(text).evaluate(SCOPES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ ctx.big_ref.patients }}",
        "{{ ctx.big_ref.patients | default([]) }}",
        "{{ ctx.big_ref['rows'] }}",
        "{{ ctx.big_ref[0] }}",
        "{{ ctx.big_ref.items() }}",
        "{{ (ctx.refs | first).rows }}",
        "{{ ctx.refs | map(attribute='rows') | list }}",
        "n={{ ctx.big_ref.rows }}",
    ],
)
def test_reaching_for_payload_through_a_reference_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError, match="kind: resolve") as caught:
        template(text).evaluate(SCOPES)
    assert caught.value.kind == "ref-deref"


def test_reaching_through_a_reference_is_an_error_in_a_guard_too() -> None:
    with pytest.raises(TemplateError, match="kind: resolve"):
        guard("{{ ctx.big_ref.rows > 3 }}").evaluate(SCOPES)


def test_a_reference_is_passed_on_as_it_is() -> None:
    assert template("{{ ctx.big_ref }}").evaluate(SCOPES) is REF
    assert template("{{ [ctx.big_ref] }}").evaluate(SCOPES)[0] is REF


def test_a_reference_is_told_by_its_shape() -> None:
    assert is_reference(REF)
    assert is_reference(dict.fromkeys(REF_FIELDS))
    assert not is_reference({"type": "blob"})
    assert not is_reference({**REF, "rows": 1})
    assert not is_reference(None)


@pytest.mark.parametrize("source", ["{{ ctx.rows.patients }}", "{{ ctx['rows']['patients'] }}"])
def test_a_reference_that_was_read_from_a_log_is_one_too(source: str) -> None:
    plain = {"type": "blob", "locator": {"path": "x"}, "auth_reference": None, "meta": {}}
    with pytest.raises(TemplateError) as caught:
        template(source).evaluate({"ctx": {"rows": plain}})
    assert caught.value.kind == "ref-deref"

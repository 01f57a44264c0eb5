"""Conditions on `error.kind`: a word that is no kind is told, with what to write."""

import pytest
from msgspec.structs import replace

from noetl.lang.loader import load
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"


def told(condition: str) -> list[Diagnostic]:
    text = f"""{HEAD}workflow:
  - step: start
    tool: {{kind: noop}}
    next: {{arcs: [{{step: end, when: "{{{{ {condition} }}}}"}}]}}
  - step: end
"""
    return [one for one in load(text, ToolKinds()).diagnostics if one.code == "unknown-error-kind"]


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ("event.error.kind == 'tiemout'", "tiemout"),
        ("event.error.kind != 'tiemout'", "tiemout"),
        ("'tiemout' == event.error.kind", "tiemout"),
        ("event.error.kind in ['timeout', 'tiemout']", "tiemout"),
        ("event.error.kind not in ('timeout', 'tiemout')", "tiemout"),
        ("event['error']['kind'] == 'tiemout'", "tiemout"),
        ("(event.error.kind | default('')) == 'tiemout'", "tiemout"),
        ("event.error.kind is eq('tiemout')", "tiemout"),
        ("steps.start.status.failure.kind == 'tiemout'", "tiemout"),
        ("event.output.error.kind == 'tiemout'", "tiemout"),
    ],
)
def test_a_word_that_no_error_has_as_its_kind_is_a_warning_at_the_word(condition: str, word: str) -> None:
    (found,) = told(condition)
    assert found.span is not None
    line = f'    next: {{arcs: [{{step: end, when: "{{{{ {condition} }}}}"}}]}}'
    assert line[found.span.column - 1 :].lstrip("'").startswith(word)
    assert found.fix == "did you mean `timeout`?"


@pytest.mark.parametrize(
    "condition",
    [
        "event.error.kind == 'timeout'",
        "event.error.kind in ['http-status', 'dead-letter', 'stalled']",
        "ctx.error.kind == 'anything'",
        "event.name == 'step.done'",
        "'http' in event.error.kind",
        "event.error.kind == ctx.expected",
    ],
)
def test_kinds_and_other_comparisons_are_left_alone(condition: str) -> None:
    assert told(condition) == []


def test_words_of_other_engines_are_answered_with_the_condition_that_has_their_meaning() -> None:
    (found,) = told("event.error.kind == 'rate_limit'")
    assert found.fix == "write `output.http.status == 429`"


def test_the_kinds_that_a_plugin_declares_are_known() -> None:
    kinds = {**dict(ToolKinds()), "noop": replace(ToolKinds()["noop"], error_kinds=frozenset({"quota"}))}
    text = f"""{HEAD}workflow:
  - step: start
    tool: {{kind: noop, spec: {{policy: {{rules: [{{when: "{{{{ output.error.kind == 'quota' }}}}", then: {{do: break}}}}]}}}}}}
"""
    assert [one.code for one in load(text, kinds).diagnostics if one.code == "unknown-error-kind"] == []
    assert [one.code for one in load(text, ToolKinds()).diagnostics if one.code == "unknown-error-kind"] != []

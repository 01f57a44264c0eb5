"""Names that the document defines go first: before every habit, and before every scope, wherever they are in scope."""

from __future__ import annotations

import pytest
from migrating import HEAD, KINDS, errors, migrated

from noetl.lang.legacy import migrate

WORDS = [
    "job",
    "payload",
    "env",
    "error",
    "row",
    "rows",
    "chunk",
    "event",
    "loop",
    "args",
    "namespace",
    "this",
    "result",
    "response",
    "input",
    "output",
    "context",
    "vars",
    "step",
    "iter",
    "ctx",
    "data",
    "outcome",
    "item",
    "status_code",
    "steps",
    "range",
    "dict",
    "now",
    "uuid",
    "params",
    "spec",
    "out",
]

#: how a document defines a name → the document, and what the name is in the templates of its last step
DEFINED = {
    "element": (
        """\
        workload: {list: [{k: 1}]}
        workflow:
          - step: last
            loop: {collection: "{{ workload.list }}", element: WORD}
            tool: {kind: noop, output: {z: 'FORM'}}
        """,
        "iter.WORD",
    ),
    "result": (
        """\
        workflow:
          - step: first
            result: WORD
            tool: {kind: noop}
            next: [{step: last}]
          - {step: last, tool: {kind: noop, output: {z: 'FORM'}}}
        """,
        "ctx.WORD",
    ),
    "step": (
        """\
        workflow:
          - {step: start, next: [{step: WORD}]}
          - step: WORD
            tool: {kind: noop}
            next: [{step: last}]
          - {step: last, tool: {kind: noop, output: {z: 'FORM'}}}
        """,
        "ctx.WORD",
    ),
    "workload key": (
        """\
        workload: {WORD: {k: {j: 1}, list: [1], name: x}}
        workflow:
          - {step: first, tool: {kind: noop}, next: [{step: last}]}
          - {step: last, tool: {kind: noop, output: {z: 'FORM'}}}
        """,
        "workload.WORD",
    ),
    "root vars": (
        """\
        vars: {WORD: {k: {j: 1}, list: [1], name: x}}
        workflow:
          - {step: first, tool: {kind: noop}, next: [{step: last}]}
          - {step: last, tool: {kind: noop, output: {z: 'FORM'}}}
        """,
        "workload.WORD",
    ),
}
FORMS = {
    "plain": "{{ WORD.k }}",
    "whole": "{{ WORD }}",
    "filter argument": "{{ none | default(WORD.k) }}",
    "subscript": '{{ WORD["k"] }}',
    "in a for": "{% for x in WORD.list %}{{ x }} {{ WORD.k }}{% endfor %}",
    "nested attribute": "{{ [1, WORD.k.j] }}",
    "with a default": "{{ WORD.k | default(3) }}",
    "tested": "{{ 1 if WORD.k is defined and WORD.k else 2 }}",
}


@pytest.mark.parametrize("way", DEFINED)
@pytest.mark.parametrize("word", WORDS)
def test_a_name_that_the_document_defines_is_that_in_every_form(word: str, way: str) -> None:
    body, means = DEFINED[way]
    for form, text in FORMS.items():
        if (word, form) == ("loop", "in a for"):
            continue  # inside of it, `loop` is Jinja2's, and was
        before = body.replace("FORM", text).replace("WORD", word)
        after, todo = migrated(before)
        wanted = text.replace("WORD", means).replace("WORD", word)
        assert wanted in after.replace("\\\\", ""), (form, after)
        assert todo == [], (form, after)
        assert errors(after) == [], (form, after)
        assert errors(before, legacy=True) == [], (form, before)


PLACES = {
    "rule": "tool: {kind: noop, spec: {policy: {rules: [{when: '{{ WORD.k }}', then: {do: continue}}]}}}",
    "arc": "tool: {kind: noop}\n    next: [{step: end, when: '{{ WORD.k }}'}]",
    "admission": "when: '{{ WORD.k }}'\n    tool: {kind: noop}",
    "input": "args: {code: '{{ WORD.k }}', desc: x}\n    tool: {kind: noop}",
    "task input": "tool: {kind: shell, cmd: echo, args: {code: '{{ WORD.k }}'}}",
    "set": "tool: {kind: noop}\n    set: {ctx.z: '{{ WORD.k }}'}",
    "sink": "tool: {kind: noop, sink: {kind: file, path: 'x/{{ WORD.k }}.json'}}",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("word", WORDS)
def test_it_is_that_in_every_place(word: str, place: str) -> None:
    body = f"""\
workload: {{{word}: {{k: {{j: 1}}}}}}
workflow:
  - {{step: first, tool: {{kind: noop}}, next: [{{step: last}}]}}
  - step: last
    {PLACES[place].replace("WORD", word)}
  - step: end
"""
    after, todo = migrated(body)
    assert f"{{{{ workload.{word}.k }}}}" in after, after
    assert todo == []
    assert errors(after) == []


def test_a_scope_stays_a_scope_where_the_document_defines_something_else() -> None:
    """The keys that the document shows decide: a workload's `output` has no `status`."""
    text, todo = migrated(
        """\
        workload: {output: {dir: x}, event: {kind: y}, error: 5}
        workflow:
          - step: a
            tool: {kind: http, url: u, args: {dir: "{{ output.dir }}"}, spec: {policy: {rules: [
              {when: "{{ output.status == 'error' and error.status == 503 }}", then: {do: retry}}]}}}
            next: [{step: end, when: "{{ event.name == 'step.done' and event.kind == 'y' }}"}]
          - step: end
        """
    )
    assert "{{ workload.output.dir }}" in text
    assert "output.status == 'error' and output.http.status == 503" in text
    assert "event.name == 'step.done' and workload.event.kind == 'y'" in text
    assert todo == []


def test_the_error_of_a_rule_stays_the_error_where_a_step_of_that_name_has_not_run() -> None:
    text, _ = migrated(
        """\
        workflow:
          - step: a
            tool: {kind: http, url: u, spec: {policy: {rules: [{when: "{{ error.kind == 'timeout' }}", then: {do: retry}}]}}}
            next: [{step: error, when: "{{ error.message }}"}]
          - step: error
            tool: {kind: noop, spec: {policy: {rules: [{when: "{{ error.kind == 'timeout' }}", then: {do: retry}}]}}}
            next: [{step: show}]
          - {step: show, tool: {kind: noop, output: "{{ error.message }}"}}
        """
    )
    assert text.count("{{ output.error.kind == 'timeout' }}") == 2
    assert "{{ output.error.message }}" in text
    assert 'output: "{{ ctx.error.message }}"' in text


def test_a_canonical_document_keeps_its_scopes_whatever_it_defines() -> None:
    text = (
        HEAD
        + """\
workload: {output: {data: 1}, input: {n: 1}, event: {name: x}, iter: 1, ctx: {n: 1}}
workflow:
  - step: start
    input: {n: 1}
    tool: {kind: noop, output: "{{ input.n }}", set: {ctx.n: "{{ output.data }}"}}
    next: {arcs: [{step: output, when: "{{ event.name == 'step.done' and ctx.n == 1 }}"}]}
  - {step: output, tool: {kind: noop, output: "{{ output.data }}"}}
"""
    )
    result = migrate(text, KINDS)
    assert result is not None
    assert result.text == text


def test_jinja_names_stay_inside_of_their_loop() -> None:
    text, _ = migrated(
        """\
        workload: {loop: {total: 1}, row: {n: 1}}
        workflow:
          - step: a
            when: "{{ true }}"
            tool: {kind: noop, output: "{% for row in [1] %}{{ loop.index }} {{ row }}{% endfor %} {{ loop.total }} {{ row.n }}"}
        """
    )
    assert "{{ loop.index }} {{ row }}{% endfor %} {{ workload.loop.total }} {{ workload.row.n }}" in text


def test_a_name_that_is_called_is_a_function() -> None:
    text, _ = migrated(
        """\
        workload: {namespace: x, now: y}
        workflow:
          - step: a
            when: "{{ true }}"
            tool: {kind: noop, output: "{% set n = namespace(a=namespace) %}{{ now() }} {{ now }}"}
        """
    )
    assert "{% set n = namespace(a=workload.namespace) %}{{ now() }} {{ workload.now }}" in text

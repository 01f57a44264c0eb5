"""Migrating: comments survive, names are told apart, and what is not certain is left to a person."""

import textwrap
import time

import pytest
from migrating import HEAD, KINDS, migrated

from noetl.lang.legacy import migrate
from noetl.lang.loader import load


def output_of(template: str, workload: str = "{n: 1, xs: [], sep: x, m: {}}") -> str:
    """What a template of a task becomes."""
    text, _ = migrated(
        f"workload: {workload}\nworkflow:\n  - step: a\n    tool:\n      kind: noop\n      output: |\n        {template}\n"
    )
    return text.rsplit("|\n", 1)[1].strip()


# --- names in templates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{{ n }}", "{{ workload.n }}"),
        ("{{n}}-{{ n|int }}", "{{workload.n}}-{{ workload.n|int }}"),
        ("{{ m.n }}", "{{ workload.m.n }}"),
        ("{{ m['n'] }}", "{{ workload.m['n'] }}"),
        ("{{ 'n' }}", "{{ 'n' }}"),
        ("{{ xs | join(sep) }}", "{{ workload.xs | join(workload.sep) }}"),
        ("{{ dict(n=n) }}", "{{ dict(n=workload.n) }}"),
        ("{{ {'n': n}['n'] }}", "{{ {'n': workload.n}['n'] }}"),
        ("{{ n is defined and n is not none }}", "{{ workload.n is defined and workload.n is not none }}"),
        ("{{ n if m else xs }}", "{{ workload.n if workload.m else workload.xs }}"),
        ("{% for n in xs %}{{ n }}{{ loop.index }}{% endfor %}", "{% for n in workload.xs %}{{ n }}{{ loop.index }}{% endfor %}"),
        ("{% set k = n %}{{ k }}", "{% set k = workload.n %}{{ k }}"),
        ("{%- if n -%} a {%- endif -%} b {{- n -}} c", "{%- if workload.n -%} a {%- endif -%} b {{- workload.n -}} c"),
        ("{# n #}{{ n }}", "{# n #}{{ workload.n }}"),
        ("{{ workload.n }} {{ ctx.n }}", "{{ workload.n }} {{ ctx.n }}"),
        ("{{ null }}", "{{ none }}"),
    ],
)  # fmt: skip
def test_a_bare_name_is_renamed_and_all_around_it_stays(before: str, after: str) -> None:
    assert output_of(before) == after


def test_python_code_is_never_touched() -> None:
    text, _ = migrated(
        """\
        workload: {n: 1}
        workflow:
          - step: a
            args: {n: "{{ n }}"}
            tool:
              kind: python
              code: |
                x = "{{ n }}"  # outcome.result
                result = n
        """
    )
    assert 'x = "{{ n }}"  # outcome.result' in text
    assert 'input: {n: "{{ workload.n }}"}' in text


def test_an_element_goes_before_a_workload_key_of_the_same_name() -> None:
    text, _ = migrated(
        """\
        workload: {x: 1, xs: []}
        workflow:
          - step: a
            loop: {in: "{{ xs }}", iterator: x}
            tool: {kind: noop, output: "{{ x }}"}
        """
    )
    assert 'in: "{{ workload.xs }}"' in text
    assert "{{ iter.x }}" in text


def test_comments_stay_with_what_they_speak_of() -> None:
    text, _ = migrated(
        """\
        # about all
        workflow:
          # first
          - step: a   # the step
            # why
            args: {x: 1}  # side
            tool: {kind: shell, cmd: "echo {{ input.x }}"}
            # last
        # end
        """
    )
    assert text == textwrap.dedent(
        """\
        # about all
        workflow:
          # first
          - step: a   # the step
            # why
            input: {x: 1}  # side
            tool: {kind: shell, cmd: "echo {{ input.x }}"}
            # last
        # end
        """
    )


# --- what is left to a person ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said", "above"),
    [
        ('workload: {b: 1}\nworkflow:\n  - step: a\n    tool: {kind: noop, output: "{{ b }}"}\n    next: [b]\n  - {step: b, tool: {kind: noop}}\n',
         "`b` is a step and a workload key: write `ctx.b` or `workload.b`", "tool: {kind: noop"),
        ('workflow:\n  - step: a\n    loop: {in: [1], iterator: el}\n    tool: {kind: noop}\n    set: {ctx.k: "{{ el }}"}\n',
         "`el` is known only inside of the loop: publish what is needed with `set`", "set: {ctx.k"),
        ("executor: {spec: {entry_step: b}}\nworkflow:\n  - {step: a, tool: {kind: noop}}\n",
         "the first step is the one named `start`; rename `b`, or put it first", "entry_step: b"),
        ("keychain:\n  - name: z\n    type: kerberos\nworkflow:\n  - {step: a, tool: {kind: noop}}\n",
         "`kerberos`: say how this credential is made", "kind: generic"),
        ('workflow:\n  - step: a\n    tool: {kind: http, url: "{{ env.HOST }}"}\n',
         "pass `HOST` in the payload; playbooks do not read the environment", "tool: {kind: http"),
        ('workflow:\n  - step: a\n    args: {}\n    tool: {kind: http, url: x}\n    set: {ctx.k: "{{ output.data.data.x }}"}\n',
         "`output.data.data`: `output.data` is the body itself, and its status is `output.http.status`", "set: {ctx.k"),
        ("workflow:\n  - step: a\n    tool: {kind: noop}\n    case:\n      - when: \"{{ event.name == 'step.done' }}\"\n        then: {emit: x}\n",
         "`case` says `emit`: write this as tasks, rules and arcs", "case:"),
        ("workflow:\n  - step: a\n    loop: {in: [1], iterator: x, spec: {mode: parallel}}\n    tool:\n      kind: noop\n      set_shared: {q: 1}\n",
         "choose a reducer for this in `loop.spec.policy.reduce`", "set: {ctx.q: 1}"),
    ],
)  # fmt: skip
def test_what_is_not_certain_is_left_with_a_comment_above_it(body: str, said: str, above: str) -> None:
    text, todo = migrated(body)
    assert said in todo
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.strip() == f"# TODO noetl: {said}")
    assert lines[at + 1].strip().startswith(above.strip())


def test_output_data_data_in_a_document_of_today_is_no_doubt() -> None:
    _, todo = migrated(
        'workflow:\n  - {step: a, tool: {kind: http, url: x}, set: {ctx.k: "{{ output.data.data.x }}"}}\n'
    )
    assert todo == []


# --- where meaning is lost without a word ----------------------------------------------------------------------


def test_the_outcome_of_a_list_that_ends_with_http_is_that_of_http() -> None:
    text, _ = migrated(
        """\
        workflow:
          - step: a
            tool: [{name: x, kind: noop}, {name: y, kind: http, url: u}]
            set: {ctx.q: "{{ outcome.result.data.k }}"}
            next: {arcs: [{step: end, when: "{{ outcome.result.status == 200 }}"}]}
          - step: end
        """
    )
    assert "{{ output.data.k }}" in text
    assert "{{ output.http.status == 200 }}" in text


@pytest.mark.parametrize("other", ["vars: {z: 1}", "result: r"])
def test_a_list_under_set_survives_what_else_is_published(other: str) -> None:
    text, _ = migrated(
        f"workflow:\n  - step: a\n    tool: {{kind: noop}}\n    set: [{{name: k, value: 1}}]\n    {other}\n"
    )
    assert "ctx.k: 1" in text


def test_vars_that_the_workload_has_too_are_not_dropped_in_silence() -> None:
    text, todo = migrated(
        'workload: {k: 2}\nvars: {k: 1}\nworkflow:\n  - {step: a, tool: {kind: noop, output: "{{ vars.k }}"}}\n'
    )
    assert todo or "1" in text


def test_a_set_prev_does_not_change_what_the_rules_see() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: a
            tool:
              kind: python
              code: "result = {'more': True, 'items': []}"
              spec:
                policy:
                  rules:
                    - {when: "{{ output.data.more }}", then: {do: break}}
                    - {else: {then: {set_prev: "{{ output.data.items }}"}}}
        """
    )
    assert todo or "output: " not in text


def test_what_is_read_of_http_behind_a_sink_is_not_lost() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: a
            tool: {kind: http, url: u, sink: {kind: file, path: o.json}}
            next: {arcs: [{step: end, when: "{{ output.http.status == 200 }}"}]}
          - step: end
        """
    )
    assert todo or "output.http.status" not in text


@pytest.mark.parametrize("sign", ["spec: {result: {store: auto}}", "desc: x # in this context. it waits"])
def test_a_step_runs_once_only_where_the_document_is_of_the_oldest_dialect(sign: str) -> None:
    text, _ = migrated(
        "workflow:\n  - step: a\n    tool: {kind: noop}\n    next: {arcs: [{step: b}]}\n"
        f"  - step: b\n    when: \"{{{{ done('a') }}}}\"\n    tool: {{kind: noop}}\n    {sign}\n"
    )
    assert "fire: once" not in text


def test_a_retry_nobody_understands_leaves_a_comment() -> None:
    text, todo = migrated("workflow:\n  - {step: a, tool: {kind: http, url: u, retry: [1, 2]}}\n")
    assert len(todo) == 1
    assert f"# TODO noetl: {todo[0]}" in text


def test_a_multiplier_of_two_is_exponential_and_leaves_nothing_open() -> None:
    text, todo = migrated(
        "workflow:\n  - {step: a, tool: {kind: http, url: u, retry: {max_attempts: 4, backoff_multiplier: 2}}}\n"
    )
    assert "backoff: exponential" in text
    assert todo == []


def test_until_that_had_no_effect_in_a_parallel_loop_is_dropped() -> None:
    text, _ = migrated(
        'workflow:\n  - step: a\n    loop: {in: [1], iterator: x, until: "{{ true }}", spec: {mode: parallel}}\n    tool: {kind: noop}\n'
    )
    assert load(HEAD + text, KINDS).ok


def test_until_beside_a_parallel_mode_had_no_effect_and_is_dropped() -> None:
    text, _ = migrated(
        'workflow:\n  - step: a\n    loop: {collection: [1], element: x, until: "{{ true }}", mode: parallel}\n    tool: {kind: noop}\n'
    )
    assert "until" not in text
    assert load(HEAD + text, KINDS).ok


def test_a_misspelt_key_of_metadata_is_told_as_one() -> None:
    text = HEAD.replace("name: t", "name: t, verison: 1") + "workflow: [{step: end}]\n"
    assert [(one.code, one.fix) for one in load(text, KINDS).diagnostics] == [
        ("unknown-key", "did you mean `version`?")
    ]


def test_what_is_left_to_a_person_is_no_reason_to_doubt_the_rest_the_second_time() -> None:
    text = (
        "workflow: [{step: a, tool: {kind: http, url: u, params: {}, data: '{{ workload }}',"
        " set: {ctx.a: '{{ outcome.result.data.data }}'}}}]\n"
    )
    _, todo = migrated(text)  # which migrates twice
    assert todo == ["`params` and `data` were given side by side: join them"]


@pytest.mark.parametrize(
    "step",
    [
        "{step: s%d, input: {a: 1}, tool: {kind: noop, output: '{{ args.a }}'}}",
        "{step: s%d, tool: {kind: noop, output: '{{ s1.x }}'}}",
        "{step: s%d, tool: {kind: noop, output: '{{ args.a }}'}, next: {arcs: [{step: s1, args: {a: 1}}]}}",
    ],
)
def test_the_time_of_migration_grows_with_the_number_of_steps(step: str) -> None:
    def took(count: int) -> float:
        text = HEAD + "workflow:\n" + "".join(f"  - {step % number}\n" for number in range(count))
        start = time.process_time()
        migrate(text, KINDS)
        return time.process_time() - start

    small = min(took(150) for _ in range(2))
    # Eight times the steps; with the square it would be 64, each time.
    assert any(took(1200) < 30 * small for _ in range(3))

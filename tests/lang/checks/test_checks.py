"""The checks: names that exist, templates that can be evaluated where they stand, secrets that stay, writes that are safe."""

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KEYCHAIN = "keychain: [{name: k, kind: bearer}]\n"
KINDS = ToolKinds()
NOOP = "tool: {kind: noop}"


def found(*steps: str, root: str = "") -> list[Diagnostic]:
    text = HEAD + root + "workflow:\n" + "".join(f"  - {step}\n" for step in steps)
    return list(load(text, KINDS).diagnostics)


def codes(*steps: str, root: str = "") -> list[str]:
    return [one.code for one in found(*steps, root=root) if one.code not in ("unreachable-step", "never-set")]


def marked(*steps: str, root: str = "") -> list[tuple[str, str]]:
    """Each problem's code and the source text it points at."""
    text = HEAD + root + "workflow:\n" + "".join(f"  - {step}\n" for step in steps)
    lines = text.splitlines()
    return [
        (one.code, lines[one.span.line - 1][one.span.column - 1 : one.span.end_column - 1])
        for one in load(text, KINDS).diagnostics
        if one.span is not None
    ]


# --- secrets ---------------------------------------------------------------------------------------------------

SECRET = "'{{ keychain.k.token }}'"
ESCAPES = {
    "input of a step": f"{{step: a, input: {{x: {SECRET}}}, tool: {{kind: shell, cmd: ls}}}}",
    "output of a task": f"{{step: a, tool: {{kind: noop, output: {SECRET}}}}}",
    "output of a task, deep": f"{{step: a, tool: {{kind: noop, output: {{a: [{SECRET}]}}}}}}",
    "set of a task": f"{{step: a, tool: {{kind: noop, set: {{ctx.a: {SECRET}}}}}}}",
    "when of a rule": f"{{step: a, tool: {{kind: noop, spec: {{policy: {{rules: [{{when: {SECRET}, then: {{do: skip}}}}]}}}}}}}}",
    "set of a rule": f"{{step: a, tool: {{kind: noop, spec: {{policy: {{rules: [{{when: true, then: {{set: {{step.a: {SECRET}}}}}}}]}}}}}}}}",
    "message": f"{{step: a, tool: {{kind: noop, spec: {{policy: {{rules: [{{when: true, then: {{do: fail, message: {SECRET}}}}}]}}}}}}}}",
    "delay": f"{{step: a, tool: {{kind: noop, spec: {{policy: {{rules: [{{when: true, then: {{do: retry, delay: {SECRET}}}}}]}}}}}}}}",
    "output of a step": f"{{step: a, output: {SECRET}, {NOOP}}}",
    "set of a step": f"{{step: a, set: {{ctx.q: {SECRET}}}, {NOOP}}}",
    "when of an arc": f"{{step: a, next: {{arcs: [{{terminate: failed, when: {SECRET}}}]}}, {NOOP}}}",
    "set of an arc": f"{{step: a, next: {{arcs: [{{terminate: failed, set: {{ctx.w: {SECRET}}}}}]}}, {NOOP}}}",
    "admission": f"{{step: a, spec: {{policy: {{admit: {{rules: [{{when: {SECRET}, then: {{allow: true}}}}]}}}}}}, {NOOP}}}",
    "spec of a step": f"{{step: a, spec: {{concurrency: {{limit: 1, key: {SECRET}}}}}, {NOOP}}}",
    "spec of a task": f"{{step: a, tool: {{kind: noop, spec: {{timeout: {SECRET}}}}}}}",
    "items of a loop": f"{{step: a, loop: {{in: {SECRET}, iterator: x}}, {NOOP}}}",
    "until": f"{{step: a, loop: {{in: [1], iterator: x, spec: {{until: {SECRET}}}}}, {NOOP}}}",
    "complete_when": f"{{step: a, loop: {{in: [1], iterator: x, spec: {{complete_when: {SECRET}}}}}, {NOOP}}}",
    "synthesize": f"{{step: a, next: {{spec: {{synthesize: {{from: {SECRET}}}}}}}, {NOOP}}}",
    "choose": f"{{step: a, tool: [{{choose: [{{when: {SECRET}, then: []}}]}}]}}",
    "while": f"{{step: a, tool: [{{while: {{when: {SECRET}, do: [{{kind: noop}}]}}}}]}}",
}


@pytest.mark.parametrize("step", ESCAPES.values(), ids=ESCAPES)
def test_a_secret_does_not_leave_by_any_boundary(step: str) -> None:
    text = HEAD + KEYCHAIN + f"workflow:\n  - {step}\n"
    said = [one for one in load(text, KINDS).diagnostics if one.code == "secret-escape"]
    assert len(said) == 1
    assert said[0].span is not None
    assert text.splitlines()[5][said[0].span.column - 1 :].startswith("keychain.k.token")
    assert "`auth`, `input` or own keys only" in (said[0].fix or "")


@pytest.mark.parametrize(
    "task",
    [
        f"kind: http, url: {SECRET}",
        f"kind: http, url: http://x, headers: {{a: [{SECRET}]}}",
        f"kind: http, input: {{url: {SECRET}}}",
        "kind: http, url: http://x, auth: '{{ keychain.k }}'",
        f"kind: shell, cmd: ls, input: {{T: {SECRET}}}",
        "kind: http, url: http://x, auth: k",
    ],
)
def test_a_task_may_use_a_secret_in_its_own_fields(task: str) -> None:
    assert codes(f"{{step: a, tool: {{{task}}}}}", root=KEYCHAIN) == []


def test_the_workbook_is_held_to_the_same_rule() -> None:
    root = KEYCHAIN + f"workbook: {{w: {{kind: http, url: {SECRET}}}, v: {{kind: noop, output: {SECRET}}}}}\n"
    assert codes("{step: a, tool: [{kind: workbook, task: w}, {kind: workbook, task: v}]}", root=root) == [
        "secret-escape"
    ]


def test_the_whole_keychain_is_a_secret_too() -> None:
    assert codes(f"{{step: a, {NOOP}, output: '{{{{ keychain | tojson }}}}'}}", root=KEYCHAIN) == ["secret-escape"]


def test_a_credential_nobody_declares_is_told() -> None:
    said = found("{step: a, tool: {kind: http, url: '{{ keychain.kk.token }}', auth: nope}}", root=KEYCHAIN)
    assert [(one.code, one.fix) for one in said] == [
        ("unknown-credential", "did you mean `k`?"),
        ("unknown-credential", "add `- {name: nope, kind: …}` to `keychain`"),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        "password: hunter22", "db_password: sEcret99", "client_secret: abcdefg", "X-API_KEY: abcdefg", "h: Bearer abcdefghijklmnop",
        "u: 'postgres://u:secret@h/d'", "k: AKIAABCDEFGHIJKLMNOP", "p: [{password: abcdefg}]", "x: {y: {access_token: abcdefg}}",
    ],
)  # fmt: skip
def test_a_credential_in_plain_text_is_told(entry: str) -> None:
    assert codes("{step: end}", root=f"workload: {{{entry}}}\n") == ["secret-in-plain"]


@pytest.mark.parametrize(
    "entry",
    [
        "password: changeme", "password: '****'", "password: <yours>", "password: $PASSWORD",
        "password: short", "password: ''", "password: null", "password: 12345678", "password_hint: abcdefg",
        "secret_name: foobarx", "u: 'postgres://h/d'", "h: Bearer", "password: the one you know",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_credential_is_not_told(entry: str) -> None:
    assert codes("{step: end}", root=f"workload: {{{entry}}}\n") == []


def test_a_header_with_a_key_in_plain_text_is_told() -> None:
    assert codes("{step: a, tool: {kind: http, url: http://x, headers: {X-API-Key: 5f3a9c77de}}}") == [
        "secret-in-plain"
    ]


@pytest.mark.parametrize(
    ("step", "root"),
    [
        ("{step: a, tool: {kind: secrets, provider: env, secret: MY_TOKEN_NAME}}", ""),
        ("{step: end}", "keychain: [{name: g, kind: secret_manager, provider: vault, secret: kv/data/app}]\n"),
    ],
)
def test_the_name_of_a_secret_is_no_secret(step: str, root: str) -> None:
    assert codes(step, root=root) == []


# --- names in templates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "word"),
    [
        ("{step: a, input: {x: '{{ output.data }}'}, tool: {kind: shell, cmd: ls}}", "output"),
        (f"{{step: a, set: {{ctx.y: '{{{{ _prev }}}}'}}, {NOOP}}}", "_prev"),
        (f"{{step: a, set: {{ctx.y: '{{{{ event.name }}}}'}}, {NOOP}}}", "event"),
        ("{step: a, tool: {kind: noop, output: '{{ event.name }}'}}", "event"),
        ("{step: a, tool: {kind: noop, output: '{{ row.x }}'}}", "row"),
        ("{step: a, tool: {kind: noop, output: '{{ quiet() }}'}}", "quiet"),
        ("{step: a, tool: {kind: noop, output: '{{ foo(1) }}'}}", "foo"),
        ("{step: a, tool: {kind: noop, output: \"{{ done('a') }}\"}}", "done"),
        (f"{{step: a, next: {{arcs: [{{terminate: failed, when: '{{{{ quiet() }}}}'}}]}}, {NOOP}}}", "quiet"),
        (f"{{step: a, spec: {{policy: {{admit: {{rules: [{{when: '{{{{ output.data }}}}', then: {{allow: true}}}}]}}}}}}, {NOOP}}}", "output"),
        (f"{{step: a, spec: {{policy: {{admit: {{rules: [{{when: '{{{{ input.x }}}}', then: {{allow: true}}}}]}}}}}}, {NOOP}}}", "input"),
        (f"{{step: a, loop: {{in: '{{{{ output.data }}}}', iterator: x}}, {NOOP}}}", "output"),
        (f"{{step: a, loop: {{in: [1], iterator: x, spec: {{complete_when: '{{{{ output.data }}}}'}}}}, {NOOP}}}", "output"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_known_at_its_boundary_is_marked(step: str, word: str) -> None:
    assert marked(step) == [("unknown-scope", word)]


@pytest.mark.parametrize(
    "step",
    [
        "{step: a, tool: {kind: noop, output: '{{ _prev }} {{ _task }} {{ _attempt }} {{ output.data }} {{ step.x }}'}}",
        f"{{step: a, next: {{arcs: [{{terminate: failed, when: \"{{{{ event.name == 'x' and ok('a') and output.data }}}}\"}}]}}, {NOOP}}}",
        f"{{step: a, spec: {{policy: {{admit: {{rules: [{{when: '{{{{ quiet() and event.name }}}}', then: {{allow: true}}}}]}}}}}}, {NOOP}}}",
        f"{{step: a, loop: {{in: [1], iterator: x, spec: {{until: '{{{{ iter.x and output.data and iter.index }}}}'}}}}, {NOOP}}}",
        f"{{step: a, loop: {{in: [1], iterator: x, spec: {{complete_when: '{{{{ loop.failed > 1 }}}}'}}}}, {NOOP}}}",
        "{step: a, input: {x: \"{{ done('a') }}\"}, tool: {kind: shell, cmd: ls}}",
        "{step: a, tool: {kind: transfer, source: {kind: data, data: []}, targets: [{kind: file, path: '{{ chunk.index }}', mapping: {a: '{{ row.a }}'}}]}}",
        f"{{step: a, loop: {{in: [1], iterator: x, loop: {{in: '{{{{ iter.x }}}}', iterator: y}}}}, {NOOP}}}",
        "{step: a, tool: {kind: noop, output: '{{ now() }} {{ uuid() }} {{ execution_id }} {{ range(3) | list }}'}}",
    ],
)  # fmt: skip
def test_what_is_known_at_a_boundary_is_taken(step: str) -> None:
    assert codes(step) == []


@pytest.mark.parametrize(
    ("step", "fix"),
    [
        ("{step: a, tool: {kind: noop, output: '{{ now }}'}}", "write `now()`"),
        ("{step: a, tool: {kind: noop, output: '{{ [1, uuid] }}'}}", "write `uuid()`"),
        (f"{{step: a, loop: {{in: [1], iterator: x, spec: {{until: '{{{{ not range }}}}'}}}}, {NOOP}}}", "write `range(…)`"),
        (f"{{step: a, next: {{arcs: [{{terminate: failed, when: '{{{{ done }}}}'}}]}}, {NOOP}}}", "write `done('a_step')`"),
    ],
)  # fmt: skip
def test_a_function_that_is_not_called_is_marked(step: str, fix: str) -> None:
    (one,) = found(step)
    assert (one.code, one.fix) == ("uncalled-function", fix)


def test_it_may_be_asked_whether_there_is_a_function() -> None:
    asked = "{{ now is defined and now is callable }}"
    assert codes(f"{{step: a, next: {{arcs: [{{terminate: failed, when: '{asked}'}}]}}, {NOOP}}}") == []


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("wrokload", "did you mean `workload`?"),
        ("zzzzzz", "names known here: ctx, "),
    ],
)
def test_an_unknown_name_is_told_with_what_to_write_instead(word: str, fix: str) -> None:
    (one,) = found(f"{{step: a, tool: {{kind: noop, output: '{{{{ {word} }}}}'}}}}")
    assert (one.code, one.message) == ("unknown-scope", f"`{word}` is not known here")
    assert (one.fix or "").startswith(fix)


def test_iter_is_known_inside_of_a_loop_only() -> None:
    assert marked("{step: a, tool: {kind: noop, output: '{{ iter.x }}'}}") == [("iter-outside-loop", "iter")]
    assert marked(f"{{step: a, loop: {{in: '{{{{ iter.x }}}}', iterator: x}}, {NOOP}}}") == [
        ("iter-outside-loop", "iter")
    ]
    assert marked(f"{{step: a, loop: {{in: [1], iterator: x}}, set: {{ctx.a: '{{{{ iter.x }}}}'}}, {NOOP}}}") == [
        ("iter-outside-loop", "iter")
    ]


def test_a_workbook_task_sees_nothing_of_its_caller() -> None:
    root = "workbook: {w: {kind: shell, cmd: '{{ iter.x }} {{ steps.a.status.ok }}'}}\n"
    assert codes("{step: a, loop: {in: [1], iterator: x}, tool: {kind: workbook, task: w}}", root=root) == [
        "iter-outside-loop",
        "unknown-scope",
    ]
    root = "workbook: {w: {kind: shell, cmd: '{{ input.x }} {{ workload.y }} {{ step.z }} {{ _prev }}'}}\n"
    assert codes("{step: a, tool: {kind: workbook, task: w, input: {x: 1}}}", root=root) == []


@pytest.mark.parametrize(
    ("template", "code"),
    [("{{ x | nofilter }}", "unknown-filter"), ("{{ ( }}", "template-syntax"), ("{{ a b }}", "template-syntax"), ("{% if %}", "template-syntax")],
)  # fmt: skip
def test_a_template_that_cannot_be_compiled_is_told(template: str, code: str) -> None:
    assert code in codes(f"{{step: a, tool: {{kind: noop, output: '{template}'}}}}")


def when(text: str) -> list[Diagnostic]:
    return found(f"{{step: a, next: {{arcs: [{{terminate: failed, when: {text}}}]}}, {NOOP}}}")


@pytest.mark.parametrize(
    "text", ["true", "false", "'true'", "'{{ workload.x }}'", "' {{ workload.x }} '", "'{{- true -}}'"]
)
def test_a_when_is_one_expression_or_a_literal(text: str) -> None:
    assert when(text) == []


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("'workload.x > 1'", "write '{{ workload.x > 1 }}'"),
        ("workload.x", 'write "{{ workload.x }}"'),
        ("\"workload.x == 'a'\"", "write \"{{ workload.x == 'a' }}\""),
        ("'{{ ctx.a }} {{ ctx.b }}'", "put the whole condition into one `{{ … }}`"),
        ("'not {{ ctx.a }}'", "put the whole condition into one `{{ … }}`"),
        ("''", "put the whole condition into one `{{ … }}`"),
        ("'{% if true %}x{% endif %}'", "put the whole condition into one `{{ … }}`"),
    ],
)
def test_any_other_when_is_told_with_the_way_to_write_it(text: str, fix: str) -> None:
    (one,) = [one for one in when(text) if one.code == "template-in-when"]
    assert one.fix == fix
    assert bool(one.edits) == fix.startswith("write")


@pytest.mark.parametrize("text", ["True", "FALSE"])
def test_a_literal_of_yaml_is_a_literal_however_it_is_written(text: str) -> None:
    assert when(text) == []


# --- steps and tasks by name -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "name", "fix"),
    [
        ("done('aa')", "aa", "did you mean `a`?"),
        ("all_done(['a', 'bcd'])", "bcd", "steps: a"),
        ("any_done(['bcd'])", "bcd", "steps: a"),
        ("loop_done('bcd')", "bcd", "steps: a"),
        ("running('bcd') or fail('a')", "bcd", "steps: a"),
        ("steps.bcd.status.done", "bcd", "steps: a"),
    ],
)
def test_a_helper_takes_names_of_steps(expression: str, name: str, fix: str) -> None:
    (one,) = when(f'"{{{{ {expression} }}}}"')
    assert (one.code, one.message, one.fix) == ("unknown-step", f"there is no step `{name}`", fix)


@pytest.mark.parametrize(
    "expression", ["done('a')", "ok(workload.name)", "all_done(workload.names)", "steps[workload.x].status.ok"]
)
def test_what_only_a_run_knows_is_not_questioned(expression: str) -> None:
    assert when(f'"{{{{ {expression} }}}}"') == []


def test_arcs_and_cancel_name_steps_that_exist() -> None:
    said = found("{step: a, next: {arcs: [{step: ennd, cancel: [xyz]}]}}", "{step: end}")
    assert [(one.code, one.fix) for one in said if one.code == "unknown-step"] == [
        ("unknown-step", "did you mean `end`?"),
        ("unknown-step", "steps: a, end"),
    ]


def test_names_given_twice_are_told_with_the_line_of_the_first() -> None:
    said = found("{step: a, tool: [{name: x, kind: noop}, {x: {kind: noop}}]}", f"{{step: a, {NOOP}}}")
    assert [one.message for one in said if one.code.startswith("duplicate")] == [
        "step `a` already has a task `x` on line 5",
        "step `a` is already there on line 5",
    ]


def test_the_tasks_of_sugar_are_tasks_of_the_step() -> None:
    branch = "{choose: [{when: true, then: [{name: x, kind: noop}]}]}"
    assert codes(f"{{step: a, tool: [{{name: x, kind: noop}}, {branch}]}}") == ["duplicate-task"]
    jump = "{name: y, kind: noop, spec: {policy: {rules: [{when: '{{ false }}', then: {do: jump, to: x}}]}}}"
    assert codes(f"{{step: a, tool: [{branch}, {jump}]}}") == []


def test_a_jump_needs_a_task_to_go_to() -> None:
    rules = "{policy: {rules: [{when: '{{ step.a }}', then: {do: jump, to: xx}}, {when: true, then: {do: jump}}]}}"
    said = found(f"{{step: a, tool: [{{name: x, kind: noop}}, {{kind: noop, spec: {rules}}}]}}")
    assert [(one.code, one.fix) for one in said] == [("unknown-task", "did you mean `x`?"), ("missing-key", "add `to`")]


def test_a_call_of_the_workbook_names_one_of_its_tasks() -> None:
    (one,) = found("{step: a, tool: {kind: workbook, task: dubble}}", root="workbook: {double: {kind: noop}}\n")
    assert (one.code, one.fix) == ("unknown-task", "did you mean `double`?")


def test_a_join_names_just_the_steps_that_lead_to_it() -> None:
    said = found(
        "{step: a, next: {spec: {mode: inclusive}, arcs: [{step: c}, {step: b}, {step: d}]}}",
        "{step: b, next: {arcs: [{step: c}]}}",
        f"{{step: c, spec: {{policy: {{admit: {{join: {{from: [a, d], need: 3}}}}}}}}, {NOOP}}}",
        f"{{step: d, {NOOP}}}",
    )
    assert [(one.code, one.message) for one in said] == [
        ("join-unknown", "step `d` has no arc to `c`"),
        ("join-unknown", "step `b` leads to `c`, but the join leaves it out"),
        ("wrong-value", "`need: 3` can never hold: `from` names 2"),
    ]


# --- writes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "fix"),
    [
        ("foo.b", "write `ctx.b`; targets are"),
        ("workload.b", "write `ctx.b`; targets are"),
        ("output.data", "write `ctx.data`; targets are"),
        ("keychain.x", "write `ctx.x`; targets are"),
        ("total", "write `ctx.total`; targets are"),
        ("ctx", "write `ctx.<key>`"),
        ("'ctx.'", "write `ctx"),
    ],
)
def test_only_ctx_step_and_iter_can_be_written(target: str, fix: str) -> None:
    (one,) = found(f"{{step: a, set: {{{target}: 1}}, {NOOP}}}")
    assert one.code == "set-target"
    assert (one.fix or "").startswith(fix)


def test_the_nested_spelling_of_a_set_is_checked_alike() -> None:
    assert codes(f"{{step: a, set: {{foo: {{a: 1}}, ctx: {{b: 2}}}}, {NOOP}}}") == ["set-target"]


def test_iter_is_written_by_the_tasks_of_a_loop_only() -> None:
    assert codes("{step: a, tool: {kind: noop, set: {iter.x: 1}}}") == ["iter-outside-loop"]
    assert codes("{step: a, loop: {in: [1], iterator: x}, tool: {kind: noop, set: {iter.y: 1}}}") == []
    said = found(f"{{step: a, loop: {{in: [1], iterator: x}}, set: {{iter.z: 1}}, {NOOP}}}")
    assert [(one.code, one.fix) for one in said] == [("iter-outside-loop", "write `ctx.z`")]


def test_the_workbook_writes_only_what_is_its_own() -> None:
    root = "workbook: {w: {kind: noop, set: {ctx.z: 1, step.y: 2, iter.u: 3}}}\n"
    assert codes("{step: a, tool: {kind: workbook, task: w}}", root=root) == ["set-target", "set-target"]


@pytest.mark.parametrize(
    ("target", "value", "code"),
    [
        ("ctx.a", "{{ output.ref }}", "ref-suffix"),
        ("ctx.a", "{{- output.ref -}}", "ref-suffix"),
        ("ctx.a", '{{ output["ref"] }}', "ref-suffix"),
        ("ctx.a", "{{ output . ref }}", "ref-suffix"),
        ("ctx.e", "{{ ctx.b_ref }}", "ref-suffix"),
        ("ctx.e.f", "{{ step.x.y_ref }}", "ref-suffix"),
        ("ctx.b_ref", "text", "ref-suffix"),
        ("ctx.b_ref", "{{ output.ref }}", None),
        ("ctx.m.n_ref", "{{ output.ref }}", None),
        ("ctx.d_ref", "{{ ctx.b_ref }}", None),
        ("ctx.f", "{{ output.ref.meta.rows }}", None),
        ("ctx.g", "{{ output.ref is none }}", None),
        ("ctx.d_ref", "{{ workload.some }}", None),
    ],
)
def test_a_name_that_ends_in_ref_holds_a_reference_and_no_other_does(target: str, value: str, code: str | None) -> None:
    assert codes(f"{{step: a, set: {{{target}: '{value}'}}, {NOOP}}}") == ([code] if code else [])


def test_text_is_never_a_reference() -> None:
    assert codes(f"{{step: a, set: {{ctx.b_ref: 'x {{{{ output.ref }}}}'}}, {NOOP}}}") == ["ref-suffix"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("output.ref.data.x", False), ("output.ref['rows']", False), ("event.output.ref.x", False), ("ctx.b_ref.rows", False),
        ("step.m.c_ref.items", False), ("output.ref.meta.rows", True), ("output.ref.type", True), ("ctx.b_ref.locator.path", True),
        ("output.ref.auth_reference", True), ("output.ref", True), ("ctx.b_reference.x", True), ("output.data.my_ref.x", True),
    ],
)  # fmt: skip
def test_a_reference_shows_only_its_own_parts(path: str, allowed: bool) -> None:
    said = [one for one in when(f'"{{{{ {path} }}}}"') if one.code != "never-set"]
    assert [one.code for one in said] == ([] if allowed else ["ref-deref"])
    assert all("kind: resolve" in (one.fix or "") for one in said)


def test_an_iterator_may_be_named_like_a_reference() -> None:
    assert (
        codes("{step: a, loop: {in: [1], iterator: it_ref}, tool: {kind: noop, output: '{{ iter.it_ref.x }}'}}") == []
    )


@pytest.mark.parametrize(
    ("loop", "write", "safe"),
    [
        ("spec: {mode: parallel}", "ctx.a: 1", False),
        ("spec: {policy: {mode: parallel}}", "ctx.a: 1", False),
        ("spec: {mode: parallel}", "ctx: {a: 1}", False),
        ("spec: {mode: parallel}", "iter.a: 1, step.b: 2", True),
        ("spec: {mode: sequential}", "ctx.a: 1", True),
        ("spec: {mode: parallel, policy: {reduce: {ctx.a: sum}}}", "ctx.a: 1", True),
        ("spec: {mode: parallel, policy: {reduce: {ctx.a: sum}}}", "ctx.b: 1", False),
        ("spec: {mode: parallel, policy: {reduce: {ctx.a: merge}}}", "ctx.a.b: 1", False),
        ("spec: {mode: parallel}, loop: {in: [2], iterator: y}", "ctx.a: 1", False),
        ("loop: {in: [2], iterator: y, spec: {mode: parallel}}", "ctx.a: 1", False),
        ("loop: {in: [2], iterator: y, spec: {mode: parallel, policy: {reduce: {ctx.a: sum}}}}", "ctx.a: 1", True),
    ],
)
def test_parallel_iterations_write_ctx_through_a_reducer(loop: str, write: str, safe: bool) -> None:
    step = f"{{step: a, loop: {{in: [1], iterator: x, {loop}}}, tool: {{kind: noop, set: {{{write}}}}}}}"
    assert codes(step) == ([] if safe else ["parallel-ctx-write"])


def test_each_parallel_loop_of_a_nest_needs_its_reducer() -> None:
    inner = "loop: {in: [2], iterator: y, spec: {mode: parallel, policy: {reduce: {ctx.a: sum}}}}"
    step = f"{{step: a, loop: {{in: [1], iterator: x, spec: {{mode: parallel}}, {inner}}}, tool: {{kind: noop, set: {{ctx.a: 1}}}}}}"
    assert codes(step) == ["parallel-ctx-write"]


def test_a_rule_in_a_parallel_loop_writes_ctx_through_a_reducer_too() -> None:
    rules = "{policy: {rules: [{when: true, then: {set: {ctx.a: 1}}}]}}"
    step = f"{{step: a, loop: {{in: [1], iterator: x, spec: {{mode: parallel}}}}, tool: {{kind: noop, spec: {rules}}}}}"
    assert codes(step) == ["parallel-ctx-write"]


def test_the_step_of_a_parallel_loop_writes_ctx_once() -> None:
    assert (
        codes(f"{{step: a, loop: {{in: [1], iterator: x, spec: {{mode: parallel}}}}, set: {{ctx.a: 1}}, {NOOP}}}") == []
    )


def test_the_ends_of_a_transfer_name_credentials_of_the_keychain() -> None:
    ends = "source: {kind: postgres, auth: nope, query: SELECT 1}, targets: [{kind: s3, auth: k, path: x}, {kind: s3, auth: kk, path: y}]"
    for task in (f"{{kind: transfer, {ends}}}", f"{{kind: transfer, input: {{{ends}}}}}"):
        assert marked(f"{{step: a, tool: {task}}}", root=KEYCHAIN) == [
            ("unknown-credential", "nope"),
            ("unknown-credential", "kk"),
        ]


def test_a_credential_that_cannot_open_a_database_is_told_where_it_is_named() -> None:
    root = "keychain: [{name: lake, kind: s3_credential}, {name: any, kind: generic}]\n"
    source, table = "{kind: postgres, auth: lake, query: SELECT 1}", "{kind: postgres, auth: any, table: t}"
    assert marked(f"{{step: a, tool: {{kind: transfer, source: {source}, targets: [{table}]}}}}", root=root) == [
        ("wrong-value", "lake")
    ]
    assert marked("{step: a, tool: {kind: postgres, auth: lake, query: SELECT 1}}", root=root) == [
        ("wrong-value", "lake")
    ]
    for auth in ("any", "'{{ workload.db }}'"):
        assert codes(f"{{step: a, tool: {{kind: postgres, auth: {auth}, query: SELECT 1}}}}", root=root) == []


def test_sql_for_postgres_that_says_of_no_database_is_an_error() -> None:
    assert codes("{step: a, tool: {kind: postgres, query: SELECT 1}}") == ["missing-key"]


def test_set_under_the_spec_of_an_arc_is_refused_though_that_spec_is_reserved() -> None:
    assert marked("{step: a, next: {arcs: [{step: a, when: false, spec: {set: {ctx.a: 1}}}]}}") == [
        ("set-under-spec", "set")
    ]


# --- the workbook ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["kind: wait, seconds: 1", "kind: playbook, path: other"])
def test_a_task_that_has_to_be_put_away_cannot_stand_in_the_workbook(task: str) -> None:
    call = "{step: a, tool: {kind: workbook, task: w}}"
    problems = found(call, root=f"workbook: {{w: [{{name: one, kind: noop}}, {{name: two, {task}}}]}}\n")
    assert [(one.code, one.span.line if one.span else 0) for one in problems] == [("wrong-value", 4)]
    assert "cannot stand in the workbook" in problems[0].message


def test_a_workbook_task_cannot_call_itself_by_any_way() -> None:
    call = "{step: a, tool: {kind: workbook, task: w}}"
    ways = "{w: {kind: workbook, task: v}, v: {kind: workbook, task: w}, u: {kind: workbook, task: w}}"
    problems = found(call, root=f"workbook: {ways}\n")
    assert [one.message.split(",")[0] for one in problems if one.code == "wrong-value"] == [
        "workbook task `w` calls itself",
        "workbook task `v` calls itself",
    ]


@pytest.mark.parametrize(
    ("root", "tool", "code"),
    [
        ("keychain: [{name: k, kind: bearer, token: hardcoded-token-1}]\n", "{kind: noop}", "secret-in-plain"),
        ("keychain: [{name: k, kind: basic, username: ann, password: hunter22}]\n", "{kind: noop}", "secret-in-plain"),
        ("", "{kind: http, url: 'http://x.y', headers: {Authorization: Bearer abcdefghijk}}", "secret-in-plain"),
        (
            "keychain: [{name: k, kind: bearer}]\n",
            "{kind: http, url: 'http://x.y/{{ keychain.k.tokn }}'}",
            "unknown-credential",
        ),
        (
            "keychain: [{name: k, kind: secret_manager, provider: vualt, secret: a/b}]\n",
            "{kind: noop}",
            "unknown-credential",
        ),
    ],
)
def test_secrets_written_out_and_slips_about_credentials_are_found_before_a_run(
    root: str, tool: str, code: str
) -> None:
    assert codes(f"{{step: a, tool: {tool}}}", root=root) == [code]


@pytest.mark.parametrize(
    ("root", "tool"),
    [
        ("keychain: [{name: k, kind: bearer, token: '{{ workload.t }}'}]\nworkload: {t: ''}\n", "{kind: noop}"),
        ("keychain: [{name: k, kind: bearer, from: {env: API_TOKEN}}]\n", "{kind: noop}"),
        ("keychain: [{name: k, kind: secret_manager, provider: onepassword, secret: x}]\n", "{kind: noop}"),
        ("keychain: [{name: k, kind: bearer}]\n", "{kind: http, url: 'http://x.y/{{ keychain.k.account }}'}"),
        ("", "{kind: http, url: 'http://x.y', headers: {Authorization: Bearer <token>}}"),
    ],
)
def test_credentials_that_come_from_elsewhere_are_left_alone(root: str, tool: str) -> None:
    assert codes(f"{{step: a, tool: {tool}}}", root=root) == []


def test_of_another_step_only_its_status_can_be_read() -> None:
    steps = f"{{step: a, {NOOP}, next: {{arcs: [{{step: b}}]}}}}\n  - {{step: b, tool: {{kind: noop, output: '{{{{ steps.a.%s }}}}'}}}}"
    (told,) = found(steps % "output.data")
    assert told.code == "steps-status-only"
    assert told.fix is not None
    assert "ctx.a" in told.fix
    assert found(steps % "status.done") == []


@pytest.mark.parametrize("read", ["status.error.kind", "status.error.message", "status['error'].kind"])
def test_a_key_of_the_message_of_an_error_is_an_error_that_names_failure(read: str) -> None:
    """It was a map once: a `when` that still compares `error.kind` would never hold, and nobody would hear of it."""
    steps = f'{{step: a, {NOOP}, next: {{arcs: [{{step: b}}]}}}}\n  - {{step: b, tool: {{kind: noop, output: "{{{{ steps.a.%s }}}}"}}}}'
    (told,) = found(steps % read)
    assert told.code == "status-error-text"
    assert "steps.a.status.failure." in str(told.fix)
    assert bool(told.edits) == ("[" not in read)


@pytest.mark.parametrize(
    "read", ["status.error", "status.error.split(':')[0]", "status.failure.kind", "status.error[:20]"]
)
def test_the_message_and_the_map_of_an_error_can_be_read(read: str) -> None:
    steps = f'{{step: a, {NOOP}, next: {{arcs: [{{step: b}}]}}}}\n  - {{step: b, tool: {{kind: noop, output: "{{{{ steps.a.%s }}}}"}}}}'
    assert found(steps % read) == []


@pytest.mark.parametrize("arcs", ["", ", arcs: []"])
def test_on_no_match_without_arcs_is_an_error_because_it_could_have_no_effect(arcs: str) -> None:
    plans = "synthesize: {from: '{{ [] }}'}"
    (told,) = found(f"{{step: a, {NOOP}, next: {{spec: {{on_no_match: fail, {plans}}}{arcs}}}}}")
    assert (told.code, told.fix) == ("wrong-value", "remove it, or add `arcs`")
    assert found(f"{{step: a, {NOOP}, next: {{spec: {{{plans}}}{arcs}}}}}") == []


# --- targets of one set ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{ctx.a: 1, ctx.a.b: 2}", "`ctx.a.b` lies within `ctx.a`, which the same `set` writes"),
        ("{ctx.a.b.c: 1, ctx.a: 2}", "`ctx.a.b.c` lies within `ctx.a`, which the same `set` writes"),
        ("{ctx: {a: 1}, ctx.a.b: 2}", "`ctx.a.b` lies within `ctx.a`, which the same `set` writes"),
        ("{ctx: {a: 1}, ctx.a: 2}", "`ctx.a` is written twice"),
    ],
)
def test_targets_of_one_set_may_not_lie_within_each_other(written: str, message: str) -> None:
    for step in (
        f"{{step: a, tool: {{kind: noop}}, set: {written}}}",
        f"{{step: a, tool: {{kind: noop, set: {written}}}}}",
        f"{{step: a, tool: {{kind: noop}}, next: {{arcs: [{{step: a, when: false, set: {written}}}]}}}}",
    ):
        found = load(f"{HEAD}workflow: [{step}]\n", ToolKinds()).diagnostics
        assert [one.message for one in found if one.code == "set-target"] == [message]


def test_targets_side_by_side_are_fine() -> None:
    found = load(
        f"{HEAD}workflow: [{{step: a, tool: {{kind: noop}}, set: {{ctx.a.b: 1, ctx.a.c: 2, ctx.ab: 3}}}}]\n",
        ToolKinds(),
    )
    assert found.ok


@pytest.mark.parametrize(("name", "refused"), [("index", True), ("parent.x", True), ("inner", True), ("mine", False)])
def test_what_the_engine_writes_of_an_iteration_cannot_be_written(name: str, refused: bool) -> None:
    step = (
        "{step: a, loop: {in: [1], iterator: outer, loop: {in: [2], iterator: inner}}, "
        f"tool: {{kind: noop, set: {{iter.{name}: 1}}}}}}"
    )
    found = load(f"{HEAD}workflow: [{step}]\n", ToolKinds()).diagnostics
    assert ("set-target" in [one.code for one in found]) is refused


@pytest.mark.parametrize("name", ["index", "parent"])
def test_an_iterator_cannot_have_a_name_of_the_engine(name: str) -> None:
    step = f"{{step: a, loop: {{in: [1], iterator: {name}}}, tool: {{kind: noop}}}}"
    found = load(f"{HEAD}workflow: [{step}]\n", ToolKinds()).diagnostics
    assert ("wrong-value", f"`{name}` cannot be an iterator: the engine writes `iter.{name}`") in [
        (one.code, one.message) for one in found
    ]

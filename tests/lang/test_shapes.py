"""The shape of a document: known keys, types, words and names, each with its place and the way out."""

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()


def found_in(text: str) -> tuple[Diagnostic, ...]:
    return load(text, KINDS).diagnostics


def of_step(step: str) -> tuple[str, list[Diagnostic]]:
    """A playbook of one step in one line, and what is said about it."""
    text = f"{HEAD}workflow:\n  - {step}\n"
    return text, list(found_in(text))


def told(step: str) -> list[tuple[str, int, str]]:
    """Code, column and message; the line must be that of the step."""
    _, found = of_step(step)
    assert all(one.span is not None and one.span.line == 5 for one in found)
    return [(one.code, one.span.column, one.message) for one in found if one.span is not None]


def mended(text: str, found: Diagnostic) -> str:
    (edit,) = found.edits
    return text[: edit.start] + edit.text + text[edit.end :]


def task(keys: str) -> str:
    return f"{{step: a, tool: {{{keys}}}}}"


# --- known keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "wrong", "right"),
    [
        ("{step: a, tool: {kind: noop}, nxt: {arcs: []}}", "nxt", "next"),
        (task("kind: http, ulr: x"), "ulr", "url"),
        (task("kind: noop, ouput: 1"), "ouput", "output"),
        (task("kind: noop, spec: {timout: 1}"), "timout", "timeout"),
        (task("kind: noop, spec: {timeout: {conect: 1}}"), "conect", "connect"),
        (task("kind: noop, spec: {policy: {rules: [{when: true, then: {atempts: 3}}]}}"), "atempts", "attempts"),
        ("{step: a, loop: {in: [1], iteratr: y}, tool: {kind: noop}}", "iteratr", "iterator"),
        ("{step: a, next: {arcs: [{step: a, whn: true}]}}", "whn", "when"),
        ("{step: a, next: {spec: {mod: inclusive}, arcs: []}}", "mod", "mode"),
        ("{step: a, spec: {prioritty: 1}, tool: {kind: noop}}", "prioritty", "priority"),
    ],
)
def test_a_misspelt_key_is_told_with_the_one_that_was_meant(step: str, wrong: str, right: str) -> None:
    text, found = of_step(step)
    one = next(one for one in found if one.code == "unknown-key")
    assert one.span is not None
    assert text.splitlines()[4][one.span.column - 1 : one.span.end_column - 1] == wrong
    assert one.fix == f"did you mean `{right}`?"
    assert f"no key `{wrong}`" in one.message
    after = [found.code for found in found_in(mended(text, one))]
    assert "unknown-key" not in after


def test_a_key_that_resembles_nothing_is_told_with_all_that_may_stand_there() -> None:
    _, (found,) = of_step(task("kind: noop, zzz: 1"))
    assert (found.message, found.fix, found.edits) == (
        "`kind: noop` has no key `zzz`", "it takes: name, desc, kind, input, auth, output, set, spec", ())  # fmt: skip


def test_a_misspelt_quoted_key_is_told_without_an_edit() -> None:
    _, (found,) = of_step("{step: a, tool: {kind: noop}, 'nxt': 1}")
    assert (found.fix, found.edits) == ("did you mean `next`?", ())


@pytest.mark.parametrize("root", ["x-anything: {a: 1}", "x-: 1"])
def test_keys_of_the_root_that_begin_with_x_are_ignored(root: str) -> None:
    assert found_in(f"{HEAD}{root}\nworkflow: [{{step: end}}]\n") == ()


def test_such_keys_are_ignored_at_the_root_only() -> None:
    assert told("{step: a, tool: {kind: noop}, x-note: 1}")[0][0] == "unknown-key"


def test_all_problems_are_told_at_once() -> None:
    codes = [code for code, _, _ in told("{step: 1a, tool: {kind: htp}, nxt: 1, set: [1]}")]
    assert sorted(codes) == ["bad-name", "unknown-key", "unknown-kind", "wrong-type"]


def test_the_old_key_of_an_arc_is_not_offered() -> None:
    _, (found,) = of_step("{step: a, next: {arcs: [{terminate: failed, zzz: 1}]}}")
    assert "args" not in (found.fix or "")


# --- required keys ---------------------------------------------------------------------------------------------


def test_every_key_of_the_root_that_must_be_there_is_asked_for() -> None:
    found = found_in("workload: {}\n")
    assert [(one.code, one.fix) for one in found] == [
        ("missing-key", f"add `{key}`") for key in ("apiVersion", "kind", "metadata", "workflow")
    ]


@pytest.mark.parametrize(
    ("step", "column", "message"),
    [
        ("{tool: {kind: noop}}", 5, "a step needs `step` (its name, unique)"),
        (task("url: x"), 21, "a task needs `kind` (the tool that runs it, such as http or python)"),
        ("{step: a, loop: {in: []}, tool: {kind: noop}}", 21, "a loop needs `iterator` (the item's name: `iter.<iterator>`)"),
        ("{step: a, loop: {iterator: x}, tool: {kind: noop}}", 21, "a loop needs `in` (the items: a list or a reference to rows)"),
        (task("kind: noop, spec: {policy: {}}"), 49,
         "a task's `policy` needs `rules` (read top to bottom after every attempt; first match wins)"),
        ("{step: a, next: {spec: {synthesize: {max_steps: 2}}}}", 41, "`synthesize` needs `from` (yields a list of steps)"),
        ("{step: a, spec: {rate: {limit: 1}}, tool: {kind: noop}}", 28, "`rate` needs `per_s` (the period in seconds)"),
        (task("kind: transfer, source: {query: x}, targets: [{kind: file, path: p}]"), 46,
         "a transfer's source needs `kind` (where the rows come from)"),
    ],
)  # fmt: skip
def test_a_missing_key_is_asked_for_where_its_map_begins(step: str, column: int, message: str) -> None:
    assert told(step) == [("missing-key", column, message)]


@pytest.mark.parametrize(
    "step",
    [
        "{step: a, tool: null}",
        "{step: a, next: null}",
        "{step: a, loop: {in: null, iterator: x}, tool: {kind: noop}}",
        task("kind: shell, cmd: null"),
        task("kind: noop, spec: {policy: {rules: null}}"),
        "{step: a, tool: null, next: {arcs: []}}",
    ],
)
def test_a_key_that_says_nothing_is_as_good_as_missing(step: str) -> None:
    assert [code for code, _, _ in told(step)] in (["missing-key"], ["empty-step"])


@pytest.mark.parametrize("key", ["desc:", "input:", "set:", "output:", "spec:"])
def test_an_optional_block_may_be_left_empty(key: str) -> None:
    found = found_in(f"{HEAD}workflow:\n  - step: a\n    tool: {{kind: noop}}\n    {key}\n")
    assert [one.code for one in found if one.code != "wrong-type"] == []


# --- types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "what"), [("5", "a number"), ("true", "true or false"), ("1e3", "a number")])
def test_what_must_be_text_is_put_in_quotes(value: str, what: str) -> None:
    text, (found,) = of_step(task(f"kind: http, url: {value}"))
    assert (found.code, found.message, found.fix) == (
        "wrong-type", f"`url` must be text, not {what}", f'write "{value}"')  # fmt: skip
    assert f'url: "{value}"' in mended(text, found)
    assert found_in(mended(text, found)) == ()


@pytest.mark.parametrize(
    ("step", "column", "message"),
    [
        ("5", 5, "an item of `workflow` must be a map, not a number"),
        ("{step: a, tool: 5}", 21, "`tool` must be a map or a list, not a number"),
        ("{step: a, tool: [5]}", 22, "an item of `tool` must be a task (a map with `kind`), not a number"),
        (task("kind: noop, input: 5"), 41, "`input` must be a map or a template, not a number"),
        ("{step: a, tool: {kind: noop}, set: [1]}", 40, "`set` must be a map, not a list"),
        ("{step: a, next: {arcs: {step: a}}}", 28, "`arcs` must be a list, not a map"),
        ("{step: a, next: {arcs: [5]}}", 29, "an item of `arcs` must be a map, not a number"),
        ("{step: a, loop: {in: 5, iterator: x}, tool: {kind: noop}}", 26, "`in` must be a template or a list, not a number"),
        (task("kind: http, url: x, follow_redirects: 'yes'"), 60, "`follow_redirects` must be true or false, not text"),
        (task("kind: noop, spec: {timeout: soon}"), 50, "`timeout` must be a number or a map, not text"),
        (task("kind: http, url: x, spec: {retries: 1.5}"), 58, "`retries` must be a whole number, not 1.5"),
        (task("kind: http, url: x, spec: {retries: true}"), 58, "`retries` must be a whole number, not true or false"),
        (task("kind: noop, auth: [x]"), 40, "`auth` must be text, not a list"),
        (task("kind: noop, spec: {policy: {rules: [{when: [1], then: {}}]}}"), 65, "`when` must be an expression, not a list"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_told_with_what_it_must_be(step: str, column: int, message: str) -> None:
    assert told(step) == [("wrong-type", column, message)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("kind: wait, seconds: -1", "`seconds` must be at least 0"),
        ("kind: shell, cmd: x, spec: {limits: {memory_mb: 0}}", "`memory_mb` must be at least 1"),
        ("kind: noop, spec: {policy: {rules: [{when: true, then: {do: retry, attempts: 0}}]}}", "`attempts` must be at least 1"),
    ],
)  # fmt: skip
def test_a_number_below_its_minimum_is_told(keys: str, message: str) -> None:
    assert [(code, said) for code, _, said in told(task(keys))] == [("wrong-value", message)]


@pytest.mark.parametrize(
    "keys",
    [
        'kind: wait, seconds: "{{ workload.n }}"',
        'kind: http, url: x, method: "{{ workload.m }}"',
        'kind: http, url: x, follow_redirects: "{{ workload.f }}"',
        'kind: http, url: x, params: "{{ workload.p }}"',
        'kind: noop, spec: {timeout: "{{ workload.t }}"}',
    ],
)
def test_a_template_may_stand_for_a_value_of_any_type(keys: str) -> None:
    assert told(task(keys)) == []


def test_a_list_that_must_not_be_empty_is_told() -> None:
    assert told("{step: a, tool: []}") == [("wrong-value", 21, "`tool` must have at least 1 item")]
    assert [one.message for one in found_in(f"{HEAD}workflow: []\n")] == ["`workflow` must have at least 1 item"]


# --- words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "fix"),
    [
        ("kind: http, url: x, method: get", "write `GET`"),
        ("kind: http, url: x, method: PSOT", "write `POST`"),
        ("kind: noop, spec: {isolation: Process}", "write `process`"),
        ("kind: noop, spec: {isolation: strong}", "write one of: none, process, strict"),
        ("kind: noop, spec: {policy: {rules: [], on_unmatched: stop}}", "write one of: continue, fail"),
        ("kind: noop, spec: {policy: {rules: [{when: true, then: {do: retyr}}]}}", "write `retry`"),
    ],
)
def test_a_word_that_is_not_among_those_known_is_told(keys: str, fix: str) -> None:
    text, (found,) = of_step(task(keys))
    assert (found.code, found.fix) == ("wrong-value", fix)
    assert "which is not one of" in found.message
    assert bool(found.edits) == fix.startswith("write `")
    if found.edits:
        assert found_in(mended(text, found)) == ()


def test_a_word_is_never_mended_into_its_opposite() -> None:
    _, (found,) = of_step(task("kind: noop, spec: {network: no}"))
    assert (found.fix, found.edits) != ("write `on`", found.edits or ())


@pytest.mark.parametrize("mode", ["on", "off"])
def test_on_and_off_are_words_and_no_booleans(mode: str) -> None:
    assert told(task(f"kind: noop, spec: {{network: {mode}}}")) == []


def test_the_version_and_the_kind_of_the_document_are_exact() -> None:
    found = found_in("apiVersion: noetl.io/v3\nkind: playbook\nmetadata: {name: t}\nworkflow: [{step: end}]\n")
    assert [(one.code, one.message, [edit.text for edit in one.edits]) for one in found] == [
        ("wrong-value", "`apiVersion` must be `noetl.io/v2`", []),
        ("wrong-value", "`kind` must be `Playbook`", ["Playbook"]),
    ]


# --- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "better"),
    [("1a", "_1a"), ("12", "_12"), ("'a b'", "a_b"), ("a.b", "a_b"), ("'{{ x }}'", "x"), ("ä", "name"), ("-x", "_-x")],
)
def test_a_bad_name_is_told_with_a_good_one(name: str, better: str) -> None:
    _, found = of_step(f"{{step: {name}, tool: {{kind: noop}}}}")
    assert [(one.code, one.fix) for one in found] == [("bad-name", f"write `{better}`")]


@pytest.mark.parametrize("name", ["a", "_", "A-b_9", "end-of-day"])
def test_a_good_name_is_taken(name: str) -> None:
    assert told(f"{{step: {name}, tool: {{kind: noop}}}}") == []


def test_a_word_that_yaml_takes_for_a_boolean_is_quoted_to_be_a_name() -> None:
    text, (found,) = of_step("{step: true, tool: {kind: noop}}")
    assert (found.code, found.fix) == ("wrong-type", 'write "true"')
    assert found_in(mended(text, found)) == ()


# --- tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool",
    [
        "{kind: noop}",
        "[{name: x, kind: noop}, {kind: noop}]",
        "[{x: {kind: noop}}, {y: {kind: noop}}]",
        "[{x: {kind: noop}}, {name: y, kind: noop}, {kind: noop}]",
    ],
)
def test_a_tool_takes_any_of_its_three_shapes(tool: str) -> None:
    assert told(f"{{step: a, tool: {tool}}}") == []


def test_a_label_is_a_name() -> None:
    assert [code for code, _, _ in told("{step: a, tool: [{'b c': {kind: noop}}]}")] == ["bad-name"]


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("htp", "did you mean `http`?"),
        ("zzzzzzz", "kinds: noop, python, http, postgres, duckdb, shell, playbook, workbook, secrets, resolve, transfer, wait"),
    ],
)  # fmt: skip
def test_a_kind_nobody_has_is_told(kind: str, fix: str) -> None:
    _, (found,) = of_step(task(f"kind: {kind}, whatever: 1"))
    assert (found.code, found.message, found.fix) == ("unknown-kind", f"there is no tool kind `{kind}`", fix)


def test_without_a_kind_the_keys_of_every_task_are_still_checked() -> None:
    assert [code for code, _, _ in told(task("kind: zzzzzzz, desc: 5"))] == ["unknown-kind", "wrong-type"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("kind: http", "`kind: http` needs `url`"),
        ("kind: python", "`kind: python` needs `code` or `module`"),
        ("kind: wait", "`kind: wait` needs `seconds` or `until` or `signal`"),
        ("kind: duckdb", "`kind: duckdb` needs `query` or `command`"),
        ("kind: shell", "`kind: shell` needs `cmd` or `file`"),
        ("kind: resolve", "`kind: resolve` needs `ref`"),
        ("kind: playbook", "`kind: playbook` needs `path`"),
        ("kind: workbook", "`kind: workbook` needs `task`"),
    ],
)
def test_what_a_kind_cannot_do_without_is_asked_for(keys: str, message: str) -> None:
    assert told(task(keys)) == [("missing-key", 21, message)]


@pytest.mark.parametrize(
    ("keys", "column", "message"),
    [
        ("kind: python, code: x, module: y", 45, "`code` and `module` exclude each other"),
        ("kind: wait, seconds: 1, signal: x", 46, "`seconds` and `signal` exclude each other"),
        ("kind: http, url: x, json: 1, form: {a: 1}", 51, "`json` and `form` exclude each other"),
        ("kind: http, url: x, json: 1, input: {body: 2}", 59, "`json` and `body` exclude each other"),
    ],
)
def test_keys_that_exclude_each_other_are_told_at_the_second(keys: str, column: int, message: str) -> None:
    assert told(task(keys)) == [("wrong-value", column, message)]


def test_the_input_of_a_tool_it_configures_may_give_its_keys() -> None:
    assert told(task("kind: http, input: {url: x, method: POST}")) == []
    assert told(task("kind: http, input: {url: 5}")) == [("wrong-type", 47, "`url` must be text, not a number")]


def test_a_template_as_the_whole_input_may_give_anything() -> None:
    assert told(task('kind: http, input: "{{ workload }}"')) == []


def test_the_same_key_beside_kind_and_under_input_is_a_conflict() -> None:
    _, (found,) = of_step(task("kind: http, url: x, input: {url: y}"))
    assert (found.code, found.message, found.fix) == (
        "input-conflict", "`url` stands beside `kind` and under `input`", "keep one of the two")  # fmt: skip


def test_an_argument_may_have_the_name_of_a_key() -> None:
    assert told(task("kind: duckdb, query: 'SELECT $query', input: {query: 2}")) == []


def test_in_the_single_shape_a_name_may_be_the_workbooks_or_the_secrets() -> None:
    workbook = "workbook: {b: {kind: noop}}\n"
    assert found_in(f"{HEAD}{workbook}workflow: [{{step: a, tool: {{kind: workbook, name: b}}}}]\n") == ()
    assert [code for code, _, _ in told("{step: a, tool: [{kind: workbook, name: b}]}")] == ["missing-key"]


# --- sugar -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "told_as"),
    [
        ("{choose: []}", ("wrong-value", "`choose` must have at least 1 item")),
        ("{choose: {when: true}}", ("wrong-type", "`choose` must be a list, not a map")),
        ("{choose: [{then: []}]}", ("missing-key", "a rule needs `when` (or `else`)")),
        ("{choose: [{when: true}]}", ("missing-key", "a rule needs `then` (what follows from it)")),
        ("{choose: [{else: []}, {when: true, then: []}]}",
         ("else-not-last", "`else` closes the list; what stands below is never read")),
        ("{choose: [{when: true, then: [{kind: nop}]}]}", ("unknown-kind", "there is no tool kind `nop`")),
        ("{choose: [{when: true, then: {kind: noop}}]}", ("wrong-type", "`then` must be a list, not a map")),
        ("{while: {do: [{kind: noop}]}}", ("missing-key", "`while` needs `when` (the condition)")),
        ("{while: {when: true, do: []}}", ("wrong-value", "`do` must have at least 1 item")),
        ("{until: {when: true}}", ("missing-key", "`until` needs `do` (the tasks to run)")),
        ("{until: {when: true, do: [{kind: noop}], max: 3}}", ("unknown-key", "`until` has no key `max`")),
        ("{choose: [{else: []}], spec: {}}", ("unknown-key", "`spec` cannot stand beside `choose`")),
    ],
)  # fmt: skip
def test_sugar_has_a_shape_too(item: str, told_as: tuple[str, str]) -> None:
    assert [(code, message) for code, _, message in told(f"{{step: a, tool: [{item}]}}")] == [told_as]


def test_sugar_may_have_a_name_and_a_description() -> None:
    assert told("{step: a, tool: [{name: w, desc: x, while: {when: '{{ false }}', do: [{kind: noop}]}}]}") == []


# --- where keys may not stand ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        task("kind: noop, spec: {set: {ctx.a: 1}}"),
        "{step: a, spec: {set: {ctx.a: 1}}, tool: {kind: noop}}",
        "{step: a, loop: {in: [], iterator: x, spec: {set: {ctx.a: 1}}}, tool: {kind: noop}}",
        "{step: a, next: {spec: {set: {ctx.a: 1}}, arcs: []}}",
    ],
)
def test_a_set_never_stands_under_a_spec(step: str) -> None:
    assert [(code, message) for code, _, message in told(step)] == [
        ("set-under-spec", "`set` cannot stand under `spec`")
    ]


@pytest.mark.parametrize(
    "step",
    [
        "{step: a, spec: {policy: {rules: [{when: true, then: {do: retry}}]}}, tool: {kind: noop}}",
        "{step: a, loop: {in: [], iterator: x, spec: {policy: {rules: [{do: skip}]}}}, tool: {kind: noop}}",
        "{step: a, next: {spec: {policy: {rules: [{then: {do: jump}}]}}, arcs: []}}",
    ],
)
def test_control_words_steer_tasks_only(step: str) -> None:
    assert [code for code, _, _ in told(step)] == ["control-outside-task"]


def test_admission_knows_only_allow() -> None:
    found = told("{step: a, spec: {policy: {admit: {rules: [{when: true, then: {do: fail}}]}}}, tool: {kind: noop}}")
    assert ("control-outside-task", "`do` steers tasks; admission knows only `allow`") in [(c, m) for c, _, m in found]


def test_an_arc_carries_no_input() -> None:
    _, found = of_step("{step: a, next: {arcs: [{step: end, input: {x: 1}}]}}")
    one = next(one for one in found if one.code == "arc-payload")
    assert "`set`" in (one.fix or "")


# --- around the steps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "code", "message"),
    [
        ("keychain: [{kind: basic}]", "missing-key", "a keychain entry needs `name` (how tasks refer to it: `auth: <name>`)"),
        ("keychain: [{name: a, kind: bearer, from: {envv: x}}]", "unknown-key", "`from` has no key `envv`"),
        ("workload: [1]", "wrong-type", "`workload` must be a map, not a list"),
        ("workbook: {b: []}", "wrong-value", "`b` must have at least 1 item"),
        ("workbook: {b: 5}", "wrong-type", "`b` must be a map or a list, not a number"),
        ("workbook: {b: {kind: nop}}", "unknown-kind", "there is no tool kind `nop`"),
        ("executor: {spec: {policy: {limit: {}}}}", "unknown-key", "the executor's `policy` has no key `limit`"),
        ("executor: {spec: {policy: {defaults: {timeouts: {http: x}}}}}", "wrong-type", "`http` must be a number, not text"),
        ("workflos: []", "unknown-key", "a playbook has no key `workflos`"),
    ],
)  # fmt: skip
def test_the_rest_of_the_document_has_a_shape_too(root: str, code: str, message: str) -> None:
    found = found_in(f"{HEAD}{root}\nworkflow: [{{step: end}}]\n")
    assert [(one.code, one.message) for one in found] == [(code, message)]


def test_a_problem_inside_of_an_anchor_is_told_once_where_it_is_written() -> None:
    text = f"{HEAD}x-t: &t {{kind: http, url: 5}}\nworkflow:\n  - {{step: a, tool: *t}}\n  - {{step: b, tool: *t}}\n"
    found = next(one for one in found_in(text) if one.code == "wrong-type")
    assert found.span is not None
    assert (found.span.line, [one.code for one in found_in(text)].count("wrong-type")) == (4, 1)
    assert "wrong-type" not in [one.code for one in found_in(mended(text, found))]


def test_a_problem_that_is_an_alias_is_told_where_the_alias_stands_and_without_an_edit() -> None:
    (found,) = found_in(f"{HEAD}x-n: &n 5\nworkflow:\n  - {{step: a, tool: {{kind: http, url: *n}}}}\n")
    assert found.span is not None
    assert (found.code, found.span.line, found.edits) == ("wrong-type", 6, ())


# --- ways out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "fix", "edit"),
    [
        (task("kind: noop, spec: {timeout: '5'}"), "write a number or a map", None),
        (task("kind: noop, spec: {retries: '5'}"), "write 5", "retries: 5"),
        (task("kind: noop, spec: {retries: 5s}"), "write a whole number, without quotes or units", None),
        (task("kind: http, url: x, follow_redirects: yes"), "write true", "follow_redirects: true"),
        (task("kind: http, url: x, follow_redirects: maybe"), "write `true` or `false`", None),
        ("{step: a, next: {arcs: {step: a, when: false}}}", "put `- ` before it, so that it is the first item", None),
        ("{step: a, tool: {kind: noop}, set: [1]}", "remove the `- ` before it", None),
        ("{step: a, tool: {kind: noop}, set: [1, 2]}", "write lines of `key: value`, without `- ` before them", None),
        ("{step: a, spec: {rate: {limit: 0, per_s: 1}}, tool: {kind: noop}}", "write 1 or more", None),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_a_way_out(step: str, fix: str, edit: str | None) -> None:
    text, found = of_step(step)
    one = next(one for one in found if one.code in ("wrong-type", "wrong-value"))
    assert one.fix == fix
    assert (edit is None and not one.edits) or (edit or "") in mended(text, one)


def test_a_misspelt_key_is_not_renamed_to_one_that_is_there() -> None:
    _, (found,) = of_step("{step: a, nxt: {arcs: []}, next: {arcs: []}, tool: {kind: noop}}")
    assert (found.edits, found.fix) == (
        (), "did you mean `next`? It is already there on line 5: keep one of the two")  # fmt: skip


def test_the_need_of_a_join_is_a_number_or_all() -> None:
    _, found = of_step("{step: a, spec: {policy: {admit: {join: {from: [a], need: some}}}}, next: {arcs: [{step: a}]}}")
    one = next(one for one in found if one.code == "wrong-value")
    assert (one.message, one.fix) == ("`need` is `some`, not a number or `all`", "write a number or `all`")

"""Constructs of playbooks in the wild: what they become, what is left to a person, and that the result is clean."""

from __future__ import annotations

import pytest
from migrating import HEAD, KINDS, errors, migrated

from noetl.lang.legacy import migrate

PG = "keychain: [{name: pg, kind: postgres_credential}]\n"


def step(tool: str, *, more: str = "", before: str = "") -> str:
    return f"{before}workflow:\n  - step: a\n    tool: {tool}\n{more}"


@pytest.mark.parametrize(
    ("tool", "written"),
    [
        ("{kind: python, script: {uri: x, source: {type: inline, code: 'result = 1'}}}", "code: 'result = 1'"),
        ("{kind: python, script: {source: {code: 'result = 1'}}}", "code: 'result = 1'"),
        ("{type: python, spec: {script: {type: inline, code: 'result = 1'}}}", "code: 'result = 1'"),
        ("{kind: shell, script: {source: {type: inline, code: 'echo x'}}}", "cmd: 'echo x'"),
        ("{kind: shell, script: {uri: ./run.sh, source: {type: file}}}", "file: ./run.sh"),
        ("{kind: shell, script: {source: {type: file, path: run.sh}}}", "file: run.sh"),
        ("{kind: duckdb, script: {source: {type: inline, code: SELECT 1}}}", "query: SELECT 1"),
    ],
)
def test_a_script_is_its_code_or_its_file(tool: str, written: str) -> None:
    text, todo = migrated(step(tool))
    assert written in text
    assert "script:" not in text
    assert todo == []
    assert errors(text) == []


def test_what_else_a_script_said_is_asked_about() -> None:
    text, todo = migrated(step("{kind: python, script: {cache: true, source: {code: 'result = 1', checksum: abc}}}"))
    assert "code: 'result = 1'" in text
    assert todo == ['the script also said `cache: true`, `checksum: "abc"`']


@pytest.mark.parametrize("source", ["{type: file, uri: x.py}", "{type: gcs, path: b/x.py}", "{type: http, uri: x.py}"])
def test_code_that_lies_elsewhere_is_asked_for_and_never_skipped(source: str) -> None:
    text, todo = migrated(step(f"{{kind: python, script: {{source: {source}}}}}"))
    assert "raise NotImplementedError" in text
    assert len(todo) == 1
    assert errors(text) == []


@pytest.mark.parametrize(
    ("libs", "lines"),
    [
        ("{D: {from: decimal, import: Decimal}}", "from decimal import Decimal as D"),
        ("{Decimal: {from: decimal, import: Decimal}}", "from decimal import Decimal"),
        ("{Decimal: {from: decimal}}", "from decimal import Decimal"),
        ("{np: {import: math}}", "import math as np"),
        ("{np: math, json: json}", "import math as np"),
    ],
)
def test_libraries_are_imports(libs: str, lines: str) -> None:
    text, todo = migrated(step("\n      kind: python\n      libs: " + libs + "\n      code: |\n        result = 1"))
    assert lines + "\n" in text
    assert "libs" not in text
    assert todo == []


@pytest.mark.parametrize("word", ["exports", "export"])
def test_exports_of_a_shell_task_are_its_environment(word: str) -> None:
    text, _ = migrated(step(f"{{kind: shell, cmd: 'echo $A', env: {{B: 2}}, {word}: {{A: 1}}}}"))
    assert "env: {B: 2, A: 1}" in text
    assert errors(text) == []


def test_an_assertion_of_the_workbook_is_a_schema() -> None:
    text, todo = migrated(
        """\
        workbook:
          - name: double
            tool: python
            assert: {expects: [size], returns: [twice]}
            code: "def main(n):\\n    return {'m': n * 2}\\n"
        workflow: [{step: a, tool: {kind: workbook, name: double, args: {n: 2}}}]
        """
    )
    assert "validate" in text
    assert "required: [size]" in text
    assert "required: [twice]" in text
    assert todo == []
    assert errors(text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("docker ps --format '{{.ID}}'", "docker ps --format '{% raw %}{{.ID}}{% endraw %}'"),
        ("x '{{ .Name }}' {{ workload.n }}", "x '{% raw %}{{ .Name }}{% endraw %}' {{ workload.n }}"),
        ("k '{{range .items}}{{.a}}{{end}}'", "k '{% raw %}{{range .items}}{% endraw %}{% raw %}{{.a}}{% endraw %}{% raw %}{{end}}{% endraw %}'"),
        ("{% raw %}{{.ID}}{% endraw %}", "{% raw %}{{.ID}}{% endraw %}"),
    ],
)  # fmt: skip
def test_templates_of_another_language_are_raw(before: str, after: str) -> None:
    text, todo = migrated(step(f'{{kind: shell, cmd: "{before}"}}', before="workload: {n: 1}\n"))
    assert after in text
    assert todo == []
    assert errors(text) == []


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("commands", "{{ q }}", "{{ workload.q | sql }}"),
        ("query", "{{ workload.q if q else 'SELECT 1' }}", "{{ (workload.q if workload.q else 'SELECT 1') | sql }}"),
        ("command", "{{ workload.q }};", "{{ workload.q | sql }}"),
        ("query", "{{ workload.q | sql }}", "{{ workload.q | sql }}"),
        ("query", "SELECT {{ workload.q }}", "SELECT {{ workload.q }}"),
    ],
)
def test_a_whole_statement_is_spliced(key: str, before: str, after: str) -> None:
    text, todo = migrated(step(f'{{kind: duckdb, {key}: "{before}"}}', before="workload: {q: SELECT 1}\n"))
    assert f'"{after}"' in text
    assert todo == []


@pytest.mark.parametrize("settings", ["{store: {kind: auto}, output_select: [x]}", "{output_select: [x]}"])
@pytest.mark.parametrize("place", ["step", "task"])
def test_settings_of_a_result_are_not_the_result(settings: str, place: str) -> None:
    tool, more = "{kind: noop}", f"    output: {settings}\n"
    if place == "task":
        tool, more = f"{{kind: noop, output: {settings}}}", ""
    text, todo = migrated(step(tool, more=more))
    assert "output" not in text
    assert todo == []


def test_a_store_that_is_known_is_kept() -> None:
    text, todo = migrated(step("{kind: noop}", more="    output: {store: {kind: s3, bucket: b}, output_select: [x]}\n"))
    assert "store: object_store" in text
    assert len(todo) == 1
    assert errors(text) == []


def test_the_default_timeout_is_that_of_the_executor() -> None:
    text, todo = migrated(step("{kind: noop}", before="executor: {spec: {policy: {defaults: {timeout_s: 30}}}}\n"))
    assert "executor: {spec: {timeout: 30}}" in text
    assert todo == []
    assert errors(text) == []


@pytest.mark.parametrize("call", ["token('api')", 'token("api")', "token( name='api' )"])
def test_a_token_is_that_of_the_keychain(call: str) -> None:
    quoted = call.replace('"', '\\"')
    text, todo = migrated(step(f'{{kind: http, url: u, headers: {{Authorization: "Bearer {{{{ {quoted} }}}}"}}}}'))
    assert "Bearer {{ keychain.api.token }}" in text
    assert "name: api" in text
    assert len(todo) == 1
    assert errors(text) == []


def test_a_step_with_other_characters_in_its_name_is_renamed_wherever_it_is_named() -> None:
    text, todo = migrated(
        """\
        workflow:
          - {step: start, next: [{step: fetch data}, 2nd]}
          - {step: fetch data, tool: {kind: noop}, next: {arcs: [{step: last}]}}
          - {step: 2nd, tool: {kind: noop}, next: {arcs: [{step: last}]}}
          - step: last
            spec: {policy: {admit: {rules: [{when: "{{ done('fetch data') and steps['2nd'].status.done }}", then: {allow: true}}]}}}
            tool: {kind: noop}
        """
    )
    assert "done('fetch_data') and steps['step_2nd'].status.done" in text
    assert "fetch data" not in text
    assert todo == []
    assert errors(text) == []


def test_data_that_reads_like_the_name_of_a_renamed_step_stays_as_it_is() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: fetch data
            tool: {kind: noop}
            next:
              arcs:
                - step: last
                  when: "{{ event.step == 'fetch data' and 'fetch data' != workload.mode }}"
                  set: {ctx.stage: fetch data, ctx.text: "{{ workload.mode == 'fetch data' }}"}
          - {step: last, tool: {kind: noop}}
        workload: {mode: fast}
        """
    )
    assert "event.step == 'fetch_data' and 'fetch data' != workload.mode" in text
    assert "{ctx.stage: fetch data, ctx.text: \"{{ workload.mode == 'fetch data' }}\"}" in text
    assert todo == []


@pytest.mark.parametrize("rule", ["{else: , then: {do: continue}}", "{else: {}, then: {do: continue}}"])
def test_then_beside_else_is_its_own(rule: str) -> None:
    text, todo = migrated(
        step(f"{{kind: noop, spec: {{policy: {{rules: [{{when: '{{{{ false }}}}', then: {{do: fail}}}}, {rule}]}}}}}}")
    )
    assert "else: {then: {do: continue}}" in text
    assert todo == []
    assert errors(text) == []


def test_a_name_that_only_the_command_line_gave_is_asked_for() -> None:
    text, todo = migrated(step('{kind: noop, output: "{{ target }}"}'))
    assert "{{ workload.target }}" in text
    assert todo == ["nothing here defines `target`: pass it in the payload, or write what is meant"]
    assert errors(text) == []


@pytest.mark.parametrize("auth", ["{source: vault}", "{source: vault, path: secret/x}"])
def test_a_credential_with_a_source_is_declared(auth: str) -> None:
    text, todo = migrated(step(f"{{kind: http, url: u, auth: {auth}}}"))
    assert "auth: a_auth" in text
    assert any("`a_auth`" in one and "`vault`" in one for one in todo)
    assert errors(text) == []


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO t VALUES ({{ execution_id }}::bigint)",
        "SELECT {{ execution_id | int }}",
        "CREATE TABLE t (execution_id BIGINT)",
        "SELECT CAST('{{ execution_id }}' AS BIGINT)",
    ],
)
def test_an_id_of_an_execution_that_is_used_as_a_number_is_asked_about(query: str) -> None:
    _, todo = migrated(step(f'{{kind: postgres, auth: pg, commands: "{query}"}}', before=PG))
    assert len(todo) == 1
    assert "`execution_id` is text" in todo[0]


@pytest.mark.parametrize(("cmd", "asked"), [("./run.sh", 1), ("cd sub && ls", 1), ("make all", 1), ("cat data/x.csv", 1),
                                            ("echo hello", 0), ("curl http://h/a/b", 0), ("ls /tmp/x", 0)])  # fmt: skip
def test_a_command_that_depends_on_its_folder_is_asked_about(cmd: str, asked: int) -> None:
    _, todo = migrated(step(f"{{kind: shell, cmds: ['{cmd}']}}"))
    assert len(todo) == asked


@pytest.mark.parametrize("word", ["schedule", "cron"])
def test_a_schedule_is_no_label(word: str) -> None:
    head = HEAD.replace("{name: t}", f"{{name: t, {word}: '0 1 * * *'}}")
    result = migrate(head + step("{kind: noop}"), KINDS)
    assert result is not None
    again = migrate(result.text, KINDS)
    assert again is not None
    assert again.text == result.text
    assert "labels" not in result.text
    assert "# TODO noetl:" in result.text
    assert "0 1 * * *" in result.text


RESERVED = {
    "admit.mode": "spec: {policy: {admit: {mode: any, fire: once}}}",
    "policy.emit": "spec: {policy: {emit: {events: [x]}}}",
    "policy.quotas": "spec: {policy: {quotas: {cpu: 1}, max_jumps: 5}}",
    "ordering": "loop: {in: [1], iterator: i, spec: {policy: {ordering: strict}}}",
    "backpressure": "loop: {in: [1], iterator: i, spec: {mode: parallel, policy: {backpressure: {x: 1}}}}",
    "partitioning": "loop: {in: [1], iterator: i, spec: {policy: {partitioning: hash}}}",
    "next.spec.policy": "next: {spec: {mode: exclusive, policy: {priority: 1}}, arcs: [{step: end}]}",
    "arcs[].spec": "next: {arcs: [{step: end, spec: {priority: 1}}]}",
}


@pytest.mark.parametrize("word", RESERVED)
def test_a_word_without_a_meaning_is_dropped_with_a_question(word: str) -> None:
    last = word.removesuffix("[].spec").split(".")[-1]
    text, todo = migrated(step("{kind: noop}", more=f"    {RESERVED[word]}\n  - step: end\n"))
    assert "# TODO noetl:" in text
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert not any(f"{last}:" in line for line in lines) or word in ("arcs[].spec", "next.spec.policy")
    assert len(todo) == 1
    assert errors(text) == []


def test_words_of_one_block_are_all_asked_about_though_nothing_is_left_of_it() -> None:
    text, todo = migrated(step("{kind: noop}", more="    spec: {policy: {quotas: {cpu: 1}, admit: {mode: any}}}\n"))
    assert "spec:" not in text
    assert len(todo) == 2
    assert text.count("# TODO noetl:") == 2


@pytest.mark.parametrize("defaults", ["resources: {cpu: 1}", "timeouts: {wait: 5}"])
def test_defaults_without_a_meaning_are_dropped_with_a_question(defaults: str) -> None:
    before = f"executor: {{spec: {{policy: {{defaults: {{{defaults}}}}}}}}}\n"
    text, todo = migrated(step("{kind: noop}", before=before))
    assert "executor" not in text.replace("`executor.spec`", "")
    assert len(todo) == 1


def test_a_cursor_loop_is_a_loop_of_slots() -> None:
    text, todo = migrated(
        """\
        keychain: [{name: pg, kind: postgres_credential}]
        workflow:
          - step: work
            loop:
              cursor: {kind: postgres, auth: pg, claim: "UPDATE q SET s = 1 RETURNING id"}
              iterator: item
              spec: {mode: cursor, max_in_flight: 3}
            tool:
              - {name: show, kind: noop, output: "{{ iter.item.id }} {{ item.id }}", spec: {policy: {rules: [{else: {then: {do: break}}}]}}}
        """
    )
    assert 'in: "{{ range(3) | list }}"' in text
    assert "max_in_flight: 3" in text
    assert "name: claim" in text
    assert "do: jump, to: claim" in text.replace("do: jump\n", "do: jump, ")
    assert "{{ iter.item.id }} {{ iter.item.id }}" in text
    assert todo == []
    assert errors(text) == []


JOIN = """\
workflow:
  - {step: start, next: [{step: a}, {step: b}]}
  - {step: a, tool: {kind: noop}, next: [{step: both}]}
  - {step: b, tool: {kind: noop}, next: [{step: both%s}]}
  - {step: both, tool: {kind: noop}}
"""


def test_branches_that_bring_args_of_their_own_are_asked_about() -> None:
    text, todo = migrated((JOIN % "").replace("step: both}]", "step: both, args: {k: 1}}]"))
    assert "join:" not in text
    assert len(todo) == 1
    assert "it runs once for each" in text

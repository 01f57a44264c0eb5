"""What an older playbook says is said by the migrated one too, or asked of a person."""

import textwrap

import pytest

from noetl.lang.legacy import migrate
from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()


class Result:
    """A migrated body: its text, what is left to decide, and what was told."""

    def __init__(self, body: str) -> None:
        body = textwrap.dedent(body)
        migrated = migrate(HEAD + body, KINDS)
        assert migrated is not None
        self.text = migrated.text.removeprefix(HEAD)
        self.todo = [one.message for one in migrated.diagnostics if one.code == "legacy-todo"]
        self.told = [(one.code, one.message, one.fix) for one in migrated.diagnostics if one.code != "legacy-todo"]
        for said in self.todo:
            assert f"# TODO noetl: {said}" in self.text
        again = migrate(migrated.text, KINDS)
        assert again is not None
        assert again.text == migrated.text
        self.errors = [one.message for one in load(migrated.text, KINDS).diagnostics if one.severity == "error"]

    def clean(self) -> str:
        """The text of a migration that left nothing open."""
        assert (self.todo, self.errors) == ([], [])
        return self.text


def task(tool: str) -> Result:
    return Result(f"workflow:\n  - step: a\n    tool: {tool}\n")


def sink(settings: str, tool: str = "kind: http, url: u") -> Result:
    return Result(
        "keychain: [{name: pg, kind: postgres_credential}]\nworkload: {rows: []}\nworkflow:\n"
        f"  - step: a\n    tool: {{{tool}, sink: {settings}}}\n"
    )


# --- sinks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["params", "args", "data"])
def test_what_a_statement_calls_params_is_its_input(word: str) -> None:
    text = sink(f"{{kind: postgres, auth: pg, statement: \"INSERT '{{{{ params.id }}}}'\", {word}: {{id: 1}}}}").clean()
    assert "{{ input.id }}" in text
    assert "input: {id: 1}" in text
    assert "params" not in text


def test_params_that_a_sink_does_not_give_are_asked_for() -> None:
    found = sink("{kind: postgres, auth: pg, statement: \"INSERT '{{ params.id }}'\"}")
    assert "# TODO noetl: nothing here defines `params`" in found.text
    assert found.errors == []


def test_the_data_of_a_result_in_a_mapping_is_the_row() -> None:
    text = sink(
        '{kind: postgres, auth: pg, table: t, mapping: {id: "{{ r.data.id }}", data: "{{ r.data }}"}}',
        "kind: http, url: u, result: r",
    ).clean()
    assert 'mapping: {id: "{{ row.id }}", data: "{{ row.data }}"}' in text


@pytest.mark.parametrize("given", ['"{{ workload.rows }}"', '{rows: "{{ workload.rows }}"}'])
def test_rows_that_are_not_the_result_are_written(given: str) -> None:
    text = sink(f"{{kind: postgres, auth: pg, table: t, args: {given}}}").clean()
    assert 'data: "{{ workload.rows }}"' in text


def test_a_list_of_rows_in_a_sink_is_written() -> None:
    text = sink("{kind: postgres, auth: pg, table: t, args: {rows: [{id: 1}, {id: 2}]}}").clean()
    assert "data: [{id: 1}, {id: 2}]" in text


@pytest.mark.parametrize(("given", "value"), [("this.data", "output.data"), ("this.body.x", "output.data.x")])
def test_whether_one_argument_is_the_rows_or_a_column_is_decided_by_the_run(given: str, value: str) -> None:
    found = sink(f'{{kind: postgres, auth: pg, table: t, args: {{payload: "{{{{ {given} }}}}"}}}}')
    decided = (
        f"{value} if {value} is iterable and {value} | reject('mapping') | list == [] else [{{'payload': {value}}}]"
    )
    assert f'data: "{{{{ {decided} }}}}"' in found.clean()


def test_one_argument_that_is_more_than_a_path_and_may_be_a_column_is_left_to_a_person() -> None:
    found = sink('{kind: postgres, auth: pg, table: t, args: {data: "{{ this.data | list }}"}}')
    assert found.todo == ["if this is no list of rows, it was one row with the column `data`"]


def test_the_columns_of_a_chunked_sink_are_not_dropped_in_silence() -> None:
    found = sink(
        '{kind: postgres, auth: pg, table: t, args: {x: "{{ this.x }}", n: "{{ chunk.index }}"}}',
        "kind: http, url: u, chunk: {size: 5, path: items}",
    )
    assert len(found.todo) == 1
    assert "chunk.index" in found.text


def test_the_status_that_code_returns_is_not_that_of_a_request() -> None:
    text = sink('{kind: file, path: "{{ this.status }}.json"}', "kind: python, code: 'result = {}'").clean()
    assert 'path: "{{ output.data.status }}.json"' in text


def test_a_key_that_code_returns_may_be_meant_by_the_data_of_a_result() -> None:
    found = sink('{kind: file, path: o, args: "{{ result.data }}"}', "kind: python, code: \"result = {'data': 1}\"")
    assert len(found.todo) == 1


def test_the_element_of_a_loop_is_no_result() -> None:
    found = Result(
        """\
        workflow:
          - step: a
            loop: {in: [1], iterator: data}
            tool: {kind: http, url: u, sink: {kind: file, path: "{{ data }}.json"}}
        """
    )
    assert 'path: "{{ iter.data }}.json"' in found.clean()


def test_the_index_of_an_iteration_is_no_part_of_its_result() -> None:
    found = Result(
        """\
        workflow:
          - step: a
            loop: {in: [1], iterator: x}
            tool: {kind: http, url: u, sink: {kind: file, path: "{{ a.result_index }}.json"}}
        """
    )
    assert 'path: "{{ iter.index }}.json"' in found.clean()


def test_a_second_sink_reads_the_status_of_the_request_too() -> None:
    text = sink(
        '[{kind: file, path: "{{ this.status }}"}, {kind: file, args: {a: 1, b: 2}, path: "{{ this.status }}"}]'
    ).clean()
    assert text.count("{{ output.http.status }}") == 1
    assert "{{ step.a_http.status }}" in text
    assert 'set: {step.a_http: "{{ output.http }}"}' in text


@pytest.mark.parametrize("status", ["outcome.result.status", "outcome.http.status", "response.status_code"])
def test_the_status_of_a_request_is_kept_behind_its_sink(status: str) -> None:
    found = Result(
        f"""\
        workflow:
          - step: a
            tool: {{kind: http, url: u, sink: {{kind: file, path: o.json}}}}
            set: {{ctx.k: "{{{{ outcome.result.data.k }}}}"}}
            next: {{arcs: [{{step: end, when: "{{{{ {status} == 200 }}}}"}}]}}
          - step: end
        """
    )
    text = found.clean()
    # A request that failed has no sink behind it.
    assert "{{ (step.a_http | default(output.http)).status == 200 }}" in text
    assert "{{ output.data.k }}" in text


def test_a_sink_inside_of_sugar_stays_behind_its_tool() -> None:
    found = Result(
        """\
        workflow:
          - step: a
            tool:
              - choose:
                  - when: "{{ true }}"
                    then: [{name: x, kind: http, url: u, sink: {kind: file, path: o}}]
                  - else: [{name: y, kind: noop}]
        """
    )
    assert found.clean().index("x_sink") < found.text.index("else:")


def test_several_kinds_of_sinks_are_all_kept() -> None:
    found = Result(
        """\
        workflow:
          - step: a
            tool:
              kind: http
              url: u
              sink: {kind: file, path: one}
              save: {kind: file, path: two}
        """
    )
    assert "path: one" in found.clean()
    assert "path: two" in found.text


@pytest.mark.parametrize("settings", ["event_log", "{storage: event_log}", '{tool: event, args: "{{ result }}"}'])
def test_what_the_log_has_anyway_is_said_to_become_nothing(settings: str) -> None:
    found = sink(settings)
    assert "tool: {kind: http, url: u}" in found.clean()
    assert [fix for code, _, fix in found.told if code == "legacy-sink"] == [
        "write nothing: the log has every output; `noetl migrate FILE` rewrites it"
    ]


def test_what_only_the_sink_said_to_the_log_is_still_written_there() -> None:
    text = sink('{tool: event, args: {note: "{{ this.data.x }} done"}}').clean()
    assert 'step.a_log: {note: "{{ output.data.x }} done"}' in text


def test_a_sink_that_only_warns_does_not_fail_its_step() -> None:
    text = sink("{kind: postgres, auth: pg, statement: SELECT 1, on_error: warn}").clean()
    assert "then: {do: skip}" in text


def test_a_save_step_with_a_statement_keeps_it() -> None:
    found = Result(
        "keychain: [{name: pg, kind: postgres_credential}]\n"
        "workflow:\n  - {step: a, type: save, storage: postgres, auth: pg, statement: SELECT 1}\n"
    )
    assert "kind: postgres" in found.clean()
    assert "query: SELECT 1" in found.text


def test_a_credential_of_a_sink_is_declared() -> None:
    found = Result(
        "workflow:\n  - step: a\n    tool: {kind: http, url: u, sink: "
        "{kind: postgres, table: t, auth: {pg: {type: postgres, key: pg_local}}}}\n"
    )
    assert "{name: pg_local, kind: postgres_credential}" in found.clean()


def test_a_sink_knows_how_many_rows_a_statement_had() -> None:
    text = sink(
        '{kind: file, path: o, args: {n: "{{ this.row_count }}", m: 1}}', "kind: postgres, auth: pg, query: q"
    ).clean()
    assert 'n: "{{ output.pg.rowcount }}"' in text


# --- chunks at the source --------------------------------------------------------------------------------------

QUERY = "kind: postgres, auth: pg, query: SELECT 1"


def test_rows_of_a_database_have_no_path() -> None:
    target = "{kind: postgres, auth: pg, table: t}"
    assert "path" not in sink(target, QUERY + ", chunk: {size: 5, path: rows}").clean()
    found = sink(target, QUERY + ", chunk: {size: 5, path: a.b}")
    assert found.errors == []
    assert "a.b" in found.todo[0]


def test_the_input_of_a_chunked_query_is_its_parameters() -> None:
    text = sink("{kind: file, path: o}", QUERY + ", args: {id: 7}, chunk: {size: 5}").clean()
    assert "params: {id: 7}" in text


def test_chunks_that_no_sink_takes_leave_the_query_as_it_is() -> None:
    text = task("{kind: duckdb, query: SELECT 1, chunk: {size: 5}}").clean()
    assert "tool: {kind: duckdb, query: SELECT 1}" in text


def test_targets_that_are_there_stay_beside_sinks() -> None:
    text = task(
        "{kind: transfer, source: {kind: data, data: []}, targets: [{kind: file, path: one}], sink: {kind: file, path: two}}"
    ).clean()
    assert "path: one" in text
    assert "path: two" in text


def test_credentials_of_both_ends_of_a_transfer_are_declared() -> None:
    text = task(
        "{kind: transfer, source: {type: postgres, query: q, auth: {type: postgres, key: one}}, "
        "target: {type: postgres, table: t, auth: {type: postgres, credential: two}}}"
    ).clean()
    assert "name: one" in text
    assert "name: two" in text


# --- credentials -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "auth", ['{type: bearer, token: "{{ env.X }}"}', '{token: "{{ env.X }}"}', "{type: bearer, env: X}"]
)
def test_a_token_of_the_environment_is_a_keychain_entry_from_there(auth: str) -> None:
    found = task(f"{{kind: http, url: u, auth: {auth}}}")
    assert found.clean().startswith("keychain:\n  - name: a_auth\n    kind: bearer\n    from: {env: X}\n")


def test_a_token_of_the_environment_in_the_keychain_is_from_there() -> None:
    found = Result('keychain: [{name: k, kind: bearer, token: "{{ env.X }}"}]\nworkflow: [{step: end}]\n')
    assert found.clean().startswith("keychain: [{name: k, kind: bearer, from: {env: X}}]")


def test_a_mapped_secret_of_the_environment_is_from_there() -> None:
    found = Result('keychain: [{name: k, type: bearer, map: {token: "{{ env.X }}"}}]\nworkflow: [{step: end}]\n')
    assert found.clean().startswith("keychain: [{name: k, kind: bearer, from: {env: X}}]")


def test_what_a_credential_was_used_with_is_not_dropped_in_silence() -> None:
    found = task("{kind: http, url: u, auth: {type: bearer, credential: k, scope: read}}")
    assert 'scope: "read"' in found.todo[0]


def test_both_secrets_of_a_keychain_entry_are_kept() -> None:
    found = Result(
        "keychain:\n  - {name: k, type: secrets, provider: vault, map: {id: a/b, key: c/d}}\nworkflow: [{step: end}]\n"
    )
    assert "a/b" in found.text
    assert "c/d" in found.text
    assert found.todo == ["one entry holds one secret: declare one for each in `map`"]


def test_every_habit_of_a_keychain_entry_is_told() -> None:
    found = Result(
        """\
        keychain:
          - name: k
            kind: oauth2
            auto_renew: true
            endpoint: u
            method: POST
            headers: {Content-Type: application/x-www-form-urlencoded}
            data: {grant_type: client_credentials, client_id: i, client_secret: s}
        workflow: [{step: end}]
        """
    )
    found.clean()
    said = " ".join(message for _, message, _ in found.told)
    assert all(f"`{word}`" in said for word in ("auto_renew", "endpoint", "method", "headers", "data"))


def test_headers_of_a_token_request_that_say_something_are_kept() -> None:
    found = Result(
        "keychain:\n  - {name: k, kind: oauth2, endpoint: u, headers: {X-Tenant: t}}\nworkflow: [{step: end}]\n"
    )
    assert "X-Tenant: t" in found.text
    assert len(found.todo) == 1


def test_a_credential_that_is_stored_under_another_name_is_found_there() -> None:
    found = Result("keychain: [{name: k, kind: postgres, credential: other}]\nworkflow: [{step: end}]\n")
    assert "from: {store: other}" in found.clean()


def test_an_entry_of_a_keychain_map_that_is_only_a_name_is_kept() -> None:
    found = Result("keychain: {k: other, m: null}\nworkflow: [{step: end}]\n")
    assert "from: {store: other}" in found.text
    assert "name: m" in found.text
    assert found.todo == ["say of which kind `k` is", "say of which kind `m` is"]
    assert found.errors == []


def test_a_misspelt_key_of_a_keychain_entry_is_told_as_one() -> None:
    loaded = load(HEAD + "keychain: [{name: k, kind: bearer, tokn: x}]\nworkflow: [{step: end}]\n", KINDS)
    assert [(one.code, one.fix) for one in loaded.diagnostics] == [("unknown-key", "did you mean `token`?")]


# --- loops -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["parallel", "async"])
def test_until_of_a_parallel_loop_is_told_to_become_nothing(mode: str) -> None:
    found = Result(
        f'workflow:\n  - step: a\n    loop: {{in: [1], iterator: x, until: "{{{{ true }}}}", mode: {mode}}}\n'
        "    tool: {kind: noop}\n"
    )
    assert "until" not in found.clean()
    assert [fix for code, _, fix in found.told if code == "legacy-loop-until"] == [
        "write nothing; `noetl migrate FILE` rewrites it"
    ]


def test_a_mode_that_was_said_twice_is_for_a_person() -> None:
    found = Result(
        "workflow:\n  - step: a\n    loop: {in: [1], iterator: x, mode: parallel, spec: {mode: sequential}}\n"
        "    tool: {kind: noop}\n"
    )
    assert "mode: parallel" in found.text
    assert found.errors


# --- side by side ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "kept"),
    [
        ('{kind: shell, cmd: ls, input: {a: 1}, args: "{{ workload }}"}', ("a: 1", "args:")),
        ("{kind: shell, cmd: ls, input: {a: 1, b: 2}, args: {a: 3}}", ("a: 1", "a: 3")),
        ("{kind: http, url: u, method: POST, json: {a: 1}, data: {body: {b: 2}}}", ("a: 1", "b: 2")),
        ("{kind: http, url: u, method: POST, json: {a: 1}, data: {b: 2}}", ("a: 1", "b: 2")),
    ],
)
def test_what_was_given_side_by_side_is_left_to_a_person(tool: str, kept: tuple[str, ...]) -> None:
    found = task(tool)
    assert len(found.todo) == 1
    assert all(text in found.text for text in kept)


def test_the_same_value_given_twice_is_given_once() -> None:
    text = task("{kind: shell, cmd: ls, input: {a: 1, b: 2}, args: {a: 1, c: 3}}").clean()
    assert "input: {a: 1, b: 2, c: 3}" in text


@pytest.mark.parametrize(
    "twice",
    [
        "timeout: 5, spec: {timeout: 6}",
        "verify_ssl: false, spec: {verify: true}",
        "policy: {rules: []}, spec: {policy: {}}",
    ],
)
def test_a_key_that_stands_at_both_levels_is_not_overwritten(twice: str) -> None:
    found = task(f"{{kind: http, url: u, {twice}}}")
    assert twice in found.text
    assert found.errors


# --- retries ---------------------------------------------------------------------------------------------------


def retry(block: str) -> Result:
    return task(f"{{kind: http, url: u, retry: {block}}}")


@pytest.mark.parametrize(
    ("block", "rule"),
    [
        ("{max_retries: 2}", "attempts: 3"),
        ('{max_retries: "{{ workload.n }}"}', 'attempts: "{{ (workload.n) | int + 1 }}"'),
        ("{backoff: constant, delay: 2}", "backoff: fixed, delay: 2"),
        ('{stop_when: "{{ status_code == 200 }}"}', "{{ not (output.http.status == 200) }}"),
        ('{when: "{{ error }}", stop_when: "{{ status_code == 404 }}"}',
         "{{ (output.error) and not (output.http.status == 404) }}"),
        ('{when: "{{ error.status in [500] }}"}', "{{ output.http.status in [500] }}"),
        ("{retry_on: [timeout]}", "{{ output.status == 'error' and output.error.kind in ['timeout'] }}"),
        ("{retry_on: [503, timeout]}", "(output.http.status in [503] or output.error.kind in ['timeout'])"),
        ("{max_attempts: 3, backoff_multiplier: 1.5}", 'delay: "{{ 1 * 1.5 ** (_attempt - 1) }}"'),
    ],
)  # fmt: skip
def test_all_of_a_retry_is_in_its_rule(block: str, rule: str) -> None:
    assert rule in retry(block).clean()


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ('{max_attempts: 3, delay: "{{ workload.d }}", backoff_multiplier: 1.5}', "the retry also said `backoff_multiplier: 1.5`"),
        ("{retry_on: [quota]}", 'the retry also said `retry_on: ["quota"]`'),
        ('{enabled: "{{ workload.r }}"}', 'the retry also said `enabled: "{{ workload.r }}"`'),
        ("{on_error: {max: 2}, on_success: {while: x}}", 'the retry also said `on_success: {"while": "x"}`'),
        ('"{{ workload.n }}"', "write the retry as a rule under `spec.policy.rules`: `retry: \"{{ workload.n }}\"`"),
    ],
)  # fmt: skip
def test_what_a_rule_cannot_say_of_a_retry_is_quoted(block: str, said: str) -> None:
    assert retry(block).todo == [said]


@pytest.mark.parametrize("block", ["false", "0", "null", "{enabled: false, max_attempts: 3}"])
def test_a_retry_that_is_switched_off_is_none(block: str) -> None:
    assert "retry" not in retry(block).clean()


def test_a_retry_makes_no_task_of_what_is_none() -> None:
    found = Result("workflow:\n  - step: a\n    retry: 3\n    tool: [{}, {name: b, kind: noop}]\n")
    assert "- {}" in found.text
    assert found.text.count("do: retry") == 1

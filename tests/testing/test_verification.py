"""The proof of a migration: it sees every way in which a migrated text can read something else, and says what it could not see."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from noetl.drivers.confinement import Bounds, enforcement_failure
from noetl.expr import template
from noetl.server.core import Catalog
from noetl.testing.verification.code_runs import CodeRuns, find_effect
from noetl.testing.verification.made_up_answers import VARIANTS, MadeUpAnswers, find_words
from noetl.testing.verification.migration_proof import MigrationProof, MigrationVerifier
from noetl.testing.verification.run_trace import view_call
from noetl.tools.registry import ToolKinds

sys.path.insert(0, str(Path(__file__).parents[1] / "legacy"))
from inline_code import InlineCode

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: proved}\nworkload: {amount: 3, users: [{id: 1}, {id: 2}]}\nworkflow:\n"
SHOW = "  - step: show\n    tool: {kind: python, %s, code: '%s'}\n"


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> MigrationVerifier:
    return MigrationVerifier(Catalog(ToolKinds()), tmp_path_factory.mktemp("home"), {}, InlineCode())


def prove(verifier: MigrationVerifier, older: str, migrated: str) -> MigrationProof:
    return verifier.verify_migration(HEAD + older, HEAD + migrated, Path("proved.yaml").absolute())


def chain(first: str, read: str, *, code: str = "result = a", word: str = "args", extra: str = "") -> str:
    """A step, and one behind it that reads its result."""
    follow = "next: [{step: show}]" if word == "args" else "next: {arcs: [{step: show}]}"
    return f"  - step: ask\n    {first}\n{extra}    {follow}\n" + SHOW % (f'{word}: {{a: "{{{{ {read} }}}}"}}', code)


QUERY = "tool: {kind: duckdb, query: 'SELECT 1 AS total'}"
REQUEST = "tool: {kind: http, url: 'https://example.com/'}"
CALL = "tool: {kind: playbook, path: other}"
CODE = 'tool: {kind: python, code: \'result = {"n": 5, "data": {"k": 6}}\'}'
EACH = "loop: {in: '{{ workload.users }}', iterator: user}\n    tool: {kind: python, input: {i: '{{ iter.user.id }}'}, code: 'result = i'}"
TASKS = "tool: [{name: one, kind: python, code: 'result = {\"n\": 1}'}, {name: two, kind: python, code: 'result = {\"n\": 2}'}]"
PUBLISH = "    set: {ctx.ask: '{{ output.data }}'}\n"


@pytest.mark.parametrize(
    ("first", "older", "right", "wrong"),
    [
        (QUERY, "ask.row_count", "ctx.ask | length", "(ctx.ask | length) + 1"),
        (QUERY, "ask.rows[0].total", "ctx.ask[0].total", "ctx.ask[-1].total"),
        (QUERY, "ask.command_0.rows | length", "ctx.ask | length", "ctx.ask | first | length"),
        (REQUEST, "ask.data.total", "ctx.ask.total", "ctx.ask.total | string"),
        (REQUEST, "ask.total", "ctx.ask.total", "ctx.ask.total + 1"),
        (CALL, "ask.result.total", "ctx.ask.total", "ctx.ask.result.total"),
        (CALL, "ask.status", "'completed'", "'done'"),
        (CODE, "ask.n", "ctx.ask.n", "ctx.ask"),
        (CODE, "ask.data.k", "ctx.ask.data.k", "ctx.ask.k"),
        (CODE, "ask.result.n", "ctx.ask.n", "ctx.ask.result.n"),
        (EACH, "ask.results[1]", "ctx.ask[1]", "ctx.ask[0]"),
        (EACH, "ask.stats.total", "ctx.ask | length", "1"),
        (TASKS, "ask.n", "ctx.ask.n", "1"),
        (QUERY, "amount", "workload.amount", "ctx.ask[0].total"),
        (QUERY, "execution_id", "execution_id", "'another'"),
    ],
)
def test_a_reader_of_a_result_is_proved_and_a_wrong_one_is_found(
    verifier: MigrationVerifier, first: str, older: str, right: str, wrong: str
) -> None:
    before = chain(first, older)
    same = prove(verifier, before, chain(first, right, word="input", extra=PUBLISH))
    assert same.is_same, same
    assert [one.verdict for one in same.steps] == ["same", "same"]
    other = prove(verifier, before, chain(first, wrong, word="input", extra=PUBLISH))
    assert not other.is_same
    found = next(one for one in other.steps if one.verdict == "different")
    assert (found.step, found.line) == (
        "show",
        HEAD.count("\n") + before[: before.index("- step: show")].count("\n") + 1,
    )


def test_code_that_reads_the_older_shape_must_get_it(verifier: MigrationVerifier) -> None:
    """What code yields tells: with the data of today it fails, or goes on with nothing."""
    code = 'result = [len(a["rows"]), a["row_count"]] if isinstance(a, dict) else []'
    before = chain(QUERY, "ask", code=code)
    shape = "{'rows': ctx.ask, 'row_count': ctx.ask | length}"
    assert prove(verifier, before, chain(QUERY, shape, code=code, word="input", extra=PUBLISH)).is_same
    wrong = prove(verifier, before, chain(QUERY, "ctx.ask", code=code, word="input", extra=PUBLISH))
    difference = wrong.steps[1].difference
    assert difference is not None
    assert (difference.older, difference.migrated) == ([2, 2], [])


def test_code_that_takes_the_data_themselves_gets_them(verifier: MigrationVerifier) -> None:
    code = 'result = [row.get("total") for row in a]'
    before = chain(QUERY, "ask", code=code)
    assert prove(verifier, before, chain(QUERY, "ctx.ask", code=code, word="input", extra=PUBLISH)).is_same


@pytest.mark.parametrize(
    ("older", "right", "wrong"),
    [
        ("[{step: show, when: '{{ ask.row_count == 0 }}'}, {step: other}]",
         "{arcs: [{step: show, when: '{{ output.data | length == 0 }}'}, {step: other}]}",
         "{arcs: [{step: other}]}"),
        ("[{step: show}, {step: other}]", "{spec: {mode: inclusive}, arcs: [{step: show}, {step: other}]}",
         "{arcs: [{step: show}, {step: other}]}"),
        ("{arcs: [{step: show, when: \"{{ event.name == 'call.error' }}\"}, {step: other}]}",
         "{arcs: [{step: show, when: \"{{ event.name == 'step.failed' }}\"}, {step: other}]}",
         "{arcs: [{step: other}]}"),
    ],
)  # fmt: skip
def test_the_way_through_the_steps_is_compared(verifier: MigrationVerifier, older: str, right: str, wrong: str) -> None:
    steps = "  - {step: show, tool: {kind: noop}}\n  - {step: other, tool: {kind: noop}}\n"
    first = f"  - step: ask\n    {QUERY}\n    next: "
    assert prove(verifier, f"{first}{older}\n{steps}", f"{first}{right}\n{steps}").is_same
    assert not prove(verifier, f"{first}{older}\n{steps}", f"{first}{wrong}\n{steps}").is_same


@pytest.mark.parametrize(
    ("older", "migrated"),
    [
        ("eval: [{expr: \"{{ outcome.status == 'error' }}\", do: retry, attempts: 3, delay: 1}]",
         "spec: {policy: {on_unmatched: fail, rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 1}}]}}"),
        ("retry: {max_attempts: 3}",
         "spec: {policy: {on_unmatched: fail, rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 3}}]}}"),
    ],
)  # fmt: skip
def test_attempts_are_compared(verifier: MigrationVerifier, older: str, migrated: str) -> None:
    step = "  - step: ask\n    tool: {{kind: http, url: 'https://example.com/', {}}}\n"
    assert prove(verifier, step.format(older), step.format(migrated)).is_same
    assert not prove(verifier, step.format(older), step.format(migrated.replace("attempts: 3", "attempts: 1"))).is_same


def test_what_is_not_understood_is_named_and_so_is_what_comes_after_it(verifier: MigrationVerifier) -> None:
    text = chain(REQUEST.replace("}", ", sink: []}"), "ask.total")
    proof = prove(verifier, text, chain(REQUEST, "ctx.ask.total", word="input", extra=PUBLISH))
    assert [(one.verdict, one.reason) for one in proof.steps] == [
        ("not compared", "`sink` of a tool"),
        ("not compared", "comes after `ask`: `sink` of a tool"),
    ]
    assert proof.is_same


def test_a_migrated_text_that_does_not_load_proves_nothing(verifier: MigrationVerifier) -> None:
    proof = prove(verifier, chain(QUERY, "amount"), chain(QUERY, "nobody.knows", word="input"))
    assert not proof.is_same
    assert proof.problem.startswith("the migrated text cannot be run: ")


def test_answers_are_the_same_for_the_same_call_and_others_for_another_seed() -> None:
    read = "{{ ask.data.users[0].id }} {{ ask.total }}"
    one, same, other = (MadeUpAnswers(read, VARIANTS[0], seed) for seed in (1, 1, 2))
    call = ("ask", "ask", "")
    assert one.make_answer("http", call, 0) == same.make_answer("http", call, 0)
    assert one.make_answer("http", call, 0) != other.make_answer("http", call, 0)
    data = one.make_answer("http", call, 0).data
    assert isinstance(data["users"], list)
    assert isinstance(data["total"], int)
    assert find_words(read)[0] == ("data", "users", "id", "total")


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        ("def main(a):\n    return a + 1\n", ""),
        ("import json, re\nfrom datetime import date\nresult = json.dumps(re.sub('a', 'b', 'c'))", ""),
        ("n = 1\nreturn n", ""),
        ("import requests\nresult = 1", "it imports `requests`"),
        ("result = open('x').read()", "it uses `open`"),
        ("def main(context):\n    return 1\n", "it uses `context`"),
        ("result = ().__class__", "it uses `__class__`"),
        ("from datetime import datetime\nresult = str(datetime.now())", "it uses `now`"),
        ("import time\nresult = time.time()", "it imports `time`"),
        ("from time import time as now\nresult = now()", "it imports `time`"),
        ("import collections\ncollections._sys.exit()", "it uses `_sys`"),
        ("from typing import sys\nresult = 1", "it imports `sys`"),
        ("import io\nresult = io.open('x')", "it uses `open`"),
        ("result = getattr((), 'x')", "it uses `getattr`"),
        ("result = (x for x in ()).gi_frame.f_builtins", "it uses `f_builtins`"),
        ("result = row._asdict()", ""),
        ("import re\nresult = re.compile('a').pattern", ""),
        ("result = (", "it is not Python that can be parsed"),
    ],
)
def test_only_code_without_effects_is_run(code: str, effect: str) -> None:
    assert find_effect(code) == effect


needs_confinement = pytest.mark.skipif(
    enforcement_failure(Bounds(strict=True, network=False)) is not None, reason="this kernel cannot confine"
)
#: what code does that was not seen to have an effect, with a folder and a port for it
EFFECTS = (
    "import os\nos.system('touch {0}/left')\nresult = 1",
    "open('{0}/left', 'w').write('x')\nresult = 1",
    "import os\nos.rename('{0}/kept', '{0}/left')\nresult = 1",
    "result = open('{0}/kept').read()",
    "import socket\nsocket.create_connection(('127.0.0.1', {1})).send(b'x')\nresult = 1",
    "import os\nresult = os.environ['PRIVATE']",
)


@needs_confinement
@pytest.mark.parametrize("code", EFFECTS)
def test_code_whose_effect_was_not_seen_has_none(tmp_path: Path, code: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        runs = CodeRuns(Catalog(ToolKinds()), home, {**os.environ, "PRIVATE": "secret"})
        output = runs.run_code(code.format(outside, server.getsockname()[1]), {})
        with pytest.raises(BlockingIOError):
            server.accept()
    assert [one.name for one in outside.iterdir()] == ["kept"]
    assert "secret" not in str(output["data"])


@needs_confinement
def test_code_that_takes_too_long_is_run_no_more(tmp_path: Path) -> None:
    kinds = Catalog(ToolKinds())
    verifier = MigrationVerifier(kinds, tmp_path, {}, CodeRuns(kinds, tmp_path, {}, seconds=0.3))
    endless = SHOW % ("args: {}", "while True: pass")
    proof = prove(verifier, endless, endless.replace("args", "input"))
    assert [one.verdict for one in proof.steps] == ["same"]
    assert "its code was not run, since it took more than 0.3 s" in proof.steps[0].reason


@pytest.mark.parametrize("tool", ["{kind: noop}", "{kind: shell, cmd: x}"])
def test_a_loop_over_very_many_items_is_followed_for_so_many(verifier: MigrationVerifier, tool: str) -> None:
    text = f"  - {{step: many, loop: {{in: '{{{{ range(2000) | list }}}}', iterator: n}}, tool: {tool}}}\n"
    proof = verifier.verify_migration(HEAD + text, HEAD + text, Path("proved.yaml").absolute(), VARIANTS[:1])
    assert [(one.verdict, one.reason) for one in proof.steps] == [
        ("not compared", "comes after `many`: it takes more than 300 calls")
    ]
    assert not proof.problem


@pytest.mark.parametrize("name", ["vars", "steps", "step", "keychain", "iter", "output", "event"])
def test_a_workload_may_have_any_name_and_any_value(verifier: MigrationVerifier, name: str) -> None:
    """Older engines had no reserved words; whatever stands there, the comparison goes on or says where it ended."""
    for value in ("null", "3", "[1]", "{a: null}"):
        head = HEAD.replace("workload: {", f"workload: {{{name}: {value}, ")
        text = chain(REQUEST, "ask.total", word="input").replace("next: [{step: show}]", "next: {arcs: [{step: show}]}")
        proof = verifier.verify_migration(head + text, head + text, Path("proved.yaml").absolute(), VARIANTS[:1])
        assert {one.verdict for one in proof.steps} <= {"same", "different", "not compared"}


def test_a_statement_is_the_same_though_tojson_escapes_for_html() -> None:
    value = {"n": "a's <b> & c"}
    spliced, bound = template("SELECT {{ x | tojson }}").evaluate({"x": value}), f"SELECT {json.dumps(value)}"
    assert spliced != bound
    assert view_call("postgres", {"query": spliced}, {}) == view_call("postgres", {"query": bound}, {})


class Unconfined(InlineCode):
    """A machine that cannot confine code."""

    def find_refusal(self, code: str) -> str:
        """Why code is not run."""
        return find_effect(code) or "this machine cannot confine it"


def test_where_code_cannot_be_confined_none_is_run_and_the_report_says_so(tmp_path: Path) -> None:
    verifier = MigrationVerifier(Catalog(ToolKinds()), tmp_path, {}, Unconfined())
    proof = prove(verifier, chain(CODE, "ask.n"), chain(CODE, "ctx.ask.n", word="input", extra=PUBLISH))
    assert [one.verdict for one in proof.steps] == ["same", "same"], proof
    assert all("this machine cannot confine it" in one.reason for one in proof.steps)

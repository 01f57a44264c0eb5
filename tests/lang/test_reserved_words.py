"""Reserved words: rejected where they stand, with what to write instead, and listed for a migration."""

import pytest

from noetl.lang.grammar.reserved_words import find_reserved
from noetl.lang.loader import load
from noetl.lang.reading.node import MapNode
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostic, Diagnostics, Severity, Source
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()


def found_in(text: str) -> tuple[Diagnostic, ...]:
    return load(text, KINDS).diagnostics


def of_step(step: str) -> tuple[str, list[Diagnostic]]:
    """A playbook of one step in one line, and what is said about it."""
    text = f"{HEAD}workflow:\n  - {step}\n"
    return text, list(found_in(text))


def task(keys: str) -> str:
    return f"{{step: a, tool: {{{keys}}}}}"


@pytest.mark.parametrize(
    ("step", "word"),
    [
        ("{step: a, spec: {policy: {admit: {mode: x}}}, tool: {kind: noop}}", "mode"),
        ("{step: a, spec: {policy: {emit: {a: 1}}}, tool: {kind: noop}}", "emit"),
        ("{step: a, spec: {policy: {quotas: 1}}, tool: {kind: noop}}", "quotas"),
        (task("kind: noop, spec: {policy: {rules: [], compensation: 1}}"), "compensation"),
        (task("kind: noop, spec: {policy: {rules: [], before: 1}}"), "before"),
        (task("kind: noop, spec: {policy: {rules: [], after: 1}}"), "after"),
        (task("kind: noop, spec: {policy: {rules: [], finally: 1}}"), "finally"),
        ("{step: a, loop: {in: [], iterator: x, spec: {policy: {ordering: 1}}}, tool: {kind: noop}}", "ordering"),
        ("{step: a, loop: {in: [], iterator: x, spec: {policy: {backpressure: 1}}}, tool: {kind: noop}}", "backpressure"),
        ("{step: a, loop: {in: [], iterator: x, spec: {policy: {partitioning: 1}}}, tool: {kind: noop}}", "partitioning"),
        ("{step: a, next: {spec: {policy: {x: 1}}, arcs: []}}", "policy"),
        ("{step: a, next: {arcs: [{terminate: failed, spec: {x: 1}}]}}", "spec"),
    ],
)  # fmt: skip
def test_a_reserved_word_is_an_error_that_says_what_to_write_instead(step: str, word: str) -> None:
    _, found = of_step(step)
    assert [(one.code, one.severity, one.message) for one in found] == [
        ("reserved", Severity.ERROR, f"`{word}` has no meaning here")
    ]
    assert found[0].fix


@pytest.mark.parametrize(
    "root",
    [
        "executor: {spec: {policy: {defaults: {resources: {cpu: 1}}}}}",
        "executor: {spec: {policy: {defaults: {timeouts: {wait: 5}}}}}",
        "executor: {spec: {packages: [pandas]}}",
        "workbook: {w: {kind: variable, get: x}}",
        "workbook: {w: {kind: transfer, source: {kind: http, url: 'http://a', rate: {limit: 1}}, targets: [{kind: http, url: 'http://b'}]}}",
        "workbook: {w: {kind: transfer, input: {source: {kind: http, url: 'http://a'}, targets: [{kind: http, url: 'http://b'}], variable: x}}}",
    ],
)
def test_words_around_the_steps_are_reserved_too(root: str) -> None:
    found = found_in(f"{HEAD}{root}\nworkflow: [{{step: end}}]\n")
    assert [(one.code, one.severity) for one in found] == [("reserved", Severity.ERROR)]
    assert found[0].fix


@pytest.mark.parametrize("word", ["notify", "concurrency", "timeout"])
def test_what_metadata_may_hold_later_is_reserved(word: str) -> None:
    text = HEAD.replace("metadata: {", f"metadata: {{{word}: 1, ")
    assert text != HEAD
    assert [one.code for one in found_in(f"{text}workflow: [{{step: end}}]\n")] == ["reserved"]


@pytest.mark.parametrize("kind", ["Schedule", "Trigger"])
def test_a_document_of_a_kind_to_come_is_one_error(kind: str) -> None:
    found = found_in(f"apiVersion: noetl.io/v2\nkind: {kind}\nspec: {{cron: x}}\n")
    assert [(one.code, one.message) for one in found] == [("reserved", f"`kind: {kind}` has no meaning yet")]


def test_a_timeout_for_a_kind_that_there_is_not_is_an_error() -> None:
    found = found_in(
        f"{HEAD}executor: {{spec: {{policy: {{defaults: {{timeouts: {{htttp: 5}}}}}}}}}}\nworkflow: [{{step: end}}]\n"
    )
    assert [(one.code, one.fix) for one in found] == [("unknown-kind", "did you mean `http`?")]


def test_a_timeout_by_the_other_name_of_a_kind_holds_for_it() -> None:
    loaded = load(
        f"{HEAD}executor: {{spec: {{policy: {{defaults: {{timeouts: {{script: 5}}}}}}}}}}\n"
        "workflow: [{step: a, tool: {kind: shell, cmd: ls}}]\n",
        KINDS,
    )
    assert loaded.net is not None
    assert loaded.net.steps["a"].tasks[0].spec["timeout"].value == 5


def test_the_reserved_words_of_a_document_can_be_listed_for_a_migration() -> None:
    text = f"""{HEAD}
executor: {{spec: {{policy: {{defaults: {{timeouts: {{wait: 1}}, resources: 1}}}}}}}}
workflow:
  - step: a
    spec: {{policy: {{emit: 1, admit: {{mode: x}}}}}}
    loop: {{in: [], iterator: x, loop: {{in: [], iterator: y, spec: {{policy: {{ordering: 1}}}}}}}}
    tool:
      - fetch: {{kind: noop, spec: {{policy: {{rules: [], mode: x}}}}}}
      - choose: [{{else: [{{kind: noop, spec: {{packages: []}}}}]}}]
    next: {{spec: {{policy: 1}}, arcs: [{{step: a, spec: 1}}]}}
"""
    root = read_yaml(text, Diagnostics(Source(text, "x.yaml")))
    assert isinstance(root, MapNode)
    found = find_reserved(root, KINDS)
    words = ["wait", "resources", "emit", "mode", "ordering", "mode", "packages", "policy", "spec"]
    assert [one.entry.name for one in found] == words
    assert all(one.instead and one.holder.entry(one.entry.name) is one.entry for one in found)


# --- words that are nearly known, or known from elsewhere ------------------------------------------------------------


@pytest.mark.parametrize(("kind", "meant"), [("bearr", "bearer"), ("postgres_credentials", "postgres_credential")])
def test_a_mistyped_kind_of_credential_is_told_with_the_nearest(kind: str, meant: str) -> None:
    found = found_in(f"{HEAD}keychain: [{{name: k, kind: {kind}, from: {{env: A}}}}]\nworkflow: [{{step: end}}]\n")
    assert [(one.code, one.fix) for one in found] == [("wrong-value", f"write `{meant}`")]


@pytest.mark.parametrize(
    "statement",
    ["macro x() %}{% endmacro", "call x() %}{% endcall", "block x %}{% endblock", "include 'x'", "import 'x' as y",
     "from 'x' import y", "extends 'x'"],
)  # fmt: skip
def test_statements_that_load_or_define_templates_are_refused_by_their_name(statement: str) -> None:
    found = found_in(f'{HEAD}workflow: [{{step: a, tool: {{kind: noop, output: "{{% {statement} %}}"}}}}]\n')
    word = statement.split(maxsplit=1)[0]
    message = f"the template does not parse: `{{% {word} %}}` is not part of the language"
    assert [(one.code, one.message) for one in found] == [("template-syntax", message)]
    assert found[0].fix

"""Packages that are not installed are told before anything runs."""

import pytest
from msgspec.structs import replace

from noetl.lang.loader import load
from noetl.model.diagnostics import Severity
from noetl.model.kinds import ToolKind
from noetl.tools.extras import install_hint
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
COMMAND = "pip install 'noetl[duckdb]'"


def bare_kinds() -> dict[str, ToolKind]:
    """The kinds of an installation without DuckDB."""
    kinds = dict(ToolKinds())
    kinds["duckdb"] = replace(kinds["duckdb"], install=COMMAND)
    kinds["transfer"] = replace(kinds["transfer"], end_installs={"duckdb": COMMAND})
    return kinds


@pytest.mark.parametrize(
    ("tool", "what"),
    [
        ("{kind: duckdb, query: SELECT 1}", "`kind: duckdb`"),
        (
            "{kind: transfer, source: {kind: duckdb, query: SELECT 1}, targets: [{kind: http, url: 'http://a'}]}",
            "the source (duckdb)",
        ),
    ],
)
def test_a_task_whose_package_is_not_installed_is_a_warning_with_the_command(tool: str, what: str) -> None:
    loaded = load(f"{HEAD}workflow: [{{step: a, tool: {tool}}}]\n", bare_kinds())
    (found,) = [one for one in loaded.diagnostics if one.code == "missing-package"]
    assert (found.severity, found.message) == (
        Severity.WARNING,
        f"{what} of task `a` cannot run in this installation",
    )
    assert COMMAND in (found.fix or "")
    assert loaded.net is not None


@pytest.mark.parametrize(("tool", "fix"), [("duckdb", COMMAND), ("htttp", "did you mean `http`?"), ("kafka", "plugin")])
def test_a_required_tool_that_is_not_installed_stops_the_playbook_with_what_to_install(tool: str, fix: str) -> None:
    text = f"{HEAD}executor: {{requires: {{tools: [http, {tool}]}}}}\nworkflow: [{{step: a, tool: {{kind: noop}}}}]\n"
    loaded = load(text, bare_kinds())
    assert loaded.net is None
    (found,) = loaded.diagnostics
    assert (found.code, found.message) == ("missing-package", f"the tool kind `{tool}` is required and not installed")
    assert fix in (found.fix or "")
    assert found.span is not None
    assert text.splitlines()[found.span.line - 1][found.span.column - 1 :].startswith(tool)


def test_what_is_installed_is_not_told() -> None:
    text = f"{HEAD}executor: {{requires: {{tools: [script, python]}}}}\nworkflow: [{{step: a, tool: {{kind: noop}}}}]\n"
    assert load(text, ToolKinds()).diagnostics == ()


def test_a_hint_is_given_for_a_module_that_cannot_be_found() -> None:
    assert install_hint("no_such_module_at_all", "postgres") == "pip install 'noetl[postgres]'"
    assert install_hint("json", "postgres") == ""


@pytest.mark.parametrize(
    ("executor", "code"),
    [
        ("{profile: near}", "wrong-value"),
        ("{version: noetl-runtime/2}", "wrong-value"),
        ("{version: 1}", "wrong-value"),
        ("{requires: {packages: [x]}}", "unknown-key"),
        ("{requires: [http]}", "wrong-type"),
    ],
)
def test_the_executor_takes_only_what_has_an_effect(executor: str, code: str) -> None:
    found = load(f"{HEAD}executor: {executor}\nworkflow: [{{step: end}}]\n", ToolKinds()).diagnostics
    assert [one.code for one in found] == [code]
    assert found[0].fix

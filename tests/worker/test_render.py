"""A task's own fields, rendered: SQL to statements with parameters, wherever it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expr import Template
from noetl.lang.loader import load
from noetl.pipeline import machine
from noetl.pipeline.frame import Frame, Moment
from noetl.pipeline.machine import RunTask
from noetl.ports import Call
from noetl.tools.registry import ToolKinds
from noetl.worker.tool_caller import call_of


def call(workload: dict[str, Any], **task: Any) -> Call:
    playbook = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "p"}}
    loaded = load(json.dumps({**playbook, "workflow": [{"step": "s", "tool": task}]}), ToolKinds())
    assert loaded.net is not None, loaded.diagnostics
    scopes = {"workload": workload, "ctx": {}, "step": {}, "input": {}, "execution_id": "e"}
    move = machine.begin(Frame(loaded.net.steps["s"], scopes, run="s-1", iteration=None), Moment(0, lambda: "id"))
    assert isinstance(move, RunTask)
    return call_of(move, ToolKinds()[task["kind"]], step="s", iteration=None)


def test_sql_is_bound_and_params_win_over_input() -> None:
    made = call(
        {"v": "x'y"}, kind="duckdb", query="SELECT {{ workload.v }}, :a, :b", input={"a": 1, "b": 2}, params={"b": 3}
    )
    assert made.config["query"].render("$1") == ("SELECT $1, $2, $3", ["x'y", 1, 3])


@pytest.mark.parametrize("under", ["kind", "input"])
def test_the_query_of_a_transfer_is_bound_and_templates_about_rows_wait(under: str) -> None:
    source = {"kind": "duckdb", "query": "SELECT {{ workload.v }}, :a", "params": {"a": "{{ workload.v }}"}}
    targets = [
        {
            "kind": "file",
            "path": "{{ workload.v }}_{{ chunk.index }}",
            "mapping": {"a": "{{ row.a }}", "v": "{{ workload.v }}"},
        }
    ]
    keys: dict[str, Any] = {"source": source, "targets": targets}
    made = call({"v": 7}, kind="transfer", **(keys if under == "kind" else {"input": keys}))
    assert made.config["source"]["query"].render("$1") == ("SELECT $1, $2", [7, 7])
    target = made.config["targets"][0]
    assert isinstance(target["path"], Template)
    assert isinstance(target["mapping"]["a"], Template)
    assert target["mapping"]["v"] == 7


def test_data_that_is_a_statement_is_not_rendered_a_second_time() -> None:
    told = {"source": {"kind": "duckdb", "query": "SELECT '{{ workload.secret }}'"}, "targets": [{"kind": "file"}]}
    with pytest.raises(TemplateError, match="cannot hold templates"):
        call({"told": told, "secret": "s"}, kind="transfer", input="{{ workload.told }}")

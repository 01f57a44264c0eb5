"""Maps whose kind says which keys they need: what is missing or too much is told where it stands."""

from __future__ import annotations

import json

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

GOOD = {"kind": "file", "path": "x.csv"}


def diagnosed(source: dict[str, object], target: dict[str, object]) -> list[Diagnostic]:
    task = {"kind": "transfer", "source": source, "targets": [target]}
    playbook = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "p"}}
    return list(load(json.dumps({**playbook, "workflow": [{"step": "s", "tool": task}]}), ToolKinds()).diagnostics)


def told(source: dict[str, object], target: dict[str, object]) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in diagnosed(source, target)]


@pytest.mark.parametrize(
    ("source", "target", "code", "said"),
    [
        ({"kind": "file"}, GOOD, "missing-key", "a transfer's source of kind `file` needs `path` (the file"),
        ({"kind": "http"}, GOOD, "missing-key", "a transfer's source of kind `http` needs `url` (the address)"),
        ({"kind": "data"}, GOOD, "missing-key", "a transfer's source of kind `data` needs `data` (a value in hand)"),
        ({"kind": "duckdb"}, GOOD, "missing-key", "a transfer's source of kind `duckdb` needs `query` or `table`"),
        (GOOD, {"kind": "duckdb", "table": "t"}, "missing-key", "of kind `duckdb` needs `file` (the database file)"),
        (GOOD, {"kind": "duckdb", "file": "f"}, "missing-key", "of kind `duckdb` needs `table`"),
        (GOOD, {"kind": "duckdb", "file": "f", "table": "t", "mode": "upsert"}, "missing-key", "with `mode: upsert` needs `key`"),
        (GOOD, {**GOOD, "mode": "upsert"}, "wrong-value", "a transfer's target of kind `file` knows no `mode: upsert`"),
        (GOOD, {"kind": "postgres", "auth": "{{ workload.db }}"}, "missing-key", "of kind `postgres` needs `table`"),
        (GOOD, {"kind": "s3"}, "missing-key", "of kind `s3` needs `path`"),
        (GOOD, {"kind": "file", "path": "out.xlsx"}, "wrong-value", "the format of `out.xlsx` cannot be told by its name"),
        ({"kind": "s3", "path": "s3://b/a.b/o.txt"}, GOOD, "wrong-value", "the format of `s3://b/a.b/o.txt` cannot be told"),
        ({**GOOD, "auth": "{{ workload.db }}"}, GOOD, "unknown-key", "`auth` means nothing to a transfer's source of kind `file`"),
        ({**GOOD, "url": "x"}, GOOD, "unknown-key", "`url` means nothing to a transfer's source of kind `file`"),
        (GOOD, {**GOOD, "table": "t"}, "unknown-key", "`table` means nothing to a transfer's target of kind `file`"),
        ({"kind": "data", "data": [], "path": "$.a["}, GOOD, "wrong-value", "`path` is no JSONPath: unexpected end of query"),
        ({"kind": "http", "url": "x", "next": "a b"}, GOOD, "wrong-value", "`next` is no JSONPath"),
    ],
)  # fmt: skip
def test_a_kind_asks_for_its_keys_and_for_no_others(
    source: dict[str, object], target: dict[str, object], code: str, said: str
) -> None:
    found = told(source, target)
    assert [one[0] for one in found] == [code], found
    assert said in found[0][1]


def test_what_examples_of_older_documents_lack_is_a_warning() -> None:
    target = {"kind": "duckdb", "table": "t", "body": "x"}
    found = diagnosed(GOOD, target)
    assert [one.severity for one in found] == ["warning", "error"]
    [lacking] = diagnosed({"kind": "postgres", "table": "t"}, GOOD)
    assert (lacking.severity, lacking.code) == ("warning", "missing-key")
    assert "of kind `postgres` needs `auth`" in lacking.message


def test_what_is_only_known_when_it_runs_is_not_judged_before() -> None:
    assert told({"kind": "data", "data": [], "path": "{{ '$.a[' }}"}, {**GOOD, "mode": "{{ 'x' }}"}) == []
    for known in ({"path": "{{ 'a.xlsx' }}"}, {"path": "a.xlsx", "format": "csv"}, {"path": "a.JSON.gz"}):
        assert told(GOOD, {"kind": "file", **known}) == []
    assert told(GOOD, {"kind": "s3", "path": "a.html", "body": "x"}) == []
    assert told({**GOOD, "format": "csv"}, {"kind": "http", "url": "x", "mapping": {"a": "{{ row.a }}"}}) == []


def test_a_misspelt_key_is_one_mistake() -> None:
    assert [code for code, _ in told({"kind": "file", "pth": "x"}, GOOD)] == ["unknown-key"]


@pytest.mark.parametrize("word", ["ndjson", "jsonl", "NDJSON"])
def test_lines_of_json_are_not_mended_into_an_array(word: str) -> None:
    [found] = diagnosed(GOOD, {"kind": "file", "path": "a.txt", "format": word})
    assert (found.code, found.edits) == ("wrong-value", ())
    assert found.fix is not None
    assert "end in `.ndjson`" in found.fix

"""Rows behind references: what `transfer` wrote is read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import NoetlError
from noetl.model.output import JSON, NDJSON, PARQUET
from noetl.rows.reading import CSV, is_readable, read, rows

duckdb = pytest.importorskip("duckdb")

ROWS = [{"id": n, "name": f"n {n}"} for n in range(20)]


def reference(content_type: str, *files: Path) -> dict[str, Any]:
    locator: dict[str, Any] = {"file": str(files[0])} if len(files) == 1 else {"files": [str(file) for file in files]}
    return {"type": "blob", "locator": locator, "auth_reference": None, "meta": {"content_type": content_type}}


@pytest.fixture(params=["csv", "json", "ndjson", "parquet", "files", "table"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / f"rows.{request.param}"
    if request.param == "json":
        file.write_text(json.dumps(ROWS))
        return reference(JSON, file)
    lines = [json.dumps(row) + "\n" for row in ROWS]
    if request.param == "ndjson":
        file.write_text("".join(lines))
        return reference(NDJSON, file)
    if request.param == "files":
        parts = [tmp_path / f"{n}.ndjson" for n in range(2)]
        parts[0].write_text("".join(lines[:7]))
        parts[1].write_text("".join(lines[7:]))
        return reference(NDJSON, *parts)
    select = "SELECT range AS id, 'n ' || range AS name FROM range(20)"
    if request.param == "table":
        with duckdb.connect(str(file)) as connection:
            connection.execute(f"CREATE SCHEMA s; CREATE TABLE s.t AS {select}")
        return {
            "type": "relational",
            "locator": {"file": str(file), "table": "s.t"},
            "auth_reference": None,
            "meta": {},
        }
    duckdb.connect().execute(f"COPY ({select}) TO '{file}' (FORMAT {request.param})")
    return reference(CSV if request.param == "csv" else PARQUET, file)


def test_rows_are_read_whole_and_by_range(stored: dict[str, Any]) -> None:
    assert is_readable(stored)
    assert read(stored) == ROWS
    assert rows(stored, 5, 12) == ROWS[5:12]
    assert rows(stored, 18, 30) == ROWS[18:]
    assert rows(stored, 30, 40) == []
    assert rows(stored, 5, 5) == []


def test_what_is_gone_is_called_that(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(reference(CSV, tmp_path / "nothing.csv"))


def test_what_is_no_parquet_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(NoetlError, match="cannot be read"):
        read(reference(PARQUET, tmp_path / "x.parquet"))

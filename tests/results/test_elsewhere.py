"""Rows that `transfer` wrote to files and tables are read again, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl.config import Secret, Settings
from noetl.errors import UsageError
from noetl.model.output import JSON, NDJSON, PARQUET
from noetl.ports import ResultDamaged, ResultGone
from noetl.results.backend_addresses import open_payloads
from noetl.results.external_rows import CSV
from noetl.results.store import PayloadStore

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


@pytest.fixture
def store(tmp_path: Path) -> PayloadStore:
    return open_payloads(Settings(tmp_path), {}.get, lambda: 0.0)


def test_rows_are_read_whole_and_by_range(stored: dict[str, Any], store: PayloadStore) -> None:
    sealed = store.seal(stored)
    assert store._read(sealed) == ROWS
    for start, stop in ((5, 12), (12, 15), (18, 30), (30, 40), (5, 5)):
        assert store._rows(sealed, start, stop) == ROWS[start:stop]
    store.close()


def test_a_reference_that_nobody_has_made_is_not_believed(
    stored: dict[str, Any], store: PayloadStore, tmp_path: Path
) -> None:
    sealed = store.seal(stored)
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    locator = sealed["locator"]
    for forged in (
        stored,
        {**sealed, "locator": {**locator, "seal": "0" * 64}},
        {**sealed, "locator": {**locator, "seal": None}},
        {**sealed, "locator": {**locator, "file": str(secret)}},
        {**sealed, "locator": {"files": [str(secret)], "seal": locator["seal"]}},
        {**sealed, "type": "relational" if sealed["type"] == "blob" else "blob"},
    ):
        with pytest.raises(UsageError, match="no transfer on this machine"):
            store._read(forged)
        with pytest.raises(UsageError, match="no transfer on this machine"):
            store._rows(forged, 0, 1)


def test_the_key_is_made_once_and_for_its_owner_alone(store: PayloadStore, tmp_path: Path) -> None:
    made = reference(CSV, tmp_path / "x.csv")
    again = open_payloads(Settings(tmp_path), {}.get, lambda: 0.0)
    assert store.seal(made) == again.seal(made)
    assert (tmp_path / "results" / ".seal").stat().st_mode & 0o077 == 0


def keyed(home: Path, key: str | None) -> PayloadStore:
    return open_payloads(Settings(home, key=Secret(key) if key else None), {}.get, lambda: 0.0)


def test_machines_with_one_key_believe_each_others_references(stored: dict[str, Any], tmp_path: Path) -> None:
    sealed = keyed(tmp_path / "one", "new").seal(stored)
    assert keyed(tmp_path / "other", "new")._read(sealed) == ROWS
    assert keyed(tmp_path / "other", "newer, new")._read(sealed) == ROWS
    for key in ("another", "another,newer", None):
        with pytest.raises(UsageError, match="NOETL_KEY"):
            keyed(tmp_path / "other", key)._read(sealed)
    assert not (tmp_path / "one" / "results" / ".seal").exists()


def test_what_was_sealed_before_there_was_a_shared_key_is_believed_on(stored: dict[str, Any], tmp_path: Path) -> None:
    sealed = keyed(tmp_path / "one", None).seal(stored)
    assert keyed(tmp_path / "one", "new")._read(sealed) == ROWS
    with pytest.raises(UsageError, match="no transfer on this machine"):
        keyed(tmp_path / "other", "new")._read(sealed)


def test_what_is_gone_is_called_that(tmp_path: Path, store: PayloadStore) -> None:
    with pytest.raises(ResultGone, match=r"nothing\.csv is no longer there"):
        store._read(store.seal(reference(CSV, tmp_path / "nothing.csv")))


def test_what_is_no_parquet_is_an_error_in_words(tmp_path: Path, store: PayloadStore) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(ResultDamaged, match="cannot be read"):
        store._read(store.seal(reference(PARQUET, tmp_path / "x.parquet")))


def test_a_file_that_was_changed_meanwhile_is_noticed(tmp_path: Path, store: PayloadStore) -> None:
    file = tmp_path / "x.ndjson"
    file.write_text('{"a": 1}\n')
    made = reference(NDJSON, file)
    made["meta"]["sha256"] = "0" * 64
    with pytest.raises(ResultDamaged, match="another one"):
        store._read(store.seal(made))

"""Rows that lie elsewhere: in files, tables and objects that `transfer` wrote where the author wanted them.

Their references come with a seal. Without one, whoever can make up a reference could have any file of the machine read,
and any object that a credential of the playbook opens.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.config import Secret
from noetl.errors import UsageError
from noetl.model.output import JSON, NDJSON, PARQUET
from noetl.ports import ResultDamaged, ResultGone
from noetl.results import codec

CSV = "text/csv"
_SEAL = "seal"
#: what a key is for that is made of NOETL_KEY: whoever has it cannot read credentials
_PURPOSE = b"noetl: seals of references"
#: parts of a locator that those of the result store do not have
_MARKS = frozenset({"file", "files", "keys", _SEAL})
#: as `transfer` writes it
_CSV = (
    "header = true, delim = ',', quote = '\"', escape = '\"', all_varchar = true, allow_quoted_nulls = false, "
    "union_by_name = true"
)
_NUMBER = re.compile(r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)")


def is_external(reference: Mapping[str, Any]) -> bool:
    """Whether a reference leads to files, tables or objects outside of the result store."""
    locator = reference.get("locator")
    return isinstance(locator, Mapping) and bool(_MARKS & locator.keys())


class ReferenceSealer:
    """Seals references: with a key that is made of NOETL_KEY, which machines can share, else with one that lies in the result
    store. Of several the first one seals, and each of them is believed, as is what was sealed before NOETL_KEY was set.
    """

    def __init__(self, folder: Path, shared: Sequence[Secret] = ()) -> None:
        self._file = folder / ".seal"
        self._shared = [hmac.new(one.reveal().encode(), _PURPOSE, hashlib.sha256).digest() for one in shared]

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference that is going to be believed."""
        if not is_external(reference) and reference["type"] != "object_store":
            return dict(reference)
        key = self._shared[0] if self._shared else self._own_key()
        return {**reference, "locator": {**reference["locator"], _SEAL: _seal(reference, key)}}

    def check(self, reference: Mapping[str, Any]) -> None:
        """UsageError: nobody here has made that reference."""
        said = reference["locator"].get(_SEAL)
        keys = [*self._shared, *([self._own_key()] if self._file.exists() or not self._shared else [])]
        if not isinstance(said, str) or not any(
            hmac.compare_digest(said.encode(), _seal(reference, key).encode()) for key in keys
        ):
            raise UsageError(
                "the reference leads to a file, but no transfer on this machine has made it, nor on another with its NOETL_KEY"
            )

    def _own_key(self) -> bytes:
        path = self._file
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".seal-{secrets.token_hex(8)}")
        draft.touch(mode=0o600)
        draft.write_bytes(secrets.token_bytes(32))
        with contextlib.suppress(FileExistsError):  # two processes may want the first one
            os.link(draft, path)
        draft.unlink()
        return path.read_bytes()


def _seal(reference: Mapping[str, Any], key: bytes) -> str:
    where = {name: value for name, value in reference["locator"].items() if name != _SEAL}
    text = msgspec.json.encode([reference.get("type"), where], order="deterministic")
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def read_batches(
    reference: Mapping[str, Any], start: int = 0, fetched: Sequence[Path] | None = None
) -> Iterator[list[Any]]:
    """The rows behind a reference from one on, some at a time; of objects those in the files they were fetched to."""
    locator, meta = reference["locator"], reference.get("meta") or {}
    files = [Path(file) for file in fetched or locator.get("files") or [locator["file"]]]
    for file in files:
        if not file.is_file():
            raise ResultGone(f"the file {file} is no longer there")
    _check(files, meta.get("stored_sha256") or meta.get("sha256"))  # earlier versions have the latter alone
    content_type = meta.get("content_type")
    if reference["type"] == "relational":
        yield from _of_table(files[0], str(locator["table"]), start)
    elif content_type in (PARQUET, CSV):
        yield from _query_rows(_source(files, content_type, meta.get("schema")), start)
    elif content_type in (JSON, NDJSON):
        yield from codec.without_first(start, (run for file in files for run in codec.read_batches(file, content_type)))
    else:
        raise UsageError(f"rows of the type {content_type} cannot be read")


def _check(files: list[Path], sha256: Any) -> None:
    if isinstance(sha256, str) and len(files) == 1 and codec.sha256_of(files[0]) != sha256:
        raise ResultDamaged(f"the file {files[0]} is not what was written: its sha256 is another one")


def _source(files: list[Path], content_type: str, schema: Any) -> str:
    from noetl.rows.duck import literal

    named = literal([str(file) for file in files])
    if content_type == PARQUET:
        return f"read_parquet({named}, union_by_name = true)"
    return f"read_csv({named})" if not isinstance(schema, Mapping) else _csv_with_types(named, schema)


def _csv_with_types(named: str, schema: Mapping[str, Any]) -> str:
    """CSV whose columns have the types that were written; what is text there is not taken for anything else."""
    from noetl.rows.duck import name

    cells = f"SELECT * FROM read_csv({named}, {_CSV})"  # noqa: S608  literals
    kinds = {column: _kind(str(said)) for column, said in schema.items()}
    casts = [f"CAST({name(column)} AS {kind}) AS {name(column)}" for column, kind in kinds.items() if kind is not None]
    return f"(SELECT * REPLACE ({', '.join(casts)}) FROM ({cells}))" if casts else f"({cells})"  # noqa: S608


def _kind(said: str) -> str | None:
    """The type of a column, if its text is not what JSON has; a reference may say anything."""
    if _NUMBER.fullmatch(said):
        return said
    return "JSON" if said == "JSON" or said.endswith("]") or said.startswith(("STRUCT(", "MAP(", "UNION(")) else None


def _of_table(file: Path, table: str, start: int) -> Iterator[list[Any]]:
    from noetl.rows.duck import literal, name

    whole = ".".join(name(part) for part in table.split("."))
    before = f"ATTACH {literal(str(file))} AS noetl_read (READ_ONLY)"
    yield from _query_rows(f"noetl_read.{whole}", start, before)


def _query_rows(source: str, start: int, before: str = "") -> Iterator[list[Any]]:
    from noetl.results.parquet import query_rows
    from noetl.rows.duck import duckdb

    duckdb()  # or a word about where it comes from
    beyond = f"(SELECT * FROM {source} OFFSET {start})" if start else source  # noqa: S608  names, literals
    yield from query_rows(beyond, before=before)

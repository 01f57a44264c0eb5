"""What tools have left in files, without secrets: looked through in blocks, and written anew only if there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.model.output import NDJSON, PARQUET, Spilled
from noetl.model.redaction import Redactor
from noetl.model.rewriting import JsonRedactor
from noetl.tools.rows import Columns

_CHUNK = 1 << 20
#: rows, some at a time
Runs = Callable[[Spilled], Iterator[list[Any]]]


def rewritten(spilled: Spilled, target: Path, redactor: Redactor, runs: Runs) -> Spilled | None:
    """The same in another file without its secrets; None: there are none in it, and nothing was written."""
    if spilled.content_type == PARQUET:  # what is compressed cannot be searched as it is
        if not any(redactor.clean(run)[1] for run in runs(spilled)):
            return None
        return _rows(runs(spilled), target, redactor)
    source = Path(spilled.path)
    if not is_in(blocks(source), redactor):
        return None
    cleaner = JsonRedactor(redactor)
    _write(target, cleaner.through(blocks(source)))
    columns = spilled.columns
    if columns is not None:
        columns = {cleaner.memory.key(name): _type(kind, cleaner) for name, kind in columns.items()}
    return replace(spilled, path=str(target), columns=columns, redacted=True)


def is_in(some: Iterable[bytes], redactor: Redactor) -> bool:
    """Whether blocks of JSON may hold a secret, also across their borders."""
    held = b""
    for block in some:
        held += block
        if redactor.is_in_foreign_json(held.decode("utf-8", "replace")):
            return True
        held = held[-redactor.reach :]
    return False


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file."""
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_CHUNK), b"")


def _rows(runs: Iterable[list[Any]], target: Path, redactor: Redactor) -> Spilled:
    columns, count = Columns(), 0
    encode = msgspec.json.Encoder().encode_lines

    def lines() -> Iterator[bytes]:
        nonlocal count
        for run in runs:
            clean = redactor.clean(run)[0]
            columns.add(clean)
            count += len(clean)
            yield encode(clean)

    _write(target, lines())
    return Spilled(str(target), NDJSON, count, columns.types(), redacted=True)


def _type(kind: str, cleaner: JsonRedactor) -> str:
    """The type of a column; a number that was a secret is a text now."""
    return "JSON" if cleaner.found_numbers and kind in ("BIGINT", "DOUBLE") else kind


def _write(target: Path, data: Iterable[bytes]) -> None:
    try:
        with target.open("xb") as file:
            file.writelines(data)
    except BaseException:
        target.unlink(missing_ok=True)
        raise

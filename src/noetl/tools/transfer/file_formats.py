"""What the name of a file says of what is in it: the one place for sources and targets."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
}
ENDINGS = tuple(_BY_SUFFIX)


class UnknownFormat(Exception):
    """Nobody can tell the format of a file."""


def format_of(path: str, given: Any) -> str:
    """The format of a file: `given`, or what its name says; lines of JSON are told by the name alone. Nameless: neither."""
    told = next((_BY_SUFFIX[suffix] for suffix in reversed(_suffixes(path)) if suffix in _BY_SUFFIX), None)
    found = told if given in (None, "json") and told == "ndjson" else given or told
    if found is None:
        raise UnknownFormat(f"the format of `{path}` cannot be told by its name: give `format` (csv, json, parquet)")
    if found == "parquet" and is_zipped(path):
        raise UnknownFormat(f"`{path}`: Parquet is compressed by itself, and is no `.gz`")
    return str(found)


def is_zipped(path: str | PurePath) -> bool:
    """Whether a file is compressed with gzip."""
    return _suffixes(path)[-1:] == [".gz"]


def delimiter_of(path: str | PurePath) -> str:
    """What separates the columns of a CSV file that is written."""
    return "\t" if ".tsv" in _suffixes(path) else ","


def _suffixes(path: str | PurePath) -> list[str]:
    return [suffix.lower() for suffix in PurePath(path).suffixes]

"""Outputs: what a task, a step or an execution exposes. Plain maps, because templates read them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
PARQUET: Final = "application/vnd.apache.parquet"

Output = dict[str, Any]
Failure = dict[str, Any]


def ok(data: Any = None, **helpers: Any) -> Output:
    """The output of something that went well; `helpers` are the kind's own, such as `http`."""
    return {"status": "ok", "data": data, "ref": None, "error": None, **helpers}


def failed(error: Failure, **helpers: Any) -> Output:
    """The output of something that failed."""
    return {"status": "error", "data": None, "ref": None, "error": error, **helpers}


def failure(kind: str, message: str, *, retryable: bool = False, **more: Any) -> Failure:
    """An error as data."""
    return {"kind": kind, "message": message, "retryable": retryable, **more}


class Spilled(msgspec.Struct, frozen=True):
    """Data of an output that a tool left in a file (see `World.draft`), because it may be too large to hold."""

    path: str
    content_type: str = JSON
    #: how many elements, where it is a list
    rows: int | None = None
    #: of rows in JSON, their columns: name → SQL type
    columns: dict[str, str] | None = None
    #: whether secrets were taken out of it; None: nobody has looked yet
    redacted: bool | None = None
    #: whether its JSON is known to have no white space between its parts
    compact: bool = False

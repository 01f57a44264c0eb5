"""Outputs: what a task, a step or an execution exposes. Plain maps, because templates read them."""

from __future__ import annotations

from typing import Any

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

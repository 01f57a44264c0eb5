"""Errors of executions with the place in the playbook where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.cli.files import near

if TYPE_CHECKING:
    from noetl.ports import Source


def placed(error: dict[str, Any] | None, source: Source | None) -> dict[str, Any] | None:
    """The same error with `file`, `line` and, where a template failed, the `key` that holds it.

    An error of SQL has a `line` of its own, which is one of the query: it becomes `query_line`.
    """
    if error is None or source is None or not error.get("step") or "file" in error:
        return error
    from noetl.lang.places import place_of, workbook_place

    place = None
    if error.get("workbook"):
        place = workbook_place(source.text, str(error["workbook"]), error.get("expression"))
    place = place or place_of(source.text, error["step"], error.get("task"), error.get("expression"))
    if place is None:
        return error
    own = {"query_line": error["line"]} if "line" in error else {}
    where = {"file": near(source.file), "line": place.line, **({"key": place.key} if place.key else {})}
    return {**error, **own, **where}


def place_line(error: dict[str, Any] | None, source: Source | None) -> str:
    """`at orders.yaml:12, input.url`; empty where it is not known."""
    found = placed(error, source)
    if found is None or "file" not in found:
        return ""
    return f"at {found['file']}:{found['line']}{', `' + found['key'] + '`' if 'key' in found else ''}"

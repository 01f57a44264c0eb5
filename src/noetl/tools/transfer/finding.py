"""Rows in a value, by a JSONPath: one that leads nowhere is a mistake, a list without rows is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from noetl.errors import TemplateError
from noetl.expr import Budget
from noetl.expr.sandbox.jsonpath import find
from noetl.expr.sandbox.run import Run
from noetl.model.output import failure
from noetl.tools.datahost.hosts import CallFailed

#: the rows are there already, so that many of them are no reason to stop
_BUDGET = Budget(steps=2**62, size=2**62)
#: steps that lead to something, where a path is right; others (`[*]`, `[?…]`, `[1:]`) may lead to nothing
_STEPS = re.compile(r"""\.\.?[A-Za-z_]\w*|\['[^'\\]*'\]|\["[^"\\]*"\]|\[-?\d+\]""")


def found(data: Any, path: str, key: str) -> list[Any]:
    """What a path of the source's `key` finds. CallFailed: it is no path."""
    try:
        return find(Run({}, _BUDGET, tolerant=False), data, path)
    except TemplateError as error:
        raise CallFailed(failure("template", f"`source.{key}` is {path!r}: {error.message}")) from None


def rows_found(data: Any, path: str, what: str) -> list[Any]:
    """The rows that a path finds. CallFailed: it leads nowhere, so that nobody can say that there are none."""
    rows = found(data, path, "path")
    if not rows:
        _refuse_nowhere(data, path, what)
    return [row for one in rows for row in (one if isinstance(one, list) else [] if one is None else [one])]


def _refuse_nowhere(data: Any, path: str, what: str) -> None:
    sure, here, value = "$", f"the {what}", data
    while step := _STEPS.match(path, len(sure)):
        there = found(data, sure + step[0], "path")
        if not there:
            message = f"`source.path` is `{path}`, and `{sure}{step[0]}` matches nothing; {here} {_held(value)}"
            raise CallFailed(failure("type", message))
        sure, value = sure + step[0], there[0]
        here = f"`{sure}`"
    if not isinstance(value, list | Mapping | None):
        raise CallFailed(failure("type", f"`source.path` is `{path}`, and {here} {_held(value)}"))


def _held(value: Any) -> str:
    """What a value is, in few words."""
    if isinstance(value, Mapping):
        return "has " + (", ".join(f"`{key}`" for key in list(value)[:20]) or "no keys")
    if isinstance(value, list):
        return f"is a list of {len(value):,}"
    if isinstance(value, str):
        return f"is text, no JSON: {value[:80]!r}"
    return "is empty" if value is None else f"is {value!r}"

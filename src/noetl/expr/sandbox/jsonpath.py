"""The `jsonpath` filter: python-jsonpath, with its queries compiled once and its matches counted."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jsonpath
from jsonpath import JSONPath, JSONPathError

from noetl.errors import TemplateError
from noetl.expr.sandbox.plain import plain
from noetl.expr.sandbox.run import Run, weigh
from noetl.expr.sandbox.undefined import refuse_missing


def find(run: Run, value: Any, path: str) -> list[Any]:
    """All matches, in order; a list whether there are none, one or many."""
    refuse_missing(value)
    weigh(run, value)
    found: list[Any] = []
    try:
        for match in _compiled(path).finditer(plain(run, value)):
            run.work(10)
            found.append(match.obj)
    except JSONPathError as error:
        raise TemplateError(f"`jsonpath` does not understand its path: {error}") from None
    return found


@lru_cache(maxsize=1024)
def _compiled(path: str) -> JSONPath:
    compiled = jsonpath.compile(path)
    if not isinstance(compiled, JSONPath):
        raise TemplateError("`jsonpath` takes one path, not a combination of paths")
    return compiled

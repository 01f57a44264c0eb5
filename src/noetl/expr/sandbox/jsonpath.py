"""The `jsonpath` filter: always a list, whether there are no matches, one or many.

Plain paths (`$.a['b'][0][*]..c`) are walked here; all others are for `noetl.expr.sandbox.jsonpath_library`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.sandbox.evaluation import ITEM, Evaluation
from noetl.expr.sandbox.plain_data import plain
from noetl.expr.sandbox.undefined import refuse_missing

_STEP: Final = re.compile(
    r"""(?P<deep>\.\.)?
    (?: (?(deep)|\.) (?: (?P<name>[A-Za-z_]\w*) | (?P<star>\*) )
      | \[ (?: '(?P<single>[^'\\]*)' | "(?P<double>[^"\\]*)" | (?P<index>-?(?:0|[1-9]\d*)) | (?P<all>\*) ) \] )""",
    re.VERBOSE | re.ASCII,
)
#: a longer path is none
_MOST_CHARACTERS: Final = 4_000

_TOO_LONG: Final = f"`jsonpath` takes a path of up to {_MOST_CHARACTERS:,} characters"

#: one step of a plain path: whether it looks at all depths, and the key it asks for (_ALL for every one)
_Steps = tuple[tuple[bool, Any], ...]
_ALL: Final = object()


def find_jsonpath(run: Evaluation, value: Any, path: str) -> list[Any]:
    """All matches, in order."""
    refuse_missing(value)
    refuse_missing(path)
    if not isinstance(path, str):
        raise TypeError("`jsonpath` takes its path as text")
    if len(path) > _MOST_CHARACTERS:
        raise TemplateError(_TOO_LONG)
    run.work(2 * len(path))
    steps = _plain_steps(path)
    if steps is None:
        return _ask_library(run, plain(run, value), path)
    found = [plain(run, value)]
    for deep, key in steps:
        run.work(10)
        # One step after the other: a chain of generators as long as the path would be too deep for Python.
        found = list(_step(run, _all_depths(run, found) if deep else found, key))
    return found


@lru_cache(maxsize=1024)
def plain_keys(path: str) -> tuple[str | int, ...] | None:
    """The keys and indices of a path that has nothing else, so that it leads to one value at most; None: it has."""
    steps = _plain_steps(path)
    if steps is None or any(deep or key is _ALL for deep, key in steps):
        return None
    return tuple(key for _, key in steps)


@lru_cache(maxsize=1024)
def _plain_steps(path: str) -> _Steps | None:
    if not path.startswith("$"):
        return None
    steps: list[tuple[bool, Any]] = []
    position = 1
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return None
        position = match.end()
        steps.append((match["deep"] is not None, _key(match)))
    return tuple(steps)


def _key(match: re.Match[str]) -> Any:
    if match["star"] or match["all"]:
        return _ALL
    if match["index"] is not None:
        return int(match["index"])
    return next(text for text in (match["name"], match["single"], match["double"]) if text is not None)


def _step(run: Evaluation, values: Iterable[Any], key: Any) -> Iterator[Any]:
    for value in values:
        run.work(10)
        run.grow(ITEM)
        if key is _ALL:
            for child in _children(value):
                run.work(6)
                run.grow(ITEM)
                yield child
        elif isinstance(value, Mapping):
            if isinstance(key, str) and key in value:
                yield value[key]
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            yield value[key]


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _all_depths(run: Evaluation, values: Iterable[Any]) -> Iterator[Any]:
    """Each value, then what is inside it, parents before children."""
    for value in values:
        pending = [value]
        while pending:
            part = pending.pop()
            run.work(20 + 3 * (len(part) if isinstance(part, (list, Mapping)) else 0))
            run.grow(ITEM)
            yield part
            inside = [child for child in _children(part) if isinstance(child, (list, Mapping))]
            pending.extend(reversed(inside))


def problem_of(path: str) -> str | None:
    """What is wrong with a path, whatever it is asked of."""
    if len(path) > _MOST_CHARACTERS:
        return _TOO_LONG
    if _plain_steps(path) is not None:
        return None
    from noetl.expr.sandbox.jsonpath_library import library_problem

    return library_problem(path)


def _ask_library(run: Evaluation, value: Any, path: str) -> list[Any]:
    from noetl.expr.sandbox.jsonpath_library import compile_path

    follow = compile_path(run, path)
    # The library would read text as a JSON document.
    return follow(run, value) if isinstance(value, (list, dict)) else []

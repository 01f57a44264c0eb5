"""The `jsonpath` filter: always a list, whether there are no matches, one or many.

Plain paths (`$.a['b'][0][*]..c`) are walked here; python-jsonpath is asked for all others, and imported then.
What it could cost is paid beforehand, and regular expressions are refused: nobody could say how long they run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.sandbox.evaluation import ITEM, Evaluation, weigh
from noetl.expr.sandbox.plain_data import plain
from noetl.expr.sandbox.undefined import refuse_missing

_STEP: Final = re.compile(
    r"""(?P<deep>\.\.)?
    (?: (?(deep)|\.) (?: (?P<name>[A-Za-z_]\w*) | (?P<star>\*) )
      | \[ (?: '(?P<single>[^'\\]*)' | "(?P<double>[^"\\]*)" | (?P<index>-?(?:0|[1-9]\d*)) | (?P<all>\*) ) \] )""",
    re.VERBOSE | re.ASCII,
)
_REGEX: Final = re.compile(r"=~|\b(?:match|search)\s*\(")
_BRACKET: Final = re.compile(r"\[[^\]]*\]")

#: one step of a plain path: whether it looks at all depths, and the key it asks for (_ALL for every one)
_Steps = tuple[tuple[bool, Any], ...]
_ALL: Final = object()


def find_jsonpath(run: Evaluation, value: Any, path: str) -> list[Any]:
    """All matches, in order."""
    refuse_missing(value)
    refuse_missing(path)
    if not isinstance(path, str):
        raise TypeError("`jsonpath` takes its path as text")
    steps = _plain_steps(path)
    if steps is None:
        return _ask_library(run, plain(run, value), path)
    found: Iterable[Any] = (plain(run, value),)
    for deep, key in steps:
        found = _step(run, _all_depths(run, found) if deep else found, key)
    matches: list[Any] = []
    for match in found:
        run.grow(ITEM)
        matches.append(match)
    return matches


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
        run.work(2)
        if key is _ALL:
            for child in _children(value):
                run.work(1)
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
            run.work(4)
            yield part
            inside = [child for child in _children(part) if isinstance(child, (list, Mapping))]
            pending.extend(reversed(inside))


def problem_of(path: str) -> str | None:
    """What is wrong with a path, whatever it is asked of."""
    if _plain_steps(path) is not None:
        return None
    try:
        _refuse_regex(path)
        _compile_path(path)
    except TemplateError as error:
        return error.message.removeprefix("`jsonpath` does not understand its path: ")
    return None


def _short(error: Exception) -> str:
    """What the library says, without its drawing."""
    return str(error).partition("\n")[0]


def _refuse_regex(path: str) -> None:
    if _REGEX.search(path):
        raise TemplateError("regular expressions are not supported in a `jsonpath`")


def _ask_library(run: Evaluation, value: Any, path: str) -> list[Any]:
    _refuse_regex(path)
    ask = _compile_path(path)
    if not isinstance(value, (list, dict)):
        return []  # the library would read text as a JSON document
    selectors = math.prod(1 + bracket.count(",") for bracket in _BRACKET.findall(path))
    rounds = path.count("..") + path.count("?")
    run.work(100 * len(path))
    run.work((1 + weigh(run, value) // 16) * selectors * _depth(value) ** max(0, rounds - 1))
    return ask(value)


def _depth(value: Any) -> int:
    """How deeply maps and lists are nested."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [child for part in level for child in _children(part) if isinstance(child, (list, Mapping))]
    return depth


@lru_cache(maxsize=1024)
def _compile_path(path: str) -> Callable[[Any], list[Any]]:
    import jsonpath

    try:
        compiled = jsonpath.compile(path)
    except jsonpath.JSONPathError as error:
        raise TemplateError(f"`jsonpath` does not understand its path: {_short(error)}") from None

    def ask(value: Any) -> list[Any]:
        try:
            return list(compiled.findall(value))
        except jsonpath.JSONPathError as error:
            raise TemplateError(f"`jsonpath` cannot follow its path: {error}") from None

    return ask

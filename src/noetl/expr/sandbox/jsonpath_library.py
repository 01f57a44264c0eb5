"""Paths that are more than keys: python-jsonpath follows them, over data that has everything it is asked for paid.

What the library compares and matches is paid for as well; its regular expressions are ours. The only module that imports
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

import jsonpath
from jsonpath.filter import FilterExpression, FunctionExtension, StringLiteral, walk
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.parse import Parser
from jsonpath.selectors import Filter, KeysFilter
from jsonpath.stream import TokenStream

from noetl.errors import TemplateError
from noetl.expr.sandbox.evaluation import OBJECT, Evaluation
from noetl.expr.sandbox.operators import pay_to_compare, pay_to_find, pay_to_search
from noetl.lru import LruCache
from noetl.patterns import Pattern, PatternProblem, compile_pattern

#: what the library takes for one member that it looks at, and for one comparison
_MEMBER: Final = 80
_COMPARISON: Final = 30
#: what it remembers of each member: the way to it, among others
_REMEMBERED: Final = 3 * OBJECT
#: deeper than data can be
_MOST_DEPTH: Final = 250

#: the evaluation on whose behalf the library works
_run: ContextVar[Evaluation] = ContextVar("_run")


class _Member:
    """What the library sees of a map or a list."""

    __slots__ = ("_raw", "_run", "_way")

    def __init__(self, run: Evaluation, raw: Any, way: int) -> None:
        self._run = run
        self._raw = raw
        #: how long the text is that the library writes to say where this is
        self._way = way

    def _inside(self, key: Any, value: Any) -> Any:
        """A member, paid for."""
        run = self._run
        way = self._way + (len(key) if isinstance(key, str) else 0) + 8
        run.work(_MEMBER + (way >> 3))
        run.grow(_REMEMBERED + way)
        if isinstance(value, str):
            run.work(len(value) >> 8)
        return _wrap(run, value, way)

    def __len__(self) -> int:
        return len(self._raw)

    def __eq__(self, other: object) -> bool:
        raw = other._raw if isinstance(other, _Member) else other
        pay_to_compare(self._run, self._raw, raw)
        return bool(self._raw == raw)

    __hash__ = None  # type: ignore[assignment]


class _Map(_Member, Mapping[str, Any]):
    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return self._inside(key, self._raw[key])

    def __iter__(self) -> Iterator[str]:
        for key in self._raw:
            self._run.work(_MEMBER)
            self._run.grow(_REMEMBERED)
            yield key

    def items(self) -> Any:
        return ((key, self._inside(key, value)) for key, value in self._raw.items())


class _List(_Member, Sequence[Any]):
    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        found = self._raw[key]
        if isinstance(key, slice):
            return [self._inside(0, value) for value in found]
        return self._inside(key, found)

    def __iter__(self) -> Iterator[Any]:
        return (self._inside(0, value) for value in self._raw)


def _wrap(run: Evaluation, value: Any, way: int) -> Any:
    if isinstance(value, dict):
        return _Map(run, value, way)
    return _List(run, value, way) if isinstance(value, list) else value


class _Matching(FilterFunction):
    """`match(value, pattern)` and `search(value, pattern)`."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012  the library's
    return_type = ExpressionType.LOGICAL

    def __init__(self, find: Callable[[Pattern, str], bool]) -> None:
        self._find = find

    def __call__(self, value: Any, pattern: Any) -> bool:
        run = _run.get()
        run.work(_COMPARISON)
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        compiled = _pattern(run, pattern)
        run.work(4 * compiled.work_for(value))
        return self._find(compiled, value)


def _pattern(run: Evaluation, pattern: str) -> Pattern:
    run.work(40 + len(pattern))
    try:
        found = compile_pattern(pattern)
    except PatternProblem as problem:
        raise TemplateError(f"`{pattern[:100]}` is not a usable pattern: {problem}") from None
    run.work(found.size >> 2)
    return found


class _Parser(Parser):
    def parse_regex(self, stream: TokenStream) -> Any:
        raise jsonpath.JSONPathSyntaxError(
            "write `match(@.a, 'pattern')` or `search(…)`: a pattern between slashes is not supported",
            token=stream.current(),
        )


class _Environment(jsonpath.JSONPathEnvironment):
    parser_class = _Parser
    max_recursion_depth = _MOST_DEPTH

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Matching(Pattern.matches)
        self.function_extensions["search"] = _Matching(Pattern.found_in)

    def is_truthy(self, obj: object) -> bool:
        _run.get().work(_COMPARISON)
        return super().is_truthy(obj)

    def compare(self, left: object, operator: str, right: object) -> bool:
        run = _run.get()
        run.work(_COMPARISON)
        if operator in ("in", "contains"):
            part, whole = (left, right) if operator == "in" else (right, left)
            if isinstance(whole, str) and isinstance(part, str):
                pay_to_find(run, whole, part)
            elif isinstance(whole, (list, tuple)):
                pay_to_search(run, whole, part)
        else:
            pay_to_compare(run, left, right)
        return super().compare(left, operator, right)


_ENVIRONMENT: Final = _Environment()


Follow = Callable[[Evaluation, Any], list[Any]]
_known: LruCache[str, Follow] = LruCache(1_024)


def compile_path(run: Evaluation, path: str) -> Follow:
    """What follows a path; TemplateError says why it is none."""
    found = _known.get(path)
    if found is None:
        run.work(200 * len(path))
        found = _compile(path)
        _known.put(path, found)
    return found


def _compile(path: str) -> Follow:
    try:
        compiled = _ENVIRONMENT.compile(path)
    except (jsonpath.JSONPathError, RecursionError, ValueError) as error:
        # The library draws the path below its message.
        raise TemplateError(f"`jsonpath` does not understand its path: {str(error).partition(chr(10))[0]}") from None
    first = compiled.path if isinstance(compiled, jsonpath.CompoundJSONPath) else compiled
    others = compiled.paths if isinstance(compiled, jsonpath.CompoundJSONPath) else ()

    def follow(run: Evaluation, value: Any) -> list[Any]:
        data = _wrap(run, value, 0)
        token = _run.set(run)
        try:
            found = list(first.findall(data))
            for sign, other in others:
                more = list(other.findall(data))
                if sign == _ENVIRONMENT.union_token:
                    found += more
                else:
                    run.work(4 * len(found) * len(more))
                    found = [one for one in found if one in more]
            return [one._raw if isinstance(one, _Member) else one for one in found]  # noqa: SLF001
        except jsonpath.JSONPathError as error:
            raise TemplateError(f"`jsonpath` cannot follow its path: {error}") from None
        finally:
            _run.reset(token)

    return follow


def library_problem(path: str) -> str | None:
    """What is wrong with a path, or with a pattern that stands in it."""
    try:
        _compile(path)
    except TemplateError as error:
        return error.message.removeprefix("`jsonpath` does not understand its path: ")
    compiled = _ENVIRONMENT.compile(path)
    paths = [compiled]
    if isinstance(compiled, jsonpath.CompoundJSONPath):
        paths = [compiled.path, *(other for _, other in compiled.paths)]
    for one in paths:
        for expression in _filters(one):
            for node in walk(expression):
                problem = _problem_of(node)
                if problem is not None:
                    return problem
    return None


def _filters(path: Any) -> Iterator[FilterExpression]:
    for segment in path.segments:
        for selector in segment.selectors:
            if isinstance(selector, (Filter, KeysFilter)):
                yield selector.expression


def _problem_of(node: Any) -> str | None:
    if not isinstance(node, FunctionExtension) or node.name not in ("match", "search"):
        return None
    pattern = node.args[1]
    if not isinstance(pattern, StringLiteral):
        return None
    try:
        compile_pattern(pattern.value)
    except PatternProblem as problem:
        return f"`{pattern.value[:100]}` is not a usable pattern: {problem}"
    return None

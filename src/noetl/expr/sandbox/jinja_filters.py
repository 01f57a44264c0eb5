"""Jinja2's own filters, called on behalf of a template: inside its sandbox, and paid for.

The only module of the sandbox that needs jinja2; it is imported when the first such filter is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from jinja2 import Undefined
from jinja2.filters import FILTERS as THEIRS, _GroupTuple
from jinja2.nodes import EvalContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import _PassArg

from noetl.errors import TemplateError, TemplateLimit
from noetl.expr.member_access import ABSENT, VISIBLE, item
from noetl.expr.sandbox.evaluation import Evaluation, check_number, weigh
from noetl.expr.sandbox.filters import FILTERS, FilterFunction
from noetl.expr.sandbox.operators import TESTS
from noetl.expr.sandbox.plain_data import to_bounded_list
from noetl.expr.sandbox.undefined import Missing, NoValue, refuse_missing
from noetl.expr.scopes import JINJA_FILTERS

# What Jinja2's own filters can cost, paid before they are called.
#
# Most are paid for by the weight of their value. Listed here are those that only look at the top of a list, and
# those that make much out of little.


Cost = Callable[..., None]

#: what is larger is not searched for links, wrapped or pretty-printed: all of them take time beyond proportion
_MOST_FOR_SLOW: Final = 50_000
_MOST_PRECISION: Final = 1_000


def by_weight(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> None:
    """The whole value is looked at, or written out."""
    run.work(1)
    if value.__class__ is str:
        run.work(len(value) >> 4)
        run.grow(len(value))
    else:
        run.grow(weigh(run, value) >> 2)
    for argument in (*args, *kwargs.values()):
        refuse_missing(argument)
        if argument.__class__ is not str:
            weigh(run, argument)


def by_walk(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> None:
    """Items are compared, so the whole value may be looked at; a key is computed for each of them."""
    for part in (value, *args, *kwargs.values()):
        refuse_missing(part)
        weigh(run, part)
    if hasattr(value, "__len__"):
        run.work(10 * len(value))


def by_length(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> None:
    """Only the items themselves are looked at."""
    for argument in (*args, *kwargs.values()):
        refuse_missing(argument)
    if hasattr(value, "__len__"):
        run.work(1 + len(value))


def _batch(run: Evaluation, value: Any, linecount: int, fill_with: Any = None) -> None:
    by_length(run, value)
    run.grow(64 * (len(value) // max(1, linecount)))
    if fill_with is not None:
        run.grow(8 * abs(linecount))


def _slice(run: Evaluation, value: Any, slices: int, fill_with: Any = None) -> None:
    by_length(run, value, fill_with)
    run.work(abs(slices))
    run.grow(64 * abs(slices))


def _center(run: Evaluation, value: Any, width: int = 80) -> None:
    by_weight(run, value)
    run.grow(width)


def _indent(run: Evaluation, value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> None:  # noqa: ARG001, FBT001, FBT002
    by_weight(run, value)
    lines = 2 + str(value).count("\n") * 2
    run.grow(lines * (len(width) if isinstance(width, str) else abs(width)))


def _wordwrap(
    run: Evaluation,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,  # noqa: ARG001, FBT001, FBT002
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,  # noqa: ARG001, FBT001, FBT002
) -> None:
    _slow(run, value)
    text = str(value)
    run.grow((len(text) // max(1, width) + len(text.splitlines()) + 1) * len(wrapstring or "\n"))
    run.grow(len(text) if width > 1 else len(text) * (1 + len(wrapstring or "\n")))


def _replace(run: Evaluation, value: Any, old: str, new: str, count: int | None = None) -> None:
    by_weight(run, value)
    found = str(value).count(str(old))
    run.grow(len(str(new)) * (found if count is None else min(found, count)))


def _round(run: Evaluation, value: Any, precision: int = 0, method: str = "common") -> None:
    by_weight(run, value, method)
    if abs(precision) > _MOST_PRECISION:
        raise TemplateLimit(f"`round` takes a precision of up to {_MOST_PRECISION:,}")


def _sum(run: Evaluation, value: Any, attribute: Any = None, start: Any = 0) -> None:
    by_length(run, value, attribute, start)
    if isinstance(start, (list, tuple)):
        # Every addition copies the sum so far.
        run.work(len(value) * weigh(run, value) >> 6)
        run.grow(len(value) * sum(len(part) for part in value if isinstance(part, (list, tuple))))


def _slow(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> None:
    by_weight(run, value, *args, **kwargs)
    weight = weigh(run, (value, args, kwargs))
    if weight > _MOST_FOR_SLOW:
        raise TemplateLimit(f"it is too large for this filter, which takes up to {_MOST_FOR_SLOW:,} characters")
    run.work(8 * weight)


def _split_words(run: Evaluation, value: Any) -> None:
    """The text is cut into words on the way."""
    by_weight(run, value)
    run.work(len(str(value)))
    run.grow(16 * len(str(value)))


def _striptags(run: Evaluation, value: Any) -> None:
    by_weight(run, value)
    text = str(value)
    # Each tag is cut out by copying the rest.
    run.work(text.count("<") * len(text) >> 12)


COSTS: Final[dict[str, Cost]] = {
    **dict.fromkeys(("map", "random", "reject", "rejectattr", "reverse", "select", "selectattr"), by_length),
    **dict.fromkeys(("dictsort", "groupby", "max", "min", "sort", "unique"), by_walk),
    **dict.fromkeys(("pprint", "urlize", "xmlattr"), _slow),
    "batch": _batch,
    "center": _center,
    "title": _split_words,
    "wordcount": _split_words,
    "indent": _indent,
    "replace": _replace,
    "round": _round,
    "slice": _slice,
    "striptags": _striptags,
    "sum": _sum,
    "wordwrap": _wordwrap,
}


VISIBLE[_GroupTuple] = frozenset({"grouper", "list"})


class _Undefined(NoValue, Undefined):  # ours come first: its comparisons do not fail
    """An undefined that Jinja2's filters recognise as one."""


class _FilterEnvironment(ImmutableSandboxedEnvironment):
    """What Jinja2's filters turn to: it looks attributes up, and calls filters and tests, as templates do here."""

    def __init__(self) -> None:
        super().__init__()
        # Jinja2 only ever calls it, to say that there is no first item and the like.
        self.undefined = self._no_value  # type: ignore[assignment]

    def _no_value(self, hint: str | None = None, obj: Any = None, name: str | None = None, exc: Any = None) -> Any:  # noqa: ARG002
        return _Undefined(hint or f"`{name}` is missing")

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`obj[argument]` and `obj.argument`, for filters that take the name of an attribute."""
        if isinstance(obj, Missing):
            return obj
        found = item(obj, argument)
        return self._no_value(name=str(argument)) if found is ABSENT else found

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The same: a filter cannot reach more than a template."""
        return self.getitem(obj, attribute)

    def call_filter(
        self,
        name: str,
        value: Any,
        args: Any = None,
        kwargs: Any = None,
        context: Any = None,
        eval_ctx: Any = None,  # noqa: ARG002  Jinja2's signature
    ) -> Any:
        """A filter that `map` applies to each item."""
        context.work(12)
        return find_filter(name)(context, value, *(args or ()), **(kwargs or {}))

    def call_test(
        self,
        name: str,
        value: Any,
        args: Any = None,
        kwargs: Any = None,
        context: Any = None,
        eval_ctx: Any = None,  # noqa: ARG002  Jinja2's signature
    ) -> Any:
        """A test that `select` and its like apply to each item."""
        context.work(12)
        test = TESTS.get(name)
        if test is None:
            raise TemplateError(f"there is no test `{name}`")
        return test(context, value, *(args or ()), **(kwargs or {}))


_ENVIRONMENT: Final = _FilterEnvironment()
_CONTEXT: Final = EvalContext(_ENVIRONMENT)
#: how a filter says what it wants as its first argument
_WANTED: Final[dict[_PassArg | None, Callable[[Evaluation], tuple[Any, ...]]]] = {
    _PassArg.context: lambda run: (run,),
    _PassArg.eval_context: lambda run: (run.eval_ctx,),
    _PassArg.environment: lambda run: (run.environment,),
    None: lambda _run: (),
}


def _wrap_filter(name: str) -> FilterFunction:
    function = cast("Callable[..., Any]", THEIRS[name])
    wanted = _WANTED[_PassArg.from_obj(function)]
    cost: Cost = COSTS.get(name, by_weight)

    def call(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_missing(value)
        if run.environment is None:
            run.environment = _ENVIRONMENT
            run.eval_ctx = _CONTEXT
        if isinstance(value, (range, Iterator)):
            value = to_bounded_list(run, value)
        cost(run, value, *args, **kwargs)
        first: tuple[Any, ...] = wanted(run)
        return _materialize(run, function(*first, value, *args, **kwargs))

    return call


def _materialize(run: Evaluation, result: Any) -> Any:
    """A result as data: text paid for, and what would be computed bit by bit computed now."""
    if isinstance(result, str):
        run.grow(len(result))
    elif isinstance(result, Iterator):
        return to_bounded_list(run, result)
    return check_number(result)


BORROWED: Final = {name: _wrap_filter(name) for name in JINJA_FILTERS - FILTERS.keys()}


def find_filter(name: str) -> FilterFunction:
    """The filter of that name, ours or Jinja2's."""
    found = FILTERS.get(name) or BORROWED.get(name)
    if found is None:
        raise TemplateError(f"there is no filter `{name}`")
    return found

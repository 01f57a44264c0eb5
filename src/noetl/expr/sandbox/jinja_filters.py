"""Filters that Jinja2 itself carries out on behalf of a template, paid for before they are called.

The only module of the sandbox that needs jinja2; it is imported when the first such filter is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from jinja2 import Environment
from jinja2.filters import FILTERS as THEIRS
from jinja2.nodes import EvalContext
from jinja2.utils import _PassArg

from noetl.errors import TemplateLimit
from noetl.expr.sandbox.evaluation import ITEM, OBJECT, Evaluation, check_number, pay_for_text, stringify, weigh
from noetl.expr.sandbox.filters import FilterFunction
from noetl.expr.sandbox.operators import pay_to_find
from noetl.expr.sandbox.plain_data import to_bounded_list
from noetl.expr.sandbox.undefined import NoValue, refuse_missing

# What each of them costs. None may be called without an entry here, so that a new one cannot be forgotten.


Cost = Callable[..., None]

#: what is larger is not searched for links, wrapped or pretty-printed: all of them take time beyond proportion
_MOST_FOR_SLOW: Final = 20_000
_MOST_PRECISION: Final = 1_000


def _constant(run: Evaluation, _value: Any, *args: Any, **kwargs: Any) -> None:
    """A number, or one member of a list."""
    run.work(8 + len(args) + len(kwargs))


def _by_character(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> None:
    """The text of the value is looked at, and makes about as much text."""
    text = stringify(run, value)
    for argument in (*args, *kwargs.values()):
        weigh(run, argument)
    run.work(len(text) >> 2)
    run.grow(len(text))


def _escape(run: Evaluation, value: Any) -> None:
    text = stringify(run, value)
    run.work(len(text) >> 2)
    run.grow(len(text) + 4 * sum(map(text.count, "&<>'\"")))


def _batch(run: Evaluation, value: Any, linecount: int, fill_with: Any = None) -> None:
    run.work(4 * len(value))
    run.grow(ITEM * len(value) + OBJECT * (1 + len(value) // max(1, linecount)))
    if fill_with is not None:
        run.grow(ITEM * abs(linecount))


def _slice(run: Evaluation, value: Any, slices: int, fill_with: Any = None) -> None:  # noqa: ARG001
    run.work(len(value) + 16 * abs(slices))
    run.grow(ITEM * len(value) + OBJECT * abs(slices))


def _center(run: Evaluation, value: Any, width: int = 80) -> None:
    pay_for_text(run, value)
    run.grow(width)


def _indent(run: Evaluation, value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> None:  # noqa: ARG001, FBT001, FBT002
    pay_for_text(run, value)
    text = stringify(run, value)
    lines = 2 + sum(map(text.count, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))
    run.work((len(text) >> 1) + 8 * lines)
    run.grow(lines * (2 * OBJECT + 2 * (len(width) if isinstance(width, str) else abs(width))))


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


def _replace(run: Evaluation, value: Any, old: Any, new: Any, count: int | None = None) -> None:
    text, wanted, other = (stringify(run, part) for part in (value, old, new))
    pay_to_find(run, text, wanted)
    found = text.count(wanted)
    times = found if count is None or count < 0 else min(found, count)
    run.work((len(text) >> 3) + times)
    run.grow(len(text) + len(other) * times)


def _round(run: Evaluation, value: Any, precision: int = 0, method: str = "common") -> None:  # noqa: ARG001
    run.work(8)
    if isinstance(value, int):
        run.work(value.bit_length() ** 2 >> 15)
    if abs(precision) > _MOST_PRECISION:
        raise TemplateLimit(f"`round` takes a precision of up to {_MOST_PRECISION:,}")


def _slow(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> None:
    weight = weigh(run, (value, args, kwargs))
    if weight > _MOST_FOR_SLOW:
        raise TemplateLimit(f"it is too large for this filter, which takes up to {_MOST_FOR_SLOW:,} characters")
    run.work(40 * weight)
    run.grow(8 * weight)


def _split_words(run: Evaluation, value: Any) -> None:
    """The text is cut into words on the way."""
    text = stringify(run, value)
    run.work(6 * len(text))
    run.grow(10 * len(text))


def _striptags(run: Evaluation, value: Any) -> None:
    text = stringify(run, value)
    # Each tag is cut out by copying the rest.
    run.work(len(text) + (text.count("<") * len(text) >> 8))
    run.grow(8 * len(text))


def _urlencode(run: Evaluation, value: Any) -> None:
    weight = len(value) if isinstance(value, str) else weigh(run, value)
    run.work((2 if isinstance(value, str) and value.isascii() else 8) * weight)
    run.grow((4 if isinstance(value, str) and value.isascii() else 16) * weight)


def _truncate(
    run: Evaluation,
    value: Any,
    length: int = 255,  # noqa: ARG001
    killwords: bool = False,  # noqa: ARG001, FBT001, FBT002
    end: str = "...",
    leeway: int | None = None,  # noqa: ARG001
) -> None:
    if not isinstance(value, str):
        raise TypeError("`truncate` needs text")
    run.work(len(value) >> 4)
    run.grow(2 * len(value) + len(end))


COSTS: Final[Mapping[str, Cost]] = {
    "abs": _constant,
    "batch": _batch,
    "capitalize": _by_character,
    "center": _center,
    "e": _escape,
    "escape": _escape,
    "filesizeformat": _by_character,
    "forceescape": _escape,
    "indent": _indent,
    "pprint": _slow,
    "random": _constant,
    "replace": _replace,
    "reverse": _constant,
    "round": _round,
    "safe": _by_character,
    "slice": _slice,
    "striptags": _striptags,
    "title": _split_words,
    "truncate": _truncate,
    "urlencode": _urlencode,
    "urlize": _slow,
    "wordcount": _split_words,
    "wordwrap": _wordwrap,
    "xmlattr": _slow,
}


class _FilterEnvironment(Environment):
    """What Jinja2's filters turn to."""

    def __init__(self) -> None:
        super().__init__()
        # Jinja2 only ever calls it, to say that there is no random item.
        self.undefined = _no_value  # type: ignore[assignment]


def _no_value(hint: str | None = None, *_args: Any, **_kwargs: Any) -> NoValue:
    return NoValue(hint or "there is none")


class _Context:
    """What `random` asks for."""

    environment = _FilterEnvironment()


_EVAL_CONTEXT: Final = EvalContext(_Context.environment)
#: how a filter says what it wants as its first argument
_WANTED: Final[dict[_PassArg | None, tuple[Any, ...]]] = {
    _PassArg.context: (_Context,),
    _PassArg.eval_context: (_EVAL_CONTEXT,),
    _PassArg.environment: (_Context.environment,),
    None: (),
}


def _wrap_filter(name: str, cost: Cost) -> FilterFunction:
    function = cast("Callable[..., Any]", THEIRS[name])
    first = _WANTED[_PassArg.from_obj(function)]

    def call(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_missing(value)
        for argument in (*args, *kwargs.values()):
            refuse_missing(argument)
        if isinstance(value, (range, Iterator)):
            value = to_bounded_list(run, value)
        cost(run, value, *args, **kwargs)
        return _materialize(run, function(*first, value, *args, **kwargs))

    return call


def _materialize(run: Evaluation, result: Any) -> Any:
    """A result as data: text paid for, and what would be computed bit by bit computed now."""
    if isinstance(result, str):
        run.grow(len(result))
    elif isinstance(result, Iterator):
        return to_bounded_list(run, result)
    return check_number(result)


BORROWED: Final = {name: _wrap_filter(name, cost) for name, cost in COSTS.items()}

"""What Jinja2's own filters can cost, paid before they are called.

Most are paid for by the weight of their value. Listed here are those that only look at the top of a list, and
those that make much out of little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from noetl.errors import TemplateLimit
from noetl.expr.sandbox.run import Run, weigh
from noetl.expr.sandbox.undefined import refuse_missing

Cost = Callable[..., None]

#: what is larger is not searched for links, wrapped or pretty-printed: all of them take time beyond proportion
_MOST_FOR_SLOW: Final = 50_000
_MOST_PRECISION: Final = 1_000


def by_weight(run: Run, value: Any, *args: Any, **kwargs: Any) -> None:
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


def by_walk(run: Run, value: Any, *args: Any, **kwargs: Any) -> None:
    """Items are compared, so the whole value may be looked at; a key is computed for each of them."""
    for part in (value, *args, *kwargs.values()):
        refuse_missing(part)
        weigh(run, part)
    if hasattr(value, "__len__"):
        run.work(10 * len(value))


def by_length(run: Run, value: Any, *args: Any, **kwargs: Any) -> None:
    """Only the items themselves are looked at."""
    for argument in (*args, *kwargs.values()):
        refuse_missing(argument)
    if hasattr(value, "__len__"):
        run.work(1 + len(value))


def _batch(run: Run, value: Any, linecount: int, fill_with: Any = None) -> None:
    by_length(run, value)
    run.grow(64 * (len(value) // max(1, linecount)))
    if fill_with is not None:
        run.grow(8 * abs(linecount))


def _slice(run: Run, value: Any, slices: int, fill_with: Any = None) -> None:
    by_length(run, value, fill_with)
    run.work(abs(slices))
    run.grow(64 * abs(slices))


def _center(run: Run, value: Any, width: int = 80) -> None:
    by_weight(run, value)
    run.grow(width)


def _indent(run: Run, value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> None:  # noqa: ARG001, FBT001, FBT002
    by_weight(run, value)
    lines = 2 + str(value).count("\n") * 2
    run.grow(lines * (len(width) if isinstance(width, str) else abs(width)))


def _wordwrap(
    run: Run,
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


def _replace(run: Run, value: Any, old: str, new: str, count: int | None = None) -> None:
    by_weight(run, value)
    found = str(value).count(str(old))
    run.grow(len(str(new)) * (found if count is None else min(found, count)))


def _round(run: Run, value: Any, precision: int = 0, method: str = "common") -> None:
    by_weight(run, value, method)
    if abs(precision) > _MOST_PRECISION:
        raise TemplateLimit(f"`round` takes a precision of up to {_MOST_PRECISION:,}")


def _sum(run: Run, value: Any, attribute: Any = None, start: Any = 0) -> None:
    by_length(run, value, attribute, start)
    if isinstance(start, (list, tuple)):
        # Every addition copies the sum so far.
        run.work(len(value) * weigh(run, value) >> 6)
        run.grow(len(value) * sum(len(part) for part in value if isinstance(part, (list, tuple))))


def _slow(run: Run, value: Any, *args: Any, **kwargs: Any) -> None:
    by_weight(run, value, *args, **kwargs)
    weight = weigh(run, (value, args, kwargs))
    if weight > _MOST_FOR_SLOW:
        raise TemplateLimit(f"it is too large for this filter, which takes up to {_MOST_FOR_SLOW:,} characters")
    run.work(8 * weight)


def _cut_up(run: Run, value: Any) -> None:
    """The text is cut into words on the way."""
    by_weight(run, value)
    run.work(len(str(value)))
    run.grow(16 * len(str(value)))


def _striptags(run: Run, value: Any) -> None:
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
    "title": _cut_up,
    "wordcount": _cut_up,
    "indent": _indent,
    "replace": _replace,
    "round": _round,
    "slice": _slice,
    "striptags": _striptags,
    "sum": _sum,
    "wordwrap": _wordwrap,
}

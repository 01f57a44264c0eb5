"""What a template may call: methods by type, Jinja2's global functions, `loop`, and the rule for everything else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.member_access import VISIBLE
from noetl.expr.sandbox.evaluation import Evaluation, weigh
from noetl.expr.sandbox.operators import braces
from noetl.expr.sandbox.plain_data import to_bounded_list
from noetl.expr.sandbox.undefined import Missing, NoValue, refuse_missing

# The methods a template may call, by type: those that read, each paid for by what it can make.


Method = Callable[..., Any]
_STRFTIME_WIDTH: Final = re.compile(r"%[-_^#0-9]")

#: text methods whose result is about as long as the text itself
_TEXT_LINEAR: Final = """capitalize casefold count encode endswith find index isalnum isalpha isascii isdecimal isdigit
    isidentifier islower isnumeric isprintable isspace istitle isupper lower lstrip partition removeprefix removesuffix
    rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper""".split()  # noqa: SIM905  a list of words reads better so


def find_method(value: Any, name: str) -> Method | None:
    """The method of that name, taking the run and the value first; None if templates may not call any."""
    for kind in type(value).__mro__:
        method = METHODS.get(kind, _NONE).get(name)
        if method is not None:
            return method
    if isinstance(value, Mapping):
        return _MAP.get(name)
    return None


def _linear(kind: type, name: str, share: int = 3) -> Method:
    """A method that is paid for by the length of what it is called on."""
    function = getattr(kind, name)

    def call(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> Any:
        for argument in args:
            refuse_missing(argument)
        run.work(1 + (len(value) >> share))
        result = function(value, *args, **kwargs)
        if isinstance(result, (str, bytes)):
            run.grow(len(result))
        elif isinstance(result, (list, tuple)):
            run.grow(len(value) + 56 * len(result))
        return result

    return call


def _constant(kind: type, name: str) -> Method:
    """A method whose cost does not depend on its value."""
    function = getattr(kind, name)

    def call(_run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> Any:
        return function(value, *args, **kwargs)

    return call


def _pad_method(name: str) -> Method:
    function = getattr(str, name)

    def call(run: Evaluation, value: str, width: int, *args: Any) -> Any:
        run.grow(max(len(value), width))
        return function(value, width, *args)

    return call


def _expandtabs(run: Evaluation, value: str, tabsize: int = 8) -> str:
    run.grow(len(value) + value.count("\t") * max(0, tabsize))
    return value.expandtabs(tabsize)


def replace(run: Evaluation, value: str, old: str, new: str, count: int = -1) -> str:
    """`value.replace(old, new, count)`."""
    found = value.count(old)
    times = found if count < 0 else min(found, count)
    run.work(1 + (len(value) >> 3))
    run.grow(len(value) + times * max(0, len(new) - len(old)))
    return str(value).replace(old, new, count)


def join(run: Evaluation, separator: str, values: Any) -> str:
    """`separator.join(values)`."""
    items = to_bounded_list(run, values)
    for part in items:
        refuse_missing(part)
        if not isinstance(part, str):
            raise TypeError(f"join() takes text, not {type(part).__name__}; the `join` filter takes anything")
    run.grow(sum(map(len, items)) + len(separator) * len(items))
    return str(separator).join(items)


def _translate(run: Evaluation, value: str, table: Mapping[Any, Any]) -> str:
    longest = max((len(new) for new in table.values() if isinstance(new, str)), default=1)
    run.grow(len(value) * max(1, longest))
    return str(value).translate(dict(table))


def _format_map(run: Evaluation, value: str, values: Mapping[str, Any]) -> str:
    return braces(run, value, **values)


def _search(run: Evaluation, value: Any, wanted: Any) -> None:
    """Pay for comparing something with every item of a list."""
    run.work(len(value) >> 1)
    if isinstance(wanted, (list, tuple, Mapping)):
        weigh(run, wanted)
        weigh(run, value)


def _index(run: Evaluation, value: Any, wanted: Any, *bounds: int) -> int:
    _search(run, value, wanted)
    return int(value.index(wanted, *bounds))


def _count(run: Evaluation, value: Any, wanted: Any) -> int:
    _search(run, value, wanted)
    return int(value.count(wanted))


def _list_method(name: str) -> Method:
    """`keys`, `values`, `items`: as lists, so that they are data like any other."""

    def call(run: Evaluation, value: Mapping[Any, Any]) -> list[Any]:
        run.work(len(value) >> 2)
        run.grow((8 if name != "items" else 64) * len(value))
        return list(getattr(value, name)())

    return call


def _get(_run: Evaluation, value: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    refuse_missing(key)
    return default if isinstance(key, tuple) else value.get(key, default)


def _copy(run: Evaluation, value: Any) -> Any:
    run.grow(16 * len(value))
    return dict(value) if isinstance(value, Mapping) else list(value)


def _strftime(run: Evaluation, value: date, pattern: str) -> str:
    # The C library takes widths such as %999999999d.
    if _STRFTIME_WIDTH.search(pattern):
        raise TemplateError("widths and flags in a date format are not supported")
    run.grow(32 * len(pattern))
    return value.strftime(pattern)


_NONE: Final[dict[str, Method]] = {}
_MAP: Final[dict[str, Method]] = {
    **{name: _list_method(name) for name in ("keys", "values", "items")},
    "get": _get,
    "copy": _copy,
}
_DATE: Final[dict[str, Method]] = {
    "strftime": _strftime,
    **{name: _constant(date, name) for name in ("isoformat", "isoweekday", "weekday", "isocalendar", "replace")},
}
#: type -> name -> method; other modules add the types they bring
METHODS: Final[dict[type, dict[str, Method]]] = {
    str: {
        **{name: _linear(str, name) for name in _TEXT_LINEAR},
        **{name: _pad_method(name) for name in ("center", "ljust", "rjust", "zfill")},
        "expandtabs": _expandtabs,
        "replace": replace,
        "join": join,
        "translate": _translate,
        "format": braces,
        "format_map": _format_map,
    },
    bytes: {name: _linear(bytes, name) for name in ("decode", "hex")},
    dict: _MAP,
    list: {"index": _index, "count": _count, "copy": _copy},
    tuple: {"index": _index, "count": _count},
    int: {"bit_length": _constant(int, "bit_length")},
    float: {"is_integer": _constant(float, "is_integer")},
    date: _DATE,
    datetime: {
        **_DATE,
        **{name: _constant(datetime, name) for name in ("timestamp", "date", "time", "isoformat", "replace")},
    },
    time: {"isoformat": _constant(time, "isoformat"), "strftime": _strftime},
    timedelta: {"total_seconds": _constant(timedelta, "total_seconds")},
}


# What a template's own statements bring along: `loop`, and namespaces.


_NEVER: Final = object()


class Namespace(dict[str, Any]):
    """What `namespace()` makes: a map that `{% set ns.x = … %}` may write to."""

    __slots__ = ()


class LoopContext:
    """The `loop` of a `{% for %}`."""

    __slots__ = ("_changed", "_items", "_recurse", "depth0", "index0")

    def __init__(self, items: list[Any], depth0: int, recurse: Callable[[Evaluation, Any, int], str] | None) -> None:
        self._items = items
        self._recurse = recurse
        self._changed: Any = _NEVER
        self.depth0 = depth0
        self.index0 = 0

    @property
    def index(self) -> int:
        """From 1."""
        return self.index0 + 1

    @property
    def length(self) -> int:
        """How many there are."""
        return len(self._items)

    @property
    def revindex(self) -> int:
        """From the end, the last being 1."""
        return len(self._items) - self.index0

    @property
    def revindex0(self) -> int:
        """From the end, the last being 0."""
        return self.revindex - 1

    @property
    def first(self) -> bool:
        """Whether this is the first."""
        return self.index0 == 0

    @property
    def last(self) -> bool:
        """Whether this is the last."""
        return self.index0 == len(self._items) - 1

    @property
    def depth(self) -> int:
        """How deep in a recursive loop, from 1."""
        return self.depth0 + 1

    @property
    def previtem(self) -> Any:
        """The item before this one."""
        return NoValue("there is no previous item") if self.first else self._items[self.index0 - 1]

    @property
    def nextitem(self) -> Any:
        """The item after this one."""
        return NoValue("there is no next item") if self.last else self._items[self.index0 + 1]

    def cycle(self, _run: Evaluation, *values: Any) -> Any:
        """One of the values, in turn."""
        if not values:
            raise TypeError("no items for cycling given")
        return values[self.index0 % len(values)]

    def changed(self, run: Evaluation, *values: Any) -> bool:
        """Whether the values differ from those of the previous call."""
        weigh(run, values)
        if self._changed is not _NEVER and values == self._changed:
            return False
        self._changed = values
        return True

    def recurse(self, run: Evaluation, items: Any) -> str:
        """`loop(items)`: the body of a recursive loop, over other items."""
        if self._recurse is None:
            raise TemplateError("`loop(…)` needs `recursive` in its `{% for %}`")
        return self._recurse(run, items, self.depth0 + 1)


VISIBLE[LoopContext] = frozenset(
    """depth depth0 first index index0 last length nextitem previtem revindex revindex0""".split()  # noqa: SIM905  a list of words reads better so
)
METHODS[LoopContext] = {
    "cycle": lambda run, loop, *values: loop.cycle(run, *values),
    "changed": lambda run, loop, *values: loop.changed(run, *values),
}


#: about the length of a word of `lipsum` with its space
_WORD: Final = 16


class SandboxFunction:
    """A function of the sandbox: it takes the run first."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


class Cycler:
    """What `cycler(…)` makes: gives its values in turn, at each `.next()`."""

    __slots__ = ("_at", "_values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        if not values:
            raise TypeError("at least one item has to be provided")
        self._values = values
        self._at = 0

    @property
    def current(self) -> Any:
        """The value whose turn it is."""
        return self._values[self._at]

    def next(self) -> Any:
        """The current value; the turn passes on."""
        value = self.current
        self._at = (self._at + 1) % len(self._values)
        return value

    def reset(self) -> None:
        """Start again with the first value."""
        self._at = 0


def _range(_run: Evaluation, *bounds: int) -> range:
    return range(*bounds)


def _dict(run: Evaluation, *args: Any, **kwargs: Any) -> dict[Any, Any]:
    for argument in args:
        refuse_missing(argument)
        run.grow(64 * len(argument))
        if not isinstance(argument, Mapping):
            weigh(run, argument)  # its keys are hashed, which walks nested tuples
    return dict(*args, **kwargs)


def _namespace(run: Evaluation, *args: Any, **kwargs: Any) -> Namespace:
    return Namespace(_dict(run, *args, **kwargs))


def _cycler(_run: Evaluation, *values: Any) -> Cycler:
    return Cycler(values)


def _joiner(_run: Evaluation, separator: str = ", ") -> SandboxFunction:
    """Gives nothing at its first call and the separator ever after."""
    texts = itertools.chain([""], itertools.repeat(separator))
    return SandboxFunction(lambda _run: next(texts))


def _lipsum(run: Evaluation, n: int = 5, html: bool = True, min: int = 20, max: int = 100) -> str:  # noqa: A002, FBT001, FBT002  Jinja2's signature
    from jinja2.utils import generate_lorem_ipsum

    run.work(n * max)
    run.grow(n * max * _WORD)
    return str(generate_lorem_ipsum(n, html, min, max))


VISIBLE[Cycler] = frozenset({"current"})
METHODS[Cycler] = {"next": lambda _run, cycler: cycler.next(), "reset": lambda _run, cycler: cycler.reset()}
GLOBALS: Final[Mapping[str, SandboxFunction]] = {
    "range": SandboxFunction(_range),
    "dict": SandboxFunction(_dict),
    "lipsum": SandboxFunction(_lipsum),
    "cycler": SandboxFunction(_cycler),
    "joiner": SandboxFunction(_joiner),
    "namespace": SandboxFunction(_namespace),
}


def call(run: Evaluation, target: Any, described: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call what a template calls by name: a function of the sandbox, or one that the scopes provide."""
    run.work(1)
    if isinstance(target, SandboxFunction):
        return target.call(run, *args, **kwargs)
    if isinstance(target, LoopContext):
        return target.recurse(run, *args, **kwargs)
    if isinstance(target, Missing):
        refuse_missing(target)
    if not callable(target) or isinstance(target, type):
        raise TemplateError(f"{described} is not a function")
    for argument in (*args, *kwargs.values()):
        refuse_missing(argument)
    return target(*args, **kwargs)

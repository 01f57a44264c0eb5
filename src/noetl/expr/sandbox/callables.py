"""What a template may call besides methods: Jinja2's global functions, `loop`, and the rule for everything else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.member_access import VISIBLE
from noetl.expr.sandbox.evaluation import Evaluation, check_key, weigh
from noetl.expr.sandbox.methods import METHODS
from noetl.expr.sandbox.plain_data import to_bounded_list
from noetl.expr.sandbox.undefined import Missing, NoValue, refuse_missing

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
#: and what it takes to find one
_WORK_OF_A_WORD: Final = 80


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
    made: dict[Any, Any] = {}
    for argument in args:
        refuse_missing(argument)
        run.work(8 * len(argument))
        run.grow(64 * len(argument))
        if isinstance(argument, Mapping):
            made.update(argument)
            continue
        for key, value in to_bounded_list(run, argument):
            made[check_key(key)] = value
    if len(args) > 1:
        raise TypeError(f"dict() takes one map or list of pairs, not {len(args)}")
    return {**made, **kwargs}


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

    run.work(n * max * _WORK_OF_A_WORD)
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


#: what a helper such as `all_done` takes for each of the names in a list
_WORK_OF_A_NAME: Final = 40


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
        if not isinstance(argument, (str, int)):
            run.work(_WORK_OF_A_NAME * len(argument) if hasattr(argument, "__len__") else 1)
    return target(*args, **kwargs)

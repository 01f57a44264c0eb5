"""Jinja2's global functions, and the rule of what may be called at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.paths import VISIBLE
from noetl.expr.sandbox.loops import Loop, Namespace
from noetl.expr.sandbox.methods import METHODS
from noetl.expr.sandbox.run import Run, weigh
from noetl.expr.sandbox.undefined import Missing, refuse_missing

#: about the length of a word of `lipsum` with its space
_WORD: Final = 16


class Function:
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


def _range(_run: Run, *bounds: int) -> range:
    return range(*bounds)


def _dict(run: Run, *args: Any, **kwargs: Any) -> dict[Any, Any]:
    for argument in args:
        refuse_missing(argument)
        run.grow(64 * len(argument))
        if not isinstance(argument, Mapping):
            weigh(run, argument)  # its keys are hashed, which walks nested tuples
    return dict(*args, **kwargs)


def _namespace(run: Run, *args: Any, **kwargs: Any) -> Namespace:
    return Namespace(_dict(run, *args, **kwargs))


def _cycler(_run: Run, *values: Any) -> Cycler:
    return Cycler(values)


def _joiner(_run: Run, separator: str = ", ") -> Function:
    """Gives nothing at its first call and the separator ever after."""
    texts = itertools.chain([""], itertools.repeat(separator))
    return Function(lambda _run: next(texts))


def _lipsum(run: Run, n: int = 5, html: bool = True, min: int = 20, max: int = 100) -> str:  # noqa: A002, FBT001, FBT002  Jinja2's signature
    from jinja2.utils import generate_lorem_ipsum

    run.work(n * max)
    run.grow(n * max * _WORD)
    return str(generate_lorem_ipsum(n, html, min, max))


VISIBLE[Cycler] = frozenset({"current"})
METHODS[Cycler] = {"next": lambda _run, cycler: cycler.next(), "reset": lambda _run, cycler: cycler.reset()}
GLOBALS: Final[Mapping[str, Function]] = {
    "range": Function(_range),
    "dict": Function(_dict),
    "lipsum": Function(_lipsum),
    "cycler": Function(_cycler),
    "joiner": Function(_joiner),
    "namespace": Function(_namespace),
}


def call(run: Run, target: Any, described: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call what a template calls by name: a function of the sandbox, or one that the scopes provide."""
    run.work(1)
    if isinstance(target, Function):
        return target.call(run, *args, **kwargs)
    if isinstance(target, Loop):
        return target.recurse(run, *args, **kwargs)
    if isinstance(target, Missing):
        refuse_missing(target)
    if not callable(target) or isinstance(target, type):
        raise TemplateError(f"{described} is not a function")
    for argument in (*args, *kwargs.values()):
        refuse_missing(argument)
    return target(*args, **kwargs)

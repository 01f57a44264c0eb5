"""What a template's own statements bring along: `loop`, and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.paths import VISIBLE
from noetl.expr.sandbox.methods import METHODS
from noetl.expr.sandbox.run import Run, weigh
from noetl.expr.sandbox.undefined import NoValue

_NEVER: Final = object()


class Namespace(dict[str, Any]):
    """What `namespace()` makes: a map that `{% set ns.x = … %}` may write to."""

    __slots__ = ()


class Loop:
    """The `loop` of a `{% for %}`."""

    __slots__ = ("_changed", "_items", "_recurse", "depth0", "index0")

    def __init__(self, items: list[Any], depth0: int, recurse: Callable[[Run, Any, int], str] | None) -> None:
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

    def cycle(self, _run: Run, *values: Any) -> Any:
        """One of the values, in turn."""
        if not values:
            raise TypeError("no items for cycling given")
        return values[self.index0 % len(values)]

    def changed(self, run: Run, *values: Any) -> bool:
        """Whether the values differ from those of the previous call."""
        weigh(run, values)
        if self._changed is not _NEVER and values == self._changed:
            return False
        self._changed = values
        return True

    def recurse(self, run: Run, items: Any) -> str:
        """`loop(items)`: the body of a recursive loop, over other items."""
        if self._recurse is None:
            raise TemplateError("`loop(…)` needs `recursive` in its `{% for %}`")
        return self._recurse(run, items, self.depth0 + 1)


VISIBLE[Loop] = frozenset(
    """depth depth0 first index index0 last length nextitem previtem revindex revindex0""".split()  # noqa: SIM905  a list of words reads better so
)
METHODS[Loop] = {
    "cycle": lambda run, loop, *values: loop.cycle(run, *values),
    "changed": lambda run, loop, *values: loop.changed(run, *values),
}

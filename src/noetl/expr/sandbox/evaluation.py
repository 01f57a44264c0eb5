"""One evaluation in progress: the names it sees and what is left of its budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isinf
from typing import Any, Final

import msgspec

from noetl.errors import TemplateLimit
from noetl.expr.sandbox.undefined import ELSEWHERE

# How far one evaluation may go.


class Budget(msgspec.Struct, frozen=True):
    """The limits of one evaluation. Beyond them it ends with `TemplateLimit`."""

    #: units of work, a visited value being one; the default is spent in about half a second
    steps: int = 4_000_000
    #: characters and bytes of text, lists and maps made on the way, all together
    size: int = 8_000_000


DEFAULT_BUDGET: Final = Budget()


#: integers of more bits cannot be written as decimal text by Python, so no value may hold one
MOST_BITS: Final = 14_000
NUMBER: Final = (
    f"a number grew too large: it has more than {int(MOST_BITS * 0.30103):,} digits or is beyond what JSON can say"
)
#: what one more place in a list is charged
ITEM: Final = 4
_ATOMS: Final = frozenset({int, float, bool, type(None)})


class Evaluation:
    """Created per evaluation, so it is kept light: plain slots and no checks that a healthy template would pay for."""

    __slots__ = ("environment", "eval_ctx", "local", "most", "scopes", "size", "steps", "tolerant")

    def __init__(self, scopes: Mapping[str, Any], budget: Budget, *, tolerant: bool) -> None:
        self.scopes = scopes
        self.steps = budget.steps
        self.size = self.most = budget.size
        #: in a guard, comparisons with an undefined are false instead of an error
        self.tolerant = tolerant
        #: names bound by `for`, `set` and `with`
        self.local: dict[str, Any] = {}
        #: what Jinja2's own filters ask their context for; set when one is called
        self.environment: Any = None
        self.eval_ctx: Any = None

    def work(self, steps: int) -> None:
        """Pay for work."""
        self.steps -= steps
        if self.steps < 0:
            raise TemplateLimit(f"it ran too long: a template may take about half a second; {ELSEWHERE}")

    def grow(self, size: int) -> None:
        """Pay for something about to be made."""
        self.size -= size
        if self.size < 0:
            raise TemplateLimit(f"it grew too large: a template may make {self.most:,} characters in all; {ELSEWHERE}")


#: a compiled expression
Code = Callable[[Evaluation], Any]


def weigh(run: Evaluation, value: Any) -> int:
    """Pay for a walk over a value, and answer about how much text it makes.

    A value that contains itself, or one part many times over, is counted as often as it would be written.
    """
    weight = 0
    pending: list[Any] = [(value,)]
    while pending:
        children = pending.pop()
        for child in children:
            kind = child.__class__
            if kind is str:
                weight += len(child) + 4
            elif kind in _ATOMS:
                weight += 20
            elif kind is list or kind is tuple:
                run.work(8 + len(child))
                weight += 4 + 2 * len(child)
                pending.append(child)
            else:
                weight += _weigh_other(run, child, pending)
    return weight


def _weigh_other(run: Evaluation, value: Any, pending: list[Any]) -> int:
    """The weight of one value itself; its parts are added to those pending."""
    if isinstance(value, (str, bytes)):
        return len(value) + 4
    if isinstance(value, range):
        run.work(len(value))
        return 12 * len(value)
    if not isinstance(value, (dict, list, tuple, set, frozenset, Mapping)):
        return 20
    run.work(16 + len(value))
    weight = 4 + 2 * len(value)
    if isinstance(value, Mapping):
        for key in value:
            weight += len(key) + 4 if key.__class__ is str else 20
        pending.append(value.values())
    else:
        pending.append(value)
    return weight


def check_float(value: float) -> float:
    """A number that JSON can say: neither infinite nor NaN."""
    if not isfinite(value):
        raise TemplateLimit(NUMBER if isinf(value) else "it is not a number (NaN)")
    return value


def check_int(value: int) -> int:
    """An integer that is not too large to be written down."""
    if value.bit_length() > MOST_BITS:
        raise TemplateLimit(NUMBER)
    return value


def check_number(value: Any) -> Any:
    """A result of arithmetic, which may have grown too large."""
    if value.__class__ is float:
        return check_float(value)
    return check_int(value) if value.__class__ is int else value

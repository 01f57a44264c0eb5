"""One evaluation in progress: the names it sees and what is left of its budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from math import isfinite, isinf
from typing import Any, Final

import msgspec

from noetl.errors import TemplateLimit
from noetl.expr.sandbox.undefined import ELSEWHERE, Missing, describe_value, not_data_error, refuse_missing

# How far one evaluation may go.


class Budget(msgspec.Struct, frozen=True):
    """The limits of one evaluation. Beyond them it ends with `TemplateLimit`."""

    #: units of work of 25 ns each, so that the default is spent in about a tenth of a second
    steps: int = 4_000_000
    #: characters and bytes of text, lists and maps made on the way, all together; one stands for up to 8 bytes of memory
    size: int = 8_000_000


DEFAULT_BUDGET: Final = Budget()


#: integers of more bits cannot be written as decimal text by Python, so no value may hold one
MOST_BITS: Final = 14_000
NUMBER: Final = (
    f"a number grew too large: it has more than {int(MOST_BITS * 0.30103):,} digits or is beyond what JSON can say"
)
#: what one more place in a list is charged
ITEM: Final = 4
#: what one more list, map or text object is charged
OBJECT: Final = 16
_CONSTANTS: Final = frozenset({bool, type(None)})
#: an integer between these takes no more time than any other
_LEAST, _MOST = -(1 << 60), 1 << 60
#: of a text that is shorter nobody asks what its characters are
_SHORT: Final = 256
#: what else data consists of
_OTHER_ATOMS: Final = (int, float, date, time, timedelta, Missing)


class Evaluation:
    """Created per evaluation, so it is kept light: plain slots and no checks that a healthy template would pay for."""

    __slots__ = ("local", "most", "scopes", "size", "steps", "tolerant")

    def __init__(self, scopes: Mapping[str, Any], budget: Budget, *, tolerant: bool) -> None:
        self.scopes = scopes
        self.steps = budget.steps
        self.size = self.most = budget.size
        #: in a guard, comparisons with an undefined are false instead of an error
        self.tolerant = tolerant
        #: names bound by `for`, `set` and `with`
        self.local: dict[str, Any] = {}

    def work(self, steps: int) -> None:
        """Pay for work; less than nothing is nothing, and so is what is no number."""
        if steps > 0:
            self.steps -= steps
        if self.steps < 0:
            raise TemplateLimit(f"it ran too long: a template may take about a tenth of a second; {ELSEWHERE}")

    def grow(self, size: int) -> None:
        """Pay for something about to be made; less than nothing is nothing, and so is what is no number."""
        if size > 0:
            self.size -= size
        if self.size < 0:
            raise TemplateLimit(f"it grew too large: a template may make {self.most:,} characters in all; {ELSEWHERE}")


#: a compiled expression
Code = Callable[[Evaluation], Any]


def weigh(run: Evaluation, value: Any) -> int:
    """Pay for a walk over a value and all its text, and answer about how much text it makes.

    A value that contains itself, or one part many times over, is counted as often as it would be written. What is not
    data, a function for instance, is refused: Python would write its address.
    """
    weight = floats = 0
    pending: list[Any] = [(value,)]
    while pending:
        children = pending.pop()
        for child in children:
            kind = child.__class__
            if kind is str:
                # Escapes make up to twelve bytes of a character that is not ASCII.
                length = len(child)
                weight += 4 + (length if length < _SHORT or child.isascii() else 2 * length)
            elif kind is int:
                weight += 20 if _LEAST < child < _MOST else _weigh_large(run, child)
            elif kind is float:
                weight += 24
                floats += 1
            elif kind in _CONSTANTS:
                weight += 8
            elif kind is list or kind is tuple:
                run.work(8 + 2 * len(child))
                weight += 4 + 2 * len(child)
                pending.append(child)
            else:
                weight += _weigh_other(run, child, pending)
    run.work((weight >> 8) + 12 * floats)
    return weight


def _weigh_large(run: Evaluation, value: int) -> int:
    """Of a large integer, whose decimal text takes time that grows with the square of its length."""
    bits = value.bit_length()
    run.work(1 + (bits * bits >> 15))
    return bits


def _weigh_other(run: Evaluation, value: Any, pending: list[Any]) -> int:
    """The weight of one value itself; its parts are added to those pending."""
    if isinstance(value, (dict, list, tuple, set, frozenset, Mapping)):
        run.work(16 + 3 * len(value))
        weight = 4 + 2 * len(value)
        if isinstance(value, Mapping):
            for key in value:
                weight += len(key) + 4 if key.__class__ is str else 20
            pending.append(value.values())
        else:
            pending.append(value)
        return weight
    if isinstance(value, (str, bytes)):
        return len(value) + 4
    if isinstance(value, range):
        run.work(4 * len(value))
        return 12 * len(value)
    if not isinstance(value, _OTHER_ATOMS):
        raise not_data_error(value, run.scopes)
    return 40


def pay_for_text(run: Evaluation, value: Any) -> None:
    """Pay for writing a value as text."""
    if value.__class__ is str:
        run.work(len(value) >> 6)
        run.grow(len(value))
    else:
        weight = weigh(run, value)
        run.work(weight >> 3)
        run.grow(weight)


def stringify(run: Evaluation, value: Any) -> str:
    """What Jinja2 makes of a value inside text: `str(value)`, of data only."""
    if isinstance(value, str):
        return str(value)
    refuse_missing(value)
    pay_for_text(run, value)
    return str(value)


def pay_to_sort(run: Evaluation, values: Sequence[Any]) -> None:
    """Pay for comparing values with each other until they are in order."""
    weight = weigh(run, values)
    # Of lists Python compares item by item, of texts the bytes.
    nested = any(isinstance(value, (list, tuple, Mapping)) for value in values)
    run.work(len(values).bit_length() * ((len(values) >> 1) + (weight >> (4 if nested else 7))))


def check_key(key: Any) -> Any:
    """A key of a map: of those that a template may make, nobody can find many that Python takes for alike."""
    if key.__class__ is str or key.__class__ in _CONSTANTS or isinstance(key, (str, float)):
        return key
    if isinstance(key, int) and _LEAST < key < _MOST:
        return key
    refuse_missing(key)
    raise TypeError(f"{describe_value(key)} cannot be a map's key")


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

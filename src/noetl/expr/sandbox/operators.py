"""Arithmetic and comparison, with what each could cost paid for first."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from noetl.errors import TemplateError, TemplateLimit, UndefinedValue
from noetl.expr.sandbox.evaluation import ITEM, MOST_BITS, NUMBER, Evaluation, check_number, weigh
from noetl.expr.sandbox.formatting import percent
from noetl.expr.sandbox.undefined import Missing, explain_misuse, refuse_missing

_CONTAINERS: Final = (list, tuple, Mapping)


def add(run: Evaluation, left: Any, right: Any) -> Any:
    """`left + right`."""
    if isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
        run.grow(len(left) + len(right))
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        run.work((len(left) + len(right)) >> 4)
        run.grow(ITEM * (len(left) + len(right)))
    return check_number(left + right)


def multiply(run: Evaluation, left: Any, right: Any) -> Any:
    """`left * right`."""
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > MOST_BITS:
            raise TemplateLimit(NUMBER)
        return left * right
    for sequence, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(sequence, (str, bytes, list, tuple)):
            run.grow(len(sequence) * max(0, times) * (1 if isinstance(sequence, (str, bytes)) else ITEM))
    return check_number(left * right)


def power(_run: Evaluation, left: Any, right: Any) -> Any:
    """`left ** right`."""
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MOST_BITS and abs(left) > 1:
        raise TemplateLimit(NUMBER)
    try:
        return check_number(left**right)
    except OverflowError:
        raise TemplateLimit(NUMBER) from None


def modulo(run: Evaluation, left: Any, right: Any) -> Any:
    """`left % right`; formatting, when left is text."""
    if isinstance(left, str):
        return percent(run, left, right)
    return check_number(left % right)


def _plain_operator(function: Callable[[Any, Any], Any]) -> Callable[[Evaluation, Any, Any], Any]:
    def apply(_run: Evaluation, left: Any, right: Any) -> Any:
        return check_number(function(left, right))

    return apply


#: operator -> function; called with operands that may be undefined, which then fails by itself
BINARY: Final[dict[str, Callable[[Evaluation, Any, Any], Any]]] = {
    "+": add,
    "-": _plain_operator(operator.sub),
    "*": multiply,
    "/": _plain_operator(operator.truediv),
    "//": _plain_operator(operator.floordiv),
    "%": modulo,
    "**": power,
}
#: sign -> function
ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(run: Evaluation, sign: str, left: Any, right: Any, *, wanted: bool = True) -> bool:
    """Whether `left sign right` is as wanted; with an undefined the answer is no in a guard, elsewhere an error."""
    if isinstance(left, Missing):
        return compare_undefined(run, left)
    if isinstance(right, Missing):
        return compare_undefined(run, right)
    try:
        return _holds(run, sign, left, right) is wanted
    except UndefinedValue:
        # One lies inside: `[ctx.missing] != [1]`, `1 not in [ctx.missing]`.
        if run.tolerant:
            return False
        raise


def compare_undefined(run: Evaluation, value: Missing) -> bool:
    """The outcome of a comparison with an undefined, whichever way it is written."""
    if not run.tolerant:
        refuse_missing(value)
    return False


def _holds(run: Evaluation, sign: str, left: Any, right: Any) -> bool:
    if sign == "in":
        return contains(run, right, left)
    if sign == "not in":
        return not contains(run, right, left)
    if isinstance(left, _CONTAINERS) and isinstance(right, _CONTAINERS):
        weigh(run, left)
        weigh(run, right)
    try:
        return bool(ORDER[sign](left, right))
    except TypeError:
        raise TemplateError(explain_misuse(sign, left, right)) from None


def contains(run: Evaluation, container: Any, value: Any) -> bool:
    """`value in container`."""
    if isinstance(container, str):
        run.work(len(container) >> 8)
    elif isinstance(container, (list, tuple)):
        if isinstance(value, _CONTAINERS):
            weigh(run, value)
            weigh(run, container)
        run.work(len(container) >> 1)
    elif isinstance(container, Mapping):
        if isinstance(value, tuple):
            return False  # never a key of data, and hashing nested ones can take for ever
    elif isinstance(container, range):
        # Python would try every number for anything that is no integer.
        return isinstance(value, (int, float)) and value == (number := int(value)) and number in container
    else:
        raise TypeError(f"`in` needs a list, a map or text on its right, not {type(container).__name__}")
    return value in container

"""Arithmetic and comparison, with what each could cost paid for first."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from noetl.errors import TemplateError, TemplateLimit, UndefinedValue
from noetl.expr.sandbox.evaluation import ITEM, MOST_BITS, NUMBER, Evaluation, check_number, stringify, weigh
from noetl.expr.sandbox.formatting import percent
from noetl.expr.sandbox.undefined import Missing, explain_misuse, refuse_missing
from noetl.expr.scopes import FILTERS as FILTER_NAMES, TESTS as TEST_NAMES

_CONTAINERS: Final = (list, tuple, Mapping)
#: a text of fewer characters is compared, searched and hashed in no time
_LONG: Final = 256


def _pay_for_numbers(run: Evaluation, left: Any, right: Any) -> None:
    """Long multiplication and division take the product of the lengths."""
    if isinstance(left, int) and isinstance(right, int):
        run.work(left.bit_length() * right.bit_length() >> 15)


def add(run: Evaluation, left: Any, right: Any) -> Any:
    """`left + right`."""
    if isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
        run.grow(len(left) + len(right))
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        run.work((len(left) + len(right)) >> 3)
        run.grow(ITEM * (len(left) + len(right)))
    return check_number(left + right)


def multiply(run: Evaluation, left: Any, right: Any) -> Any:
    """`left * right`."""
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > MOST_BITS:
            raise TemplateLimit(NUMBER)
        _pay_for_numbers(run, left, right)
        return left * right
    for sequence, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(sequence, (str, bytes)):
            run.grow(len(sequence) * max(0, times))
        elif isinstance(times, int) and isinstance(sequence, (list, tuple)):
            run.work(len(sequence) * max(0, times) >> 3)
            run.grow(ITEM * len(sequence) * max(0, times))
    return check_number(left * right)


def power(run: Evaluation, left: Any, right: Any) -> Any:
    """`left ** right`."""
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1:
        bits = left.bit_length() * right
        if bits > MOST_BITS:
            raise TemplateLimit(NUMBER)
        run.work(bits * bits >> 17)
    try:
        return check_number(left**right)
    except OverflowError:
        raise TemplateLimit(NUMBER) from None


def modulo(run: Evaluation, left: Any, right: Any) -> Any:
    """`left % right`; formatting, when left is text."""
    if isinstance(left, str):
        return percent(run, left, right)
    _pay_for_numbers(run, left, right)
    return check_number(left % right)


def _plain_operator(function: Callable[[Any, Any], Any]) -> Callable[[Evaluation, Any, Any], Any]:
    def apply(run: Evaluation, left: Any, right: Any) -> Any:
        _pay_for_numbers(run, left, right)
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
    pay_to_compare(run, left, right)
    try:
        return bool(ORDER[sign](left, right))
    except TypeError:
        raise TemplateError(explain_misuse(sign, left, right)) from None


def pay_to_compare(run: Evaluation, left: Any, right: Any) -> None:
    """Pay for comparing two values: as far as both go, in the worst case."""
    if isinstance(left, str) and isinstance(right, str):
        run.work(min(len(left), len(right)) >> 8)
    elif isinstance(left, _CONTAINERS) and isinstance(right, _CONTAINERS):
        weigh(run, left)
        weigh(run, right)


def pay_to_search(run: Evaluation, items: Any, wanted: Any) -> None:
    """Pay for comparing something with every item of a list."""
    run.work(len(items) >> 1)
    if isinstance(wanted, _CONTAINERS):
        run.work(len(items) * (weigh(run, wanted) >> 8))
        weigh(run, items)
    elif isinstance(wanted, str) and len(wanted) >= _LONG:
        # Texts of another length differ at once.
        run.work(2 * len(items))
        alike = sum(1 for item in items if item.__class__ is str and len(item) == len(wanted))
        run.work(alike * len(wanted) >> 8)
    elif isinstance(wanted, int) and wanted.bit_length() >= _LONG:
        run.work(len(items) * wanted.bit_length() >> 10)


def pay_to_find(run: Evaluation, text: Any, wanted: Any) -> None:
    """Pay for looking for a text in another, from the left: Python does so in time that grows with both."""
    most, least = len(text), len(wanted)
    run.work(1 + (most >> 4) + least + (min(most, 30_000) * min(least, 100) >> 6))


def contains(run: Evaluation, container: Any, value: Any) -> bool:
    """`value in container`."""
    if isinstance(container, str):
        if isinstance(value, str):
            pay_to_find(run, container, value)
    elif isinstance(container, (list, tuple)):
        pay_to_search(run, container, value)
    elif isinstance(container, Mapping):
        if isinstance(value, tuple):
            return False  # never a key of data, and hashing nested ones can take for ever
        if isinstance(value, str):
            run.work(len(value) >> 5)
    elif isinstance(container, range):
        # Python would try every number for anything that is no integer.
        return isinstance(value, (int, float)) and value == (number := int(value)) and number in container
    else:
        raise TypeError(f"`in` needs a list, a map or text on its right, not {type(container).__name__}")
    return value in container


# The tests: what may follow `is`.


TestFunction = Callable[..., bool]


def _type_test(question: Callable[..., bool]) -> TestFunction:
    """A question about the kind of a value; of an undefined the answer is no."""

    def call(_run: Evaluation, value: Any, *args: Any) -> bool:
        return not isinstance(value, Missing) and question(value, *args)

    return call


def _number_test(question: Callable[..., bool]) -> TestFunction:
    def call(run: Evaluation, value: Any, *args: Any) -> bool:
        refuse_missing(value)
        for argument in args:
            refuse_missing(argument)
            _pay_for_numbers(run, value, argument)
        if not _number(value):
            raise TypeError(f"this test needs a number, not {type(value).__name__}")
        return bool(question(value, *args))

    return call


def _text_test(question: Callable[[str], bool]) -> TestFunction:
    def call(run: Evaluation, value: Any) -> bool:
        text = stringify(run, value)
        run.work(len(text) >> 4)
        return question(text)

    return call


def _comparison_test(sign: str, *, wanted: bool = True) -> TestFunction:
    def call(run: Evaluation, value: Any, other: Any) -> bool:
        return compare(run, sign, value, other, wanted=wanted)

    return call


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) < _LONG


_SIGNS: Final = {
    "eq": "==",
    "equalto": "==",
    "ne": "!=",
    "gt": ">",
    "greaterthan": ">",
    "ge": ">=",
    "lt": "<",
    "lessthan": "<",
    "le": "<=",
    **{sign: sign for sign in ("==", "!=", ">", ">=", "<", "<=", "in")},
}
TESTS: Final[Mapping[str, TestFunction]] = {
    "defined": lambda _run, value: not isinstance(value, Missing),
    "undefined": lambda _run, value: isinstance(value, Missing),
    "none": _type_test(lambda value: value is None),
    "boolean": _type_test(lambda value: value is True or value is False),
    "true": _type_test(lambda value: value is True),
    "false": _type_test(lambda value: value is False),
    "integer": _type_test(lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": _type_test(lambda value: isinstance(value, float)),
    "number": _type_test(_number),
    "string": _type_test(lambda value: isinstance(value, str)),
    "mapping": _type_test(lambda value: isinstance(value, Mapping)),
    "sequence": _type_test(lambda value: isinstance(value, (str, list, tuple, Mapping, range))),
    "iterable": _type_test(lambda value: isinstance(value, Iterable)),
    "callable": _type_test(callable),
    "escaped": _type_test(lambda value: hasattr(value, "__html__")),
    "sameas": _type_test(lambda value, other: value is other),
    "filter": _type_test(lambda value: _is_word(value) and value in FILTER_NAMES),
    "test": _type_test(lambda value: _is_word(value) and value in TEST_NAMES),
    "odd": _number_test(lambda value: value % 2 == 1),
    "even": _number_test(lambda value: value % 2 == 0),
    "divisibleby": _number_test(lambda value, number: value % number == 0),
    "lower": _text_test(str.islower),
    "upper": _text_test(str.isupper),
    **{name: _comparison_test(sign) for name, sign in _SIGNS.items()},
}
_NEGATED: Final = {name: _comparison_test(sign, wanted=False) for name, sign in _SIGNS.items()}


def negate_test(name: str, test: TestFunction) -> TestFunction:
    """`is not name`: a comparison stays one, so that an undefined is forgiven in it either way."""
    return _NEGATED.get(name) or (lambda *args, **kwargs: not test(*args, **kwargs))

"""Arithmetic and comparison, with what each could cost paid for first."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time
from string import Formatter
from typing import Any, Final

from noetl.errors import TemplateError, TemplateLimit, UndefinedValue
from noetl.expr.member_access import ABSENT, item, member
from noetl.expr.sandbox.evaluation import ITEM, MOST_BITS, NUMBER, Evaluation, check_number, weigh
from noetl.expr.sandbox.undefined import Missing, explain_misuse, refuse_missing
from noetl.expr.scopes import FILTERS as FILTER_NAMES, TESTS as TEST_NAMES

# `'%s' % x` and `'{}'.format(x)`, where a few characters could ask for gigabytes or for Python's internals.


_SPECIFIER: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?.", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")
#: wider fields are no formatting any more
_MOST_WIDTH: Final = 10_000
_FORMATTABLE: Final = (str, int, float, bool, type(None), date, time)


def percent(run: Evaluation, pattern: str, values: Any) -> str:
    """`pattern % values`."""
    refuse_missing(values)
    specifiers = 0
    for match in _SPECIFIER.finditer(pattern):
        specifiers += 1
        for width in match.groups():
            if width == "*":
                raise TemplateError("a `*` in a `%` format is not supported")
            _check_width(width)
    run.work(specifiers)
    run.grow(len(pattern) + specifiers * (weigh(run, values) + 400) + _widths(pattern))
    text: str = str(pattern) % values
    return text


def _widths(text: str) -> int:
    return sum(int(number) for number in _NUMBER.findall(text) if len(number) < 9)


def _check_width(width: str | None) -> None:
    if width and (len(width) > 9 or int(width) > _MOST_WIDTH):
        raise TemplateLimit("a formatted field grew too large")


class _BoundFormatter(Formatter):
    """Fields reach data the way templates do, and are formatted only if they are plain values."""

    def __init__(self, run: Evaluation) -> None:
        self._run = run

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        """The value of `a.b[0]` in `{a.b[0]}`."""
        parts = re.findall(r"^[^.\[]*|\.[^.\[]+|\[[^\]]+\]", field_name)
        if "".join(parts) != field_name:
            raise TemplateError(f"`{{{field_name}}}` is not a format field")
        root = parts[0]
        value = self.get_value(int(root) if root.isdigit() else root, args, kwargs)
        for part in parts[1:]:
            if part[0] == ".":
                value = member(value, part[1:])
            else:
                key = part[1:-1]
                value = item(value, int(key) if key.isdigit() else key)
            if value is ABSENT:
                raise TemplateError(f"`{{{field_name}}}` names something that is missing")
        return value, root

    def format_field(self, value: Any, format_spec: str) -> str:
        """The text of one field."""
        refuse_missing(value)
        for number in _NUMBER.findall(format_spec):
            _check_width(number)
        if not isinstance(value, _FORMATTABLE):
            weigh(self._run, value)
            value = str(value)
        text = format(value, format_spec)
        self._run.grow(len(text))
        return text

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """`!r` and `!s`."""
        refuse_missing(value)
        self._run.grow(weigh(self._run, value))
        return super().convert_field(value, conversion)


def braces(run: Evaluation, pattern: str, *args: Any, **kwargs: Any) -> str:
    """`pattern.format(*args, **kwargs)`."""
    run.work(pattern.count("{"))
    run.grow(len(pattern))
    return _BoundFormatter(run).vformat(str(pattern), args, kwargs)


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


# The tests: what may follow `is`.


TestFunction = Callable[..., bool]


def _type_test(question: Callable[..., bool]) -> TestFunction:
    """A question about the kind of a value; of an undefined the answer is no."""

    def call(_run: Evaluation, value: Any, *args: Any) -> bool:
        return not isinstance(value, Missing) and question(value, *args)

    return call


def _number_test(question: Callable[..., bool]) -> TestFunction:
    def call(_run: Evaluation, value: Any, *args: Any) -> bool:
        refuse_missing(value)
        if not _number(value):
            raise TypeError(f"this test needs a number, not {type(value).__name__}")
        return bool(question(value, *args))

    return call


def _text_test(question: Callable[[str], bool]) -> TestFunction:
    def call(run: Evaluation, value: Any) -> bool:
        refuse_missing(value)
        run.grow(weigh(run, value))
        return question(str(value))

    return call


def _comparison_test(sign: str, *, wanted: bool = True) -> TestFunction:
    def call(run: Evaluation, value: Any, other: Any) -> bool:
        return compare(run, sign, value, other, wanted=wanted)

    return call


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


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
    "filter": _type_test(lambda value: isinstance(value, str) and value in FILTER_NAMES),
    "test": _type_test(lambda value: isinstance(value, str) and value in TEST_NAMES),
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

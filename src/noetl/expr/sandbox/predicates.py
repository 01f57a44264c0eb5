"""The tests: what may follow `is`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from noetl.expr.sandbox.evaluation import Evaluation, weigh
from noetl.expr.sandbox.operators import compare
from noetl.expr.sandbox.undefined import Missing, refuse_missing
from noetl.expr.vocabulary import FILTERS as FILTER_NAMES, TESTS as TEST_NAMES

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

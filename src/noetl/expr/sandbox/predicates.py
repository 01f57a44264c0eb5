"""The tests: what may follow `is`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from noetl.expr.sandbox.operators import compare
from noetl.expr.sandbox.run import Run, weigh
from noetl.expr.sandbox.undefined import Missing, refuse_missing
from noetl.expr.vocabulary import FILTERS as FILTER_NAMES
from noetl.expr.vocabulary import TESTS as TEST_NAMES

TestFunction = Callable[..., bool]


def _asks(question: Callable[..., bool]) -> TestFunction:
    """A question about the kind of a value; of an undefined the answer is no."""

    def call(_run: Run, value: Any, *args: Any) -> bool:
        return not isinstance(value, Missing) and question(value, *args)

    return call


def _of_number(question: Callable[..., bool]) -> TestFunction:
    def call(_run: Run, value: Any, *args: Any) -> bool:
        refuse_missing(value)
        if not _number(value):
            raise TypeError(f"this test needs a number, not {type(value).__name__}")
        return bool(question(value, *args))

    return call


def _of_text(question: Callable[[str], bool]) -> TestFunction:
    def call(run: Run, value: Any) -> bool:
        refuse_missing(value)
        run.grow(weigh(run, value))
        return question(str(value))

    return call


def _compares(sign: str, *, wanted: bool = True) -> TestFunction:
    def call(run: Run, value: Any, other: Any) -> bool:
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
    "none": _asks(lambda value: value is None),
    "boolean": _asks(lambda value: value is True or value is False),
    "true": _asks(lambda value: value is True),
    "false": _asks(lambda value: value is False),
    "integer": _asks(lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": _asks(lambda value: isinstance(value, float)),
    "number": _asks(_number),
    "string": _asks(lambda value: isinstance(value, str)),
    "mapping": _asks(lambda value: isinstance(value, Mapping)),
    "sequence": _asks(lambda value: isinstance(value, (str, list, tuple, Mapping, range))),
    "iterable": _asks(lambda value: isinstance(value, Iterable)),
    "callable": _asks(callable),
    "escaped": _asks(lambda value: hasattr(value, "__html__")),
    "sameas": _asks(lambda value, other: value is other),
    "filter": _asks(lambda value: isinstance(value, str) and value in FILTER_NAMES),
    "test": _asks(lambda value: isinstance(value, str) and value in TEST_NAMES),
    "odd": _of_number(lambda value: value % 2 == 1),
    "even": _of_number(lambda value: value % 2 == 0),
    "divisibleby": _of_number(lambda value, number: value % number == 0),
    "lower": _of_text(str.islower),
    "upper": _of_text(str.isupper),
    **{name: _compares(sign) for name, sign in _SIGNS.items()},
}
_NEGATED: Final = {name: _compares(sign, wanted=False) for name, sign in _SIGNS.items()}


def negated(name: str, test: TestFunction) -> TestFunction:
    """`is not name`: a comparison stays one, so that an undefined is forgiven in it either way."""
    return _NEGATED.get(name) or (lambda *args, **kwargs: not test(*args, **kwargs))

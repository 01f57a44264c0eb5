"""The value an expression yields, as plain data: maps, lists, text, numbers, booleans, null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.refs import Ref
from noetl.expr.sandbox.run import ITEM, Run, checked_float, checked_int
from noetl.expr.sandbox.text import unfit
from noetl.expr.sandbox.undefined import Missing

#: passed on without a look
_AS_IT_IS: Final = frozenset({str, bool, type(None)})
#: whole numbers between these are small enough, which is told without a call
_LEAST, _MOST = -(1 << 64), 1 << 64


def plain(run: Run, value: Any) -> Any:
    """The same value if it is plain data throughout, else a copy that is; paid for by its size."""
    kind = value.__class__
    if kind is float:
        return checked_float(value)
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        return _plain_dict(run, value)
    if kind is list:
        return _plain_list(run, value)
    if kind is int:
        return checked_int(value)
    return _other(run, value)


def _plain_list(run: Run, value: list[Any]) -> list[Any]:
    run.work(8 + len(value))
    for index, part in enumerate(value):
        if (kind := part.__class__) not in _AS_IT_IS:
            new = _plain_dict(run, part) if kind is dict else plain(run, part)
            if new is not part:
                run.grow(ITEM * len(value))
                return value[:index] + [new] + [plain(run, rest) for rest in value[index + 1 :]]
    return value


def _plain_dict(run: Run, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    run.work(8 + len(value))
    changed: dict[Any, Any] = {}
    for key, part in value.items():
        # Rows have many numbers, and a call for each would be most of the time that is spent here; only a finite one
        # less itself is nothing.
        if (kind := part.__class__) not in _AS_IT_IS and not (
            _LEAST < part < _MOST if kind is int else kind is float and part - part == 0
        ):
            new = plain(run, part)
            if new is not part:
                changed[key] = new
        if key.__class__ is not str:
            return {_key(key): plain(run, part) for key, part in value.items()}
    if not changed:
        return value
    run.grow(16 * len(value))
    return {key: changed.get(key, part) for key, part in value.items()}


def _key(key: Any) -> str:
    """A key as JSON writes it."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "null"
    if isinstance(key, (int, float)):
        return str(key)
    error = TemplateError(f"a map's key is a {type(key).__name__}, not text")
    error.kind = "type"
    raise error


def _other(run: Run, value: Any) -> Any:
    """Values of other types; most have a plain form."""
    if isinstance(value, Missing):
        raise UndefinedValue(value.reason())
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Ref):
        return value
    if isinstance(value, Mapping):
        run.grow(16 * len(value))
        return _plain_dict(run, dict(value))
    if isinstance(value, (list, tuple, range, Iterator)):
        run.work(16)
        run.grow(64)
        return _plain_list(run, bounded_list(run, value))
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bool, int, float)):
        return value
    raise unfit(value, run)


def bounded_list(run: Run, value: Any) -> list[Any]:
    """Any sequence or iterator as a list, as long as the budget lasts."""
    if isinstance(value, (list, tuple, range, str, Mapping)):
        run.work(len(value) >> 2)
        # The numbers of a range do not exist before they are asked for.
        run.grow(32 * len(value) if isinstance(value, range) else ITEM * len(value))
        return list(value)
    items: list[Any] = []
    for part in value:
        run.work(1)
        run.grow(ITEM)
        items.append(part)
    return items

"""The value an expression yields, as plain data: maps, lists, text, numbers, booleans, null."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.member_access import Ref
from noetl.expr.sandbox.evaluation import ITEM, OBJECT, Evaluation, check_float, check_int, pay_for_text
from noetl.expr.sandbox.undefined import Missing, not_data_error, refuse_missing

# Values as text: what `{{ … }}` inside other text and `~` make of them, and JSON.


#: as Jinja2's `tojson` writes them, so that the text is safe inside HTML as well
_HTML_SAFE: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})
#: deeper indentation than this is a way to make much out of little
_MOST_INDENT: Final = 16


def to_text(run: Evaluation, value: Any) -> str:
    """A value inside text: JSON for maps and lists, `true`/`false`, nothing for null."""
    kind = value.__class__
    if kind is str:
        text: str = value
    elif value is None:
        return ""
    elif kind is bool:
        return "true" if value else "false"
    elif kind is int:
        return str(check_int(value))
    elif kind is float:
        return repr(check_float(value))
    else:
        text = _other_text(run, value)
    run.grow(len(text))
    return text


def _other_text(run: Evaluation, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    refuse_missing(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Mapping, list, tuple, range)):
        return tojson(run, value)
    raise not_data_error(value, run.scopes)


def tojson(run: Evaluation, value: Any, indent: int | None = None) -> str:
    """As Jinja2's filter of that name writes it: keys sorted, non-ASCII and HTML characters escaped."""
    return dumps(run, value, indent=indent, sort_keys=True).translate(_HTML_SAFE)


def dumps(
    run: Evaluation, value: Any, *, indent: int | None = None, sort_keys: bool = False, ascii_only: bool = True
) -> str:
    """JSON text, paid for beforehand."""
    refuse_missing(value)
    pay_for_text(run, value)
    if indent is None:
        return json.dumps(value, default=_encode_other, sort_keys=sort_keys, ensure_ascii=ascii_only, allow_nan=False)
    if indent > _MOST_INDENT:
        raise TemplateError(f"an indent of more than {_MOST_INDENT} is not supported")
    encoder = json.JSONEncoder(
        default=_encode_other, sort_keys=sort_keys, ensure_ascii=ascii_only, allow_nan=False, indent=indent
    )
    chunks: list[str] = []
    for chunk in encoder.iterencode(value):
        run.work(8)
        run.grow(len(chunk) + ITEM)
        chunks.append(chunk)
    return "".join(chunks)


def _encode_other(value: Any) -> Any:
    """What stands in JSON for a value that the encoder does not know."""
    refuse_missing(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, range):
        return list(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    raise not_data_error(value)


#: passed on without a look
_AS_IT_IS: Final = frozenset({str, bool, type(None)})
#: whole numbers between these are small enough, which is told without a call
_LEAST, _MOST = -(1 << 64), 1 << 64


def plain(run: Evaluation, value: Any) -> Any:
    """The same value if it is plain data throughout, else a copy that is; paid for by its size."""
    kind = value.__class__
    if kind is float:
        return check_float(value)
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        return _plain_dict(run, value)
    if kind is list:
        return _plain_list(run, value)
    if kind is int:
        return check_int(value)
    return _other(run, value)


def _plain_list(run: Evaluation, value: list[Any]) -> list[Any]:
    run.work(8 + 3 * len(value))
    for index, part in enumerate(value):
        if (kind := part.__class__) not in _AS_IT_IS and not (
            _LEAST < part < _MOST if kind is int else kind is float and part - part == 0
        ):
            new = _plain_dict(run, part) if kind is dict else plain(run, part)
            if new is not part:
                run.grow(ITEM * len(value))
                return value[:index] + [new] + [plain(run, rest) for rest in value[index + 1 :]]
    return value


def _plain_dict(run: Evaluation, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    run.work(8 + 4 * len(value))
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
            run.work(12 * len(value))
            run.grow(16 * len(value))
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


def _other(run: Evaluation, value: Any) -> Any:
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
        return _plain_list(run, to_bounded_list(run, value))
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bool, int, float)):
        return value
    raise not_data_error(value, run.scopes)


def to_bounded_list(run: Evaluation, value: Any) -> list[Any]:
    """Any sequence or iterator as a list, as long as the budget lasts."""
    if isinstance(value, (list, tuple, Mapping)):
        run.work(len(value) >> 2)
        run.grow(ITEM * len(value))
        return list(value)
    if isinstance(value, (str, bytes, range)):
        # Numbers, and characters beyond Latin-1, do not exist by themselves before they are asked for.
        exist = isinstance(value, str) and value.isascii()
        run.work(len(value) >> 2 if exist else 2 * len(value))
        run.grow((ITEM if exist else ITEM + OBJECT) * len(value))
        return list(value)
    items: list[Any] = []
    for part in value:
        run.work(1)
        run.grow(ITEM)
        items.append(part)
    return items

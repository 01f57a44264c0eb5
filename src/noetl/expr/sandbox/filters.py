"""The language's own filters, and those of Jinja2 that are used so often that jinja2 should not be needed for them.

Every filter takes the run and the value first. `noetl.expr.sandbox.jinja_filters` has all the others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.member_access import ABSENT, item, member
from noetl.expr.sandbox import jsonpath
from noetl.expr.sandbox.evaluation import (
    ITEM,
    OBJECT,
    Evaluation,
    check_float,
    check_int,
    pay_for_text,
    stringify,
)
from noetl.expr.sandbox.formatting import percent
from noetl.expr.sandbox.plain_data import dumps, plain, to_bounded_list, tojson
from noetl.expr.sandbox.undefined import Missing, NoValue, refuse_missing

FilterFunction = Callable[..., Any]


def _default(_run: Evaluation, value: Any, default_value: Any = "", boolean: bool = False) -> Any:  # noqa: FBT001, FBT002  Jinja2's
    if isinstance(value, Missing) or (boolean and not value):
        return default_value
    return value


def _marker(_run: Evaluation, value: Any) -> Any:
    """`sql` and `raw` say how a value is to be inserted; the value stays as it is."""
    return value


def _to_json(run: Evaluation, value: Any, indent: int | None = None) -> str:
    return dumps(run, value, indent=indent, ascii_only=False)


def _from_json(run: Evaluation, value: Any) -> Any:
    text = _bytes(value)
    lists, maps, commas, colons = map(text.count, (b"[", b"{", b",", b":"))
    escapes = b"\\u" in text
    run.work((len(text) >> 4) + (3 + 3 * escapes) * (lists + maps + commas + colons))
    run.grow(len(text) + OBJECT * (lists + 2 * maps + colons) + 2 * ITEM * commas)
    try:
        found = json.loads(text, parse_float=_json_number, parse_constant=_json_number)
        if escapes:  # one may stand for half a character, which no text can hold
            json.dumps(found, ensure_ascii=False).encode()
        return found  # noqa: TRY300
    except ValueError as error:
        raise TemplateError(f"`from_json` cannot read it: {error}") from None


def _json_number(text: str) -> float:
    return check_float(float(text))


def _bytes(value: Any) -> bytes:
    refuse_missing(value)
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TemplateError(f"it needs text, not {type(value).__name__}; `to_json` makes text of any value")
    return value.encode("utf-8", "surrogatepass")


def _sha256(run: Evaluation, value: Any) -> str:
    data = _bytes(value)
    run.work(1 + (len(data) >> 3))
    return hashlib.sha256(data).hexdigest()


def _b64encode(run: Evaluation, value: Any) -> str:
    data = _bytes(value)
    run.work(len(data) >> 5)
    run.grow(2 * len(data))
    return base64.b64encode(data).decode("ascii")


_SPACE: Final = b" \t\n\r\v\f"


def _b64decode(run: Evaluation, value: Any) -> str:
    data = _bytes(value)
    run.work(len(data) >> 3)
    run.grow(2 * len(data))
    try:
        return base64.b64decode(data.translate(None, _SPACE), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TemplateError(f"`b64decode` cannot read it: {error}") from None


def _length(_run: Evaluation, value: Any) -> int:
    refuse_missing(value)
    if isinstance(value, (Mapping, list, tuple, str, bytes, range)):
        return len(value)
    raise TypeError(f"a {type(value).__name__} has no length")


#: text of more digits is no number, unless its base is a power of two
_MOST_DIGITS: Final = 5_000


def _int(run: Evaluation, value: Any, default: Any = 0, base: int = 10) -> Any:
    refuse_missing(value)
    try:
        if isinstance(value, str):
            run.work(1 + (len(value) >> 3) + (min(len(value), _MOST_DIGITS) ** 2 >> 13))
            return check_int(int(value, base))
        return int(value)
    except (TypeError, ValueError, OverflowError):
        try:
            return int(float(value))
        except (TypeError, ValueError, OverflowError):
            return default


def _float(run: Evaluation, value: Any, default: Any = 0.0) -> Any:
    refuse_missing(value)
    if isinstance(value, str):
        run.work(len(value) >> 3)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    # The text `inf` or `nan` is no number of the language.
    return number if isfinite(number) else default


def _case_filter(change: Callable[[str], str]) -> FilterFunction:
    def call(run: Evaluation, value: Any) -> str:
        text = stringify(run, value)
        run.work(len(text) >> 2)
        run.grow(len(text))
        return change(text)

    return call


def _trim(run: Evaluation, value: Any, chars: str | None = None) -> str:
    text = stringify(run, value)
    refuse_missing(chars)
    run.work((len(text) >> 2) + (len(text) * len(chars or "") >> 6))
    run.grow(len(text))
    return text.strip(chars)


def _first(_run: Evaluation, value: Any) -> Any:
    refuse_missing(value)
    for part in value:
        return part
    return NoValue("there is no first item, the list is empty")


def _last(_run: Evaluation, value: Any) -> Any:
    refuse_missing(value)
    for part in reversed(value):
        return part
    return NoValue("there is no last item, the list is empty")


def _list(run: Evaluation, value: Any) -> list[Any]:
    refuse_missing(value)
    return to_bounded_list(run, value)


def _items(run: Evaluation, value: Any) -> list[Any]:
    if isinstance(value, Missing):
        return []
    if not isinstance(value, Mapping):
        raise TypeError("`items` needs a map")
    run.work(2 * len(value))
    run.grow(24 * len(value))
    return list(value.items())


def _join(run: Evaluation, value: Any, d: Any = "", attribute: Any = None) -> str:
    refuse_missing(value)
    parts = to_bounded_list(run, value)
    if attribute is not None:
        parts = reach_all(run, parts, attribute)
    separator = stringify(run, d)
    run.work(4 * len(parts))
    pay_for_text(run, parts)
    run.grow(len(separator) * len(parts))
    return separator.join([str(part) for part in parts])


#: characters of the name of an attribute
_MOST_NAME: Final = 1_000
#: no list has an index like that
_FAR: Final = 1 << 64


def reach_all(run: Evaluation, values: list[Any], attribute: Any, default: Any = ABSENT) -> list[Any]:
    """Of each value what a path such as `a.b.0` leads to; what is not there is undefined, or the default."""
    if not isinstance(attribute, (str, int)) or len(_spell(attribute)) > _MOST_NAME:
        raise TypeError("an `attribute` is a name, or names with dots between them")
    names = [int(name) if name.isdecimal() else name for name in _spell(attribute).split(".")]
    run.work((8 + 8 * len(names)) * len(values))
    run.grow(ITEM * len(values))
    missing = [Missing(str(name), "") if default is ABSENT else default for name in names]
    steps = list(zip(names, missing, strict=True))
    return [_reach(value, steps) for value in values]


def _spell(name: str | int) -> str:
    """The name of an attribute, or the index of an item, as text."""
    return name if isinstance(name, str) else str(min(max(name, -_FAR), _FAR))


def _reach(value: Any, steps: list[tuple[str | int, Any]]) -> Any:
    for name, otherwise in steps:
        if isinstance(value, Missing):
            return value
        found = value.get(name, ABSENT) if value.__class__ is dict else ABSENT
        if found is ABSENT:
            found = item(value, name)
        if found is ABSENT:
            return otherwise
        value = found
    return value


def _format(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> str:
    if args and kwargs:
        raise TypeError("`format` takes positional or keyword arguments, not both")
    return percent(run, stringify(run, value), kwargs or args)


def _attr(run: Evaluation, value: Any, name: Any) -> Any:
    if isinstance(value, Missing):
        return value
    refuse_missing(name)
    if not isinstance(name, str):
        raise TypeError("`attr` takes a name")
    run.work(len(name) >> 5)
    found = member(value, name)
    return Missing(name[:_MOST_NAME], "") if found is ABSENT else found


def _tojson(run: Evaluation, value: Any, indent: int | None = None) -> str:
    return tojson(run, plain(run, value), indent)


FILTERS: Final[Mapping[str, FilterFunction]] = {
    "attr": _attr,
    "b64decode": _b64decode,
    "b64encode": _b64encode,
    "count": _length,
    "d": _default,
    "default": _default,
    "first": _first,
    "float": _float,
    "format": _format,
    "from_json": _from_json,
    "int": _int,
    "items": _items,
    "join": _join,
    "jsonpath": jsonpath.find_jsonpath,
    "last": _last,
    "length": _length,
    "list": _list,
    "lower": _case_filter(str.lower),
    "raw": _marker,
    "sha256": _sha256,
    "sql": _marker,
    "string": stringify,
    "to_json": _to_json,
    "tojson": _tojson,
    "trim": _trim,
    "upper": _case_filter(str.upper),
}

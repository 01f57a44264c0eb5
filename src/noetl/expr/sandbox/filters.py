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

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.member_access import ABSENT, member
from noetl.expr.sandbox import jsonpath
from noetl.expr.sandbox.evaluation import Evaluation, check_float, check_int, weigh
from noetl.expr.sandbox.operators import percent
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
    run.work(len(text) >> 4)
    run.grow(len(text))
    try:
        found = json.loads(text, parse_float=_json_number, parse_constant=_json_number)
        if b"\\u" in text:  # an escape may stand for half a character, which no text can hold
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
    run.work(len(data) >> 5)
    return hashlib.sha256(data).hexdigest()


def _b64encode(run: Evaluation, value: Any) -> str:
    data = _bytes(value)
    run.grow(2 * len(data))
    return base64.b64encode(data).decode("ascii")


def _b64decode(run: Evaluation, value: Any) -> str:
    data = _bytes(value)
    run.grow(len(data))
    try:
        return base64.b64decode(b"".join(data.split()), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TemplateError(f"`b64decode` cannot read it: {error}") from None


def _length(_run: Evaluation, value: Any) -> int:
    refuse_missing(value)
    if isinstance(value, (Mapping, list, tuple, str, bytes, range)):
        return len(value)
    raise TypeError(f"a {type(value).__name__} has no length")


def _int(run: Evaluation, value: Any, default: Any = 0, base: int = 10) -> Any:
    refuse_missing(value)
    try:
        if isinstance(value, str):
            run.work(len(value) >> 2)
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
        run.work(len(value) >> 2)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    # The text `inf` or `nan` is no number of the language.
    return number if isfinite(number) else default


def _string(run: Evaluation, value: Any) -> str:
    refuse_missing(value)
    run.grow(weigh(run, value))
    return str(value)


def _case_filter(change: Callable[[str], str]) -> FilterFunction:
    def call(run: Evaluation, value: Any) -> str:
        return change(_string(run, value))

    return call


def _trim(run: Evaluation, value: Any, chars: str | None = None) -> str:
    return _string(run, value).strip(chars)


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
    run.grow(64 * len(value))
    return list(value.items())


def _join(run: Evaluation, value: Any, d: Any = "", attribute: Any = None) -> str:
    refuse_missing(value)
    parts = to_bounded_list(run, value)
    if attribute is not None:
        parts = [_reach(part, attribute) for part in parts]
    run.grow(weigh(run, parts) + len(str(d)) * len(parts))
    return str(d).join(str(part) for part in parts)


def _reach(value: Any, attribute: Any) -> Any:
    for name in str(attribute).split("."):
        if isinstance(value, (list, tuple)) and name.isdigit():
            index = int(name)
            found = value[index] if index < len(value) else ABSENT
        else:
            found = member(value, name)
        if found is ABSENT:
            raise UndefinedValue(Missing(name, "").reason())
        value = found
    return value


def _format(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> str:
    if args and kwargs:
        raise TypeError("`format` takes positional or keyword arguments, not both")
    return percent(run, _string(run, value), kwargs or args)


def _attr(_run: Evaluation, value: Any, name: str) -> Any:
    if isinstance(value, Missing):
        return value
    found = member(value, str(name))
    return Missing(str(name), "") if found is ABSENT else found


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
    "string": _string,
    "to_json": _to_json,
    "tojson": _tojson,
    "trim": _trim,
    "upper": _case_filter(str.upper),
}

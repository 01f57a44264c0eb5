"""What `a.b` and `a[b]` mean: data first, references to stored results, and never anything of Python's.

A map shows its keys, a list and a text their positions, a few value types the attributes listed here. All
else is ABSENT, at any depth; methods are reachable only where they are called (`noetl.expr.sandbox.callables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from noetl.errors import TemplateError

# References: what a template may see of a payload that lies elsewhere.


#: all that a reference shows; reaching for anything else is reaching for the payload through it
REF_FIELDS: Final = ("type", "locator", "auth_reference", "meta")


class Ref(dict[str, Any]):
    """A reference to a stored payload. To templates it has the keys of REF_FIELDS and no others."""

    __slots__ = ()

    def field(self, name: object) -> Any:
        """The value of one of the four fields; anything else is an error of kind `ref-deref`."""
        if name in REF_FIELDS:
            return self.get(str(name))
        raise dereference_error(name)


def is_reference(value: Any) -> bool:
    """Whether a value has the shape of a reference, whatever its class."""
    return isinstance(value, Ref) or (
        isinstance(value, Mapping) and len(value) == len(REF_FIELDS) and all(name in value for name in REF_FIELDS)
    )


def dereference_error(name: object) -> TemplateError:
    """The error of reaching for `name` through a reference."""
    error = TemplateError(
        f"`{name}` is not part of a reference, which shows only {', '.join(REF_FIELDS)}; "
        "the payload itself is fetched by a task of `kind: resolve`"
    )
    error.kind = "ref-deref"
    return error


class _Absent:
    """The type of ABSENT."""

    __slots__ = ()


#: there is no such thing
ABSENT: Final = _Absent()
_DATE: Final = frozenset({"year", "month", "day"})
_TIME: Final = frozenset({"hour", "minute", "second", "microsecond"})
#: attributes of values that are neither maps nor lists; other modules add the types they bring
VISIBLE: Final[dict[type, frozenset[str]]] = {
    date: _DATE,
    datetime: _DATE | _TIME,
    time: _TIME,
    timedelta: frozenset({"days", "seconds", "microseconds"}),
}


def member(value: Any, name: str) -> Any:
    """`value.name`."""
    kind = value.__class__
    if kind is dict:
        found = value.get(name, ABSENT)
        return found if found is not ABSENT else handle_missing_key(value, name)
    if kind is Ref:
        return value.field(name)
    if isinstance(value, Mapping):
        return value.get(name, ABSENT)
    if name in VISIBLE.get(kind, ()):
        return getattr(value, name)
    if name.startswith("__") and value is not None:
        raise TemplateError(f"`{name}` is an internal of Python, which templates cannot reach")
    return ABSENT


def item(value: Any, key: Any) -> Any:
    """`value[key]`, where key is no slice."""
    kind = value.__class__
    if key.__class__ is tuple:
        return ABSENT  # never a key of data, and hashing nested ones can take for ever
    if kind is dict or (kind is not Ref and isinstance(value, Mapping)):
        try:
            found = value.get(key, ABSENT)
        except TypeError:  # not hashable, so no key
            return ABSENT
        return found if found is not ABSENT else handle_missing_key(value, key)
    if kind is Ref:
        return value.field(key)
    if isinstance(value, (list, tuple, str, range)):
        if not isinstance(key, int):
            return member(value, key) if isinstance(key, str) else ABSENT
        try:
            return value[key]
        except IndexError:
            return ABSENT
    return member(value, key) if isinstance(key, str) else ABSENT


def handle_missing_key(value: Mapping[str, Any], key: Any) -> Any:
    """What a map has not. A reference that came out of a log or over a wire is a plain map, and still one."""
    if len(value) == len(REF_FIELDS) and is_reference(value):
        raise dereference_error(key)
    return ABSENT

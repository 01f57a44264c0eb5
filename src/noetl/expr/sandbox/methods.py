"""The methods that a template may call, by type: those that read, each paid for by what it looks at and what it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.sandbox.evaluation import OBJECT, Evaluation, weigh
from noetl.expr.sandbox.formatting import braces, format_date
from noetl.expr.sandbox.operators import pay_to_find, pay_to_search
from noetl.expr.sandbox.plain_data import to_bounded_list
from noetl.expr.sandbox.undefined import refuse_missing

Method = Callable[..., Any]


def find_method(value: Any, name: str) -> Method | None:
    """The method of that name, taking the run and the value first; None if templates may not call any."""
    for kind in type(value).__mro__:
        method = METHODS.get(kind, _NONE).get(name)
        if method is not None:
            return method
    if isinstance(value, Mapping):
        return _MAP.get(name)
    return None


#: what is paid before a method is called on a text with some arguments
Cost = Callable[..., None]


def _by_character(run: Evaluation, value: str, *_args: Any) -> None:
    """Each character is looked at, and perhaps replaced by another."""
    run.work(len(value) >> 2)


def _by_search(run: Evaluation, value: str, *args: Any) -> None:
    """Something is looked for from the left."""
    if args and isinstance(args[0], str):
        pay_to_find(run, value, args[0])


def _by_search_from_the_right(run: Evaluation, value: str, *args: Any) -> None:
    """Something is looked for from the right, where Python may compare all of it at every place."""
    if args and isinstance(args[0], str):
        pay_to_find(run, value, args[0])
        run.work(max(0, len(value) - len(args[0])) * len(args[0]) >> 6)


def _by_set(run: Evaluation, value: str, *args: Any) -> None:
    """Each character is looked for in a text."""
    run.work(len(value) >> 2)
    if args and isinstance(args[0], str):
        run.work(len(value) * len(args[0]) >> 6)


def _by_comparison(run: Evaluation, value: str, *args: Any) -> None:
    """The beginning or the end is compared with one text or with several."""
    if args and isinstance(args[0], (tuple, list)):
        run.work(2 * len(args[0]) + (weigh(run, args[0]) >> 6))
    run.work(len(value) >> 8)


def _text_method(name: str, cost: Cost) -> Method:
    """A method that makes one text, or none."""
    function = getattr(str, name)

    def call(run: Evaluation, value: str, *args: Any) -> Any:
        for argument in args:
            refuse_missing(argument)
        run.work(1)
        cost(run, value, *args)
        result = function(value, *args)
        if isinstance(result, str):
            run.grow(len(result))
        return result

    return call


def _partition(name: str, cost: Cost) -> Method:
    function = getattr(str, name)

    def call(run: Evaluation, value: str, separator: Any) -> Any:
        refuse_missing(separator)
        cost(run, value, separator)
        run.grow(len(value) + 4 * OBJECT)
        return function(value, separator)

    return call


def _split(name: str, cost: Cost) -> Method:
    function = getattr(str, name)

    def call(run: Evaluation, value: str, sep: Any = None, maxsplit: int = -1) -> list[str]:
        refuse_missing(sep)
        cost(run, value, sep)
        run.work(len(value) >> 4)
        run.grow(len(value))
        if isinstance(sep, str) and sep:
            run.work(len(value) >> 2)
            pieces = 1 + value.count(sep)
        else:
            # Space of any kind and length may stand between two words, so they are counted by making some of them.
            pieces = 1 + (len(value) + 1) // 2
            if pieces > _FEW:
                affordable = run.size // OBJECT + 1
                pieces = min(pieces, len(function(value, sep, affordable)))
        run.grow(OBJECT * (pieces if maxsplit < 0 else min(pieces, maxsplit + 1)))
        return list(function(value, sep, maxsplit))

    return call


#: so many pieces of text are made without counting them first
_FEW: Final = 1_000
#: what `splitlines` cuts at
_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def _splitlines(run: Evaluation, value: str, keepends: Any = False) -> list[str]:  # noqa: FBT002  Python's signature
    refuse_missing(keepends)
    run.work(1 + (len(value) >> 2))
    run.grow(len(value) + OBJECT * (1 + sum(map(value.count, _LINE_ENDS))))
    return value.splitlines(bool(keepends))


def _pad_method(name: str) -> Method:
    function = getattr(str, name)

    def call(run: Evaluation, value: str, width: int, *args: Any) -> Any:
        for argument in (width, *args):
            refuse_missing(argument)
        run.grow(max(len(value), width))
        return function(value, width, *args)

    return call


def _expandtabs(run: Evaluation, value: str, tabsize: int = 8) -> str:
    refuse_missing(tabsize)
    run.work(len(value) >> 2)
    run.grow(len(value) + value.count("\t") * max(0, tabsize))
    return value.expandtabs(tabsize)


def replace(run: Evaluation, value: str, old: str, new: str, count: int = -1) -> str:
    """`value.replace(old, new, count)`."""
    for argument in (old, new, count):
        refuse_missing(argument)
    pay_to_find(run, value, old)
    found = value.count(old)
    times = found if count < 0 else min(found, count)
    run.work((len(value) >> 3) + times)
    run.grow(len(value) + times * max(0, len(new) - len(old)))
    return str(value).replace(old, new, count)


def join(run: Evaluation, separator: str, values: Any) -> str:
    """`separator.join(values)`."""
    items = to_bounded_list(run, values)
    run.work(4 * len(items))
    for part in items:
        refuse_missing(part)
        if not isinstance(part, str):
            raise TypeError(f"join() takes text, not {type(part).__name__}; the `join` filter takes anything")
    run.grow(sum(map(len, items)) + len(separator) * len(items))
    return str(separator).join(items)


def _translate(run: Evaluation, value: str, table: Mapping[Any, Any]) -> str:
    refuse_missing(table)
    weigh(run, table)
    run.work(2 * len(value) + 4 * len(table))
    longest = max((len(new) for new in table.values() if isinstance(new, str)), default=1)
    run.grow(len(value) * max(1, longest))
    return str(value).translate(dict(table))


def _format_map(run: Evaluation, value: str, values: Mapping[str, Any]) -> str:
    refuse_missing(values)
    run.work(4 * len(values))
    return braces(run, value, **values)


# Of others, such as punycode, Python takes time that grows with the square of the text.
_ENCODINGS: Final = frozenset(
    """utf8 utf16 utf16le utf16be utf32 utf32le utf32be ascii usascii latin1 iso88591 iso885915 cp1252 windows1252
    cp437""".split()  # noqa: SIM905  a list of words reads better so
)
_ON_ERROR: Final = frozenset({"strict", "ignore", "replace", "backslashreplace", "xmlcharrefreplace", "surrogatepass"})
#: bytes or characters that one may become
_MOST_OF_ONE: Final = 10


def _recode(kind: type, name: str) -> Method:
    """`text.encode()`, `bytes.decode()`."""
    function = getattr(kind, name)

    def call(run: Evaluation, value: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        refuse_missing(encoding)
        refuse_missing(errors)
        if "".join(sign for sign in str(encoding)[:40].lower() if sign.isalnum()) not in _ENCODINGS:
            raise TemplateError(f"`{name}` knows UTF-8, UTF-16, UTF-32, ASCII, Latin-1 and cp1252, not this encoding")
        if errors not in _ON_ERROR:
            raise TemplateError(f"`{name}` knows `errors` as one of: {', '.join(sorted(_ON_ERROR))}")
        run.work(1 + (len(value) >> 2))
        run.grow(len(value) * (1 if errors == "strict" else _MOST_OF_ONE))
        return function(value, encoding, errors)

    return call


def _hex(run: Evaluation, value: bytes) -> str:
    run.work(1 + (len(value) >> 4))
    run.grow(2 * len(value))
    return value.hex()


def _constant(kind: type, name: str) -> Method:
    """A method whose cost does not depend on its value."""
    function = getattr(kind, name)

    def call(_run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> Any:
        return function(value, *args, **kwargs)

    return call


# Of lists and maps.


def _index(run: Evaluation, value: Any, wanted: Any, *bounds: int) -> int:
    refuse_missing(wanted)
    pay_to_search(run, value, wanted)
    return int(value.index(wanted, *bounds))


def _count(run: Evaluation, value: Any, wanted: Any) -> int:
    refuse_missing(wanted)
    pay_to_search(run, value, wanted)
    return int(value.count(wanted))


def _list_method(name: str) -> Method:
    """`keys`, `values`, `items`: as lists, so that they are data like any other."""

    def call(run: Evaluation, value: Mapping[Any, Any]) -> list[Any]:
        run.work(len(value))
        run.grow((8 if name != "items" else 24) * len(value))
        return list(getattr(value, name)())

    return call


def _get(_run: Evaluation, value: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    refuse_missing(key)
    return default if isinstance(key, tuple) else value.get(key, default)


def _copy(run: Evaluation, value: Any) -> Any:
    run.work(len(value))
    run.grow(16 * len(value))
    return dict(value) if isinstance(value, Mapping) else list(value)


_BY_COST: Final[dict[Cost, str]] = {
    _by_character: """capitalize casefold isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric
    isprintable isspace istitle isupper lower swapcase title upper""",
    _by_search: "count find index",
    _by_search_from_the_right: "rfind rindex",
    _by_set: "lstrip rstrip strip",
    _by_comparison: "endswith removeprefix removesuffix startswith",
}
_NONE: Final[dict[str, Method]] = {}
_MAP: Final[dict[str, Method]] = {
    **{name: _list_method(name) for name in ("keys", "values", "items")},
    "get": _get,
    "copy": _copy,
}
_DATE: Final[dict[str, Method]] = {
    "strftime": format_date,
    **{name: _constant(date, name) for name in ("isoformat", "isoweekday", "weekday", "isocalendar", "replace")},
}
#: type -> name -> method; other modules add the types they bring
METHODS: Final[dict[type, dict[str, Method]]] = {
    str: {
        **{name: _text_method(name, cost) for cost, names in _BY_COST.items() for name in names.split()},
        **{name: _pad_method(name) for name in ("center", "ljust", "rjust", "zfill")},
        "partition": _partition("partition", _by_search),
        "rpartition": _partition("rpartition", _by_search_from_the_right),
        "split": _split("split", _by_search),
        "rsplit": _split("rsplit", _by_search_from_the_right),
        "splitlines": _splitlines,
        "expandtabs": _expandtabs,
        "replace": replace,
        "join": join,
        "translate": _translate,
        "format": braces,
        "format_map": _format_map,
        "encode": _recode(str, "encode"),
    },
    bytes: {"decode": _recode(bytes, "decode"), "hex": _hex},
    dict: _MAP,
    list: {"index": _index, "count": _count, "copy": _copy},
    tuple: {"index": _index, "count": _count},
    int: {"bit_length": _constant(int, "bit_length")},
    float: {"is_integer": _constant(float, "is_integer")},
    date: _DATE,
    datetime: {
        **_DATE,
        **{name: _constant(datetime, name) for name in ("timestamp", "date", "time", "isoformat", "replace")},
    },
    time: {"isoformat": _constant(time, "isoformat"), "strftime": format_date},
    timedelta: {"total_seconds": _constant(timedelta, "total_seconds")},
}

"""Jinja2's filters over lists, written here: they find out what they compare before they compare it, and need no jinja2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from noetl.errors import TemplateError
from noetl.expr.member_access import VISIBLE
from noetl.expr.sandbox.evaluation import (
    ITEM,
    OBJECT,
    Evaluation,
    check_key,
    check_number,
    pay_to_sort,
    weigh,
)
from noetl.expr.sandbox.filters import FILTERS as PLAIN_FILTERS, FilterFunction, reach_all
from noetl.expr.sandbox.operators import TESTS, TestFunction, add
from noetl.expr.sandbox.plain_data import to_bounded_list, tojson
from noetl.expr.sandbox.undefined import NoValue, refuse_missing

#: what one more item takes in a loop of ours, and what calling a filter or a test with it does
_ITEM_STEPS: Final = 8
_CALL_STEPS: Final = 24


def _items_of(run: Evaluation, value: Any) -> list[Any]:
    refuse_missing(value)
    return to_bounded_list(run, value)


# Order.


def _keys(run: Evaluation, items: list[Any], attribute: Any, default: Any, *, folded: bool) -> list[Any]:
    """What items are compared by: themselves, or what their attribute leads to; text in lower case, if wanted."""
    keys = items if attribute is None else reach_all(run, items, attribute, *(() if default is None else (default,)))
    if not folded:
        return keys
    run.work(4 * len(keys))
    length = sum(len(key) for key in keys if isinstance(key, str))
    run.work(length >> 3)
    run.grow(length + OBJECT * len(keys))
    return [key.lower() if isinstance(key, str) else key for key in keys]


def _sort(
    run: Evaluation,
    value: Any,
    reverse: bool = False,  # noqa: FBT001, FBT002  Jinja2's signature
    case_sensitive: bool = False,  # noqa: FBT001, FBT002
    attribute: Any = None,
) -> list[Any]:
    items = _items_of(run, value)
    names = attribute.split(",")[:_MOST_ATTRIBUTES] if isinstance(attribute, str) else [attribute]
    columns = [_keys(run, items, name, None, folded=not case_sensitive) for name in names]
    keys: list[Any] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return [items[at] for at in _order(run, keys, reverse=bool(reverse))]


#: attributes that a list is sorted by
_MOST_ATTRIBUTES: Final = 16


def _order(run: Evaluation, keys: list[Any], *, reverse: bool = False) -> list[int]:
    """The indexes of the keys in order."""
    for key in keys:
        refuse_missing(key)
    run.work(4 * len(keys))
    run.grow(3 * ITEM * len(keys))
    pay_to_sort(run, keys)
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)


def _unique(run: Evaluation, value: Any, case_sensitive: bool = False, attribute: Any = None) -> list[Any]:  # noqa: FBT001, FBT002
    items = _items_of(run, value)
    keys = _keys(run, items, attribute, None, folded=not case_sensitive)
    weigh(run, keys)
    run.work(_ITEM_STEPS * len(items))
    run.grow((ITEM + OBJECT) * len(items))
    first: dict[Any, Any] = {}
    for key, item in zip(keys, items, strict=True):
        first.setdefault(_hashable(run, key), item)
    return list(first.values())


def _hashable(run: Evaluation, key: Any) -> Any:
    """A key as a map takes it; of a list, its text."""
    if key.__class__ is str:
        return key
    refuse_missing(key)
    if isinstance(key, int) and not isinstance(key, bool) and key.bit_length() > 60:
        return (hex(key),)
    if isinstance(key, tuple):
        return (tojson(run, key),)
    if isinstance(key, (list, Mapping)):
        raise TypeError(f"`unique` cannot compare {type(key).__name__}s; name an `attribute` of them")
    return check_key(key)


def _extreme(
    choose: Callable[..., Any],
) -> FilterFunction:
    def call(run: Evaluation, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:  # noqa: FBT001, FBT002
        items = _items_of(run, value)
        if not items:
            return NoValue("there is no item, the list is empty")
        keys = _keys(run, items, attribute, None, folded=not case_sensitive)
        for key in keys:
            refuse_missing(key)
        weigh(run, keys)
        run.work(_ITEM_STEPS * len(items))
        return items[choose(range(len(items)), key=keys.__getitem__)]

    return call


class Group(NamedTuple):
    """What `groupby` makes of items that have something in common."""

    grouper: Any
    list: Any

    def __repr__(self) -> str:
        return tuple.__repr__(self)


VISIBLE[Group] = frozenset({"grouper", "list"})


def _groupby(
    run: Evaluation,
    value: Any,
    attribute: Any,
    default: Any = None,
    case_sensitive: bool = False,  # noqa: FBT001, FBT002
) -> list[Group]:
    items = _items_of(run, value)
    shown = _keys(run, items, attribute, default, folded=False)
    keys = _keys(run, shown, None, None, folded=not case_sensitive)
    run.grow((ITEM + 3 * OBJECT) * len(items))
    run.work(_ITEM_STEPS * len(items))
    groups = [list(group) for _, group in groupby(_order(run, keys), keys.__getitem__)]
    return [Group(shown[group[0]], [items[at] for at in group]) for group in groups]


def _dictsort(
    run: Evaluation,
    value: Any,
    case_sensitive: bool = False,  # noqa: FBT001, FBT002
    by: str = "key",
    reverse: bool = False,  # noqa: FBT001, FBT002
) -> list[Any]:
    refuse_missing(value)
    if not isinstance(value, Mapping):
        raise TypeError(f"`dictsort` needs a map, not {type(value).__name__}")
    if by not in ("key", "value"):
        raise TypeError('`dictsort` takes `by` as "key" or "value"')
    run.work(4 * len(value))
    run.grow((ITEM + OBJECT) * len(value))
    items = list(value.items())
    keys = [item[by == "value"] for item in items]
    keys = _keys(run, keys, None, None, folded=not case_sensitive)
    return [items[at] for at in _order(run, keys, reverse=bool(reverse))]


# Item by item.


def _map(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
    items = _items_of(run, value)
    if not args and "attribute" in kwargs:
        if kwargs.keys() > {"attribute", "default"}:
            raise TypeError("`map` takes `attribute` and `default`, or the name of a filter and its arguments")
        default = kwargs.get("default")
        return reach_all(run, items, kwargs["attribute"], *(() if default is None else (default,)))
    function = find_filter(_name(args, "the name of a filter"))
    found: list[Any] = []
    for item in items:
        run.work(_CALL_STEPS)
        found.append(function(run, item, *args[1:], **kwargs))
    run.grow(ITEM * len(items))
    return found


def _name(args: tuple[Any, ...], what: str) -> str:
    if not args or not isinstance(args[0], str):
        raise TypeError(f"it needs {what}")
    return args[0]


def _chooser(*, wanted: bool, of_attribute: bool) -> FilterFunction:
    def call(run: Evaluation, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
        items = _items_of(run, value)
        asked = items
        if of_attribute:
            if not args:
                raise TypeError("it needs the name of an attribute")
            asked, args = reach_all(run, items, args[0]), args[1:]
        test = _find_test(_name(args, "the name of a test")) if args else _is_true
        chosen: list[Any] = []
        for item, part in zip(items, asked, strict=True):
            run.work(_CALL_STEPS)
            if bool(test(run, part, *args[1:], **kwargs)) is wanted:
                chosen.append(item)
        run.grow(ITEM * len(chosen))
        return chosen

    return call


def _is_true(_run: Evaluation, value: Any) -> bool:
    return bool(value)


def _find_test(name: str) -> TestFunction:
    test = TESTS.get(name)
    if test is None:
        raise TemplateError(f"there is no test `{name[:_SHOWN]}`")
    return test


#: characters of a name that is none
_SHOWN: Final = 100


def _sum(run: Evaluation, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    items = _items_of(run, value)
    if attribute is not None:
        items = reach_all(run, items, attribute)
    if isinstance(start, (str, bytes)):
        raise TypeError("`sum` adds numbers or lists; `join` makes one text of many")
    total = start
    if all(item.__class__ is int or item.__class__ is float for item in items) and isinstance(start, (int, float)):
        run.work(2 * len(items))
        weigh(run, items)
        return check_number(sum(items, start))
    for item in items:
        run.work(_ITEM_STEPS)
        refuse_missing(item)
        total = add(run, total, item)
    return total


LIST_FILTERS: Final[Mapping[str, FilterFunction]] = {
    "dictsort": _dictsort,
    "groupby": _groupby,
    "map": _map,
    "max": _extreme(max),
    "min": _extreme(min),
    "reject": _chooser(wanted=False, of_attribute=False),
    "rejectattr": _chooser(wanted=False, of_attribute=True),
    "select": _chooser(wanted=True, of_attribute=False),
    "selectattr": _chooser(wanted=True, of_attribute=True),
    "sort": _sort,
    "sum": _sum,
    "unique": _unique,
}


def find_filter(name: str) -> FilterFunction:
    """The filter of that name: ours, or one of Jinja2's own."""
    found = PLAIN_FILTERS.get(name) or LIST_FILTERS.get(name)
    if found is None:
        from noetl.expr.sandbox.jinja_filters import BORROWED

        found = BORROWED.get(name)
    if found is None:
        raise TemplateError(f"there is no filter `{name[:_SHOWN]}`")
    return found

"""What is expected held against what is there: maps by the keys that are named, lists item by item, conditions over `it`.

The expectation comes as nodes, so that every mismatch knows where in the test file it was expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from noetl.errors import TemplateError
from noetl.expr import guard, template
from noetl.lang.invariants import span
from noetl.lang.node import ListNode, MapNode, Node, Scalar, plain
from noetl.lang.sorts import is_template

_MOST = 300


class _Absent:
    """Nothing at all, which is not the same as null."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


class Mismatch(msgspec.Struct, frozen=True):
    """Something that is not as expected."""

    #: where it was expected: offsets into the test file
    at: tuple[int, int]
    message: str
    expected: Any = None
    got: Any = None


def mismatches(node: Node, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    """Where a value is not what a node expects; `name` is how messages call the value."""
    if isinstance(node, Scalar) and is_template(node.value):
        yield from _by_template(node, got, name, scopes)
    elif got is ABSENT:
        yield Mismatch(span(node), f"`{name}` is not there", plain(node))
    elif isinstance(node, MapNode):
        yield from _map(node, got, name, scopes)
    elif isinstance(node, ListNode):
        yield from _list(node, got, name, scopes)
    elif not same(node.value, got):
        yield Mismatch(span(node), f"`{name}` is {shown(got)}, not {shown(node.value)}", node.value, got)


def _map(node: MapNode, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    if not isinstance(got, Mapping):
        yield Mismatch(span(node), f"`{name}` is {shown(got)}, not a map", plain(node), got)
        return
    for entry in node.entries:
        yield from mismatches(entry.value, got.get(entry.name, ABSENT), f"{name}.{entry.name}", scopes)


def _list(node: ListNode, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    if not isinstance(got, list | tuple):
        yield Mismatch(span(node), f"`{name}` is {shown(got)}, not a list", plain(node), got)
        return
    if len(got) != len(node.items):
        message = f"`{name}` has {_items(len(got))}, not {len(node.items)}: {shown(got)}"
        yield Mismatch(span(node), message, plain(node), list(got))
        return
    for index, (item, value) in enumerate(zip(node.items, got, strict=True)):
        yield from mismatches(item, value, f"{name}[{index}]", scopes)


def _by_template(node: Scalar, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    """A condition over `it`, or a value to be equal to."""
    made = template(node.value)
    seen = dict(scopes) if got is ABSENT else {**scopes, "it": got}
    try:
        if made.is_expression and any(read.path[0] == "it" for read in made.facts.reads):
            if not guard(node.text).evaluate(seen):
                yield Mismatch(span(node), f"`{name}` is {shown(got)}: {node.text} does not hold", node.text, got)
            return
        expected = made.evaluate(seen)
    except TemplateError as error:
        yield Mismatch(span(node), f"`{name}` is {shown(got)}, and cannot be judged: {error}", node.text, got)
        return
    if not same(expected, got):
        yield Mismatch(span(node), f"`{name}` is {shown(got)}, not {shown(expected)}", expected, got)


def same(expected: Any, got: Any) -> bool:
    """Whether two values are equal as JSON: `true` is not 1, and 1.0 is."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        return len(expected) == len(got) and all(map(same, expected, got))
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return expected.keys() == got.keys() and all(same(expected[key], got[key]) for key in expected)
    return bool(expected == got)


def shown(value: Any) -> str:
    """A value in a message."""
    if value is ABSENT:
        return "not there"
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _items(number: int) -> str:
    return "no item" if number == 0 else "1 item" if number == 1 else f"{number} items"

"""What sort of value a node is, in words, and whether it can have a shape at all."""

from __future__ import annotations

import re

from noetl.expr import has_template
from noetl.lang.grammar.document_shape import SUGAR, TASK_KEYS
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar
from noetl.model.nearest import SpellingHints
from noetl.model.shape import Anything, Flag, ListOf, MapOf, Number, Record, Shape, ShapeRef, Text, Word


def is_template(text: object) -> bool:
    """Whether a value is text with something to render in it."""
    return isinstance(text, str) and "{" in text and has_template(text)  # the call is what takes time


def is_labelled(item: MapNode) -> bool:
    """Whether a task stands as `- label: {kind: …}`."""
    if len(item.entries) != 1:
        return False
    only = item.entries[0]
    return only.name not in TASK_KEYS and only.name not in SUGAR and isinstance(only.value, MapNode)


def nearest_word(value: str, words: tuple[str, ...], hints: SpellingHints) -> str | None:
    """The word that was meant: in another case, or nearly so."""
    lowered = {word.lower(): word for word in words}
    # Of two letters every change makes another word: `no` is not `on`.
    near = hints.nearest(value, words) if len(value) > 2 else None
    return lowered.get(value.lower()) or near


def is_nothing(node: Node | None) -> bool:
    """Whether the value was left out."""
    return node is None or (isinstance(node, Scalar) and node.value is None)


def fits(node: Node, shape: Shape) -> bool:
    """Whether the node is of the sort the shape wants: enough to pick it among alternatives."""
    if isinstance(shape, ShapeRef):
        return isinstance(node, ListNode) if shape.name == "Set" else isinstance(node, MapNode)
    if isinstance(shape, Record | MapOf):
        return isinstance(node, MapNode)
    if isinstance(shape, ListOf):
        return isinstance(node, ListNode)
    if isinstance(shape, Anything):
        return True
    if not isinstance(node, Scalar) or node.value is None:
        return False
    if isinstance(shape, Number):
        number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return number or (shape.templated and is_template(node.value))
    return isinstance(node.value, str)


def describe(shape: Shape) -> str:
    """A shape in words."""
    names: dict[type[Shape], str] = {
        Record: "a map",
        MapOf: "a map",
        ShapeRef: "a map",
        ListOf: "a list",
        Number: "a number",
        Text: "text",
        Word: "a word",
        Flag: "true or false",
    }
    if isinstance(shape, Word):
        return " or ".join(f"`{word}`" for word in shape.words)
    return "a template" if isinstance(shape, Text) and shape.templated else names[type(shape)]


def describe_node(node: Node) -> str:
    """A value in words."""
    if isinstance(node, MapNode):
        return "a map"
    if isinstance(node, ListNode):
        return "a list"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, bool):
        return "true or false"
    return "a number" if isinstance(node.value, int | float) else "text"


_YES_OR_NO = {
    **dict.fromkeys(("yes", "on", "y", "true", "1"), "true"),
    **dict.fromkeys(("no", "off", "n", "false", "0"), "false"),
}
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_WAYS_OUT = {
    "text": "write text",
    "a map": "write lines of `key: value`, without `- ` before them",
    "a list": "write `[…]`, or put `- ` before each item",
    "a number": "write the number alone, without quotes or units",
    "a whole number": "write a whole number, without quotes or units",
    "true or false": "write `true` or `false`",
    "an expression": 'write "{{ … }}", or true or false',
}


#: seconds of a unit that people write
_UNITS = {
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]+)")
_LASTS = re.compile(r"timeout|delay|seconds|_s\b|connect|read")


def in_seconds(node: Node, name: str, wanted: str) -> str | None:
    """A duration with its unit (`10s`, `5 min`) as the number of seconds, where that is wanted."""
    if not isinstance(node, Scalar) or "number" not in wanted or not _LASTS.search(name):
        return None
    found = _DURATION.fullmatch(node.text.strip().lower())
    unit = _UNITS.get(found[2]) if found is not None else None
    return f"{round(float(found[1]) * unit, 6):.12g}" if found is not None and unit is not None else None


def respell_value(node: Node, wanted: str) -> str | None:
    """The same value as the type that is wanted, where only its spelling is another."""
    if not isinstance(node, Scalar) or node.value is None:
        return None
    if wanted == "text":
        return f'"{node.text}"'
    if wanted == "true or false":
        return _YES_OR_NO.get(node.text.lower())
    if wanted in ("a number", "a whole number") and isinstance(node.value, str) and _NUMBER.fullmatch(node.text):
        return node.text if wanted == "a number" or "." not in node.text else None
    return None


def suggest_fix(node: Node, wanted: str) -> str:
    """What to write where a value has the wrong type."""
    if wanted == "a map" and isinstance(node, ListNode) and len(node.items) == 1:
        return "remove the `- ` before it"
    if wanted == "a list" and isinstance(node, MapNode):
        return "put `- ` before it, so that it is the first item"
    return _WAYS_OUT.get(wanted, f"write {wanted}")

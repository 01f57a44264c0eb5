"""What sort of value a node is, in words, and whether it can have a shape at all."""

from __future__ import annotations

from noetl.lang.grammar import SUGAR, TASK_KEYS
from noetl.lang.node import ListNode, MapNode, Node, Scalar
from noetl.model.nearest import nearest
from noetl.model.shape import Anything, Flag, ListOf, MapOf, Number, Record, Shape, Text, Use, Word


def is_template(text: object) -> bool:
    """Whether a value is text with something to render in it."""
    return isinstance(text, str) and ("{{" in text or "{%" in text)


def is_labelled(item: MapNode) -> bool:
    """Whether a task stands as `- label: {kind: …}`."""
    if len(item.entries) != 1:
        return False
    only = item.entries[0]
    return only.name not in TASK_KEYS and only.name not in SUGAR and isinstance(only.value, MapNode)


def nearest_word(value: str, words: tuple[str, ...]) -> str | None:
    """The word that was meant: in another case, or nearly so."""
    lowered = {word.lower(): word for word in words}
    # Of two letters every change makes another word: `no` is not `on`.
    near = nearest(value, words) if len(value) > 2 else None
    return lowered.get(value.lower()) or near


def is_nothing(node: Node | None) -> bool:
    """Whether the value was left out."""
    return node is None or (isinstance(node, Scalar) and node.value is None)


def fits(node: Node, shape: Shape) -> bool:
    """Whether the node is of the sort the shape wants: enough to pick it among alternatives."""
    if isinstance(shape, Use):
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
        Use: "a map",
        ListOf: "a list",
        Number: "a number",
        Text: "text",
        Word: "a word",
        Flag: "true or false",
    }
    if isinstance(shape, Word):
        return " or ".join(f"`{word}`" for word in shape.words)
    return "a template" if isinstance(shape, Text) and shape.templated else names[type(shape)]


def kind_of_value(node: Node) -> str:
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

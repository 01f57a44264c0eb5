"""Templates of this language in Python code, where nothing renders them: they stay the text that they are."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.expr.scopes import Boundary, known_names
from noetl.expr.vocabulary import FUNCTIONS

if TYPE_CHECKING:
    import ast

_SCOPES = (known_names(Boundary.TASK_INPUT, in_loop=True) - FUNCTIONS) | {"args"}
_TEMPLATE = re.compile(
    r"\{\{-?[ \t]*(?P<path>(?:%s)\b(?:\.\w+)*)[^{}\n]*\}\}" % "|".join(sorted(_SCOPES))  # noqa: UP031  braces are many
)
#: how many are looked at in one piece of code
_MOST = 100
#: libraries with the same braces: what stands in code that speaks of them is theirs
_RENDERED_THERE = re.compile(r"jinja|mustache|pystache|chevron|liquid", re.IGNORECASE)
#: methods of text that know what to do with such braces: of the first the text itself, of the second what they are given
_OF_BRACES, _LOOKING_FOR = ("format", "format_map"), ("replace", "sub", "split", "partition", "find", "startswith")
_FORMATTED = ("JoinedStr", "TemplateStr")
#: the longest template that is written out once more
_SHOWN = 60
#: a place as Python counts: the line from 1, bytes from 0
_Point = tuple[int, int]


class Unrendered(NamedTuple):
    """A template that stays text: where it starts, as Python counts, and what it is."""

    line: int
    column: int
    text: str
    path: str

    @property
    def way_out(self) -> str:
        """What to write instead."""
        name = self.path.rpartition(".")[2]
        if not name.isidentifier() or keyword.iskeyword(name):
            name = "value"
        if self.text.strip("{} ") == f"input.{name}":
            return f"write `{name}`: the keys of `input` are names in the code"
        quote = "'" if '"' in self.text else '"'
        certain = len(self.text) <= _SHOWN and quote not in self.text
        given = f"{quote}{self.text}{quote}" if certain else "…"
        return f"write `{name}: {given}` under the task's `input`, and `{name}` in the code"


def unrendered(code: str, tree: ast.Module) -> Iterator[Unrendered]:
    """The templates among the texts of some code, and those that Python takes for a set in a set."""
    found = list(islice(_TEMPLATE.finditer(code), _MOST)) if "{{" in code else []
    if not found or _RENDERED_THERE.search(code):
        return
    meant, spared = _stretches(tree)
    for match in found:
        before = code[: match.start()]
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2].encode())
        if _within((line, column), meant) and not _within((line, column), spared):
            yield Unrendered(line, column, match[0], match["path"])


def _stretches(tree: ast.Module) -> tuple[list[tuple[_Point, _Point]], list[tuple[_Point, _Point]]]:
    """Where a template would be meant as one, and the parts of it where it would not."""
    meant, spared = [], []
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        sort = type(node).__name__
        spared += [_stretch(one) for one in _exempt(node, sort)]
        if sort == "Set" or (sort == "Constant" and isinstance(node.value, str)):
            meant.append(_stretch(node))
        for name in node._fields:
            value = getattr(node, name, None)
            waiting += [one for one in (value if isinstance(value, list) else [value]) if hasattr(one, "_fields")]
    return meant, spared


def _exempt(node: Any, sort: str) -> list[Any]:
    """What a node makes another thing of than a text with braces: f-strings, docstrings, `format`, `replace`, `in`."""
    if sort in _FORMATTED:
        return [node]
    if sort == "Expr":
        return [node] if type(node.value).__name__ == "Constant" else []
    if sort == "Compare":
        return [node.left] if type(node.ops[0]).__name__ in ("In", "NotIn") else []
    if sort == "Call" and type(node.func).__name__ == "Attribute":
        if node.func.attr in _OF_BRACES:
            return [node.func.value]
        return list(node.args) if node.func.attr in _LOOKING_FOR else []
    return []


def _stretch(node: Any) -> tuple[_Point, _Point]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _within(point: _Point, stretches: list[tuple[_Point, _Point]]) -> bool:
    return any(start <= point < end for start, end in stretches)

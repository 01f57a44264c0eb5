"""Names and paths to closures: the part of a template that runs most often."""

from __future__ import annotations

from typing import Any

from noetl.expr.member_access import ABSENT, handle_missing_key, item, member
from noetl.expr.sandbox.callables import GLOBALS
from noetl.expr.sandbox.evaluation import ITEM, Code, Evaluation
from noetl.expr.sandbox.undefined import Missing
from noetl.expr.syntax import nodes


def describe(node: nodes.Expr) -> str:
    """An expression as a path, for messages; empty when it is none."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Attribute):
        of = describe(node.of)
        return f"{of}.{node.name}" if of else ""
    if isinstance(node, nodes.Item) and isinstance(node.key, nodes.Const):
        of = describe(node.of)
        return f"{of}[{node.key.value!r}]" if of else ""
    return ""


def name_code(name: str) -> Code:
    """A bare name: bound by the template, or a scope, or one of Jinja2's functions."""

    def look_up(run: Evaluation) -> Any:
        if run.local:
            value = run.local.get(name, ABSENT)
            if value is not ABSENT:
                return value
        value = run.scopes.get(name, ABSENT)
        if value is ABSENT:
            return GLOBALS.get(name) or Missing(name, None)
        return value

    return look_up


def attribute_code(of: Code, node: nodes.Attribute) -> Code:
    """`of.name`, for any expression."""
    name = node.name
    parent = describe(node.of)

    def look_up(run: Evaluation) -> Any:
        value = of(run)
        if value.__class__ is dict:
            found = value.get(name, ABSENT)
        elif isinstance(value, Missing):
            return value
        else:
            found = member(value, name)
        return _make_missing(name, parent, value) if found is ABSENT else found

    return look_up


def path_code(root: str, names: tuple[str, ...]) -> Code:
    """`root.a.b.c` in one closure."""
    of = name_code(root)
    steps = tuple(enumerate(names))

    def look_up(run: Evaluation) -> Any:
        value = ABSENT if run.local else run.scopes.get(root, ABSENT)
        if value is ABSENT:
            value = of(run)
            if isinstance(value, Missing):
                return value
        for depth, name in steps:
            if value.__class__ is dict:
                found = value.get(name, ABSENT)
            elif isinstance(value, Missing):
                return value
            else:
                found = member(value, name)
            if found is ABSENT:
                return _make_missing(name, ".".join((root, *names[:depth])), value)
            value = found
        return value

    return look_up


def item_code(of: Code, key: Code, node: nodes.Item) -> Code:
    """`of[key]`."""
    parent = describe(node.of)
    # A key that was computed may be a secret or very long: it is not told.
    shown = str(node.key.value) if isinstance(node.key, nodes.Const) else "[…]"

    def look_up(run: Evaluation) -> Any:
        value = of(run)
        if isinstance(value, Missing):
            return value
        at = key(run)
        if isinstance(at, Missing):
            return at
        found = item(value, at)
        return Missing(shown, parent, value) if found is ABSENT else found

    return look_up


def slice_code(of: Code, bounds: tuple[Code | None, Code | None, Code | None]) -> Code:
    """`of[start:stop:step]`."""

    def cut(run: Evaluation) -> Any:
        value = of(run)
        if isinstance(value, Missing):
            return value
        found = [None if bound is None else bound(run) for bound in bounds]
        if not isinstance(value, (list, tuple, str, range)):
            return Missing("[…]", "")
        between = slice(*found)
        if not isinstance(value, range):
            length = len(range(*between.indices(len(value))))
            run.work(length >> 3)
            run.grow(length * (1 if isinstance(value, str) else ITEM))
        return value[between]

    return cut


def _make_missing(name: str, parent: str, value: Any) -> Missing:
    if value.__class__ is dict:
        handle_missing_key(value, name)
    return Missing(name, parent, value)

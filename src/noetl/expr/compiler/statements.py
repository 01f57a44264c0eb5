"""Statements to closures that write to a list of pieces.

`for`, `with`, block `set` and `filter` open a scope of names, `if` does not, as in Jinja2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from noetl.errors import TemplateError
from noetl.expr.compiler.expressions import compile_expression, filter_code
from noetl.expr.sandbox.callables import LoopContext, Namespace
from noetl.expr.sandbox.evaluation import Code, Evaluation
from noetl.expr.sandbox.plain_data import to_bounded_list, to_text
from noetl.expr.sandbox.undefined import refuse_missing
from noetl.expr.syntax import nodes

#: where a node stands, in its representation: equal expressions differ in nothing else
_OFFSET: Final = re.compile(r"offset=\d+")


class InsertedValue(msgspec.Struct):
    """The value of one `{{ … }}`, where the caller wants values instead of text."""

    value: Any
    #: `sql` or `raw` when that is the expression's last filter
    marker: str | None
    #: the same for equal expressions; None: it is no expression's
    key: str | None = None


Pieces = list[str | InsertedValue]
#: a compiled statement
Action = Callable[[Evaluation, Pieces], None]


def compile_statements(body: Sequence[nodes.Statement], *, keep_values: bool) -> Action:
    """A whole template; `keep_values` leaves the values of its `{{ … }}` as they are, for SQL and shell."""
    return _block(body, keep_values=keep_values)


def text_of(run: Evaluation, action: Action) -> str:
    """What a compiled body writes, as text."""
    pieces: Pieces = []
    action(run, pieces)
    return "".join(piece if isinstance(piece, str) else to_text(run, piece.value) for piece in pieces)


def marker_of(node: nodes.Expr) -> str | None:
    """`sql` or `raw` when that is the expression's last filter."""
    return node.name if isinstance(node, nodes.Filter) and node.name in ("sql", "raw") else None


def _block(body: Sequence[nodes.Statement], *, keep_values: bool) -> Action:
    actions = [_ACTIONS[type(node)](node, keep_values) for node in body]
    if len(actions) == 1:
        return actions[0]

    def act(run: Evaluation, pieces: Pieces) -> None:
        for action in actions:
            action(run, pieces)

    return act


def _text(node: nodes.TemplateText, _keep: bool) -> Action:  # noqa: FBT001  the table's signature
    data = node.data

    def act(run: Evaluation, pieces: Pieces) -> None:
        run.grow(len(data))
        pieces.append(data)

    return act


def _output(node: nodes.Output, keep: bool) -> Action:  # noqa: FBT001
    code = compile_expression(node.expression)
    if not keep:
        return lambda run, pieces: pieces.append(to_text(run, code(run)))
    marker = marker_of(node.expression)
    key = _OFFSET.sub("", repr(node.expression))

    def act(run: Evaluation, pieces: Pieces) -> None:
        run.grow(64)
        pieces.append(InsertedValue(code(run), marker, key))

    return act


def _if(node: nodes.If, keep: bool) -> Action:  # noqa: FBT001
    branches = [(compile_expression(test), _block(body, keep_values=keep)) for test, body in node.branches]
    otherwise = _block(node.otherwise, keep_values=keep)

    def act(run: Evaluation, pieces: Pieces) -> None:
        for test, body in branches:
            if test(run):
                body(run, pieces)
                return
        otherwise(run, pieces)

    return act


def _for(node: nodes.For, keep: bool) -> Action:  # noqa: FBT001
    items_code = compile_expression(node.items)
    test = None if node.test is None else compile_expression(node.test)
    bind = _binder(node.target)
    body = _block(node.body, keep_values=keep)
    otherwise = _block(node.otherwise, keep_values=keep)
    cost = 8 + 2 * _size(node.body)

    def select(run: Evaluation, items: list[Any], outer: dict[str, Any]) -> list[Any]:
        chosen: list[Any] = []
        for item in items if test is not None else ():
            run.work(cost + len(outer))
            run.local = dict(outer)
            bind(run, item)
            if test is not None and test(run):
                chosen.append(item)
        return chosen if test is not None else items

    def iterate(run: Evaluation, pieces: Pieces, value: Any, depth: int) -> None:
        outer = run.local
        try:
            items = select(run, _loop_items(run, value), outer)
            loop = LoopContext(items, depth, recurse if node.recursive else None)
            each = cost + len(outer)
            for index, item in enumerate(items):
                run.work(each)
                loop.index0 = index
                run.local = {**outer, "loop": loop}
                bind(run, item)
                body(run, pieces)
        finally:
            run.local = outer
        if not items:
            otherwise(run, pieces)

    def recurse(run: Evaluation, value: Any, depth: int) -> str:
        return text_of(run, lambda run, pieces: iterate(run, pieces, value, depth))

    return lambda run, pieces: iterate(run, pieces, items_code(run), 0)


def _loop_items(run: Evaluation, value: Any) -> list[Any]:
    refuse_missing(value)
    if isinstance(value, list):
        return value
    if isinstance(value, (Mapping, tuple, str, range)):
        return to_bounded_list(run, value)
    raise TypeError(f"`for` needs a list, not {type(value).__name__}")


def _size(body: Any) -> int:
    """How many nodes there are in a body, as a measure of what one pass costs."""
    if isinstance(body, tuple):
        return sum(_size(part) for part in body)
    if isinstance(body, nodes.Node):
        return 1 + sum(_size(getattr(body, field)) for field in body.__struct_fields__)
    return 0


def _binder(target: nodes.Target) -> Callable[[Evaluation, Any], None]:
    """What writes a value to a target."""
    if isinstance(target, nodes.NameTarget):
        name = target.name

        def bind(run: Evaluation, value: Any) -> None:
            run.local[name] = value

        return bind
    if isinstance(target, nodes.NamespaceTarget):
        return _namespace_binder(target)
    binders = [_binder(part) for part in target.targets]

    def unpack(run: Evaluation, value: Any) -> None:
        values = _loop_items(run, value)
        if len(values) != len(binders):
            raise TypeError(f"there are {len(values)} values for {len(binders)} names")
        for bind_one, part in zip(binders, values, strict=True):
            bind_one(run, part)

    return unpack


def _namespace_binder(target: nodes.NamespaceTarget) -> Callable[[Evaluation, Any], None]:
    def bind(run: Evaluation, value: Any) -> None:
        namespace = run.local.get(target.namespace)
        if not isinstance(namespace, Namespace):
            raise TemplateError(f"`{target.namespace}` is no namespace, so `{target.name}` in it cannot be set")
        run.grow(64)
        namespace[target.name] = value

    return bind


def _assign(node: nodes.Assign, _keep: bool) -> Action:  # noqa: FBT001
    code, bind = compile_expression(node.value), _binder(node.target)
    return lambda run, _pieces: bind(run, code(run))


def _assign_block(node: nodes.AssignBlock, _keep: bool) -> Action:  # noqa: FBT001
    code, bind = _capture_code(node.body, node.filter), _binder(node.target)
    return lambda run, _pieces: bind(run, code(run))


def _filter_block(node: nodes.FilterBlock, keep: bool) -> Action:  # noqa: FBT001
    code = _capture_code(node.body, node.filter)
    if keep:
        # Values have gone into the text, so it is a value itself and no longer the author's.
        return lambda run, pieces: pieces.append(InsertedValue(code(run), None))
    return lambda run, pieces: pieces.append(to_text(run, code(run)))


def _capture_code(body: Sequence[nodes.Statement], filtered: nodes.Filter | None) -> Code:
    """A body's text as a value, through a chain of filters."""
    block = _block(body, keep_values=False)

    def capture(run: Evaluation) -> str:
        outer = run.local
        run.work(8 + len(outer))
        run.local = dict(outer)
        try:
            return text_of(run, block)
        finally:
            run.local = outer

    return _filter_chain_code(filtered, capture)


def _filter_chain_code(filtered: nodes.Filter | None, of: Code) -> Code:
    if filtered is None:
        return of
    inner = filtered.of if isinstance(filtered.of, nodes.Filter) else None
    return filter_code(filtered, _filter_chain_code(inner, of), compile_expression)


def _with(node: nodes.With, keep: bool) -> Action:  # noqa: FBT001
    bindings = [(_binder(target), compile_expression(value)) for target, value in node.bindings]
    body = _block(node.body, keep_values=keep)

    def act(run: Evaluation, pieces: Pieces) -> None:
        outer = run.local
        # All values are evaluated outside, so that one binding does not see another.
        values = [code(run) for _, code in bindings]
        run.work(8 + len(outer))
        run.local = dict(outer)
        try:
            for (bind, _), value in zip(bindings, values, strict=True):
                bind(run, value)
            body(run, pieces)
        finally:
            run.local = outer

    return act


_ACTIONS: Final[dict[type, Callable[[Any, bool], Action]]] = {
    nodes.TemplateText: _text,
    nodes.Output: _output,
    nodes.For: _for,
    nodes.If: _if,
    nodes.Assign: _assign,
    nodes.AssignBlock: _assign_block,
    nodes.With: _with,
    nodes.FilterBlock: _filter_block,
}

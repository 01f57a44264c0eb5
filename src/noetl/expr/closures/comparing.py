"""Comparisons to closures, the usual ones without detours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.sandbox.operators import ORDER, compare, undefined
from noetl.expr.sandbox.run import Code, Run
from noetl.expr.sandbox.telling import unfit
from noetl.expr.sandbox.undefined import Missing
from noetl.expr.syntax import nodes

_SCALARS: Final = (str, int, float, bool, type(None))


def compare_code(node: nodes.Compare, compiled: Callable[[nodes.Expr], Code]) -> Code:
    """`first sign a sign b …`, one by one until one is false."""
    first = compiled(node.first)
    if len(node.rest) == 1:
        return _single(first, *node.rest[0], compiled)
    rest = [(sign, compiled(operand)) for sign, operand in node.rest]

    def evaluate(run: Run) -> bool:
        left = first(run)
        for sign, operand in rest:
            right = operand(run)
            if not compare(run, sign, left, right):
                return False
            left = right
        return True

    return evaluate


def _single(left: Code, sign: str, operand: nodes.Expr, compiled: Callable[[nodes.Expr], Code]) -> Code:
    if isinstance(operand, nodes.Const) and isinstance(operand.value, _SCALARS) and sign in ORDER:
        return _with_scalar(left, sign, operand.value)
    if sign in ("in", "not in") and isinstance(operand, (nodes.ListOf, nodes.TupleOf)):
        members = [item.value for item in operand.items if isinstance(item, nodes.Const)]
        if len(members) == len(operand.items):
            return _among(left, members, wanted=sign == "in")
    right = compiled(operand)
    return lambda run: compare(run, sign, left(run), right(run))


def _with_scalar(left: Code, sign: str, scalar: Any) -> Code:
    """Comparing anything with a scalar costs next to nothing, so nothing is paid."""
    order = ORDER[sign]

    def evaluate(run: Run) -> bool:
        value = left(run)
        if isinstance(value, Missing):
            return undefined(run, value)
        try:
            return bool(order(value, scalar))
        except TypeError:
            raise TemplateError(unfit(sign, value, scalar)) from None

    return evaluate


def _among(left: Code, members: list[Any], *, wanted: bool) -> Code:
    def evaluate(run: Run) -> bool:
        value = left(run)
        if isinstance(value, Missing):
            return undefined(run, value)
        return (value in members) is wanted

    return evaluate

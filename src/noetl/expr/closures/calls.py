"""Calls, filters and tests to closures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.errors import TemplateError
from noetl.expr.closures.access import describe
from noetl.expr.paths import ABSENT, member
from noetl.expr.sandbox.evaluation import Code, Evaluation
from noetl.expr.sandbox.filters import FILTERS, FilterFunction
from noetl.expr.sandbox.functions import call
from noetl.expr.sandbox.methods import find_method
from noetl.expr.sandbox.predicates import TESTS, negate_test
from noetl.expr.sandbox.undefined import refuse_missing
from noetl.expr.syntax import nodes

Compile = Callable[[nodes.Expr], Code]
#: the arguments of a call, evaluated
Evaluated = tuple[list[Any], dict[str, Any]]


def arguments_code(arguments: nodes.Arguments, compiled: Compile) -> Callable[[Evaluation], Evaluated]:
    """What stands in the parentheses."""
    positional = [compiled(node) for node in arguments.positional]
    keywords = [(name, compiled(node)) for name, node in arguments.keywords]
    if arguments.star is None and arguments.double_star is None:
        return lambda run: ([code(run) for code in positional], {name: code(run) for name, code in keywords})
    star = None if arguments.star is None else compiled(arguments.star)
    double_star = None if arguments.double_star is None else compiled(arguments.double_star)

    def evaluate(run: Evaluation) -> Evaluated:
        args = [code(run) for code in positional]
        kwargs = {name: code(run) for name, code in keywords}
        if star is not None:
            more = star(run)
            run.work(len(more))
            args.extend(more)
        if double_star is not None:
            kwargs.update(double_star(run))
        return args, kwargs

    return evaluate


def call_code(node: nodes.CallExpr, compiled: Compile) -> Code:
    """`f(…)` or `value.method(…)`."""
    arguments = arguments_code(node.arguments, compiled)
    if isinstance(node.of, nodes.Attribute):
        return _method_code(node.of, arguments, compiled)
    described = f"`{describe(node.of)}`" if describe(node.of) else "this"
    target = compiled(node.of)

    def evaluate(run: Evaluation) -> Any:
        args, kwargs = arguments(run)
        return call(run, target(run), described, args, kwargs)

    return evaluate


def _method_code(node: nodes.Attribute, arguments: Callable[[Evaluation], Evaluated], compiled: Compile) -> Code:
    """The only place where a method is more than a missing attribute; a map's own key still comes first."""
    of = compiled(node.of)
    name = node.name
    described = f"`{describe(node) or name}`"

    def evaluate(run: Evaluation) -> Any:
        value = of(run)
        refuse_missing(value)
        args, kwargs = arguments(run)
        found = member(value, name)
        if found is not ABSENT:
            return call(run, found, described, args, kwargs)
        method = find_method(value, name)
        if method is None:
            raise TemplateError(f"a {type(value).__name__} has no method `{name}` that a template may call")
        run.work(1)
        return method(run, value, *args, **kwargs)

    return evaluate


def filter_code(node: nodes.Filter, of: Code, compiled: Compile) -> Code:
    """`of | name(…)`."""
    function = _filter_function(node.name)
    if node.arguments is nodes.NO_ARGUMENTS or not node.arguments.expressions():
        return lambda run: function(run, of(run))
    arguments = arguments_code(node.arguments, compiled)

    def evaluate(run: Evaluation) -> Any:
        value = of(run)
        args, kwargs = arguments(run)
        return function(run, value, *args, **kwargs)

    return evaluate


def _filter_function(name: str) -> FilterFunction:
    found = FILTERS.get(name)
    if found is not None:
        return found
    from noetl.expr.sandbox.jinja_filters import find_filter

    return find_filter(name)


def test_code(node: nodes.Test, compiled: Compile) -> Code:
    """`of is name(…)`."""
    found = TESTS.get(node.name)
    if found is None:
        raise TemplateError(f"there is no test `{node.name}`")
    test = negate_test(node.name, found) if node.negated else found
    of = compiled(node.of)
    if not node.arguments.expressions():
        return lambda run: test(run, of(run))
    arguments = arguments_code(node.arguments, compiled)

    def evaluate(run: Evaluation) -> Any:
        args, kwargs = arguments(run)
        return test(run, of(run), *args, **kwargs)

    return evaluate

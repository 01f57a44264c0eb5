"""Jinja2's own filters, called on behalf of a template: inside its sandbox, and paid for.

The only module of the sandbox that needs jinja2; it is imported when the first such filter is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from jinja2 import Undefined
from jinja2.filters import FILTERS as THEIRS
from jinja2.filters import _GroupTuple
from jinja2.nodes import EvalContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import _PassArg

from noetl.errors import TemplateError
from noetl.expr.paths import ABSENT, VISIBLE, item
from noetl.expr.sandbox.costs import COSTS, Cost, by_weight
from noetl.expr.sandbox.filters import FILTERS, FilterFunction
from noetl.expr.sandbox.plain import bounded_list
from noetl.expr.sandbox.predicates import TESTS
from noetl.expr.sandbox.run import Run, checked
from noetl.expr.sandbox.undefined import Missing, NoValue, refuse_missing
from noetl.expr.vocabulary import JINJA_FILTERS

VISIBLE[_GroupTuple] = frozenset({"grouper", "list"})


class _Undefined(NoValue, Undefined):  # ours come first: its comparisons do not fail
    """An undefined that Jinja2's filters recognise as one."""


class _Environment(ImmutableSandboxedEnvironment):
    """What Jinja2's filters turn to: it looks attributes up, and calls filters and tests, as templates do here."""

    def __init__(self) -> None:
        super().__init__()
        # Jinja2 only ever calls it, to say that there is no first item and the like.
        self.undefined = self._no_value  # type: ignore[assignment]

    def _no_value(self, hint: str | None = None, obj: Any = None, name: str | None = None, exc: Any = None) -> Any:  # noqa: ARG002
        return _Undefined(hint or f"`{name}` is missing")

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`obj[argument]` and `obj.argument`, for filters that take the name of an attribute."""
        if isinstance(obj, Missing):
            return obj
        found = item(obj, argument)
        return self._no_value(name=str(argument)) if found is ABSENT else found

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The same: a filter cannot reach more than a template."""
        return self.getitem(obj, attribute)

    def call_filter(
        self,
        name: str,
        value: Any,
        args: Any = None,
        kwargs: Any = None,
        context: Any = None,
        eval_ctx: Any = None,  # noqa: ARG002  Jinja2's signature
    ) -> Any:
        """A filter that `map` applies to each item."""
        context.work(12)
        return find_filter(name)(context, value, *(args or ()), **(kwargs or {}))

    def call_test(
        self,
        name: str,
        value: Any,
        args: Any = None,
        kwargs: Any = None,
        context: Any = None,
        eval_ctx: Any = None,  # noqa: ARG002  Jinja2's signature
    ) -> Any:
        """A test that `select` and its like apply to each item."""
        context.work(12)
        test = TESTS.get(name)
        if test is None:
            raise TemplateError(f"there is no test `{name}`")
        return test(context, value, *(args or ()), **(kwargs or {}))


_ENVIRONMENT: Final = _Environment()
_CONTEXT: Final = EvalContext(_ENVIRONMENT)
#: how a filter says what it wants as its first argument
_WANTED: Final[dict[_PassArg | None, Callable[[Run], tuple[Any, ...]]]] = {
    _PassArg.context: lambda run: (run,),
    _PassArg.eval_context: lambda run: (run.eval_ctx,),
    _PassArg.environment: lambda run: (run.environment,),
    None: lambda _run: (),
}


def _borrow(name: str) -> FilterFunction:
    function = cast("Callable[..., Any]", THEIRS[name])
    wanted = _WANTED[_PassArg.from_obj(function)]
    cost: Cost = COSTS.get(name, by_weight)

    def call(run: Run, value: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_missing(value)
        if run.environment is None:
            run.environment = _ENVIRONMENT
            run.eval_ctx = _CONTEXT
        if isinstance(value, (range, Iterator)):
            value = bounded_list(run, value)
        cost(run, value, *args, **kwargs)
        first: tuple[Any, ...] = wanted(run)
        return _settled(run, function(*first, value, *args, **kwargs))

    return call


def _settled(run: Run, result: Any) -> Any:
    """A result as data: text paid for, and what would be computed bit by bit computed now."""
    if isinstance(result, str):
        run.grow(len(result))
    elif isinstance(result, Iterator):
        return bounded_list(run, result)
    return checked(result)


BORROWED: Final = {name: _borrow(name) for name in JINJA_FILTERS - FILTERS.keys()}


def find_filter(name: str) -> FilterFunction:
    """The filter of that name, ours or Jinja2's."""
    found = FILTERS.get(name) or BORROWED.get(name)
    if found is None:
        raise TemplateError(f"there is no filter `{name}`")
    return found

"""What is known of a template from its tree alone: its problems, the paths it reads, what it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from noetl.expr.scopes import FILTERS, TESTS
from noetl.expr.syntax import nodes

#: of one expression, or of a text with statements; text with expressions in it may be of any length
MOST_CHARACTERS = 100_000


class TemplateProblem(msgspec.Struct, frozen=True, gc=False):
    """Something wrong with a template, told without raising."""

    #: `template-syntax` or `unknown-filter`
    code: str
    #: a plain sentence
    message: str
    #: where it stands, in characters from the start of the source; best effort
    offset: int


def length_problem(what: str, source: str) -> TemplateProblem | None:
    """What is wrong with a source that would take long to read, if it is that long."""
    if len(source) <= MOST_CHARACTERS:
        return None
    message = f"this {what} is {len(source):,} characters long; {MOST_CHARACTERS:,} are the limit"
    return TemplateProblem("template-syntax", message, 0)


class PathRead(msgspec.Struct, frozen=True, gc=False):
    """A path of names that a template reads."""

    #: the root name and the literal parts after it: `output.data.rows[0]` is ("output", "data", "rows", "0")
    path: tuple[str, ...]
    #: where the root name stands, in characters from the start of the source
    offset: int
    #: False when something computed follows the path, as in `ctx[workload.which]`
    exact: bool


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a bare function: `done('fetch')`."""

    name: str
    #: the literal text arguments, those inside literal lists included; None where one is computed
    args: tuple[str | None, ...]
    offset: int


class TextComparison(msgspec.Struct, frozen=True, gc=False):
    """A path compared with literal texts: `output.error.kind == 'timeout'`, `event.name in ['step.done']`."""

    path: tuple[str, ...]
    texts: tuple[str, ...]
    #: where the root name of the path stands
    offset: int


class TemplateFacts(msgspec.Struct, frozen=True, gc=False):
    """Everything static about one template or expression."""

    problems: tuple[TemplateProblem, ...] = ()
    reads: tuple[PathRead, ...] = ()
    calls: tuple[FunctionCall, ...] = ()
    #: the names of the filters used
    filters: frozenset[str] = frozenset()
    comparisons: tuple[TextComparison, ...] = ()

    def shift(self, by: int) -> TemplateFacts:
        """The same facts, of a text that stands `by` characters further on."""
        if not by:
            return self
        # Most have one of these and nothing else, and there are many of them: the empty ones cost nothing.
        return TemplateFacts(
            self.problems and tuple([TemplateProblem(p.code, p.message, p.offset + by) for p in self.problems]),
            self.reads and tuple([PathRead(r.path, r.offset + by, r.exact) for r in self.reads]),
            self.calls and tuple([FunctionCall(c.name, c.args, c.offset + by) for c in self.calls]),
            self.filters,
            self.comparisons and tuple([TextComparison(c.path, c.texts, c.offset + by) for c in self.comparisons]),
        )


NO_FACTS = TemplateFacts()


class HasFacts:
    """Whatever has facts: each of them can be asked for by itself."""

    __slots__ = ()

    @property
    def facts(self) -> TemplateFacts:
        """Problems, reads, calls and filters together."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[TemplateProblem, ...]:
        """What is wrong with it."""
        return self.facts.problems

    @property
    def reads(self) -> tuple[PathRead, ...]:
        """The paths it reads."""
        return self.facts.reads

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The bare functions it calls."""
        return self.facts.calls

    @property
    def filters(self) -> frozenset[str]:
        """The names of the filters it uses."""
        return self.facts.filters

    @property
    def comparisons(self) -> tuple[TextComparison, ...]:
        """The paths that it compares with literal texts."""
        return self.facts.comparisons


def join_facts(parts: Iterable[TemplateFacts]) -> TemplateFacts:
    """The facts of several parts as one, in order."""
    found = [part for part in parts if part is not NO_FACTS]
    if len(found) == 1:
        return found[0]
    return TemplateFacts(
        tuple(problem for part in found for problem in part.problems),
        tuple(read for part in found for read in part.reads),
        tuple(call for part in found for call in part.calls),
        frozenset(name for part in found for name in part.filters),
        tuple(one for part in found for one in part.comparisons),
    )


# Which names and paths a template reads, what it calls and which filters it uses: a walk over its tree.


def facts_of(tree: nodes.Expr) -> TemplateFacts:
    """The facts of one expression."""
    survey = _Survey()
    survey.expression(tree)
    return survey.facts()


def facts_of_statements(body: Iterable[nodes.Statement]) -> TemplateFacts:
    """The facts of a whole template with statements."""
    survey = _Survey()
    survey.statements(body)
    return survey.facts()


class _Survey:
    """Gathers while it walks; knows which names are bound at the point it has reached."""

    def __init__(self) -> None:
        self._problems: list[TemplateProblem] = []
        self._reads: list[PathRead] = []
        self._calls: list[FunctionCall] = []
        self._filters: set[str] = set()
        self._comparisons: list[TextComparison] = []
        self._bound: set[str] = set()

    def facts(self) -> TemplateFacts:
        reads = tuple(sorted(self._reads, key=lambda read: read.offset)) if len(self._reads) > 1 else tuple(self._reads)
        return TemplateFacts(
            tuple(self._problems),
            reads,
            tuple(self._calls),
            frozenset(self._filters),
            tuple(self._comparisons),
        )

    def expression(self, node: nodes.Expr | None) -> None:
        if node is None:
            return
        visit = _EXPRESSIONS.get(type(node))
        if visit is not None:
            visit(self, node)

    def all(self, found: Iterable[nodes.Expr | None]) -> None:
        for node in found:
            self.expression(node)

    def path(self, node: nodes.Name | nodes.Attribute | nodes.Item) -> None:
        """Follow a chain down to its root; what is computed on the way is a read of its own."""
        parts: list[str] = []
        exact = True
        at: nodes.Expr = node
        while not isinstance(at, nodes.Name):
            if isinstance(at, nodes.Attribute):
                parts.append(at.name)
            elif isinstance(at, nodes.Item):
                literal = _literal_key(at.key)
                if literal is not None:
                    parts.append(literal)
                else:
                    self.expression(at.key)
                    parts.clear()
                    exact = False
            else:
                self.expression(at)
                return
            at = at.of
        if at.name not in self._bound:
            self._reads.append(PathRead((at.name, *reversed(parts)), at.offset, exact))

    def call(self, node: nodes.CallExpr) -> None:
        if isinstance(node.of, nodes.Name):
            if node.of.name not in self._bound:
                self._calls.append(FunctionCall(node.of.name, _literals(node.arguments), node.of.offset))
        elif isinstance(node.of, nodes.Attribute):
            # `x.items()`: the method is no part of what is read.
            self.expression(node.of.of)
        else:
            self.expression(node.of)
        self.all(node.arguments.expressions())

    def filter(self, node: nodes.Filter) -> None:
        self._filters.add(node.name)
        if node.name not in FILTERS:
            self._unknown("filter", node)
        self.expression(node.of)
        self.all(node.arguments.expressions())

    def test(self, node: nodes.Test) -> None:
        if node.name not in TESTS:
            self._unknown("test", node)
        if node.name in _COMPARING_TESTS:
            self._compare_texts(node.of, _literals(node.arguments))
        self.expression(node.of)
        self.all(node.arguments.expressions())

    def compare(self, node: nodes.Compare) -> None:
        left = node.first
        for operator, right in node.rest:
            if operator in ("==", "!="):
                self._compare_texts(left, (_literal(right),))
                self._compare_texts(right, (_literal(left),))
            elif operator in ("in", "not in") and isinstance(right, (nodes.ListLiteral, nodes.TupleLiteral)):
                self._compare_texts(left, tuple(_literal(item) for item in right.items))
            left = right
        self.all((node.first, *(operand for _, operand in node.rest)))

    def _compare_texts(self, node: nodes.Expr, literals: tuple[str | None, ...]) -> None:
        texts = tuple(text for text in literals if text is not None)
        read = _read_of(node) if texts else None
        if read is not None and read.path[0] not in self._bound:
            self._comparisons.append(TextComparison(read.path, texts, read.offset))

    def _unknown(self, what: str, node: nodes.Filter | nodes.Test) -> None:
        self._problems.append(TemplateProblem("unknown-filter", f"there is no {what} `{node.name}`", node.offset))

    def statements(self, body: Iterable[nodes.Statement]) -> None:
        for node in body:
            _STATEMENTS[type(node)](self, node)

    def _walk_scope(self, body: Iterable[nodes.Statement], names: Iterable[str] = ()) -> None:
        """Walk a body whose bindings end with it."""
        outer = set(self._bound)
        self._bound.update(names)
        self.statements(body)
        self._bound = outer

    def for_(self, node: nodes.For) -> None:
        self.expression(node.items)
        outer = set(self._bound)
        self._bound.update(_target_names(node.target))
        self.expression(node.test)
        self._walk_scope(node.body, ("loop",))
        self._bound = outer
        self._walk_scope(node.otherwise)

    def if_(self, node: nodes.If) -> None:
        for test, body in node.branches:
            self.expression(test)
            self.statements(body)
        self.statements(node.otherwise)

    def assign(self, node: nodes.Assign) -> None:
        self.expression(node.value)
        self._bind(node.target)

    def assign_block(self, node: nodes.AssignBlock) -> None:
        self._walk_scope(node.body)
        self.expression(node.filter)
        self._bind(node.target)

    def with_(self, node: nodes.With) -> None:
        self.all(value for _, value in node.bindings)
        self._walk_scope(node.body, [name for target, _ in node.bindings for name in _target_names(target)])

    def filter_block(self, node: nodes.FilterBlock) -> None:
        self._walk_scope(node.body)
        self.expression(node.filter)

    def _bind(self, target: nodes.Target) -> None:
        if isinstance(target, nodes.NamespaceTarget):
            self.path(nodes.Name(target.namespace, target.offset))
        self._bound.update(_target_names(target))


def _target_names(target: nodes.Target) -> list[str]:
    if isinstance(target, nodes.NameTarget):
        return [target.name]
    if isinstance(target, nodes.TupleTarget):
        return [name for part in target.targets for name in _target_names(part)]
    return []


def _literals(arguments: nodes.Arguments) -> tuple[str | None, ...]:
    found: list[str | None] = []
    for node in arguments.expressions():
        if isinstance(node, (nodes.ListLiteral, nodes.TupleLiteral)):
            found.extend(_literal(item) for item in node.items)
        else:
            found.append(_literal(node))
    return tuple(found)


#: filters that leave a text as it is
_PASSING_FILTERS = frozenset({"default", "d", "string", "trim"})
_COMPARING_TESTS = frozenset({"eq", "equalto", "==", "ne", "!=", "in"})


def _read_of(node: nodes.Expr) -> PathRead | None:
    """The path that an expression is, if it is nothing else but one that always has the same parts."""
    parts: list[str] = []
    while not isinstance(node, nodes.Name):
        if isinstance(node, nodes.Filter) and node.of is not None and node.name in _PASSING_FILTERS and not parts:
            node = node.of
        elif isinstance(node, nodes.Attribute):
            parts.append(node.name)
            node = node.of
        elif isinstance(node, nodes.Item) and isinstance(node.key, nodes.Const) and isinstance(node.key.value, str):
            parts.append(node.key.value)
            node = node.of
        else:
            return None
    return PathRead((node.name, *reversed(parts)), node.offset, exact=True)


def _literal(node: nodes.Expr) -> str | None:
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _literal_key(key: nodes.Expr) -> str | None:
    """A key or an index that stands in the text, as a part of a path; None: it is computed."""
    sign = ""
    if isinstance(key, nodes.Unary) and key.operator == "-":
        sign, key = "-", key.of
    if isinstance(key, nodes.Const) and isinstance(key.value, int if sign else (str, int)):
        return f"{sign}{key.value}"
    return None


_EXPRESSIONS: dict[type, Callable[[_Survey, Any], None]] = {
    nodes.Name: _Survey.path,
    nodes.Attribute: _Survey.path,
    nodes.Item: _Survey.path,
    nodes.CallExpr: _Survey.call,
    nodes.Filter: _Survey.filter,
    nodes.Test: _Survey.test,
    nodes.Slice: lambda s, n: s.all((n.start, n.stop, n.step)),
    nodes.ListLiteral: lambda s, n: s.all(n.items),
    nodes.TupleLiteral: lambda s, n: s.all(n.items),
    nodes.DictLiteral: lambda s, n: s.all(part for pair in n.pairs for part in pair),
    nodes.Unary: lambda s, n: s.expression(n.of),
    nodes.Not: lambda s, n: s.expression(n.of),
    nodes.Binary: lambda s, n: s.all((n.left, n.right)),
    nodes.And: lambda s, n: s.all((n.left, n.right)),
    nodes.Or: lambda s, n: s.all((n.left, n.right)),
    nodes.Concat: lambda s, n: s.all(n.parts),
    nodes.Compare: _Survey.compare,
    nodes.Conditional: lambda s, n: s.all((n.test, n.then, n.otherwise)),
}
_STATEMENTS: dict[type, Callable[[_Survey, Any], None]] = {
    nodes.TemplateText: lambda _s, _n: None,
    nodes.Output: lambda s, n: s.expression(n.expression),
    nodes.For: _Survey.for_,
    nodes.If: _Survey.if_,
    nodes.Assign: _Survey.assign,
    nodes.AssignBlock: _Survey.assign_block,
    nodes.With: _Survey.with_,
    nodes.FilterBlock: _Survey.filter_block,
}

"""Jinja2's own parser, for all that `noetl.expr.syntax.parser` leaves to it, and its tree translated into ours.

Jinja2 knows the line of a node, we want its offset: the tokens are handed to its parser with offsets where it
expects line numbers, so that nodes and syntax errors come back with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, Final

import msgspec
from jinja2 import nodes as theirs
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import TokenStream
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl.expr.syntax import nodes as ours
from noetl.expr.syntax.facts import TemplateProblem
from noetl.expr.syntax.parser import with_known_escapes

# Jinja2's syntax tree to ours, node by node.


_BINARY: Final[dict[type, str]] = {
    theirs.Add: "+",
    theirs.Sub: "-",
    theirs.Mul: "*",
    theirs.Div: "/",
    theirs.FloorDiv: "//",
    theirs.Mod: "%",
    theirs.Pow: "**",
}
_COMPARISON: Final = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "lteq": "<=",
    "gt": ">",
    "gteq": ">=",
    "in": "in",
    "notin": "not in",
}
#: hides the shell's `${#` from Jinja2, which would begin a comment there; its last character is no text of anybody
SHELL_LENGTH: Final = "${\uffff"


def _restore(text: str) -> str:
    return text.replace(SHELL_LENGTH, "${#")


class Translation:
    """Of one template. Every node's `lineno` is an offset, see `noetl.expr.syntax.jinja`."""

    def __init__(self, source: str, shift: int = 0) -> None:
        self._source = source
        self.shift = shift

    def expression(self, node: Any) -> ours.Expr:
        """One expression."""
        operator = _BINARY.get(type(node))
        if operator is not None:
            return ours.Binary(operator, self.expression(node.left), self.expression(node.right))
        return _EXPRESSIONS[type(node)](self, node)

    def body(self, found: Sequence[Any]) -> tuple[ours.Statement, ...]:
        """A run of statements; Jinja2 bundles text and expressions, here each stands for itself."""
        done: list[ours.Statement] = []
        for node in found:
            if isinstance(node, theirs.Output):
                done.extend(self._output(part) for part in node.nodes)
            else:
                done.append(_STATEMENTS[type(node)](self, node))
        return tuple(done)

    def _output(self, node: Any) -> ours.Statement:
        if isinstance(node, theirs.TemplateData):
            return ours.TemplateText(_restore(node.data))
        return ours.Output(self.expression(node), node.lineno + self.shift)

    def constant(self, node: Any) -> ours.Const:
        if node.value == inf:
            raise TemplateSyntaxError("the number is too large", node.lineno)
        return ours.Const(_restore(node.value) if isinstance(node.value, str) else node.value)

    def maybe(self, node: Any) -> ours.Expr | None:
        return None if node is None else self.expression(node)

    def each(self, found: Sequence[Any]) -> tuple[ours.Expr, ...]:
        return tuple(self.expression(node) for node in found)

    def arguments(self, node: Any) -> ours.Arguments:
        return ours.Arguments(
            self.each(node.args),
            tuple((keyword.key, self.expression(keyword.value)) for keyword in node.kwargs),
            self.maybe(node.dyn_args),
            self.maybe(node.dyn_kwargs),
        )

    def filter(self, node: Any) -> ours.Filter:
        return ours.Filter(self.maybe(node.node), node.name, self.arguments(node), node.lineno + self.shift)

    def test(self, node: Any) -> ours.Test:
        # Jinja2 remembers where `is` stands; the name comes soon after.
        offset = max(node.lineno, self._source.find(node.name, node.lineno + 2))
        return ours.Test(self.expression(node.node), node.name, self.arguments(node), offset + self.shift)

    def not_(self, node: Any) -> ours.Expr:
        inner = self.expression(node.node)
        # To Jinja2 `is not` stands where its `is` does; any other `not` stands further to the left.
        if isinstance(inner, ours.Test) and node.lineno == node.node.lineno:
            return msgspec.structs.replace(inner, negated=True)
        return ours.Not(inner)

    def compare(self, node: Any) -> ours.Compare:
        rest = tuple((_COMPARISON[operand.op], self.expression(operand.expr)) for operand in node.ops)
        return ours.Compare(self.expression(node.expr), rest)

    def map_of(self, node: Any) -> ours.DictLiteral:
        return ours.DictLiteral(tuple((self.expression(pair.key), self.expression(pair.value)) for pair in node.items))

    def target(self, node: Any) -> ours.Target:
        if isinstance(node, theirs.Tuple):
            return ours.TupleTarget(tuple(self.target(item) for item in node.items))
        if isinstance(node, theirs.NSRef):
            return ours.NamespaceTarget(node.name, node.attr, node.lineno + self.shift)
        return ours.NameTarget(node.name)

    def for_(self, node: Any) -> ours.For:
        return ours.For(
            self.target(node.target),
            self.expression(node.iter),
            self.body(node.body),
            self.body(node.else_),
            self.maybe(node.test),
            bool(node.recursive),
        )

    def if_(self, node: Any) -> ours.If:
        branches = tuple((self.expression(one.test), self.body(one.body)) for one in (node, *node.elif_))
        return ours.If(branches, self.body(node.else_))

    def with_(self, node: Any) -> ours.With:
        bindings = tuple(
            (self.target(target), self.expression(value))
            for target, value in zip(node.targets, node.values, strict=True)
        )
        return ours.With(bindings, self.body(node.body))

    def assign_block(self, node: Any) -> ours.AssignBlock:
        filtered = None if node.filter is None else self.filter(node.filter)
        return ours.AssignBlock(self.target(node.target), filtered, self.body(node.body))


_EXPRESSIONS: Final[dict[type, Callable[[Translation, Any], ours.Expr]]] = {
    theirs.Const: Translation.constant,
    theirs.TemplateData: lambda _t, n: ours.Const(_restore(n.data)),
    theirs.Name: lambda t, n: ours.Name(n.name, n.lineno + t.shift),
    theirs.Getattr: lambda t, n: ours.Attribute(t.expression(n.node), n.attr),
    theirs.Getitem: lambda t, n: ours.Item(t.expression(n.node), t.expression(n.arg)),
    theirs.Slice: lambda t, n: ours.Slice(t.maybe(n.start), t.maybe(n.stop), t.maybe(n.step)),
    theirs.List: lambda t, n: ours.ListLiteral(t.each(n.items)),
    theirs.Tuple: lambda t, n: ours.TupleLiteral(t.each(n.items)),
    theirs.Dict: Translation.map_of,
    theirs.Filter: Translation.filter,
    theirs.Test: Translation.test,
    theirs.Call: lambda t, n: ours.CallExpr(t.expression(n.node), t.arguments(n)),
    theirs.Neg: lambda t, n: ours.Unary("-", t.expression(n.node)),
    theirs.Pos: lambda t, n: ours.Unary("+", t.expression(n.node)),
    theirs.Not: Translation.not_,
    theirs.And: lambda t, n: ours.And(t.expression(n.left), t.expression(n.right)),
    theirs.Or: lambda t, n: ours.Or(t.expression(n.left), t.expression(n.right)),
    theirs.Concat: lambda t, n: ours.Concat(t.each(n.nodes)),
    theirs.Compare: Translation.compare,
    theirs.CondExpr: lambda t, n: ours.Conditional(t.expression(n.test), t.expression(n.expr1), t.maybe(n.expr2)),
}
_STATEMENTS: Final[dict[type, Callable[[Translation, Any], ours.Statement]]] = {
    theirs.For: Translation.for_,
    theirs.If: Translation.if_,
    theirs.Assign: lambda t, n: ours.Assign(t.target(n.target), t.expression(n.node)),
    theirs.AssignBlock: Translation.assign_block,
    theirs.With: Translation.with_,
    theirs.FilterBlock: lambda t, n: ours.FilterBlock(t.filter(n.filter), t.body(n.body)),
}


_NEWLINE = re.compile(r"\r\n|\r")
#: statements that load or define other templates, and what does their work here
_REFUSED = {
    "macro": "a task in the workbook, or a `{% set %}` block, does its work",
    "call": "a task in the workbook does its work",
    "include": "`kind: playbook` and the workbook are how parts are reused",
    "import": "`kind: playbook` and the workbook are how parts are reused",
    "from": "`kind: playbook` and the workbook are how parts are reused",
    "extends": "`kind: playbook` and the workbook are how parts are reused",
    "block": "write its body where it stands",
    "autoescape": "use the `escape` filter",
}


class _ParserEnvironment(ImmutableSandboxedEnvironment):
    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        return TokenStream(self.lexer.wrap(self._offset_tokens(source, state)), name, filename)

    def _offset_tokens(self, source: str, state: str | None) -> Iterator[tuple[int, str, str]]:
        """Jinja2's tokens with their offset in place of their line."""
        position = 0
        try:
            for _line, kind, text in self.lexer.tokeniter(source, None, None, state):
                found = source.find(text, position)
                position = position if found < 0 else found
                yield position, kind, with_known_escapes(text) if kind == "string" else text
                position += len(text)
        except TemplateSyntaxError as error:
            error.lineno = position
            raise


class _TemplateParser(Parser):
    def parse_statement(self) -> theirs.Node | list[theirs.Node]:
        word = self.stream.current.value
        if word in _REFUSED:
            self.fail(f"`{{% {word} %}}` is not part of the language: {_REFUSED[word]}")
        return super().parse_statement()


_OPENING = "{{ "
_ENVIRONMENT = _ParserEnvironment(keep_trailing_newline=True)


def parse_expression(source: str) -> ours.Expr | TemplateProblem:
    """The tree of one expression, or what is wrong with it."""
    # The braces matter: what may stand before `}}` may not always stand before the end of a text.
    found = parse_template(_OPENING + source + "}}", shift=-len(_OPENING))
    if isinstance(found, TemplateProblem):
        return found
    only = found[0] if len(found) == 1 else None
    if not isinstance(only, ours.Output):
        return TemplateProblem("template-syntax", "the template does not parse: it is not one expression", 0)
    return only.expression


def parse_template(source: str, *, shift: int = 0) -> tuple[ours.Statement, ...] | TemplateProblem:
    """The tree of a whole template, or what is wrong with it; all offsets moved by `shift`."""
    text = _NEWLINE.sub("\n", source).replace("${#", SHELL_LENGTH)
    try:
        return Translation(text, shift).body(_TemplateParser(_ENVIRONMENT, text).parse().body)
    except TemplateSyntaxError as error:
        sentence = (error.message or "it cannot be read").rstrip(".")
        offset = max(0, error.lineno + shift)
        return TemplateProblem("template-syntax", f"the template does not parse: {sentence}", offset)
    except RecursionError:
        return TemplateProblem("template-syntax", "the template is nested too deeply", 0)
    except (ValueError, OverflowError) as error:
        # For instance a number of more digits than Python reads.
        return TemplateProblem("template-syntax", f"the template does not parse: {error}", 0)

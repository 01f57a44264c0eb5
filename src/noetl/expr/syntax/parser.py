"""Tokens to a syntax tree, for the expressions people usually write.

A recursive descent over Jinja2's expression grammar. Where it answers, it answers what Jinja2 would (a test
compares the two); where a source is wrong, or merely odd, it raises Unsure and `noetl.expr.syntax.jinja` takes over,
whose messages are Jinja2's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import Final

from noetl.expr.syntax import nodes
from noetl.expr.syntax.nodes import Expr

# The text of an expression to tokens, by one regular expression.
#
# Only what is surely the same in Jinja2 is recognised; `tokens` answers None for anything else, and the caller
# asks Jinja2 itself.


#: a token: its kind (`name`, `text`, `number`, or the operator or keyword itself), its text, its offset
Token = tuple[str, str, int]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<text>'[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<number>(?<![.\w]) (?:[0-9]+ (?: \.[0-9]+(?:[eE][+-]?[0-9]+)? | [eE][+-]?[0-9]+ ) | 0 | [1-9][0-9]*) (?![\w]))
    | (?P<operator>\*\* | // | [=!<>]= | [-+*/%~|.,:=<>()\[\]{}])
    )""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset({"and", "or", "not", "if", "else", "in", "is"})
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KNOWN_ESCAPES = frozenset("\n\\'\"abfnrtv01234567xuUN")
#: ends the list, so that the parser may always look at the token it stands on
END: Token = ("end", "", -1)


def tokens(source: str) -> list[Token] | None:
    """The tokens of an expression, closed by END; None when there is anything unusual in it."""
    found: list[Token] = []
    position = 0
    stop = len(source.rstrip())
    while position < stop:
        match = _TOKEN.match(source, position)
        if match is None:
            return None
        group = kind = match.lastgroup or "operator"
        text = match[group]
        if kind == "operator" or (kind == "name" and text in _KEYWORDS):
            kind = text
        found.append((kind, text, match.start(group)))
        position = match.end()
    found.append(END)
    return found


def text_of(literal: str) -> str | None:
    """The value of a quoted literal, escapes resolved as Python does; None when they do not resolve."""
    inner = literal[1:-1]
    if "\r" in inner:
        return None
    if "\\" not in inner:
        return inner
    try:
        return with_known_escapes(inner).encode("ascii", "backslashreplace").decode("unicode-escape")
    except UnicodeDecodeError:
        return None


def with_known_escapes(literal: str) -> str:
    """An unknown escape stands for itself, but Python warns of it: it is doubled before decoding."""
    return _ESCAPE.sub(lambda m: m[0] if m[1] in _KNOWN_ESCAPES else "\\" + m[0], literal)


def number_of(literal: str) -> int | float:
    """The value of a number."""
    return int(literal) if literal.isdigit() else float(literal)


_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
#: how tightly an operator binds
_BINDING: Final = {"+": 1, "-": 1, "~": 2, "*": 3, "/": 3, "//": 3, "%": 3, "**": 4}
_CONSTANTS: Final = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}
#: what can begin the argument of a test that is written without parentheses
_BEGINS_ARGUMENT: Final = frozenset({"name", "text", "number", "[", "{", "not", "if", "in", "is"})


class NeedsJinja(Exception):
    """This is for Jinja2 to judge."""


def parse(source: str) -> Expr:
    """The tree of one expression; raises Unsure where Jinja2 has to be asked."""
    found = tokens(source)
    if found is None:
        raise NeedsJinja
    parser = _Parser(found)
    tree = parser.expression()
    if parser.kind != "end":
        raise NeedsJinja
    return tree


class _Parser:
    """Stands on one token; every method reads one construct and stops behind it."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0
        self.kind, self._text, self._offset = found[0]

    def _advance(self) -> None:
        self._at += 1
        self.kind, self._text, self._offset = self._tokens[self._at]

    def _expect(self, kind: str) -> None:
        if self.kind != kind:
            raise NeedsJinja
        self._advance()

    def _next_kind(self) -> str:
        return self._tokens[self._at + 1][0] if self.kind != "end" else END[0]

    def expression(self) -> Expr:
        found = self._or()
        while self.kind == "if":
            self._advance()
            test = self._or()
            otherwise = None
            if self.kind == "else":
                self._advance()
                otherwise = self.expression()
            found = nodes.Conditional(test, found, otherwise)
        return found

    def _or(self) -> Expr:
        found = self._and()
        while self.kind == "or":
            self._advance()
            found = nodes.Or(found, self._and())
        return found

    def _and(self) -> Expr:
        found = self._not()
        while self.kind == "and":
            self._advance()
            found = nodes.And(found, self._not())
        return found

    def _not(self) -> Expr:
        if self.kind == "not":
            self._advance()
            return nodes.Not(self._not())
        return self._comparison()

    def _comparison(self) -> Expr:
        first = self._arithmetic(1)
        rest: list[tuple[str, Expr]] = []
        while True:
            if self.kind in _COMPARISONS or self.kind == "in":
                operator = self.kind
                self._advance()
            elif self.kind == "not" and self._next_kind() == "in":
                operator = "not in"
                self._advance()
                self._advance()
            else:
                break
            rest.append((operator, self._arithmetic(1)))
        return nodes.Compare(first, tuple(rest)) if rest else first

    def _arithmetic(self, weakest: int) -> Expr:
        """Operators that bind at least as tightly as `weakest`, all left-associative."""
        left = self._unary(with_filters=True)
        while (binding := _BINDING.get(self.kind, 0)) >= weakest:
            operator = self.kind
            if operator == "~":
                left = self._concatenation(left, binding)
                continue
            self._advance()
            left = nodes.Binary(operator, left, self._arithmetic(binding + 1))
        return left

    def _concatenation(self, left: Expr, binding: int) -> Expr:
        """`a ~ b ~ c` is one node, whose parts are collected once."""
        parts: list[Expr] = list(left.parts) if isinstance(left, nodes.Concat) else [left]
        while self.kind == "~":
            self._advance()
            parts.append(self._arithmetic(binding + 1))
        return nodes.Concat(tuple(parts))

    def _unary(self, *, with_filters: bool) -> Expr:
        if self.kind in ("-", "+"):
            operator = self.kind
            self._advance()
            found: Expr = nodes.Unary(operator, self._unary(with_filters=False))
        else:
            found = self._primary()
        found = self._postfix(found)
        return self._filters(found) if with_filters else found

    def _primary(self) -> Expr:
        kind, text, offset = self.kind, self._text, self._offset
        reader = _PRIMARIES.get(kind)
        if reader is not None:
            return reader(self)
        if kind == "name":
            self._advance()
            return nodes.Const(_CONSTANTS[text]) if text in _CONSTANTS else nodes.Name(text, offset)
        if kind != "number":
            raise NeedsJinja
        self._advance()
        number = number_of(text)
        if number == inf:
            raise NeedsJinja
        return nodes.Const(number)

    def literal_text(self) -> Expr:
        parts: list[str] = []
        while self.kind == "text":
            part = text_of(self._text)
            if part is None:
                raise NeedsJinja
            parts.append(part)
            self._advance()
        return nodes.Const("".join(parts))

    def parentheses(self) -> Expr:
        self._advance()
        if self.kind == ")":
            self._advance()
            return nodes.TupleLiteral(())
        first = self.expression()
        if self.kind == ")":
            self._advance()
            return first
        items = [first]
        while self.kind == ",":
            self._advance()
            if self.kind == ")":
                break
            items.append(self.expression())
        self._expect(")")
        return nodes.TupleLiteral(tuple(items))

    def list_of(self) -> Expr:
        self._advance()
        items: list[Expr] = []
        while self.kind != "]":
            if items:
                self._expect(",")
                if self.kind == "]":
                    break
            items.append(self.expression())
        self._advance()
        return nodes.ListLiteral(tuple(items))

    def map_of(self) -> Expr:
        self._advance()
        pairs: list[tuple[Expr, Expr]] = []
        while self.kind != "}":
            if pairs:
                self._expect(",")
                if self.kind == "}":
                    break
            key = self.expression()
            self._expect(":")
            pairs.append((key, self.expression()))
        self._advance()
        return nodes.DictLiteral(tuple(pairs))

    def _postfix(self, found: Expr) -> Expr:
        while True:
            if self.kind == ".":
                self._advance()
                # A keyword is an ordinary name behind a dot.
                if not self._text.isidentifier():
                    raise NeedsJinja
                found = nodes.Attribute(found, self._text)
                self._advance()
            elif self.kind == "[":
                self._advance()
                found = nodes.Item(found, self._subscript())
                self._expect("]")
            elif self.kind == "(":
                found = nodes.CallExpr(found, self._arguments())
            else:
                return found

    def _subscript(self) -> Expr:
        if self.kind == ":":
            return self._slice(None)
        start = self.expression()
        return self._slice(start) if self.kind == ":" else start

    def _slice(self, start: Expr | None) -> Expr:
        bounds: list[Expr | None] = [start]
        while self.kind == ":" and len(bounds) < 3:
            self._advance()
            bounds.append(None if self.kind in ("]", ":") else self.expression())
        bounds += [None] * (3 - len(bounds))
        return nodes.Slice(*bounds)

    def _filters(self, found: Expr) -> Expr:
        while True:
            if self.kind == "|":
                self._advance()
                found = self._filter(found)
            elif self.kind == "is":
                found = self._test(found)
            elif self.kind == "(":
                found = nodes.CallExpr(found, self._arguments())
            else:
                return found

    def _word(self) -> str:
        """A name where any word will do."""
        word = self._text
        if not word.isidentifier() or self._next_kind() == ".":
            raise NeedsJinja
        self._advance()
        return word

    def _filter(self, found: Expr) -> Expr:
        offset = self._offset
        name = self._word()
        return nodes.Filter(found, name, self._arguments() if self.kind == "(" else nodes.NO_ARGUMENTS, offset)

    def _test(self, found: Expr) -> Expr:
        self._advance()
        negated = self.kind == "not"
        if negated:
            self._advance()
        offset = self._offset
        name = self._word()
        if self.kind == "(":
            arguments = self._arguments()
        elif self.kind in _BEGINS_ARGUMENT:
            arguments = nodes.Arguments((self._postfix(self._primary()),))
        else:
            arguments = nodes.NO_ARGUMENTS
        return nodes.Test(found, name, arguments, offset, negated)

    def _arguments(self) -> nodes.Arguments:
        self._advance()
        positional: list[Expr] = []
        keywords: list[tuple[str, Expr]] = []
        while self.kind != ")":
            if positional or keywords:
                self._expect(",")
                if self.kind == ")":
                    break
            if self.kind == "name" and self._next_kind() == "=":
                name = self._text
                self._advance()
                self._advance()
                keywords.append((name, self.expression()))
            elif keywords:
                raise NeedsJinja
            else:
                positional.append(self.expression())
        self._advance()
        return nodes.Arguments(tuple(positional), tuple(keywords))


_PRIMARIES: Final[dict[str, Callable[[_Parser], Expr]]] = {
    "text": _Parser.literal_text,
    "(": _Parser.parentheses,
    "[": _Parser.list_of,
    "{": _Parser.map_of,
}

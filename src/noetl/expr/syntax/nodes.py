"""The syntax tree of a template: expressions, and the few statements the language allows.

Jinja2's own tree is not used because building it needs jinja2, which takes longer to import than most
playbooks take to validate. `noetl.expr.syntax.parser` builds this tree directly for what people usually write,
`noetl.expr.syntax.jinja` translates Jinja2's tree for all the rest.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True, gc=False):
    """Anything in the tree."""


class Const(Node, frozen=True, gc=False):
    """A literal number, text, boolean or none."""

    value: Any


class Name(Node, frozen=True, gc=False):
    """A bare name."""

    name: str
    offset: int


class Attribute(Node, frozen=True, gc=False):
    """`of.name`."""

    of: Expr
    name: str


class Item(Node, frozen=True, gc=False):
    """`of[key]`."""

    of: Expr
    key: Expr


class Slice(Node, frozen=True, gc=False):
    """`start:stop:step`, inside the brackets of an Item."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


class ListLiteral(Node, frozen=True, gc=False):
    """`[a, b]`."""

    items: tuple[Expr, ...]


class TupleLiteral(Node, frozen=True, gc=False):
    """`(a, b)`."""

    items: tuple[Expr, ...]


class DictLiteral(Node, frozen=True, gc=False):
    """`{k: v}`."""

    pairs: tuple[tuple[Expr, Expr], ...]


class Arguments(Node, frozen=True, gc=False):
    """What stands in the parentheses of a call, filter or test."""

    positional: tuple[Expr, ...] = ()
    keywords: tuple[tuple[str, Expr], ...] = ()
    star: Expr | None = None
    double_star: Expr | None = None

    def expressions(self) -> tuple[Expr, ...]:
        """Every argument, whatever its shape."""
        rest = tuple(extra for extra in (self.star, self.double_star) if extra is not None)
        return self.positional + tuple(value for _, value in self.keywords) + rest


NO_ARGUMENTS = Arguments()


class Filter(Node, frozen=True, gc=False):
    """`of | name(arguments)`; `of` is None for the filter of a block, whose text it receives."""

    of: Expr | None
    name: str
    arguments: Arguments
    offset: int


class Test(Node, frozen=True, gc=False):
    """`of is name(arguments)`."""

    of: Expr
    name: str
    arguments: Arguments
    offset: int
    #: written `is not`; unlike `not (… is …)` it says something about an undefined, namely nothing
    negated: bool = False


class CallExpr(Node, frozen=True, gc=False):
    """`of(arguments)`."""

    of: Expr
    arguments: Arguments


class Unary(Node, frozen=True, gc=False):
    """`-of`, `+of`."""

    operator: str
    of: Expr


class Binary(Node, frozen=True, gc=False):
    """`left operator right`, for arithmetic."""

    operator: str
    left: Expr
    right: Expr


class Concat(Node, frozen=True, gc=False):
    """`a ~ b ~ c`."""

    parts: tuple[Expr, ...]


class Compare(Node, frozen=True, gc=False):
    """`first < a <= b`; also `in` and `not in`."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]


class And(Node, frozen=True, gc=False):
    """`left and right`."""

    left: Expr
    right: Expr


class Or(Node, frozen=True, gc=False):
    """`left or right`."""

    left: Expr
    right: Expr


class Not(Node, frozen=True, gc=False):
    """`not of`."""

    of: Expr


class Conditional(Node, frozen=True, gc=False):
    """`then if test else otherwise`."""

    test: Expr
    then: Expr
    otherwise: Expr | None


Expr: TypeAlias = (
    Const
    | Name
    | Attribute
    | Item
    | Slice
    | ListLiteral
    | TupleLiteral
    | DictLiteral
    | Filter
    | Test
    | CallExpr
    | Unary
    | Binary
    | Concat
    | Compare
    | And
    | Or
    | Not
    | Conditional
)


class NamespaceTarget(Node, frozen=True, gc=False):
    """`ns.name`, where a `set` writes it."""

    namespace: str
    name: str
    offset: int


class NameTarget(Node, frozen=True, gc=False):
    """A name that `for`, `set` or `with` binds."""

    name: str


class TupleTarget(Node, frozen=True, gc=False):
    """`a, b`, where values are unpacked into names."""

    targets: tuple[Target, ...]


Target: TypeAlias = NameTarget | TupleTarget | NamespaceTarget


class TemplateText(Node, frozen=True, gc=False):
    """Literal text of the template."""

    data: str


class Output(Node, frozen=True, gc=False):
    """`{{ expression }}`."""

    expression: Expr
    offset: int


class For(Node, frozen=True, gc=False):
    """`{% for target in items if test recursive %}body{% else %}otherwise{% endfor %}`."""

    target: Target
    items: Expr
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    test: Expr | None
    recursive: bool


class If(Node, frozen=True, gc=False):
    """`{% if %}…{% elif %}…{% else %}…{% endif %}`."""

    branches: tuple[tuple[Expr, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...]


class Assign(Node, frozen=True, gc=False):
    """`{% set target = value %}`."""

    target: Target
    value: Expr


class AssignBlock(Node, frozen=True, gc=False):
    """`{% set target | filter %}body{% endset %}`."""

    target: Target
    filter: Filter | None
    body: tuple[Statement, ...]


class With(Node, frozen=True, gc=False):
    """`{% with a = 1, b = 2 %}body{% endwith %}`."""

    bindings: tuple[tuple[Target, Expr], ...]
    body: tuple[Statement, ...]


class FilterBlock(Node, frozen=True, gc=False):
    """`{% filter name %}body{% endfilter %}`."""

    filter: Filter
    body: tuple[Statement, ...]


Statement: TypeAlias = TemplateText | Output | For | If | Assign | AssignBlock | With | FilterBlock

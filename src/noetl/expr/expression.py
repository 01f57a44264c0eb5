"""One `{{ … }}`: its facts without running it, and its code once it runs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from noetl.errors import TemplateError, TemplateLimit
from noetl.expr.closures.access import describe, name_code, path_code
from noetl.expr.closures.expressions import compile_expression
from noetl.expr.closures.statements import marker_of
from noetl.expr.facts import PathRead, TemplateFacts, TemplateProblem, length_problem
from noetl.expr.sandbox.evaluation import Code, Evaluation
from noetl.expr.sandbox.plain_data import plain
from noetl.expr.syntax import nodes
from noetl.expr.syntax.parser import NeedsJinja, parse
from noetl.expr.syntax.reads import facts_of

#: a dotted path, which is what most expressions are; told apart without parsing
_PATH: Final = re.compile(r"\s*([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)\s*", re.ASCII)
_NOT_A_ROOT: Final = frozenset(
    "and or not if else in is true false none True False None".split()  # noqa: SIM905  a list of words reads better so
)
#: what a longer source or message is cut to where it is quoted
_QUOTED: Final = 200


class Expression:
    """Of one source text; shared by all templates that contain it."""

    __slots__ = ("_code", "_facts", "_is_part", "_path", "_tree", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        match = _PATH.fullmatch(source)
        self._path: tuple[str, ...] | None = None
        if match is not None and match[1] not in _NOT_A_ROOT:
            self._path = (match[1], *match[2].split(".")[1:])
        self._is_part: bool | None = True if self._path is not None else None
        self._facts: TemplateFacts | None = None
        self._tree: nodes.Expr | TemplateProblem | None = None
        self._code: Code | None = None

    @property
    def facts(self) -> TemplateFacts:
        """Problems, reads, calls and filters, with offsets into the source."""
        if self._facts is None:
            self._facts = self._find_facts()
        return self._facts

    @property
    def path(self) -> tuple[str, ...] | None:
        """Its names, when it is a dotted path and nothing else."""
        return self._path

    @property
    def marker(self) -> str | None:
        """`sql` or `raw` when that is the last filter."""
        if self._path is not None or "|" not in self.source:
            return None
        tree = self._parse()
        return None if isinstance(tree, TemplateProblem) else marker_of(tree)

    def evaluate(self, run: Evaluation) -> Any:
        """The value as it comes: it may be undefined, or not plain."""
        if self._code is None:
            self._code = self._compile()
        return self._code(run)

    def plain_value(self, run: Evaluation) -> Any:
        """The value as plain data."""
        value = self.evaluate(run)
        if value.__class__ in (dict, list) and self._yields_a_part():
            return value  # a part of the scopes as it is: nothing was made, so there is nothing to check
        return plain(run, value)

    def _yields_a_part(self) -> bool:
        """Whether it is a path and nothing else, such as `_prev['items'][0].rows`."""
        if self._is_part is None:
            tree = self._parse()
            self._is_part = not isinstance(tree, TemplateProblem) and describe(tree) != ""
        return self._is_part

    def _parse(self) -> nodes.Expr | TemplateProblem:
        if self._tree is None:
            self._tree = length_problem("expression", self.source)
        if self._tree is None:
            try:
                self._tree = parse(self.source)
            except (NeedsJinja, RecursionError, ValueError):
                from noetl.expr.syntax.jinja import parse_expression

                self._tree = parse_expression(self.source)
        return self._tree

    def _find_facts(self) -> TemplateFacts:
        if self._path is not None:
            offset = len(self.source) - len(self.source.lstrip())
            return TemplateFacts(reads=(PathRead(self._path, offset, exact=True),))
        tree = self._parse()
        if isinstance(tree, TemplateProblem):
            return TemplateFacts(problems=(tree,))
        try:
            return facts_of(tree)
        except RecursionError:
            return TemplateFacts(problems=(TemplateProblem("template-syntax", "the template is nested too deeply", 0),))

    def _compile(self) -> Code:
        if self._path is not None:
            root, *names = self._path
            return path_code(root, tuple(names)) if names else name_code(root)
        tree = self._parse()
        if isinstance(tree, TemplateProblem):
            raise TemplateError(tree.message)
        return compile_expression(tree)


@lru_cache(maxsize=32_768)
def expression(source: str) -> Expression:
    """The expression of a source text."""
    return Expression(source)


def quote_expression(source: str) -> str:
    """An expression as messages show it."""
    return f"`{{{{ {shorten(source)} }}}}`"


def shorten(text: str) -> str:
    """A text as messages show it: on one line, and not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


def evaluation_error(error: Exception, shown: str, source: str) -> TemplateError:
    """Whatever went wrong in an evaluation, as the error that leaves it: with the expression quoted."""
    if isinstance(error, TemplateError):
        found = error
        reason = error.message
    elif isinstance(error, RecursionError):
        found = TemplateLimit(reason := "it is nested too deeply")
    elif isinstance(error, MemoryError):
        found = TemplateLimit(reason := "it grew too large")
    else:
        found = TemplateError(reason := shorten(str(error)) or type(error).__name__)
    if not found.expression:
        found.message = f"in {shown}: {reason}"
        found.args = (found.message,)
        found.expression = source
    return found

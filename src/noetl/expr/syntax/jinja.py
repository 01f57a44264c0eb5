"""Jinja2's own parser, for all that `noetl.expr.syntax.parser` leaves to it, and its tree translated into ours.

Jinja2 knows the line of a node, we want its offset: the tokens are handed to its parser with offsets where it
expects line numbers, so that nodes and syntax errors come back with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from jinja2 import nodes as theirs
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import TokenStream, describe_token
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl.expr.facts import Problem
from noetl.expr.syntax import nodes as ours
from noetl.expr.syntax.translation import Translation

_Tree = TypeVar("_Tree")

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


class _Environment(ImmutableSandboxedEnvironment):
    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        return TokenStream(self.lexer.wrap(self._placed(source, state)), name, filename)

    def _placed(self, source: str, state: str | None) -> Iterator[tuple[int, str, str]]:
        """Jinja2's tokens with their offset in place of their line."""
        position = 0
        try:
            for _line, kind, text in self.lexer.tokeniter(source, None, None, state):
                found = source.find(text, position)
                position = position if found < 0 else found
                yield position, kind, text
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

    def parse_lone_expression(self) -> theirs.Expr:
        tree = self.parse_tuple(with_condexpr=True)
        if not self.stream.eos:
            self.fail(f"expected the end of the expression, got {describe_token(self.stream.current)!r}")
        return tree


_ENVIRONMENT = _Environment(keep_trailing_newline=True)


def parse_expression(source: str) -> ours.Expr | Problem:
    """The tree of one expression, or what is wrong with it."""
    text = _NEWLINE.sub("\n", source)
    return _guarded(
        lambda: Translation(text).expression(
            _TemplateParser(_ENVIRONMENT, text, state="variable").parse_lone_expression()
        )
    )


def parse_template(source: str) -> tuple[ours.Statement, ...] | Problem:
    """The tree of a whole template, or what is wrong with it."""
    text = _NEWLINE.sub("\n", source)
    return _guarded(lambda: Translation(text).body(_TemplateParser(_ENVIRONMENT, text).parse().body))


def _guarded(parse: Callable[[], _Tree]) -> _Tree | Problem:
    try:
        return parse()
    except TemplateSyntaxError as error:
        sentence = (error.message or "it cannot be read").rstrip(".")
        return Problem("template-syntax", f"The template does not parse: {sentence}.", None, error.lineno)
    except RecursionError:
        return Problem("template-syntax", "The template is nested too deeply.", None, 0)
    except (ValueError, OverflowError) as error:
        # For instance a number of more digits than Python reads.
        return Problem("template-syntax", f"The template does not parse: {error}.", None, 0)

"""Jinja2's own parser, for all that `noetl.expr.syntax.parser` leaves to it, and its tree translated into ours.

Jinja2 knows the line of a node, we want its offset: the tokens are handed to its parser with offsets where it
expects line numbers, so that nodes and syntax errors come back with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes as theirs
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import TokenStream
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl.expr.facts import Problem
from noetl.expr.syntax import nodes as ours
from noetl.expr.syntax.lexer import with_known_escapes
from noetl.expr.syntax.translation import SHELL_LENGTH, Translation

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
_ENVIRONMENT = _Environment(keep_trailing_newline=True)


def parse_expression(source: str) -> ours.Expr | Problem:
    """The tree of one expression, or what is wrong with it."""
    # The braces matter: what may stand before `}}` may not always stand before the end of a text.
    found = parse_template(_OPENING + source + "}}", shift=-len(_OPENING))
    if isinstance(found, Problem):
        return found
    only = found[0] if len(found) == 1 else None
    if not isinstance(only, ours.Output):
        return Problem("template-syntax", "the template does not parse: it is not one expression", 0)
    return only.expression


def parse_template(source: str, *, shift: int = 0) -> tuple[ours.Statement, ...] | Problem:
    """The tree of a whole template, or what is wrong with it; all offsets moved by `shift`."""
    text = _NEWLINE.sub("\n", source).replace("${#", SHELL_LENGTH)
    try:
        return Translation(text, shift).body(_TemplateParser(_ENVIRONMENT, text).parse().body)
    except TemplateSyntaxError as error:
        sentence = (error.message or "it cannot be read").rstrip(".")
        offset = max(0, error.lineno + shift)
        return Problem("template-syntax", f"the template does not parse: {sentence}", offset)
    except RecursionError:
        return Problem("template-syntax", "the template is nested too deeply", 0)
    except (ValueError, OverflowError) as error:
        # For instance a number of more digits than Python reads.
        return Problem("template-syntax", f"the template does not parse: {error}", 0)

"""Shell commands with templates: each `{{ … }}` arrives as one unchanged word, whatever is in it.

    compile_command('cp {{ input.from }} "/backup/{{ input.name }}"').render(scopes)

`| raw` inserts a value as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.compiler.statements import InsertedValue, Pieces
from noetl.expr.embedded.shell_scanner import HOLE, Heredoc, Quoting, ScannedCommand, ShellSlot, scan
from noetl.expr.sandbox.evaluation import DEFAULT_BUDGET, Budget, Evaluation
from noetl.expr.sandbox.plain_data import to_text
from noetl.expr.syntax.facts import HasFacts, TemplateFacts, join_facts
from noetl.expr.templates import Expression, Template, evaluation_error, quote_expression, template

_HARMLESS: Final = re.compile(r"[A-Za-z0-9_@%+:,./][A-Za-z0-9_@%+=:,./-]*")
_INTEGER: Final = re.compile(r"-?[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_SPECIAL_IN_BRACES: Final = re.compile(r"""([\\$`"}])""")
_SPECIAL_IN_HEREDOC: Final = re.compile(r"([\\$`])")


class ShellTemplate(HasFacts):
    """Shell text of a playbook, understood before any value is known; templates in its comments are left out."""

    __slots__ = ("_holes", "_scanned", "facts", "source", "template")

    def __init__(self, source: str) -> None:
        self.source = source
        self.template: Template = template(source)
        self._scanned: ScannedCommand | None = None
        self._holes: list[Expression] = []
        self.facts: TemplateFacts = self._understand()

    def render(self, scopes: Mapping[str, Any], budget: Budget | None = None) -> str:
        """The command with its values."""
        if HOLE in self.source:
            raise TemplateError("there is a NUL character in the command", expression=self.source)
        run = Evaluation(scopes, budget or DEFAULT_BUDGET, tolerant=False)
        if self._scanned is None:
            return self._render_statements(run)
        values: list[_Word] = []
        for index, found in enumerate(self._holes):
            try:
                dropped = index in self._scanned.dropped
                values.append(_Word("" if dropped else to_text(run, found.evaluate(run)), found.marker))
            except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
                raise evaluation_error(error, quote_expression(found.source), self.source) from None
        try:
            return _write_command(self._scanned, values)
        except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
            raise evaluation_error(error, "the command", self.source) from None

    def _understand(self) -> TemplateFacts:
        pieces = self.template.parts
        if pieces is None or HOLE in self.source:
            return self.template.facts
        holes = [piece for piece in pieces if not isinstance(piece, str)]
        self._holes = [found for found, _ in holes]
        # A value marked `raw` is the author's text as far as quoting goes, but it is not known yet.
        self._scanned = scan("".join(piece if isinstance(piece, str) else HOLE for piece in pieces))
        kept = [
            found.facts.shift(offset)
            for index, (found, offset) in enumerate(holes)
            if index not in self._scanned.dropped
        ]
        return join_facts(kept)

    def _render_statements(self, run: Evaluation) -> str:
        """A command whose text `{% if %}` and the like decide on."""
        try:
            pieces: Pieces = []
            self.template.action(keep_values=True)(run, pieces)
            words = [
                _Word(to_text(run, piece.value), piece.marker) for piece in pieces if isinstance(piece, InsertedValue)
            ]
            return _write_command(scan("".join(p if isinstance(p, str) else HOLE for p in pieces)), words)
        except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
            raise evaluation_error(error, "the command", self.source) from None


class _Word:
    """A value as text, and whether it is to be inserted as it is."""

    __slots__ = ("raw", "text")

    def __init__(self, text: str, marker: str | None) -> None:
        if HOLE in text:
            raise TemplateError("there is a NUL character in a value, which no command can take")
        self.text = text
        self.raw = marker == "raw"


@lru_cache(maxsize=4_096)
def compile_command(text: str) -> ShellTemplate:
    """The command of a text; what is wrong with it is in its `problems`."""
    return ShellTemplate(text)


def _write_command(scanned: ScannedCommand, values: Sequence[_Word]) -> str:
    texts: list[str] = []
    for part in scanned.parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, ShellSlot):
            texts.append(_insert_value(part, values[part.index], sure=scanned.sure))
        else:
            texts.append(_body(part, values, sure=scanned.sure))
    return "".join(texts)


def _body(heredoc: Heredoc, values: Sequence[_Word], *, sure: bool) -> str:
    text = "".join(
        part if isinstance(part, str) else _insert_value(part, values[part.index], sure=sure) for part in heredoc.parts
    )
    for line in text.split("\n"):
        if (line.lstrip("\t") if heredoc.strip_tabs else line) == heredoc.delimiter:
            raise TemplateError(f"a value would end the here-document at `{heredoc.delimiter}`")
    return text


def _insert_value(slot: ShellSlot, value: _Word, *, sure: bool) -> str:
    if value.raw:
        return value.text
    if not sure:
        if not _HARMLESS.fullmatch(value.text):
            raise TemplateError(
                "a value with special characters cannot be inserted here, because the quotes around it cannot be "
                "told for certain; hand it over in `env` instead"
            )
        return value.text
    text = _WRITERS[slot.how](value.text)
    for _ in range(slot.backticks):
        text = _SPECIAL_IN_HEREDOC.sub(r"\\\1", text)
    return text


def _word(text: str) -> str:
    """One word in single quotes; always in quotes, so that it is never a keyword or a file descriptor."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _integer(text: str) -> str:
    if not _INTEGER.fullmatch(text):
        raise TemplateError("a value inside $(( … )) has to be an integer")
    return text


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise TemplateError("a value that names a variable inside ${…} has to be a plain name")
    return text


def _in_braces(text: str) -> str:
    if "'" in text:
        raise TemplateError('a value with a single quote cannot be inserted inside "${…}": shells disagree on it')
    return _SPECIAL_IN_BRACES.sub(r"\\\1", text)


_WRITERS: Final[dict[Quoting, Callable[[str], str]]] = {
    Quoting.WORD: _word,
    Quoting.SINGLE: lambda text: text.replace("'", "'\"'\"'"),
    # Out of the quotes and back in again: nothing around the value can take hold of it.
    Quoting.DOUBLE: lambda text: f'"{_word(text)}"',
    Quoting.BRACES: _in_braces,
    Quoting.HEREDOC: lambda text: _SPECIAL_IN_HEREDOC.sub(r"\\\1", text),
    Quoting.VERBATIM: str,
    Quoting.INTEGER: _integer,
    Quoting.NAME: _name,
}

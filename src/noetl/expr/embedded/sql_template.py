"""SQL with templates to a statement with bound parameters: values are bound, never spliced.

    statement = compile_sql("SELECT * FROM {{ workload.table }} WHERE who = {{ input.who }} AND n > :least")
    statement.render(scopes, "$1", {"least": 3})    # ('SELECT * FROM "t" WHERE who = $1 AND n > $2', ["Ann", 3])

A driver that cannot bind everywhere asks for the parts first: `statement.bind(scopes, params)` is a Query, whose
`statements()` are its single statements and whose `render` takes the driver's own quoting for literals.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from noetl.expr.compiler.statements import InsertedValue, Pieces
from noetl.expr.embedded.sql_query import (
    HOLE,
    Bind,
    BoundQuery,
    CodeBody,
    Finished,
    HoleValue,
    Identifier,
    NamedParameter,
    Parameter,
    Part,
    QuotedBody,
    Splice,
    SqlText,
    StatementBreak,
    Style,
    sql_error,
)
from noetl.expr.embedded.sql_scanner import scan
from noetl.expr.sandbox.evaluation import DEFAULT_BUDGET, Budget, Evaluation
from noetl.expr.sandbox.plain_data import plain, to_text
from noetl.expr.syntax.facts import HasFacts, TemplateFacts, join_facts
from noetl.expr.templates import Expression, Template, evaluation_error, quote_expression, template

_PLAIN: Final = re.compile(r"[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*")
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_PLAIN_PIECE: Final = re.compile(r"[\w$]+")


class SqlTemplate(HasFacts):
    """SQL text of a playbook, understood before any value is known; templates in its comments are left out."""

    __slots__ = ("_parts", "facts", "source", "template")

    def __init__(self, source: str) -> None:
        self.source = source
        self.template: Template = template(source)
        self._parts: tuple[Part, ...] | None = None
        self.facts: TemplateFacts = self._understand()

    @property
    def parts(self) -> tuple[Part, ...] | None:
        """Its parts; None when statements such as `{% if %}` decide on them at run time."""
        return self._parts

    @property
    def names(self) -> frozenset[str]:
        """The `:name` and `%(name)s` parameters it wants."""
        return frozenset(part.name for part in self._parts or () if isinstance(part, NamedParameter))

    @property
    def has_bare_statement(self) -> bool:
        """Whether a statement consists of templates alone, which a database cannot take as values."""
        if self._parts is None:
            return False
        statements: list[list[Part]] = [[]]
        for part in self._parts:
            if isinstance(part, StatementBreak):
                statements.append([])
            elif not isinstance(part, SqlText) or _COMMENT.sub("", part.text).strip():
                statements[-1].append(part)
        return any(one and all(isinstance(part, Bind) and not part.literal for part in one) for one in statements)

    def bind(
        self, scopes: Mapping[str, Any], params: Mapping[str, Any] | None = None, budget: Budget | None = None
    ) -> BoundQuery:
        """The statement with its values."""
        run = Evaluation(scopes, budget or DEFAULT_BUDGET, tolerant=False)
        return self._fill(run, self._parts_for(run), params or {})

    def _fill(self, run: Evaluation, parts: Sequence[Part], params: Mapping[str, Any]) -> BoundQuery:
        found: list[Finished] = []
        for part in parts:
            try:
                if isinstance(part, CodeBody) and not part.refusal:
                    found.append(QuotedBody(self._fill(run, part.parts, params)))
                elif isinstance(part, Splice):
                    found.extend(_splice(to_text(run, part.source.evaluate(run))))
                else:
                    found.append(_fill(run, part, params))
            except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
                raise evaluation_error(error, _quote_holes(part), self.source) from None
        return BoundQuery(tuple(found))

    def render(
        self,
        scopes: Mapping[str, Any],
        style: Style,
        params: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> tuple[str, list[Any]]:
        """The text and the parameters to pass with it."""
        return self.bind(scopes, params, budget).render(style)

    def _understand(self) -> TemplateFacts:
        pieces = self.template.parts
        if pieces is None or HOLE in self.source:
            return self.template.facts
        holes = [piece for piece in pieces if not isinstance(piece, str)]
        text = "".join(piece if isinstance(piece, str) else HOLE for piece in pieces)
        parts, problems, dropped = scan(text, [found for found, _ in holes])
        self._parts = tuple(parts)
        problems = [msgspec.structs.replace(found, offset=_in_source(pieces, found.offset)) for found in problems]
        # The same expression may stand both inside a comment and outside: identity is not enough, count them.
        left_out = list(dropped)
        kept: list[TemplateFacts] = [TemplateFacts(problems=tuple(problems))] if problems else []
        for found, offset in holes:
            if found in left_out:
                left_out.remove(found)
            else:
                kept.append(found.facts.shift(offset))
        return join_facts(kept)

    def _parts_for(self, run: Evaluation) -> Sequence[Part]:
        if self._parts is not None:
            return self._parts
        if HOLE in self.source:
            raise sql_error("there is a NUL character in the SQL text", expression=self.source)
        try:
            pieces: Pieces = []
            self.template.action(keep_values=True)(run, pieces)
        except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
            raise evaluation_error(error, "the SQL text", self.source) from None
        text = "".join(piece if isinstance(piece, str) else HOLE for piece in pieces)
        return scan(text, [_KnownHole(piece) for piece in pieces if isinstance(piece, InsertedValue)])[0]


def _in_source(pieces: Sequence[str | tuple[Expression, int]], offset: int) -> int:
    """Where a place in the text with holes stands in the source; best effort, as `{{-` takes spaces away."""
    at = source = 0
    for piece in pieces:
        length = len(piece) if isinstance(piece, str) else 1
        if offset < at + length:
            return source + offset - at
        at += length
        source = source + length if isinstance(piece, str) else piece[1] + len(piece[0].source) + 2
    return source


class _KnownHole:
    """A hole whose value is known already, as `{% for %}` and `{% if %}` leave it."""

    __slots__ = ("_value", "key", "marker")

    def __init__(self, inserted: InsertedValue) -> None:
        self._value = inserted.value
        self.marker: str | None = inserted.marker
        self.key: Hashable = inserted.key

    def evaluate(self, _run: Evaluation) -> Any:
        return self._value

    def plain_value(self, run: Evaluation) -> Any:
        return plain(run, self._value)


@lru_cache(maxsize=4_096)
def compile_sql(text: str) -> SqlTemplate:
    """The statement of a text; what is wrong with it is in its `problems`."""
    return SqlTemplate(text)


def _splice(text: str) -> Sequence[Finished]:
    """Text that was inserted as it is, cut where it ends a statement: drivers take one at a time."""
    if ";" not in text or HOLE in text:
        return (text,)
    parts, problems, _ = scan(text, (), in_body=True)
    cut = [
        part.text if isinstance(part, SqlText) else part for part in parts if isinstance(part, SqlText | StatementBreak)
    ]
    return (text,) if problems or len(cut) < len(parts) else cut


def _fill(run: Evaluation, part: Part, params: Mapping[str, Any]) -> str | Parameter | StatementBreak:
    if isinstance(part, SqlText):
        return part.text
    if isinstance(part, StatementBreak):
        return part
    if isinstance(part, CodeBody):
        raise sql_error(part.refusal)
    if isinstance(part, NamedParameter):
        if part.name not in params:
            raise sql_error(f"there is no parameter `{part.name}`")
        return Parameter(params[part.name], key=(part.name,))
    if isinstance(part, Identifier):
        return _name(run, part)
    assert isinstance(part, Bind)
    if part.literal:
        return Parameter("".join(_text(run, piece) for piece in part.pieces), part.inline, _key(part))
    source = part.pieces[0]
    return Parameter(source if isinstance(source, str) else source.plain_value(run), key=_key(part))


def _key(part: Bind) -> tuple[object, ...] | None:
    """What tells a value from others in its statement: its expressions, and whether they stand in a quoted literal."""
    pieces = [piece if isinstance(piece, str) else piece.key for piece in part.pieces]
    return None if None in pieces else (part.literal, *pieces)


def _text(run: Evaluation, piece: str | HoleValue) -> str:
    return piece if isinstance(piece, str) else to_text(run, piece.evaluate(run))


def _name(run: Evaluation, part: Identifier) -> str:
    """A name, quoted; its values must be plain, so that they cannot be anything else."""
    if part.quoted and len(part.pieces) > 1:
        texts = [piece if isinstance(piece, str) else _plain_piece(run, piece) for piece in part.pieces]
        return '"' + "".join(texts) + '"'
    name = "".join(piece if isinstance(piece, str) else _name_text(run, piece) for piece in part.pieces)
    if not _PLAIN.fullmatch(name):
        raise sql_error("the value is not a plain identifier, which is needed where a name stands")
    return ".".join(f'"{component}"' for component in name.split("."))


def _plain_piece(run: Evaluation, source: HoleValue) -> str:
    text = _name_text(run, source)
    if not _PLAIN_PIECE.fullmatch(text):
        raise sql_error("the value is not part of a plain identifier, which is needed where a name stands")
    return text


def _name_text(run: Evaluation, source: HoleValue) -> str:
    value = plain(run, source.evaluate(run))
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise sql_error("the value is not text, which is needed where a name stands")
    return str(value)


def _quote_holes(part: Part) -> str:
    """The expressions of a part, for a message."""
    pieces: Sequence[str | HoleValue] = ()
    if isinstance(part, Splice):
        pieces = (part.source,)
    elif isinstance(part, (Bind, Identifier)):
        pieces = part.pieces
    shown = [quote_expression(piece.source) for piece in pieces if isinstance(piece, Expression)]
    return ", ".join(shown) or "the SQL text"

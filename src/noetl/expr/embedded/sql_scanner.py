"""SQL text with holes to parts: where a hole stands decides what becomes of it.

The text is read once, before any value is known, so no value can change what the statement is. A hole is one
character, HOLE, in the text; strings, comments and dollar-quoted bodies are recognised as PostgreSQL and DuckDB do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from noetl.expr.embedded.sql_query import (
    HOLE,
    Bind,
    CodeBody,
    HoleValue,
    Identifier,
    NamedParameter,
    Part,
    Pieces,
    Splice,
    SqlText,
    StatementBreak,
)
from noetl.expr.syntax.facts import TemplateProblem

_TOKEN: Final = re.compile(
    r"""(?P<comment>--[^\n]*)
    | (?P<block>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*')
    | (?P<coded>(?:[bBxX]|[uU]&)'(?:[^']|'')*')
    | (?P<literal>[nN]?'(?:[^']|'')*')
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<cast>::)
    | (?P<named>:[A-Za-z_]\w*)
    | (?P<percent>%\(\w+\)s)
    | (?P<word>[\w.\x00](?:[\w.\x00]|(?<=[\w$])\$)*)
    | (?P<end>;)
    | (?P<space>\s+)
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_HOLES_APART: Final = re.compile(r"(?<=[*/])\x00+(?=[*/])")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)|''", re.DOTALL)
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: words that a name follows
_NAMES_FOLLOW: Final = frozenset({"FROM", "INTO", "TABLE", "UPDATE", "JOIN", "SCHEMA", "INDEX"})
_BETWEEN: Final = frozenset({"IF", "NOT", "EXISTS", "ONLY", "CONCURRENTLY"})
#: functions whose arguments may have a FROM that is followed by a value
_FROM_INSIDE: Final = frozenset({"EXTRACT", "SUBSTRING", "TRIM", "OVERLAY"})
#: words that make a literal of their type out of the text behind them, where no parameter may stand
_TYPES: Final = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL", "ZONE"})
_LANGUAGE: Final = re.compile(r"""\bLANGUAGE\s+['"]?(\w+)""", re.IGNORECASE)
#: languages in which a literal is written as in SQL
_SQL_LIKE: Final = frozenset({"sql", "plpgsql"})
#: beside these a placeholder, or the literal in its place, needs a space to stand alone; `--` would be a comment
_CLINGING: Final = frozenset("'\"$-")


def scan(
    text: str, holes: Sequence[HoleValue], *, in_body: bool = False
) -> tuple[list[Part], list[TemplateProblem], list[HoleValue]]:
    """The parts of a statement, what is wrong with it, and the holes that stand in comments.

    With `in_body`, `:name` is nobody's parameter.
    """
    scanner = _SqlScanner(text, holes, in_body=in_body)
    scanner.run()
    return scanner.parts, scanner.problems, scanner.dropped


class _SqlScanner:
    def __init__(self, text: str, holes: Iterable[HoleValue], *, in_body: bool = False) -> None:
        self._text = text
        self._holes = iter(holes)
        #: inside of a function, where `:name` is nobody's parameter
        self._in_body = in_body
        #: where the statement begins, and its first word
        self._start = 0
        self._verb = ""
        self._position = 0
        self._words: list[str] = []
        self._parentheses: list[str] = []
        self._name_expected = False
        #: a name was just given by a template, and a comma would bring another
        self._listing = False
        self.parts: list[Part] = []
        self.problems: list[TemplateProblem] = []
        self.dropped: list[HoleValue] = []

    def run(self) -> None:
        while self._position < len(self._text):
            match = _TOKEN.match(self._text, self._position)
            if match is None:
                break  # cannot be: the last alternative takes anything
            kind = match.lastgroup or "other"
            self._position = match.end()
            _READERS[kind](self, match[0])
            if kind not in ("word", "space", "comment", "block"):
                self._name_expected = match[0] == "," and self._listing
                self._listing = False
                if kind != "other":
                    self._words.clear()

    def _add(self, text: str) -> None:
        """Author's text, joined with the text before it."""
        if not text:
            return
        last = self.parts[-1] if self.parts else None
        if isinstance(last, SqlText):
            self.parts[-1] = SqlText(last.text + text)
        elif isinstance(last, (Bind, NamedParameter, CodeBody)) and text[0] in _CLINGING:
            self.parts.append(SqlText(" " + text))
        else:
            self.parts.append(SqlText(text))

    def _add_value(self, part: Bind | NamedParameter | CodeBody) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, SqlText) and last.text[-1] in _CLINGING:
            self._add(" ")
        self.parts.append(part)

    def _pieces(self, text: str, decode: Callable[[str], str] = str) -> Pieces:
        """A stretch of text with its holes filled."""
        pieces: list[str | HoleValue] = []
        for index, stretch in enumerate(text.split(HOLE)):
            if index:
                pieces.append(next(self._holes))
            if stretch:
                pieces.append(decode(stretch))
        return tuple(pieces)

    def comment(self, text: str) -> None:
        self.dropped.extend(next(self._holes) for _ in range(text.count(HOLE)))
        # What stood apart must not become the end of the comment.
        self._add(_HOLES_APART.sub(" ", text).replace(HOLE, ""))

    def block(self, text: str) -> None:
        depth, start = 1, self._position - len(text)
        for edge in _COMMENT_EDGE.finditer(self._text, self._position):
            depth += 1 if edge[0] == "/*" else -1
            if not depth:
                self._position = edge.end()
                break
        else:
            self._position = len(self._text)
            self._problem("This comment is not closed.", start)
        self.comment(self._text[start : self._position])

    def literal(self, text: str) -> None:
        self._add_literal(text, text[text.index("'") + 1 : -1], lambda part: part.replace("''", "'"))

    def escape_literal(self, text: str) -> None:
        self._add_literal(text, text[2:-1], lambda part: _ESCAPE.sub(_unescape, part))

    def special_literal(self, text: str) -> None:
        if HOLE in text:
            self._problem("A template cannot stand inside a bit string or a U&'…' literal.", self._position - len(text))
        self._add_literal(text, text[text.index("'") + 1 : -1], lambda part: part.replace("''", "'"))

    def dollar(self, tag: str) -> None:
        end = self._text.find(tag, self._position)
        if end < 0:
            self._problem(f"The text that {tag} opens is not closed.", self._position - len(tag))
            self._add(tag)
            return
        body = self._text[self._position : end]
        self._position = end + len(tag)
        self._add_literal(tag + body + tag, body, str)

    def _add_literal(self, whole: str, inner: str, decode: Callable[[str], str]) -> None:
        """A quoted literal: bound as one value when there is a hole in it."""
        if HOLE not in inner:
            self._add(whole)
            return
        if self._verb == "DO" or (self._verb == "CREATE" and self._words[-1:] == ["AS"]):
            self._body(decode(inner), self._position - len(whole))
            return
        typed = bool(self._words) and self._words[-1] in _TYPES
        self._add_value(Bind(self._pieces(inner, decode), literal=True, inline=self._name_expected or typed))

    def _body(self, text: str, offset: int) -> None:
        """The body of a `DO` or of a function is code: what a value becomes depends on where it stands in there."""
        language = self._language(offset)
        if language not in _SQL_LIKE:
            refusal = f"a template cannot stand in code of the language {language}, whose quoting is not SQL's"
            self._problem(refusal, offset)
            self._pieces(text)  # its holes are used up
            self._add_value(CodeBody((), refusal))
            return
        inner = _SqlScanner(text, self._holes, in_body=True)
        inner.run()
        for found in inner.problems:
            self._problem(found.message, offset)
        self.dropped += inner.dropped
        self._add_value(CodeBody(tuple(inner.parts)))

    def _language(self, body: int) -> str:
        """What the statement around a body says of its language, before it or behind it."""
        end = self._text.find(";", self._position)
        behind = self._text[self._position : end if end >= 0 else len(self._text)]
        found = _LANGUAGE.search(self._text[self._start : body]) or _LANGUAGE.search(behind)
        return found[1].lower() if found else "plpgsql"

    def add_quoted(self, text: str) -> None:
        if HOLE in text:
            inner = text[text.index('"') + 1 : -1]
            self.parts.append(Identifier(self._pieces(inner), quoted=True))
        else:
            self._add(text)

    def parameter(self, text: str) -> None:
        before = self._text[self._position - len(text) - 1 : self._position - len(text)]
        if self._in_body or (before and (before.isalnum() or before in "_:])'\"" + HOLE)):
            self._add(text)  # the bound of a slice, the value of a key
        else:
            self._add_value(NamedParameter(text[1:]))

    def percent(self, text: str) -> None:
        if self._in_body:
            self._add(text)
        else:
            self._add_value(NamedParameter(text[2:-2]))

    def word(self, text: str) -> None:
        if HOLE in text:
            self._add_hole(text)
            self._name_expected = False
            self._words.clear()
            return
        self._add(text)
        self._listing = False
        word = text.upper()
        self._verb = self._verb or word
        if word in _NAMES_FOLLOW:
            self._name_expected = word != "FROM" or not self._from_before_value()
        elif word not in _BETWEEN:
            self._name_expected = False
        self._words.append(word)

    def _from_before_value(self) -> bool:
        """`IS DISTINCT FROM x`, `EXTRACT(YEAR FROM x)`."""
        if self._words and self._words[-1] == "DISTINCT":
            return len(self._words) > 1 and self._words[-2] in ("IS", "NOT")
        return bool(self._parentheses) and self._parentheses[-1] in _FROM_INSIDE

    def _add_hole(self, text: str) -> None:
        """A hole, alone or among the characters of a name."""
        if text == HOLE:
            source = next(self._holes)
            if source.marker == "sql":
                self.parts.append(Splice(source))
            elif self._name_expected:
                self.parts.append(Identifier((source,)))
                self._listing = True
            else:
                self._add_value(Bind((source,)))
            return
        for index, component in enumerate(text.split(".")):
            self._add("." if index else "")
            pieces = self._pieces(component)
            if any(not isinstance(piece, str) and piece.marker != "sql" for piece in pieces):
                self.parts.append(Identifier(pieces))
                continue
            for piece in pieces:
                if isinstance(piece, str):
                    self._add(piece)
                else:
                    self.parts.append(Splice(piece))

    def end(self, _text: str) -> None:
        self.parts.append(StatementBreak())
        self._start, self._verb = self._position, ""

    def space(self, text: str) -> None:
        self._add(text)

    def other(self, text: str) -> None:
        if text == "(":
            self._parentheses.append(self._words[-1] if self._words else "")
        elif text == ")" and self._parentheses:
            self._parentheses.pop()
        elif text in ("'", '"'):
            self._problem("this quote is not closed", self._position - 1)
        self._words.clear()
        self._add(text)

    def _problem(self, message: str, offset: int) -> None:
        self.problems.append(TemplateProblem("template-syntax", message, offset))


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return "'"
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _LETTERS.get(code, code)


_READERS: Final[dict[str, Callable[[_SqlScanner, str], None]]] = {
    "comment": _SqlScanner.comment,
    "block": _SqlScanner.block,
    "escaped": _SqlScanner.escape_literal,
    "coded": _SqlScanner.special_literal,
    "literal": _SqlScanner.literal,
    "quoted": _SqlScanner.add_quoted,
    "dollar": _SqlScanner.dollar,
    "cast": _SqlScanner.space,
    "named": _SqlScanner.parameter,
    "percent": _SqlScanner.percent,
    "word": _SqlScanner.word,
    "end": _SqlScanner.end,
    "space": _SqlScanner.space,
    "other": _SqlScanner.other,
}

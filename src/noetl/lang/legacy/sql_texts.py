"""Quoting in SQL: older engines put text into statements, and authors quoted it; now values are bound as they are.

A quote that the author doubled would be stored doubled, `NULL` would be a text of four letters, and a list that was
joined with commas one value. Each of these is written as the value that was meant; what is a part of the statement and
no value is marked with `| sql`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from noetl.lang.legacy.lowered_document import Lowering, task_items
from noetl.lang.legacy.name_rewrite import Token, tokens_of
from noetl.lang.reading.node import MapNode, Scalar, map_of, text_of

_SQL = ("postgres", "duckdb")
_DOLLAR = re.compile(r"\$(?:[^\W\d]\w*)?\$")
#: behind these words a quoted body is code, in which literals are literals
_BODY_FOLLOWS = re.compile(r"\b(?:DO|AS)\s*$", re.IGNORECASE)
_IN_LIST = re.compile(r"\bIN\s*\(\s*$", re.IGNORECASE)
#: texts that are values of another type where they stand in a statement without quotes
_VALUES = {"null": "none", "none": "none", "true": "true", "false": "false"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: texts that are a part of a statement, and no value
_PART = re.compile(r"[A-Za-z_][\w. ]*\(.*\)|CURRENT_\w+|LOCALTIME\w*|DEFAULT|ASC|DESC|AND\b.*|OR\b.*|'.*'|\(.*\)", re.IGNORECASE | re.DOTALL)  # fmt: skip


def lower(doc: Lowering) -> None:
    """Write what older statements quoted as the values that were meant."""
    if not (doc.accepted or doc.migrating):
        return
    for body, _called in doc.bodies():
        for _name, task in task_items(body):
            for node in statements_of(task):
                text = unquote_values(node.text)
                if text != node.text:
                    doc.report_older("habit", "a value quoted for SQL", "the value itself, which is bound", node)
                    node.rewrite(text)


def statements_of(task: MapNode) -> Iterator[Scalar]:
    """The SQL of a task."""
    source = map_of(task, "source")
    for block in (task, source) if source is not None else (task,):
        for word in ("query", "command") if text_of(block, "kind") in _SQL else ():
            node = block.get(word)
            if isinstance(node, Scalar) and isinstance(node.value, str) and "{{" in node.text:
                yield node


@dataclass
class SqlHole:
    """One `{{ … }}` of a statement: the pieces of the text that are its expression, and what stands around it."""

    #: the first and the last piece, with the braces
    start: int
    end: int
    #: the mark that opened the literal in which it stands; empty where it stands by itself
    quote: str = ""


@dataclass
class SqlStatementText:
    """A statement cut into the tokens of its templates."""

    tokens: Sequence[Token]
    pieces: list[str]
    holes: list[SqlHole] = field(default_factory=list)

    def expression(self, hole: SqlHole) -> str:
        """What stands between the braces."""
        return "".join(self.pieces[hole.start + 1 : hole.end])

    def replace(self, hole: SqlHole, expression: str) -> None:
        """Write another expression between the braces."""
        self.pieces[hole.start + 1 : hole.end] = [expression, *[""] * (hole.end - hole.start - 2)]


def cut(text: str) -> SqlStatementText | None:
    """The holes of a statement; None if its templates cannot be read."""
    tokens = tokens_of(text)
    if tokens is None:
        return None
    found = SqlStatementText(tokens, [value for _, value in tokens])
    quotes, start = _Quotes(), 0
    for at, (kind, value) in enumerate(tokens):
        if kind == "data":
            quotes.read(value)
        elif kind == "variable_begin":
            start = at
        elif kind == "variable_end" and quotes.mark not in ("--", "/*"):
            found.holes.append(SqlHole(start, at, quotes.mark))
    return found


class _Quotes:
    """Where in a statement its text has come to: in a literal, in a comment, or in neither."""

    def __init__(self) -> None:
        self.mark = ""

    def read(self, text: str) -> None:
        at = 0
        while at < len(text):
            at = self._step(text, at)

    def _step(self, text: str, at: int) -> int:
        if self.mark:
            end = {"--": "\n", "/*": "*/"}.get(self.mark, self.mark)
            found = text.find(end, at)
            if found < 0:
                return len(text)
            self.mark = ""
            return found + len(end)
        if text[at] in "'\"":
            self.mark = text[at]
            return at + 1
        if text.startswith(("--", "/*"), at):
            self.mark = text[at : at + 2]
            return at + 2
        dollar = _DOLLAR.match(text, at)
        if dollar is not None:
            self.mark = "" if _BODY_FOLLOWS.search(text[:at]) else dollar[0]
            return dollar.end()
        return at + 1


def unquote_values(text: str) -> str:
    """A statement whose holes hold the values themselves."""
    found = cut(text) if "{{" in text else None
    if found is None:
        return text
    for hole in found.holes:
        words = [
            (at, found.tokens[at]) for at in range(hole.start + 1, hole.end) if found.tokens[at][0] != "whitespace"
        ]
        if hole.quote == "'":
            _undouble(found, words)
            _unjoin(found, hole, words)
        elif not hole.quote:
            _unjoin(found, hole, words)
            _bare_value(found, hole, words)
    return "".join(found.pieces)


Words = list[tuple[int, Token]]


def _undouble(text: SqlStatementText, words: Words) -> None:
    """`| replace("'", "''")` and `.replace("'", "''")`."""
    for at in range(len(words) - 6):
        seven = [token for _, token in words[at : at + 7]]
        kinds = [value for _, value in seven]
        called = kinds[0] in ("|", ".") and kinds[1:3] == ["replace", "("] and kinds[4] == "," and kinds[6] == ")"
        if called and (_unquote(kinds[3]), _unquote(kinds[5])) == ("'", "''"):
            first = words[at - 1][0] + 1 if at else words[at][0]
            for position in range(first, words[at + 6][0] + 1):
                text.pieces[position] = ""


def _unjoin(text: SqlStatementText, hole: SqlHole, words: Words) -> None:
    """`IN ('{{ names | join("','") }}')` is `IN` and a list of values."""
    if len(words) < 6 or [token[1] for _, token in words[-5:-2]] != ["|", "join", "("] or words[-1][1][1] != ")":
        return
    mark = hole.quote
    before, after = text.pieces[hole.start - 1] if hole.start else "", _piece(text.pieces, hole.end + 1)
    if _unquote(words[-2][1][1]).replace(" ", "") != f"{mark},{mark}":
        return
    opening, closing = re.search(rf"\(\s*{mark}$", before), re.match(rf"{mark}\s*\)", after)
    if opening is None or closing is None or _IN_LIST.search(before[: opening.start() + 1]) is None:
        if not mark:
            text.replace(hole, f" ({text.expression(hole).strip()}) | sql ")
        return
    text.replace(hole, f" {''.join(text.pieces[hole.start + 1 : words[-5][0]]).strip()} ")
    text.pieces[hole.start - 1] = before[: opening.start()]
    text.pieces[hole.end + 1] = after[closing.end() :]


def _bare_value(text: SqlStatementText, hole: SqlHole, words: Words) -> None:
    """Texts that stand in a statement without quotes: `NULL`, `true`, a number, a quoted text, a part of the statement."""
    if any(token == ("name", "sql") for _, token in words[-1:]):
        return
    values: dict[int, str] = {}
    wrapped: list[tuple[int, int]] = []
    index = -1
    while (index := index + 1) < len(words):
        at, (kind, value) = words[index]
        said = _unquote(value) if kind == "string" else ""
        if not said or not _may_result(words, index):
            continue
        end = _end_of_quoted(words, index) if said == "'" else 0
        if end:
            wrapped.append((index, end))
            index = end
        elif said.lower() in _VALUES:
            values[at] = _VALUES[said.lower()]
        elif _NUMBER.fullmatch(said):
            values[at] = said
        elif _PART.fullmatch(said) or said.startswith("'"):
            text.replace(hole, f" ({text.expression(hole).strip()}) | sql ")
            return
    for at, value in values.items():
        text.pieces[at] = value
    for start, end in wrapped:
        _unwrap(text, words[start : end + 1])


def _may_result(words: Words, index: int) -> bool:
    """Whether a text in an expression may be what it gives: a default, a branch, or its first part."""
    before = [token[1] for _, token in words[max(0, index - 3) : index]]
    after = words[index + 1][1][1] if index + 1 < len(words) else ""
    if before[-3:] in (["|", "default", "("], ["|", "d", "("]):
        return True
    if after in ("==", "!=", "in", "not", "|", ".", "[") or (before and before[-1] in ("==", "!=", "in", "[", ",")):
        return False
    alone = not before or before[-1] in ("else", "or", "(")
    return (alone and after in ("", "if", ")", "~")) or after == "if"


def _end_of_quoted(words: Words, index: int) -> int:
    """The quote that closes `"'" ~ name ~ "'"`; 0 if something else stands there."""
    depth = 0
    for at in range(index + 1, len(words)):
        kind, value = words[at][1]
        depth += (value in ("(", "[", "{")) - (value in (")", "]", "}"))
        if depth < 0 or (not depth and value in ("if", "else")):
            return 0
        if not depth and kind == "string" and _unquote(value) == "'":
            tildes = [one for one in range(index + 1, at) if words[one][1][1] == "~"]
            return at if tildes == [index + 1, at - 1] and at - index > 3 else 0
    return 0


def _unwrap(text: SqlStatementText, words: Words) -> None:
    """A text without the quotes that were put around it."""
    inner = words[2:-2]
    first, last = inner[0][0], inner[-1][0]
    _undouble(text, inner)
    value = "".join(text.pieces[first : last + 1]).strip()
    for position in range(words[0][0], words[-1][0] + 1):
        text.pieces[position] = ""
    text.pieces[first] = f"{value} | string" if re.fullmatch(r"[\w.]+", value) else f"({value}) | string"


def _piece(pieces: list[str], at: int) -> str:
    return pieces[at] if at < len(pieces) else ""


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] in "'\"" else text

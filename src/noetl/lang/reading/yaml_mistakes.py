"""Mistakes of writing YAML, reported for what they are: open brackets and quotes, a space that is missing or is none.

The parser says where it gave up, which is often not where the mistake is. Nothing here is asked until something is wrong.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from noetl.lang.reading.node import PLAIN, MapNode, Node, Scalar
from noetl.model.diagnostics import Diagnostics, Edit

# Lines whose indentation fits nothing above them: told with those that do, because the parser only says that it is lost.


_BLANK = re.compile(r"\s*(?:#.*)?$")
_DASHES = re.compile(r"(?:-(?: +|$))*")
_KEY = re.compile(r"(\"[^\"]*\"|'[^']*'|[^\s#'\"\[\]{},&*!|>%@`][^#:]*?)\s*:(?:\s|$)")
_OPENS = re.compile(r"(?:[:-]|:\s+[&!]\S+)\s*(?:#.*)?$")
_TEXT = re.compile(r"[:-]\s+(?:[&!]\S+\s+)?[|>][-+0-9]*\s*(?:#.*)?$")
_BRACKETS = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\[\]{}]")
#: lines looked at: a file may be a megabyte of anything
_MOST = 50_000
_DASH = "-"


class IndentLevel(NamedTuple):
    """A column at which something stands, and what: a key, a dash, or nothing that has a name."""

    column: int
    key: str


class MisplacedLine(NamedTuple):
    """A line that stands at no column of those around it."""

    #: where it begins, and how far it is indented
    start: int
    column: int
    #: where it could stand, the deepest first
    levels: tuple[IndentLevel, ...]


def find_misplaced_line(text: str, at: int) -> MisplacedLine | None:
    """The last line up to an offset, if its indentation is what stops the parser there."""
    end = text.find("\n", at)
    lines = text[: end if end >= 0 else len(text)].split("\n")
    if len(lines) > _MOST:
        return None
    reading = _IndentTracker()
    start, found = 0, None
    for line in lines:
        if not _BLANK.match(line):
            levels = reading.take(line)
            found = MisplacedLine(start, _indent(line), levels) if levels else None
        start += len(line) + 1
    return found


class _IndentTracker:
    """What is known of the lines above: the columns at which something stands, and what the last line left open."""

    def __init__(self) -> None:
        self.levels: list[IndentLevel] = []
        self.opens = True
        self.brackets = 0
        #: of text in a block: the column of its key, and that of its first line
        self.text: tuple[int, int | None] | None = None

    def take(self, line: str) -> tuple[IndentLevel, ...]:
        """Go on to a line; where it could stand, if it stands where it cannot."""
        column = _indent(line)
        if self.brackets:
            self.brackets = max(0, self.brackets + _bracket_balance(line))
            return ()
        if self.text is not None and column > self.text[0]:
            first = self.text[1]
            self.text = self.text[0], column if first is None else first
            return (IndentLevel(first, ""),) if first is not None and column < first else ()
        dashed = line[column:].startswith("- ") or line[column:].rstrip() == _DASH
        left = [one for one in self.levels if one.column > column]
        self.levels = self.levels[: len(self.levels) - len(left)]
        wrong = () if self._fits(column, left, dashed=dashed) else self._possible(left, dashed=dashed)
        self._advance(line, column, dashed=dashed)
        return wrong

    def _fits(self, column: int, left: list[IndentLevel], *, dashed: bool) -> bool:
        here = [one for one in self.levels if one.column == column]
        if not here:
            return not self.levels or (self.opens and not left)
        # A list may stand right below its key, and a key behind such a list.
        return any((one.key == _DASH) is dashed for one in here) or (dashed and self.opens and not left)

    def _possible(self, left: list[IndentLevel], *, dashed: bool) -> tuple[IndentLevel, ...]:
        fitting = [one for one in (*left[:2], *self.levels[-1:]) if one.key and (one.key == _DASH) is dashed]
        return tuple(sorted(fitting[:2], reverse=True))

    def _advance(self, line: str, column: int, *, dashed: bool) -> None:
        here = [one for one in self.levels if one.column == column and dashed and one.key != _DASH]
        self.levels = [one for one in self.levels if one.column < column] + here + _levels(line, column)
        self.opens = _OPENS.search(line) is not None
        self.brackets = max(0, _bracket_balance(line))
        self.text = (self.levels[-1].column, None) if _TEXT.search(line) else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _bracket_balance(line: str) -> int:
    """How many more brackets a line opens than it closes."""
    signs = _BRACKETS.findall(line)
    return sum(sign in "[{" for sign in signs) - sum(sign in "]}" for sign in signs)


def _levels(line: str, column: int) -> list[IndentLevel]:
    """The columns that a line makes: of each dash, and of the key behind them."""
    rest = line[column:]
    dashes = _DASHES.match(rest)[0]  # type: ignore[index]  # it matches nothing too
    found = [IndentLevel(column + index, _DASH) for index, sign in enumerate(dashes) if sign == _DASH]
    key = _KEY.match(rest[len(dashes) :])
    if key is not None or not found:
        found.append(IndentLevel(column + len(dashes), key[1] if key is not None else ""))
    return found


_UNQUOTED = re.compile(r"(?:^|[:-])\s+(\{\{.*?\}\})\s*(?:#.*)?$")
_INNER_QUOTES = re.compile(r'"[^"]*\{\{[^"]*"[^"]*"[^"]*\}\}')
_NO_SPACE_AFTER_DASH = re.compile(r"^\s*(?:- +)*(-)(?=[A-Za-z_][\w-]*:(?:\s|$))")
_NO_SPACE_AFTER_COLON = re.compile(r"^\s*(?:- +)*([A-Za-z_]\w*:)(?=[^\s:/])")
_APOSTROPHE = re.compile(r"(?:[:\[{,]|^\s*-)\s+('[^']*'[\w][^']*'?)")
_QUOTE_LEFT_OPEN = re.compile(r"(?:[:\[{,]|^\s*-)\s+(([\"'])(?:(?!\2).)*)$")
_IN_FLOW = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\[\]{}]", re.DOTALL)
_NO_BREAK_SPACES = re.compile("\u00a0+")
_CLOSER = {"[": "]", "{": "}"}
#: how far the end of a bracket is looked for, how many lines above a quote that was left open, how much of a line
_FAR, _ABOVE, _LONG = 20_000, 12, 2_000


class Slip(NamedTuple):
    """What went wrong, where, and the way out."""

    message: str
    start: int
    end: int
    fix: str
    edits: tuple[Edit, ...] = ()


def report_syntax_error(text: str, error: Any, problems: Diagnostics) -> None:
    """Report why the parser stopped, at the place of the mistake as well as it can be told."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = mark.index if mark else getattr(error, "position", 0) or 0
    at = max(0, min(at, len(text) - 1))
    context = getattr(error, "context", None) or ""
    opened = getattr(error, "context_mark", None)
    slip = _template(text, at) or _find_unclosed(text, context, opened.index if opened else at)
    if slip is None:
        lines = dict.fromkeys(start for start in (_line_start(text, at), _line_above(text, at)) if start is not None)
        slip = next((found for start in lines if (found := _in_line(_line(text, start), start)) is not None), None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "this is not YAML"
    slip = slip or _quotes(text, at) or _indentation(text, at, said)
    if slip is not None:
        problems.error("yaml-syntax", slip.message, (slip.start, slip.end), fix=slip.fix, edits=slip.edits)
        return
    fix = None
    if text[at : at + 1] == "\t":
        said, fix = "a tab cannot indent YAML", "use spaces"
    elif "mapping values are not allowed" in said:
        fix = "put text that contains `: ` in quotes, and check the indentation of this line"
    elif "cannot start any token" in said or "alphabetic or numeric" in said:
        fix = "put the whole text in quotes"
    elif "unknown escape" in said:
        fix = "use single quotes around the text, or write the backslash twice"
    elif "expected ','" in said:
        fix = "put a comma between two entries, and text that holds `{`, `[` or `,` in quotes"
    elif "expected <block end>" in said or "did not find expected" in said:
        fix = "check the indentation and that every bracket, brace and quote above is closed"
    problems.error("yaml-syntax", f"{said}{f' ({context})' if context else ''}", (at, at + 1), fix=fix)


def template_slip(template: str, start: int) -> Slip:
    """`url: {{ x }}` is a map within a map to YAML; the author meant a template."""
    quote = "'" if '"' in template else '"'
    certain = (
        quote not in template
        and "\\" not in template
        and template.endswith("}}")
        and template.count("{") == template.count("}")
    )
    end = start + len(template)
    return Slip(
        "a template must stand in quotes",
        start,
        end,
        f"write {quote}{template}{quote}" if certain else "put the whole text in quotes",
        (Edit(start, end, f"{quote}{template}{quote}"),) if certain else (),
    )


def slip_of(node: Node, source: str) -> Slip | None:
    """What made another value out of a node than its author meant, if it is one of the usual slips."""
    if isinstance(node, MapNode):
        return slip_of(node.entries[0].key, source) if node.entries and not node.alias else None
    if not isinstance(node, Scalar) or node.style != PLAIN or node.changed or node.alias:
        return None
    return _in_line(_line(source, node.start), node.start)


# --- one slip each ---------------------------------------------------------------------------------------------


def _template(text: str, at: int) -> Slip | None:
    """A line on which the parser stops because of how a template stands there."""
    start = _line_start(text, at)
    line = _line(text, start)
    if (unquoted := _UNQUOTED.search(line)) is not None:
        return template_slip(unquoted[1], start + unquoted.start(1))
    if (quotes := _INNER_QUOTES.search(line)) is not None:
        return Slip(
            "the quotes inside of the template end the text",
            start + quotes.start(),
            start + quotes.end(),
            "use single quotes inside: \"{{ output.status == 'error' }}\"",
        )
    return None


def _find_unclosed(text: str, context: str, opened: int) -> Slip | None:
    if context == "while scanning a quoted scalar":
        return Slip("this quote is never closed", opened, opened + 1, f"close it with `{text[opened]}`")
    if not context.startswith("while parsing a flow") or text[opened : opened + 1] not in _CLOSER:
        return None
    waiting: list[str] = []
    for found in _IN_FLOW.finditer(text, opened, opened + _FAR):
        sign = found[0]
        if sign in _CLOSER:
            waiting.append(_CLOSER[sign])
        elif sign in "]}":
            if waiting.pop() != sign:
                break
            if not waiting:
                return None
    bracket = text[opened]
    return Slip(f"this `{bracket}` is never closed", opened, opened + 1, f"close it with `{_CLOSER[bracket]}`")


def _in_line(line: str, start: int) -> Slip | None:
    """A space that is missing, or that only looks like one."""
    if (dash := _NO_SPACE_AFTER_DASH.match(line)) is not None:
        after = start + dash.end(1)
        return Slip("a space is missing after `-`", after - 1, after, "write `- `", (Edit(after, after, " "),))
    if (colon := _NO_SPACE_AFTER_COLON.match(line)) is not None:
        begin, after = start + colon.start(1), start + colon.end(1)
        message = f"a space is missing after `{colon[1]}`"
        return Slip(message, begin, after, f"write `{colon[1]} `", (Edit(after, after, " "),))
    if (spaces := _NO_BREAK_SPACES.search(line)) is not None:
        begin, after = start + spaces.start(), start + spaces.end()
        edit = Edit(begin, after, " " * (after - begin))
        return Slip("YAML takes a no-break space for a letter", begin, after, "use ordinary spaces", (edit,))
    return None


def _quotes(text: str, at: int) -> Slip | None:
    """A quote that ends the text too early, or one further up that is closed by the next opening one."""
    start = _line_start(text, at)
    if (early := _APOSTROPHE.search(_line(text, start))) is not None:
        begin = start + early.start(1)
        fix = "write the inner one twice: 'it''s', or use double quotes around the text"
        return Slip("the apostrophe ends the quoted text", begin, start + early.end(1), fix)
    for _ in range(_ABOVE):
        above = _line_above(text, start)
        if above is None:
            return None
        start = above
        left = _QUOTE_LEFT_OPEN.search(_line(text, above))
        if left is not None and text.count(left[2], above + left.start(1), at + 1) > 1:
            begin = above + left.start(1)
            return Slip("this quote is never closed on its line", begin, begin + 1, f"close it with `{left[2]}`")
    return None


def _indentation(text: str, at: int, said: str) -> Slip | None:
    """A line that stands a little to the left or to the right of where it belongs."""
    found = find_misplaced_line(text, at)
    if found is None:
        return None
    ways = [
        f"by {one.column} to stand beside `{one.key}`" if one.key else f"by {one.column}, as the text above it"
        for one in found.levels
    ]
    if "mapping values are not allowed" in said:
        ways.append("put text that goes on here in quotes")
    return Slip(
        f"this line is indented by {found.column} space{'s' * (found.column != 1)}, which fits nothing above it",
        found.start + found.column,
        found.start + len(_line(text, found.start)),
        f"indent it {', or '.join(ways)}",
    )


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_above(text: str, at: int) -> int | None:
    """Where the nearest line above begins that is not blank."""
    end = _line_start(text, at) - 1
    while end >= 0:
        start = text.rfind("\n", 0, end) + 1
        if text[start:end].strip():
            return start
        end = start - 1
    return None


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : min(end if end >= 0 else len(text), start + _LONG)].rstrip("\r")

"""The text of an expression to tokens, by one regular expression.

Only what is surely the same in Jinja2 is recognised; `tokens` answers None for anything else, and the caller
asks Jinja2 itself.
"""

from __future__ import annotations

import re

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

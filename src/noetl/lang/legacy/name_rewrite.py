"""Names inside a template's text found and rewritten in place; everything else stays as the author wrote it.

Jinja2's own lexer cuts the text into tokens; a *chain* is a name with the attributes behind it (`outcome.result.data`,
`context['x']`). Whoever renames looks at a chain and says what its first parts become.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from typing import Any

from noetl.expr import has_template
from noetl.lang.reading.node import Scalar

Token = tuple[str, str]
_TAG = re.compile(r"(\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NameChain:
    """A name and its literal attributes, and whether the last of them is called."""

    parts: tuple[str, ...]
    called: bool
    #: how each part stands in the text: `.data`, `['data']`
    texts: tuple[str, ...]
    #: the strings that the chain is compared with: `event.name == 'call.done'`, `'ok' == x`, `x in ['ok', 'error']`
    compared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChainRename:
    """The first `consumed` parts of a chain become `text`; `compared` replaces strings it is compared with."""

    consumed: int
    text: str
    compared: Mapping[str, str] = field(default_factory=dict)


Renamer = Callable[[NameChain], ChainRename | None]


@lru_cache(maxsize=20_000)
def tokens_of(text: str) -> tuple[Token, ...] | None:
    """All tokens, white space included: joined together they are the text again. None if it does not lex."""
    found = _lex(text)
    if found is None or "".join(value for _, value in found) == text:
        return found
    # `-%}` eats the white space behind it; taken one by one, tags keep everything.
    pieces: list[Token] = []
    for piece in _TAG.split(text):
        tokens = _lex(piece) if piece.startswith("{") else (("data", piece),)
        if tokens is None:
            return None
        pieces.extend(tokens)
    return tuple(pieces) if "".join(value for _, value in pieces) == text else None


@cache
def _lexer() -> Any:
    from jinja2 import Environment

    return Environment(autoescape=False, keep_trailing_newline=True).lexer  # noqa: S701  nothing is rendered here


def _lex(text: str) -> tuple[Token, ...] | None:
    from jinja2 import TemplateSyntaxError

    try:
        return tuple((str(kind), value) for _, kind, value in _lexer().tokeniter(text, None))
    except TemplateSyntaxError:
        return None


def as_expression(node: Scalar) -> str | None:
    """What a value says as one expression of a template; None if a statement such as `{% if %}` stands in it."""
    if not isinstance(node.value, str) or not has_template(node.text):
        return write_literal(node.value)
    if "{%" in node.text or "{#" in node.text:
        return None
    parts = [
        part for part in _TAG.split(node.text if not node.text.strip().startswith("{{") else node.text.strip()) if part
    ]
    if len(parts) == 1:
        return _inside(parts[0])
    terms = [_inside(part) if part.startswith("{{") else write_literal(part) for part in parts]
    return " ~ ".join(term if re.fullmatch(r"[\w.]+|'[^']*'", term) else f"({term})" for term in terms)


def _inside(tag: str) -> str:
    return tag[2:-2].strip("-+ \t\r\n")


def write_literal(value: object) -> str:
    """A plain value as a template writes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    return repr(value)


def names_in(text: str) -> set[str]:
    """The root names a template mentions."""
    seen: set[str] = set()

    def look(chain: NameChain) -> None:
        seen.add(chain.parts[0])

    rewrite(text, look)
    return seen


def rewrite(text: str, rename: Renamer) -> str:
    """The text with every chain renamed as `rename` says."""
    if not has_template(text):
        return text
    tokens = tokens_of(text)
    if tokens is None:
        return text
    local = _find_locals(tokens)
    out = [value for _, value in tokens]
    at = 0
    while at < len(tokens):
        if tokens[at][0] == "name" and at not in local and _starts_chain(tokens, at):
            at = _rewrite_chain(tokens, at, rename, out)
        else:
            at += 1
    return "".join(out)


def _rewrite_chain(tokens: tuple[Token, ...], at: int, rename: Renamer, out: list[str]) -> int:
    """Rename the chain that starts at a token, in `out`, which has a text for each token; the position behind it."""
    parts, texts, end = _chain(tokens, at)
    called = end < len(tokens) and tokens[end] == ("operator", "(")
    strings = _find_comparisons(tokens, at, end) if not called else []
    chain = NameChain(tuple(parts), called, tuple(texts), tuple(_unquote(tokens[one][1]) for one in strings))
    renamed = rename(chain)
    if renamed is None:
        return end
    out[at:end] = ["".join([renamed.text, *texts[renamed.consumed :]]), *[""] * (end - at - 1)]
    for position, old in zip(strings, chain.compared, strict=True):
        quote = tokens[position][1][0]
        out[position] = f"{quote}{renamed.compared[old]}{quote}" if old in renamed.compared else out[position]
    return end


_KEYWORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "elif",
        "endif",
        "for",
        "endfor",
        "set",
        "endset",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "recursive",
    ]
)


def _starts_chain(tokens: tuple[Token, ...], at: int, *, binding: bool = False) -> bool:
    """Whether a name is a variable: not an attribute, filter, test, keyword or, unless `binding`, the name of an argument."""
    if tokens[at][0] != "name" or tokens[at][1] in _KEYWORDS:
        return False
    before = _neighbour(tokens, at, -1)
    if before in (("operator", "."), ("operator", "|")) or before == ("name", "is"):
        return False
    if before == ("name", "not") and _neighbour(tokens, at, -2) == ("name", "is"):
        return False
    after = _neighbour(tokens, at, 1)
    if after == ("operator", "=") and not binding:
        return False
    return before[0] != "block_begin"


def _neighbour(tokens: tuple[Token, ...], at: int, distance: int) -> Token:
    step = 1 if distance > 0 else -1
    left = abs(distance)
    at += step
    while 0 <= at < len(tokens):
        if tokens[at][0] != "whitespace":
            left -= 1
            if not left:
                return tokens[at]
        at += step
    return ("", "")


def _chain(tokens: tuple[Token, ...], at: int) -> tuple[list[str], list[str], int]:
    parts, texts = [tokens[at][1]], [tokens[at][1]]
    at += 1
    while at + 1 < len(tokens):
        if tokens[at] == ("operator", ".") and tokens[at + 1][0] in ("name", "integer"):
            parts.append(tokens[at + 1][1])
            texts.append("." + tokens[at + 1][1])
            at += 2
        elif (
            tokens[at] == ("operator", "[")
            and at + 2 < len(tokens)
            and tokens[at + 1][0] in ("string", "integer")
            and tokens[at + 2] == ("operator", "]")
        ):
            parts.append(_unquote(tokens[at + 1][1]))
            texts.append(f"[{tokens[at + 1][1]}]")
            at += 3
        else:
            break
    return parts, texts, at


_EQUALS = (("operator", "=="), ("operator", "!="))
_OPENING, _CLOSING = (("operator", "["), ("operator", "(")), (("operator", "]"), ("operator", ")"))


def _find_comparisons(tokens: tuple[Token, ...], start: int, end: int) -> list[int]:
    """The positions of the strings a chain is compared with, by `==`, `!=` or `in`, on either side."""
    before = [*islice(_words(tokens, range(start - 1, -1, -1)), 2)]
    if len(before) == 2 and tokens[before[0]] in _EQUALS and tokens[before[1]][0] == "string":
        return [before[1]]
    words = _words(tokens, range(end, len(tokens)))
    operator = _next(tokens, words)
    if operator in _EQUALS:
        second = next(words, None)
        return [second] if second is not None and tokens[second][0] == "string" else []
    if operator == ("name", "not"):
        operator = _next(tokens, words)
    if operator != ("name", "in") or _next(tokens, words) not in _OPENING:
        return []
    found: list[int] = []
    for at in words:
        if tokens[at] in _CLOSING:
            return found
        if tokens[at][0] == "string":
            found.append(at)
        elif tokens[at] != ("operator", ","):
            break
    return []


def _words(tokens: tuple[Token, ...], positions: range) -> Iterator[int]:
    return (at for at in positions if tokens[at][0] != "whitespace")


def _next(tokens: tuple[Token, ...], words: Iterator[int]) -> Token:
    at = next(words, None)
    return tokens[at] if at is not None else ("", "")


def _find_locals(tokens: tuple[Token, ...]) -> set[int]:
    """The positions of names that are bound there by `{% for %}` or `{% set %}`, Jinja2's `loop` included."""
    bound = _Bound()
    found: set[int] = set()
    at = 0
    while at < len(tokens):
        if tokens[at][0] == "block_begin":
            at = _read_block(tokens, at, bound, found)
        elif tokens[at][0] == "name" and tokens[at][1] in bound:
            found.add(at)
        at += 1
    return found


class _Bound:
    """The names that are bound at one place of a template: those of each `{% for %}` around it, and of `{% set %}`."""

    def __init__(self) -> None:
        self._scopes: list[set[str]] = [set()]
        self._count: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return self._count[name] > 0

    def open(self) -> None:
        """A loop begins."""
        self._scopes.append(set())

    def close(self) -> None:
        """A loop ends."""
        if len(self._scopes) > 1:
            self._count.subtract(self._scopes.pop())

    def bind(self, names: Iterable[str]) -> None:
        """Bind names for the rest of the innermost loop."""
        new = set(names) - self._scopes[-1]
        self._scopes[-1] |= new
        self._count.update(new)


def _read_block(tokens: tuple[Token, ...], at: int, bound: _Bound, found: set[int]) -> int:
    """Note what a block binds; the position of its last token."""
    end = next((one for one in range(at, len(tokens)) if tokens[one][0] == "block_end"), len(tokens))
    words = [*_words(tokens, range(at + 1, end))]
    word = tokens[words[0]][1] if words else ""
    if word == "endfor":
        bound.close()
    found.update(one for one in words if tokens[one][1] in bound)
    if word in ("for", "set"):
        parting = ("name", "in") if word == "for" else ("operator", "=")
        until = next((one for one in words if tokens[one] == parting), end)
        new = {tokens[one][1] for one in words[1:] if one < until and _starts_chain(tokens, one, binding=True)}
        # The filter of a loop sees its elements; what it goes over does not.
        condition = next((one for one in words if one > until and tokens[one] == ("name", "if")), end)
        seeing = [one for one in words if one < until or (word == "for" and one > condition)]
        found.update(one for one in seeing if tokens[one][1] in new)
        if word == "for":
            bound.open()
            new |= {"loop"}
        bound.bind(new)
    return end


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] in "'\"" else text

"""A template's text cut into literal text and the sources of its `{{ … }}`.

The cut is exact: `}}` inside a quoted literal or closing two nested maps does not end an expression. Texts with
`{% … %}` or `{# … #}`, and texts that are not well formed, are not cut: they are for Jinja2.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

#: `${#name}` is the shell's, a length: no comment begins there
_OPENING: Final = re.compile(r"\{[{%]|(?<!\$)\{#")
#: runs inside an expression that cannot end it, then one character that might matter
_INSIDE: Final = re.compile(
    r"""(?: [^'"(\[{}\])-]+ | '[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*" | -(?!\}\}) )*""",
    re.VERBOSE | re.DOTALL,
)
#: a text that is one expression without anything that needs a closer look, which is what most are
_LONE: Final = re.compile(r"""\{\{[^-+{}'"][^{}'"]*(?<!-)\}\}""")
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}


class Hole(msgspec.Struct, frozen=True, gc=False):
    """One `{{ … }}`: the source between the braces, and where that source starts."""

    source: str
    offset: int


Segment = str | Hole


def has_template(text: str) -> bool:
    """Whether there is any template syntax in the text at all."""
    return "{" in text and ("{{" in text or _OPENING.search(text) is not None)


def split(text: str) -> list[Segment] | None:
    """The segments of a text, in order; None when it has statements, comments or a flaw."""
    if _LONE.fullmatch(text):
        return [Hole(text[2:-2], 2)]
    segments: list[Segment] = []
    position = 0
    strip_next = False
    while True:
        opening = _OPENING.search(text, position)
        literal = text[position : opening.start() if opening else len(text)]
        if strip_next:
            literal = literal.lstrip()
        if opening is None:
            break
        if opening[0] != "{{":
            return None
        start = opening.end()
        if text[start : start + 1] in ("-", "+"):
            literal = literal.rstrip() if text[start] == "-" else literal
            start += 1
        end = _end_of(text, start)
        if end < 0:
            return None
        if literal:
            segments.append(literal)
        strip_next = text[end] == "-"
        segments.append(Hole(text[start:end], start))
        position = end + (3 if strip_next else 2)
    if literal:
        segments.append(literal)
    return segments


def _end_of(text: str, start: int) -> int:
    """Where the `}}` or `-}}` stands that closes the expression begun at `start`; -1 when there is none."""
    end = text.find("}}", start)
    if end < 0:
        return -1
    inside = text[start:end]
    if not ("'" in inside or '"' in inside or "{" in inside):
        return end - 1 if inside.endswith("-") else end
    return _find_balanced_end(text, start)


def _find_balanced_end(text: str, start: int) -> int:
    """As `_end_of`, minding quotes and brackets."""
    expected: list[str] = []
    position = start
    while True:
        match = _INSIDE.match(text, position)
        position = match.end() if match else position
        if position >= len(text):
            return -1
        character = text[position]
        if not expected and text.startswith(("}}", "-}}"), position):
            return position
        if character in _CLOSES:
            expected.append(_CLOSES[character])
        elif character in ")]}":
            if not expected or expected.pop() != character:
                return -1
        elif character != "-":
            return -1
        position += 1

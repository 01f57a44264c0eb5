"""What shell text with templates consists of, and the tokens it is read by."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

import msgspec

#: stands for one `{{ … }}` in the text that is scanned
HOLE: Final = "\x00"


class How(Enum):
    """How a value is written at its place."""

    #: outside quotes: as one quoted word
    WORD = auto()
    #: inside '…'
    SINGLE = auto()
    #: inside "…"
    DOUBLE = auto()
    #: inside "${x:-…}"
    BRACES = auto()
    #: in a here-document whose body the shell expands
    HEREDOC = auto()
    #: in a here-document that the shell takes as it is
    VERBATIM = auto()
    #: inside $(( … )): an integer
    INTEGER = auto()
    #: inside ${…} where a variable's name stands
    NAME = auto()


class Slot(msgspec.Struct, frozen=True):
    """Where a value goes."""

    index: int
    how: How
    #: how many pairs of backticks it stands in: each takes away one layer of backslashes
    backticks: int = 0


class Heredoc(msgspec.Struct, frozen=True):
    """The body of a here-document, up to the line that ends it."""

    parts: tuple[str | Slot, ...]
    delimiter: str
    strip_tabs: bool


Part = str | Slot | Heredoc


class Scanned(msgspec.Struct, frozen=True):
    """A command as read."""

    parts: tuple[Part, ...]
    #: whether the reading is certain
    sure: bool
    #: the holes that stand in comments, by index
    dropped: frozenset[int]


COMMAND: Final = re.compile(
    r"""(?P<escape>\\.)
    | (?P<ansi>\$'(?:[^'\\]|\\.)*')
    | (?P<single>'[^']*')
    | (?P<double>")
    | (?P<arithmetic>\$\(\(|\(\()
    | (?P<bracket>\$\[)
    | (?P<substitution>\$\()
    | (?P<braces>\$\{)
    | (?P<dollar>\$(?=\x00))
    | (?P<variable>\$[A-Za-z_]\w*)
    | (?P<special>\$[$?!\#@*0-9-])
    | (?P<backtick>`)
    | (?P<comment>(?:(?<=[\s;|&()<>])|^)\#[^\n]*)
    | (?P<here_string><<<)
    | (?P<heredoc><<-?[ \t]*)
    | (?P<open>\()
    | (?P<close>\))
    | (?P<newline>\n)
    | (?P<hole>\x00)
    | (?P<word>\w+)
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
DOUBLE: Final = re.compile(
    r"""(?P<escape>\\.) | (?P<double>") | (?P<arithmetic>\$\(\() | (?P<bracket>\$\[) | (?P<substitution>\$\()
    | (?P<braces>\$\{) | (?P<dollar>\$(?=\x00)) | (?P<variable>\$[A-Za-z_]\w*) | (?P<special>\$[$?!\#@*0-9-])
    | (?P<backtick>`) | (?P<hole>\x00) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
ARITHMETIC: Final = re.compile(
    r"""(?P<arithmetic>\$\(\() | (?P<substitution>\$\() | (?P<braces>\$\{) | (?P<backtick>`) | (?P<open>\() | (?P<close>\))
    | (?P<hole>\x00) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
#: behind these, what stands in ${…} is a word; before them it is a name, or a number that bash would compute
WORD_IN_BRACES: Final = re.compile(r"\w+(?::?[-+=?]|\#\#?|%%?|//?)")
DELIMITER: Final = re.compile(r"""(?:[^\s;|&()<>'"\\\x00]|\\.|'[^'\n]*'|"[^"\n]*")+""")
EXPANDED: Final = re.compile(
    r"""(?P<escape>\\.) | (?P<dollar>\$(?=\x00)) | (?P<variable>\$[A-Za-z_]\w*(?=\x00)) | (?P<special>\$[$?!\#@*0-9-])
    | (?P<hole>\x00)""",
    re.VERBOSE | re.DOTALL,
)

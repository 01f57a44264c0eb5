"""Shell text with holes to parts: how a value has to be written depends on the quotes it stands in.

The text is read as POSIX shells read it, before any value is known. Where it cannot be read with certainty (a
`case` inside `$( … )`, quotes that do not close), the command is not `sure`, and only harmless values are let in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

import msgspec

# What shell text with templates consists of, and the tokens it is read by.


#: stands for one `{{ … }}` in the text that is scanned
HOLE: Final = "\x00"


class Quoting(Enum):
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


class ShellSlot(msgspec.Struct, frozen=True):
    """Where a value goes."""

    index: int
    how: Quoting
    #: how many pairs of backticks it stands in: each takes away one layer of backslashes
    backticks: int = 0


class Heredoc(msgspec.Struct, frozen=True):
    """The body of a here-document, up to the line that ends it."""

    parts: tuple[str | ShellSlot, ...]
    delimiter: str
    strip_tabs: bool


Part = str | ShellSlot | Heredoc


class ScannedCommand(msgspec.Struct, frozen=True):
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


class _Frame(msgspec.Struct):
    """One level of quoting: `command`, `double`, `braces`, `arithmetic`, `bracket` or `backtick`."""

    kind: str
    #: where its inside begins
    start: int = 0
    parentheses: int = 0
    #: for braces: whether double quotes stand around them
    quoted: bool = False


class _ShellScanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.parts: list[Part] = []
        self.sure = True
        self.dropped: set[int] = set()
        self.frames = [_Frame("command")]
        self.heredocs: list[tuple[str, bool, bool]] = []
        self._index = 0

    @property
    def frame(self) -> _Frame:
        return self.frames[-1]

    @property
    def quoted(self) -> bool:
        """Whether the innermost quoting is a pair of double quotes."""
        return self.frame.kind == "double" or (self.frame.kind == "braces" and self.frame.quoted)

    def run(self) -> None:
        while self.position < len(self.text):
            match = self._pattern().match(self.text, self.position)
            if match is None:
                break  # cannot be: the last alternative takes anything
            self.position = match.end()
            _READERS[match.lastgroup or "other"](self, match[0])
        self.sure = self.sure and len(self.frames) == 1 and not self.heredocs

    def _pattern(self) -> re.Pattern[str]:
        if self.quoted:
            return DOUBLE
        return ARITHMETIC if self.frame.kind in ("arithmetic", "bracket") else COMMAND

    def add(self, text: str) -> None:
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += text
        else:
            self.parts.append(text)

    def take(self) -> int:
        self._index += 1
        return self._index - 1

    def slot(self, how: Quoting) -> None:
        backticks = sum(frame.kind == "backtick" for frame in self.frames)
        self.parts.append(ShellSlot(self.take(), how, backticks))

    def hole(self, _text: str) -> None:
        frame = self.frame
        if any(outer.kind in ("arithmetic", "bracket") for outer in self.frames):
            self.slot(Quoting.INTEGER)
        elif frame.kind == "double":
            self.slot(Quoting.DOUBLE)
        elif frame.kind == "braces":
            if not WORD_IN_BRACES.match(self.text, frame.start, self.position - 1):
                self.slot(Quoting.NAME)
            else:
                self.slot(Quoting.BRACES if frame.quoted else Quoting.WORD)
        else:
            self.slot(Quoting.WORD)

    def escape(self, text: str) -> None:
        if text[1] != HOLE:
            # Inside backticks an escaped backtick opens a second level.
            self.sure = self.sure and not (text == "\\`" and any(f.kind == "backtick" for f in self.frames))
            self.add(text)
            return
        # A backslash must not escape what the value is wrapped in: in quotes it is itself, outside it is moot.
        self.position -= 1
        if self.quoted:
            self.add("\\\\")

    def dollar(self, _text: str) -> None:
        self.add("\\$")  # else a value could become a variable or a command

    def variable(self, text: str) -> None:
        glued = self.text[self.position : self.position + 1] == HOLE
        self.add(f"${{{text[1:]}}}" if glued else text)

    def single(self, text: str) -> None:
        self._split(text, Quoting.SINGLE)

    def ansi(self, text: str) -> None:
        # Shells differ in where $'…\'…' ends, and in whether it is special at all.
        self.sure = self.sure and "\\'" not in text and HOLE not in text
        self._split(text, Quoting.SINGLE)

    def _split(self, text: str, how: Quoting) -> None:
        for number, stretch in enumerate(text.split(HOLE)):
            if number:
                self.slot(how)
            self.add(stretch)

    def double(self, text: str) -> None:
        self.add(text)
        if self.frame.kind == "double":
            self.frames.pop()
        else:
            # Quotes inside "${…}" are read differently by different shells.
            self.sure = self.sure and not self.quoted
            self.frames.append(_Frame("double"))

    def open_frame(self, kind: str) -> Callable[[str], None]:
        def push_frame(text: str) -> None:
            self.add(text)
            self.frames.append(_Frame(kind, self.position, quoted=self.quoted))

        return push_frame

    def backtick(self, text: str) -> None:
        self.add(text)
        if self.frame.kind == "backtick":
            self.frames.pop()
        else:
            self.sure = self.sure and not any(frame.kind == "backtick" for frame in self.frames)
            self.frames.append(_Frame("backtick"))

    def comment(self, text: str) -> None:
        if self.frame.kind == "braces":
            self.position -= len(text) - 1
            self.add("#")
            return
        if any(frame.kind == "backtick" for frame in self.frames) and "`" in text:
            cut = text.index("`")
            self.position -= len(text) - cut
            text = text[:cut]
        for _ in range(text.count(HOLE)):
            self.dropped.add(self.take())
        self.add(text.replace(HOLE, ""))

    def open(self, text: str) -> None:
        self.add(text)
        self.frame.parentheses += 1

    def close(self, text: str) -> None:
        self.add(text)
        frame = self.frame
        if frame.parentheses:
            frame.parentheses -= 1
        elif frame.kind == "arithmetic":
            if self.text[self.position : self.position + 1] == ")":
                self.position += 1
                self.add(")")
            else:
                self.sure = False
            self.frames.pop()
        elif frame.kind == "command" and len(self.frames) > 1:
            self.frames.pop()

    def word(self, text: str) -> None:
        if text == "case" and len(self.frames) > 1:
            self.sure = False  # its patterns close parentheses that nothing opened
        self.add(text)

    def other(self, text: str) -> None:
        self.add(text)
        if text == "'" and not self.quoted:
            self.sure = False  # it does not close
        if (text == "}" and self.frame.kind == "braces") or (text == "]" and self.frame.kind == "bracket"):
            self.frames.pop()

    def heredoc(self, text: str) -> None:
        self.add(text)
        match = DELIMITER.match(self.text, self.position)
        if match is None or any(frame.kind in ("backtick", "braces") for frame in self.frames):
            self.sure = False
            return
        self.position = match.end()
        self.sure = self.sure and self.text[self.position : self.position + 1] != HOLE
        self.add(match[0])
        literal = any(mark in match[0] for mark in "'\"\\")
        delimiter = re.sub(r"""\\(.)|['"]""", r"\1", match[0])
        self.heredocs.append((delimiter, literal, text.startswith("<<-")))

    def newline(self, text: str) -> None:
        self.add(text)
        pending, self.heredocs = self.heredocs, []
        for delimiter, literal, strip_tabs in pending:
            self._body(delimiter, literal=literal, strip_tabs=strip_tabs)

    def _body(self, delimiter: str, *, literal: bool, strip_tabs: bool) -> None:
        tabs = "\t*" if strip_tabs else ""
        end = re.compile(rf"^{tabs}{re.escape(delimiter)}$", re.MULTILINE).search(self.text, self.position)
        stop = end.start() if end else len(self.text)
        self.sure = self.sure and end is not None
        body = self.text[self.position : stop]
        outer, self.parts = self.parts, []
        if literal:
            self._split(body, Quoting.VERBATIM)
        else:
            self._add_expanding_body(body)
        inner = tuple(part for part in self.parts if not isinstance(part, Heredoc))
        self.parts = [*outer, Heredoc(inner, delimiter, strip_tabs)]
        self.position = end.end() if end else stop
        self.add(self.text[stop : self.position])

    def _add_expanding_body(self, body: str) -> None:
        """A body in which the shell expands variables and commands, as inside double quotes."""
        self.sure = self.sure and not (HOLE in body and ("$(" in body or "`" in body or "${" in body))
        at = 0
        for match in EXPANDED.finditer(body):
            self.add(body[at : match.start()])
            at = match.end()
            if match.lastgroup == "hole":
                self.slot(Quoting.HEREDOC)
            elif match.lastgroup == "dollar":
                self.add("\\$")
            elif match.lastgroup == "variable":
                self.add(f"${{{match[0][1:]}}}")
            elif match[0][1] == HOLE:
                self.add("\\\\")
                self.slot(Quoting.HEREDOC)
            else:
                self.add(match[0])
        self.add(body[at:])


_READERS: Final[dict[str, Callable[[_ShellScanner, str], None]]] = {
    "escape": _ShellScanner.escape,
    "ansi": _ShellScanner.ansi,
    "single": _ShellScanner.single,
    "double": _ShellScanner.double,
    "arithmetic": lambda scanner, text: scanner.open_frame("arithmetic")(text),
    "bracket": lambda scanner, text: scanner.open_frame("bracket")(text),
    "substitution": lambda scanner, text: scanner.open_frame("command")(text),
    "braces": lambda scanner, text: scanner.open_frame("braces")(text),
    "dollar": _ShellScanner.dollar,
    "variable": _ShellScanner.variable,
    "special": _ShellScanner.other,
    "backtick": _ShellScanner.backtick,
    "comment": _ShellScanner.comment,
    "here_string": _ShellScanner.other,
    "heredoc": _ShellScanner.heredoc,
    "open": _ShellScanner.open,
    "close": _ShellScanner.close,
    "newline": _ShellScanner.newline,
    "hole": _ShellScanner.hole,
    "word": _ShellScanner.word,
    "other": _ShellScanner.other,
}


def scan(text: str) -> ScannedCommand:
    """The parts of a command."""
    scanner = _ShellScanner(text)
    scanner.run()
    return ScannedCommand(tuple(scanner.parts), scanner.sure, frozenset(scanner.dropped))

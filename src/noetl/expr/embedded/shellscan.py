"""Shell text with holes to parts: how a value has to be written depends on the quotes it stands in.

The text is read as POSIX shells read it, before any value is known. Where it cannot be read with certainty (a
`case` inside `$( … )`, quotes that do not close), the command is not `sure`, and only harmless values are let in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from noetl.expr.embedded.shellparts import (
    ARITHMETIC,
    COMMAND,
    DELIMITER,
    DOUBLE,
    EXPANDED,
    HOLE,
    WORD_IN_BRACES,
    Heredoc,
    How,
    Part,
    Scanned,
    Slot,
)


class _Frame(msgspec.Struct):
    """One level of quoting: `command`, `double`, `braces`, `arithmetic`, `bracket` or `backtick`."""

    kind: str
    #: where its inside begins
    start: int = 0
    parentheses: int = 0
    #: for braces: whether double quotes stand around them
    quoted: bool = False


class _Scanner:
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

    def slot(self, how: How) -> None:
        backticks = sum(frame.kind == "backtick" for frame in self.frames)
        self.parts.append(Slot(self.take(), how, backticks))

    def hole(self, _text: str) -> None:
        frame = self.frame
        if any(outer.kind in ("arithmetic", "bracket") for outer in self.frames):
            self.slot(How.INTEGER)
        elif frame.kind == "double":
            self.slot(How.DOUBLE)
        elif frame.kind == "braces":
            if not WORD_IN_BRACES.match(self.text, frame.start, self.position - 1):
                self.slot(How.NAME)
            else:
                self.slot(How.BRACES if frame.quoted else How.WORD)
        else:
            self.slot(How.WORD)

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
        self._split(text, How.SINGLE)

    def ansi(self, text: str) -> None:
        # Shells differ in where $'…\'…' ends, and in whether it is special at all.
        self.sure = self.sure and "\\'" not in text and HOLE not in text
        self._split(text, How.SINGLE)

    def _split(self, text: str, how: How) -> None:
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

    def opened(self, kind: str) -> Callable[[str], None]:
        def opening(text: str) -> None:
            self.add(text)
            self.frames.append(_Frame(kind, self.position, quoted=self.quoted))

        return opening

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
            self._split(body, How.VERBATIM)
        else:
            self._expanded(body)
        inner = tuple(part for part in self.parts if not isinstance(part, Heredoc))
        self.parts = [*outer, Heredoc(inner, delimiter, strip_tabs)]
        self.position = end.end() if end else stop
        self.add(self.text[stop : self.position])

    def _expanded(self, body: str) -> None:
        """A body in which the shell expands variables and commands, as inside double quotes."""
        self.sure = self.sure and not (HOLE in body and ("$(" in body or "`" in body or "${" in body))
        at = 0
        for match in EXPANDED.finditer(body):
            self.add(body[at : match.start()])
            at = match.end()
            if match.lastgroup == "hole":
                self.slot(How.HEREDOC)
            elif match.lastgroup == "dollar":
                self.add("\\$")
            elif match.lastgroup == "variable":
                self.add(f"${{{match[0][1:]}}}")
            elif match[0][1] == HOLE:
                self.add("\\\\")
                self.slot(How.HEREDOC)
            else:
                self.add(match[0])
        self.add(body[at:])


_READERS: Final[dict[str, Callable[[_Scanner, str], None]]] = {
    "escape": _Scanner.escape,
    "ansi": _Scanner.ansi,
    "single": _Scanner.single,
    "double": _Scanner.double,
    "arithmetic": lambda scanner, text: scanner.opened("arithmetic")(text),
    "bracket": lambda scanner, text: scanner.opened("bracket")(text),
    "substitution": lambda scanner, text: scanner.opened("command")(text),
    "braces": lambda scanner, text: scanner.opened("braces")(text),
    "dollar": _Scanner.dollar,
    "variable": _Scanner.variable,
    "special": _Scanner.other,
    "backtick": _Scanner.backtick,
    "comment": _Scanner.comment,
    "here_string": _Scanner.other,
    "heredoc": _Scanner.heredoc,
    "open": _Scanner.open,
    "close": _Scanner.close,
    "newline": _Scanner.newline,
    "hole": _Scanner.hole,
    "word": _Scanner.word,
    "other": _Scanner.other,
}


def scan(text: str) -> Scanned:
    """The parts of a command."""
    scanner = _Scanner(text)
    scanner.run()
    return Scanned(tuple(scanner.parts), scanner.sure, frozenset(scanner.dropped))

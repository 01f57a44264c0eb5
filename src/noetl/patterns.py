r"""Regular expressions of authors and callers, matched by RE2: in time that grows with the text, whatever the pattern.

RE2 has no look-around and no back-references, counts repetitions up to 1,000, and refuses what would take too much memory.
Patterns are those of ECMA 262 as far as RE2 has them: the spellings that differ, such as `\u00e9`, are translated.
"""

from __future__ import annotations

import re
from typing import Any, Final

from noetl.lru import LruCache

#: a longer pattern is no pattern any more
_MOST_CHARACTERS: Final = 10_000
#: bytes that one compiled pattern may take, for its program and for what it remembers of texts; RE2 holds to it
_MOST_BYTES: Final = 2_000_000
#: compiled patterns that are kept
_KEPT: Final = 32
#: so many instructions, each at one byte of text, take a tenth of a microsecond when RE2 is at its slowest
_INSTRUCTIONS: Final = 24
#: characters of a complaint that are told; it may quote the whole pattern
_MOST_TOLD: Final = 100

#: an escape that RE2 spells otherwise; every other escape is passed over, so that `\\u` stays a backslash and a letter
_ESCAPE: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|c([A-Za-z])|(Z)|.)",
    re.DOTALL,
)
#: how RE2 begins its complaint → what is wrong and what to do
_COMPLAINTS: Final = (
    ("invalid perl operator: (?=", "a look-ahead `(?=` is not supported: {no_look}"),
    ("invalid perl operator: (?!", "a look-ahead `(?!` is not supported: {no_look}"),
    ("invalid perl operator: (?<", "a look-behind `(?<` is not supported: {no_look}"),
    ("invalid perl operator: (?>", "an atomic group `(?>` is not supported; write `(?:`: nothing is tried twice here"),
    (
        "invalid repetition size",
        "it repeats more than 1,000 times; limit the length with `maxLength`, or use `*` or `+`",
    ),
    ("bad repetition operator: {", "its repetitions multiply to more than 1,000; use smaller counts, or `*` or `+`"),
    ("pattern too large", "it is too large; use smaller repetition counts, or `*` or `+`"),
)
_NO_LOOK: Final = "use two patterns under `allOf` or `not`"
_BACK_REFERENCE: Final = re.compile(r"invalid escape sequence: \\([1-9])")


class PatternProblem(Exception):
    """A text is no pattern, or none that RE2 can match; carries why from `compile_pattern` to its caller."""


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled", "size", "source")

    def __init__(self, source: str, compiled: Any) -> None:
        self.source = source
        self._compiled = compiled
        #: instructions of its program
        self.size: int = max(compiled.programsize, 1)

    def work_for(self, text: str) -> int:
        """Tenths of a microsecond that it takes at most to look for it in a text; to be paid before."""
        return 1 + (len(text) * (1 if text.isascii() else 4) * self.size) // _INSTRUCTIONS

    def found_in(self, text: str) -> bool:
        """Whether it matches somewhere in a text."""
        return self._compiled.search(text.encode("utf-8", "surrogatepass")) is not None

    def matches(self, text: str) -> bool:
        """Whether it matches a whole text."""
        return self._compiled.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


_compiled: LruCache[str, Pattern] = LruCache(_KEPT)


def compile_pattern(source: str) -> Pattern:
    """The pattern of a text; PatternProblem says why it is none."""
    found = _compiled.get(source)
    if found is None:
        found = _compile(source)
        _compiled.put(source, found)
    return found


def _compile(source: str) -> Pattern:
    import re2  # type: ignore[import-untyped]

    if len(source) > _MOST_CHARACTERS:
        raise PatternProblem(f"it has {len(source):,} characters, and a pattern may have {_MOST_CHARACTERS:,}")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MOST_BYTES
    try:
        text = _ESCAPE.sub(_translate, source).encode()
        # Past the library's own cache, which would keep twice as many.
        return Pattern(source, re2._Regexp(text, options))  # noqa: SLF001
    except UnicodeEncodeError:
        raise PatternProblem("it has half a character") from None
    except re2.error as error:
        raise PatternProblem(_explain(error.args[0])) from None


def _translate(match: re.Match[str]) -> str:
    high, low, four, braced, control, end = match.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if control:
        return rf"\x{ord(control) % 32:02x}"
    if end:
        return r"\z"
    code = four or braced
    return rf"\x{{{code}}}" if code else match[0]


def _explain(complaint: bytes | str) -> str:
    text = complaint.decode("utf-8", "replace") if isinstance(complaint, bytes) else str(complaint)
    if back := _BACK_REFERENCE.match(text):
        return rf"a back-reference `\{back[1]}` is not supported: no text is compared with itself"
    for begins, said in _COMPLAINTS:
        if text.startswith(begins):
            return said.format(no_look=_NO_LOOK)
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"

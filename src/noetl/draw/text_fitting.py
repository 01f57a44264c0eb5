"""Text that fits a card: cleaned of control characters, measured, elided and wrapped.

A picture is laid out long before anybody knows which font will draw it, so widths are estimates from above: each
character is as wide as in the widest of the usual interface fonts (DejaVu Sans; Arial, Segoe UI, Inter, Roboto and
Helvetica are narrower).
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

ELLIPSIS = "…"
#: how much wider bold text is
BOLD = 1.1
#: a fixed-width font's characters, in ems
_FIXED = 0.62
_BY_WIDTH = {
    0.29: "ijlI'",
    0.35: " ,./:;\\|!-",
    0.4: '()[]ftr"`·',
    0.5: "JzsL*_",
    0.54: "c^?",
    0.61: "0123456789$abdeghknopquvxy{}TFESP",
    0.67: "ABCKRVXYZ",
    0.76: "DGHNOQU&",
    0.84: "wM#+<=>~",
    0.98: "mW%@…",
}
_EMS = {character: ems for ems, characters in _BY_WIDTH.items() for character in characters}
# A mark stacked on a mark stacked on a mark grows out of any box; no script needs more than a few.
_MOST_MARKS = 4
#: a long word is torn behind one of these, among its last characters
_JOINTS, _LEAST_TORN = "._-/,;:([{=|。、，", 12
_JOINERS = "\u200c\u200d"


def clean(text: str) -> str:
    """The text on one line, without characters that XML forbids or that turn the text around."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    return " ".join("".join(_harmless(text)).split())


def _harmless(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        if " " <= character <= "~":
            marks = 0
            yield character
            continue
        category = unicodedata.category(character)
        marks = marks + 1 if category.startswith("M") else 0
        if category in ("Cc", "Zl", "Zp"):
            yield " "
        elif category in ("Cs", "Cn", "Co"):
            yield "\ufffd"
        elif marks <= _MOST_MARKS and (category != "Cf" or character in _JOINERS):
            yield character


@lru_cache(maxsize=4096)
def _ems(character: str) -> float:
    known = _EMS.get(character)
    if known is not None:
        return known
    if unicodedata.combining(character) or character in _JOINERS:
        return 0.0
    if unicodedata.east_asian_width(character) in "WF" or unicodedata.category(character) in ("So", "Sk"):
        return 1.3 if ord(character) > 0xFFFF else 1.02
    if unicodedata.name(character, "").startswith(("LATIN", "GREEK", "CYRILLIC")):
        return 0.92
    return 1.1


def width(text: str, size: float, *, bold: bool = False, fixed: bool = False) -> float:
    """How wide a cleaned text is at most, in the unit of `size`."""
    if fixed:
        ems = sum(_FIXED if character <= "~" else max(_FIXED, _ems(character)) for character in text)
    else:
        ems = sum(map(_ems, text))
    return ems * size * (BOLD if bold else 1.0)


def elide(text: str, room: float, size: float, *, bold: bool = False, fixed: bool = False) -> str:
    """The text, or as much of its beginning as fits in `room`, with an ellipsis."""
    if width(text, size, bold=bold, fixed=fixed) <= room:
        return text
    room -= width(ELLIPSIS, size, bold=bold, fixed=fixed)
    end = _count_fitting(text, room / (BOLD if bold else 1.0), size, fixed=fixed)
    return text[:end].rstrip() + ELLIPSIS


def shorten(text: str, most: int) -> str:
    """The text, or its first `most` characters and an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + ELLIPSIS


def wrap(text: str, room: float, size: float, *, lines: int, fixed: bool = False) -> tuple[str, ...]:
    """The text on at most `lines` lines, broken between words if it can be; what does not fit is elided."""
    wrapped: list[str] = []
    rest = text
    while rest and len(wrapped) < lines - 1 and width(rest, size, fixed=fixed) > room:
        end = _count_fitting(rest, room, size, fixed=fixed)
        # A word that fits on a line by itself is not torn; one that does not starts where there is room.
        space = rest.rfind(" ", 0, end + 1)
        word_end = rest.find(" ", end)
        word = rest[space + 1 : word_end if word_end >= 0 else len(rest)]
        if space > 0 and width(word, size, fixed=fixed) <= room:
            end = space
        elif end > _LEAST_TORN:
            # Behind the last full stop, bracket or the like, if there is one near the end.
            joints = [at + 1 for at in range(end - _LEAST_TORN, end) if rest[at] in _JOINTS]
            end = joints[-1] if joints else end
        wrapped.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return (*wrapped, elide(rest, room, size, fixed=fixed)) if rest else tuple(wrapped)


def _count_fitting(text: str, room: float, size: float, *, fixed: bool) -> int:
    """How many characters fit; at least one, so that whoever asks gets on."""
    used = 0.0
    for position, character in enumerate(text):
        used += width(character, size, fixed=fixed)
        if used > room:
            return max(position, 1)
    return len(text)


def initial(text: str | None) -> str:
    """The first line of a description, cleaned."""
    lines = (clean(line) for line in (text or "").splitlines())
    return next((line for line in lines if line), "")

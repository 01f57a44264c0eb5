"""Finder: where any of many forms stand in a text, or what is left of one that was cut off. Pure.

However many forms there are, a text is gone through once: one regular expression knows how each of them begins and ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

#: forms have at least so many characters; by so many at either end they are found
GRAM: Final = 4
#: of a form that was cut off, so many characters are enough to tell it
PART: Final = 8
#: shorter forms are not looked for across line breaks
FOLDABLE: Final = 12
#: what is most usual in texts, the most usual first
_COMMON: Final = ' ,:{}[]\\/"-_.=0123456789etaoinsrhldcumfpgwybvkxjqz'
_RAREST: Final = len(_COMMON) + 1
#: a line break with what may stand around it, as it is or as JSON and other languages write it
_FOLD: Final = re.compile(r"[=\\]?(?:\\[rn]|[\r\n])(?:\\[rn]|[\r\n\t ])*")


class CutLimits(NamedTuple):
    """How much of a form is enough where it was cut off."""

    #: so many characters of its beginning, or of its end
    head: int = PART
    tail: int = PART
    #: only where something says that it was cut off there; else also where the text itself begins or ends
    marked: bool = False


class FormMatch(NamedTuple):
    """A form, or one end of it."""

    start: int
    end: int
    #: None: it is whole
    cut: CutLimits | None = None
    #: of what was cut off: it is the beginning of a form, and not its end
    is_head: bool = False


class _Lead(NamedTuple):
    """A form of which some characters were seen, and where they stand in it: counted from its beginning, or its end."""

    form: str
    cut: CutLimits | None
    at: int
    is_head: bool


class Finder:
    """Finds forms: each with how much of it is enough; None: all of it."""

    def __init__(self, forms: Mapping[str, CutLimits | None]) -> None:
        self._leads: dict[str, list[_Lead]] = {}
        self._beginnings: frozenset[str] = frozenset(form[:size] for form in forms for size in range(1, PART))
        self.longest = max(map(len, forms), default=0)
        # The longest first: a longer one may hold a shorter one.
        for form, cut in sorted(forms.items(), key=lambda one: -len(one[0])):
            at = _rarest(form[:PART])
            self._leads.setdefault(form[at : at + GRAM], []).append(_Lead(form, cut, at, is_head=True))
            if cut is not None:
                at = _rarest(form[-PART:])
                self._leads.setdefault(form[-PART:][at : at + GRAM], []).append(
                    _Lead(form, cut, PART - at, is_head=False)
                )
        self._grams = _any_of(self._leads) if forms else None

    def needles(self) -> set[str]:
        """Texts of which one at least is in whatever holds a form, or enough of one."""
        leads = [lead for some in self._leads.values() for lead in some]
        return {lead.form[:PART] if lead.is_head else lead.form[-PART:] for lead in leads}

    def may_hold(self, text: str) -> bool:
        """Whether it is worth while to look closer."""
        return self._grams is not None and self._grams.search(text) is not None

    def holds(self, text: str, *, least: int = 0) -> bool:
        """Whether there is any in it, be it cut off or not."""
        return next(self.find_matches(text, least=least), None) is not None

    def find_matches(self, text: str, *, least: int = 0) -> Iterator[FormMatch]:
        """All there are in it; they may overlap. `least`: shorter forms do not count."""
        for at, lead in self._find_leads(text, 0):
            if len(lead.form) >= least and (run := (_from if lead.is_head else _up_to)(text, at, lead)) is not None:
                yield run

    def _find_leads(self, text: str, at: int) -> Iterator[tuple[int, _Lead]]:
        """Forms that may stand in a text, and where they would begin or end."""
        while self._grams is not None and (hit := self._grams.search(text, at)) is not None:
            at = hit.start() + 1
            for lead in self._leads[hit[0]]:
                place = hit.start() - lead.at if lead.is_head else hit.start() + lead.at
                if 0 <= place <= len(text):
                    yield place, lead

    def open_end(self, text: str) -> int:
        """Where the beginning of a form may stand that is not whole yet; the length of the text: nowhere."""
        begin = max(0, len(text) - 2 * self.longest)
        tail = text[begin:]
        found = begin + self._open(tail, least=0)
        # A backslash may be the first half of a line break as JSON writes it.
        whole = unwrap_text(tail.removesuffix("\\"))
        if len(whole.text) < len(tail) and (open_at := self._open(whole.text, least=FOLDABLE)) < len(whole.text):
            found = min(found, begin + whole.original_offset(open_at))
        return found

    def _open(self, text: str, *, least: int) -> int:
        found = len(text)
        for at, lead in self._find_leads(text, 0):
            if lead.is_head and at < found and least <= len(lead.form) > len(text) - at:
                found = at if lead.form.startswith(text[at:]) else found
        # Where lines are put together, one or two characters would often be the beginning of something.
        fewest = GRAM if least else 1
        sizes = (size for size in range(min(PART - 1, len(text)), fewest - 1, -1) if text[-size:] in self._beginnings)
        return min(found, len(text) - next(sizes, 0))


class UnwrappedText(NamedTuple):
    """A text without its line breaks, and where its parts stood."""

    text: str
    #: where in it line breaks are missing, and how many characters up to there
    folds: list[int]
    missing: list[int]

    def restore_match(self, run: FormMatch) -> FormMatch:
        """The same run in the text with its line breaks."""
        return run._replace(start=self.original_offset(run.start), end=self.original_offset(run.end - 1) + 1)

    def original_offset(self, at: int) -> int:
        """Where a character stood."""
        return at + self.missing[bisect_right(self.folds, at)]


def remove_line_breaks(text: str) -> str:
    """A text without its line breaks."""
    return _FOLD.sub("", text)


def unwrap_text(text: str) -> UnwrappedText:
    """The same, with where its parts stood."""
    parts: list[str] = []
    folds, missing = [], [0]
    at = size = 0
    for fold in _FOLD.finditer(text):
        parts.append(text[at : fold.start()])
        size += fold.start() - at
        at = fold.end()
        folds.append(size)
        missing.append(at - size)
    return UnwrappedText("".join([*parts, text[at:]]), folds, missing)


def _rarest(window: str) -> int:
    """Where in the end of a form to look for it: at a character that texts seldom have, which saves most of the looking."""
    return max(range(max(1, len(window) - GRAM + 1)), key=lambda at: _COMMON.find(window[at]) % _RAREST)


def _any_of(grams: Iterable[str]) -> re.Pattern[str]:
    """One of these, by its first character: so each place of a text is looked at by few of them."""
    below: dict[str, list[str]] = {}
    for gram in sorted(grams):
        below.setdefault(re.escape(gram[:1]), []).append(re.escape(gram[1:]))
    return re.compile("|".join(f"{one}(?:{'|'.join(rest)})" for one, rest in below.items()), re.DOTALL)


def _from(text: str, start: int, lead: _Lead) -> FormMatch | None:
    form = lead.form
    if text.startswith(form, start):
        return FormMatch(start, start + len(form))
    if lead.cut is None:
        return None
    size = common_prefix_length(text[start : start + len(form)], form)
    return FormMatch(start, start + size, lead.cut, is_head=True) if size >= lead.cut.head else None


def _up_to(text: str, end: int, lead: _Lead) -> FormMatch | None:
    form = lead.form
    if lead.cut is None:
        return None
    size = common_prefix_length(text[max(0, end - len(form)) : end][::-1], form[::-1])
    return FormMatch(end - size, end, lead.cut) if lead.cut.tail <= size < len(form) else None


def common_prefix_length(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginnings on."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low

"""Redactor: takes the values of secrets out of whatever is about to be written. Pure, and told of every value first.

A value is found in all its spellings (`redaction.forms`), also across line breaks and where a text was cut off within one.
To look costs little where nothing is found, which is nearly always: what is to be written is encoded once and searched
as a whole; only a hit makes it be taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain, count
from typing import Any, Final

import msgspec

from noetl.redaction.addresses import PrefixIndex, looks_like_address, replace_secret
from noetl.redaction.finder import FOLDABLE, PART, CutLimits, Finder, FormMatch, remove_line_breaks, unwrap_text
from noetl.redaction.forms import SHORTEST_SECRET, spellings

# Sieve: sees that nothing of what is looked for is in some bytes, at the speed of memory. Pure.
#
# It only answers "surely not" or "maybe". That is worth having where nearly everything is searched in vain: a regular
# expression looks at each byte, while to drop or to rename bytes is one pass without a thought.


#: what most texts consist of: what is left of them without it is short
_USUAL: Final = b' ,:{}[]\\/"-_.=0123456789abcdefghijklmnopqrstuvwxyz'
#: fewer unusual bytes would be found in many texts
_TELLING: Final = 3
#: digits of all sorts made one: secrets as hexadecimal numbers then look the same, and rarely like anything else
_DIGITS: Final = b"0123456789abcdefABCDEF"
_NUMBERED: Final = bytes.maketrans(_DIGITS, b"0" * len(_DIGITS))


class ByteFilter:
    """Knows needles: bytes of which none may be empty."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        left = {needle: needle.translate(None, _USUAL) for needle in needles}
        telling = sorted({rest for rest in left.values() if len(rest) >= _TELLING})
        self._unusual = re.compile(b"|".join(map(re.escape, telling))) if telling else None
        self._usual = [needle for needle, rest in left.items() if len(rest) < _TELLING]
        self._numbered = {needle.translate(_NUMBERED) for needle in self._usual}

    def may_hold(self, data: bytes) -> bool:
        """Whether a needle may be in it; False is sure."""
        if self._unusual is not None and self._unusual.search(data.translate(None, _USUAL)) is not None:
            return True
        if not self._usual:
            return False
        numbered = data.translate(_NUMBERED)
        if not any(needle in numbered for needle in self._numbered):
            return False
        return any(needle in data for needle in self._usual)


#: what stands where a secret stood
MASK: Final = "[redacted]"
#: shorter secrets are looked for as a whole only
_LONG = 12
#: what stands behind a text that was cut off, and before one; a quotation ends where the text that it quotes was cut
_CUT_BEHIND = re.compile(r"[\s\[(]*(?:…|\.\.\.)|\\?['\"`]")
_CUT_BEFORE = re.compile(r"(?:…|\.\.\.)[\s\])]*\Z")
_NEAR = 8
#: so many texts are remembered, if they are no longer than this
_MOST_KNOWN, _SHORT_TEXT = 10_000, 4_096
Spans = list[tuple[int, int]]


class Redactor:
    """The secrets that are known, and what is left of things without them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        #: secret → its spellings, and how much of each is enough
        self._forms: dict[str, dict[str, CutLimits | None]] = {}
        #: too short to be looked for in other text
        self._short: set[str] = set()
        self._texts: Finder | None = None
        self._encoded: Finder | None = None
        self._sieve = ByteFilter(())
        self.add(*values)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._forms or self._short)

    def add(self, *values: str) -> None:
        """Know more secrets. One of less than 4 characters is a secret by itself, and not looked for in other text."""
        for value in values:
            if 0 < len(value) < SHORTEST_SECRET:
                self._short.add(value)
            elif value and value not in self._forms:
                self._forms[value] = _cuts(value)
                self._texts = self._encoded = None  # made anew when they are needed: several may come at once

    def forget(self, value: str) -> None:
        """Look no longer for a secret that is none any more."""
        if self._forms.pop(value, None) is not None:
            self._texts = self._encoded = None

    # --- looking -------------------------------------------------------------------------------------------------------

    def _finder(self) -> Finder:
        if self._texts is None:
            self._texts = Finder(dict(chain.from_iterable(forms.items() for forms in self._forms.values())))
        return self._texts

    def _json_finder(self) -> Finder:
        if self._encoded is None:
            every = chain.from_iterable(forms.items() for forms in self._forms.values())
            self._encoded = Finder({_in_json(form): cut and _json_cut_limits(form, cut) for form, cut in every})
            self._sieve = ByteFilter(needle.encode("latin-1") for needle in self._encoded.needles())
        return self._encoded

    def is_in_json(self, encoded: bytes) -> bool:
        """Whether JSON may hold a secret; it need not be whole."""
        finder = self._json_finder()
        if self._sieve.may_hold(encoded) and finder.holds(encoded.decode("latin-1")):
            return True
        if any(f'"{_in_json(value)}"'.encode("latin-1") in encoded for value in self._short):
            return True
        if b"\\n" not in encoded and b"\\r" not in encoded:
            return False
        whole = remove_line_breaks(encoded.decode("latin-1"))
        return self._sieve.may_hold(whole.encode("latin-1")) and finder.holds(whole, least=FOLDABLE)

    def may_hold(self, value: Any) -> bool:
        """Whether there may be a secret in data; False is sure."""
        return bool(self) and self.is_in_json(msgspec.json.encode(value, enc_hook=str))

    def is_in_foreign_json(self, text: str) -> bool:
        """The same of JSON that somebody else has written, who may write characters by their numbers."""
        return self.is_in_json(text.encode("utf-8", "replace")) or self._finder().holds(text)

    @property
    def reach(self) -> int:
        """How many bytes of JSON may belong to one secret, line breaks included."""
        return 2 * max(self._json_finder().longest, PART)

    def is_number(self, digits: str) -> bool:
        """Whether a number is a secret."""
        return digits in self._forms

    def open_end(self, text: str) -> int:
        """Where a secret may begin that is not whole yet."""
        return self._finder().open_end(text)

    def spans(self, text: str, *, begins: bool = True, ends: bool = True) -> Spans:
        """Where secrets stand; whether the text is all there is before and behind, or more of it comes."""
        finder = self._finder()
        broken = "\n" in text or "\r" in text or "\\" in text
        if not broken and not finder.may_hold(text):
            return []
        found = [
            kept[:2] for run in finder.find_matches(text) if (kept := _secret(run, text, begins=begins, ends=ends))
        ]
        if broken:
            whole = unwrap_text(text)
            runs = finder.find_matches(whole.text, least=FOLDABLE) if whole.folds else ()
            kept_of_it = (_secret(run, whole.text, begins=begins, ends=ends) for run in runs)
            found += [whole.restore_match(kept)[:2] for kept in kept_of_it if kept]
        return _merge_spans(found)

    # --- taking out ----------------------------------------------------------------------------------------------------

    def clean(self, value: Any, *, numbers: bool = True) -> tuple[Any, bool]:
        """Data without secrets, keys of maps included, and whether there were any. What is clean comes back itself."""
        if value is None or isinstance(value, (bool, float)) or not self.may_hold(value):
            return value, False
        cleaned = self._walk(value, RedactionMemo(self), numbers=numbers)
        return cleaned, cleaned != value

    def _walk(self, value: Any, memory: RedactionMemo, *, numbers: bool) -> Any:
        if isinstance(value, str):
            return memory.text(value)
        if isinstance(value, Mapping):
            return {memory.key(key): self._walk(part, memory, numbers=numbers) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._walk(part, memory, numbers=numbers) for part in value]
        if numbers and isinstance(value, int) and not isinstance(value, bool):
            return MASK if self.is_number(str(value)) else value
        return value

    def text(self, text: str) -> str:
        """A text without secrets."""
        return MASK if text in self._short else mask_spans(text, self.spans(text))

    def lines(self) -> RedactingStream:
        """For text that comes in pieces."""
        return RedactingStream(self)


class RedactionMemo:
    """What became of the texts and keys of one value: rows often say the same thing over and over."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._texts: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._taken: set[str] = set()

    def text(self, text: str) -> str:
        """A text without secrets."""
        found = self._texts.get(text)
        if found is None:
            found = self._redactor.text(text)
            if len(self._texts) < _MOST_KNOWN and len(text) < _SHORT_TEXT:
                self._texts[text] = found
        return found

    def key(self, key: Any) -> Any:
        """A key of a map without secrets: different ones stay different, so that no entry is lost."""
        if not isinstance(key, str) or (clean := self.text(key)) == key:
            return key
        if key not in self._keys:
            numbered = chain([clean], (clean.replace(MASK, f"[redacted {n}]", 1) for n in count(2)))
            self._keys[key] = next(name for name in numbered if name not in self._taken)
            self._taken.add(self._keys[key])
        return self._keys[key]


class RedactingStream:
    """Redacts what comes in pieces: the end of a piece is held back for as long as it may be the beginning of a secret."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._begins = True
        #: whether a secret was found
        self.found = False

    def feed(self, piece: str) -> str:
        """What may be written now."""
        text = self._held + piece
        cut = self._redactor.open_end(text)
        spans = self._redactor.spans(text, begins=self._begins, ends=False)
        # What is whole may overlap what is not, or be the beginning of it: then it waits, too.
        cut = min([cut, *(start for start, end in spans if start <= cut < end)])
        self._held = text[cut:]
        self._begins = self._begins and not cut
        return self._mask(text[:cut], [span for span in spans if span[1] <= cut])

    def finish(self) -> str:
        """The rest: nothing more comes."""
        rest, self._held = self._held, ""
        return self._mask(rest, self._redactor.spans(rest, begins=self._begins))

    def _mask(self, text: str, spans: Spans) -> str:
        self.found = self.found or bool(spans)
        return mask_spans(text, spans)


def mask_spans(text: str, spans: Spans) -> str:
    """A text with something else in these places."""
    if not spans:
        return text
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(text)]
    return MASK.join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _merge_spans(spans: Spans) -> Spans:
    """The same places without overlaps."""
    made: Spans = []
    for start, end in sorted(spans):
        if made and start < made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        else:
            made.append((start, end))
    return made


def _cuts(secret: str) -> dict[str, CutLimits | None]:
    """The spellings of a secret, and how much of each is enough where it was cut off."""
    forms = spellings(secret)
    if len(secret) < _LONG:
        return dict.fromkeys(forms)
    marked = looks_like_address(secret)
    other = replace_secret(secret)
    ahead = PrefixIndex(spellings(other)) if other else None
    behind = PrefixIndex(form[::-1] for form in spellings(other)) if other else None

    def cut(form: str) -> CutLimits:
        if ahead is None or behind is None:
            return CutLimits(marked=marked)
        # What it shares with the other one, a scheme, a user, a host, stands elsewhere, too.
        return CutLimits(
            max(PART, ahead.common_length(form) + 1), max(PART, behind.common_length(form[::-1]) + 1), marked=marked
        )

    return {form: cut(form) if len(form) >= _LONG else None for form in forms}


def _secret(run: FormMatch, text: str, *, begins: bool, ends: bool) -> FormMatch | None:
    """What of a run is a secret, or was one before it was cut off; None: nothing."""
    if run.cut is None:
        return run
    if run.is_head:
        at_an_end = ends and run.end == len(text)
        return run if at_an_end and not run.cut.marked else _match_cut_head(run, run.cut, text)
    at_an_end = begins and run.start == 0
    return run if at_an_end and not run.cut.marked else _match_cut_tail(run, run.cut, text)


def _match_cut_head(run: FormMatch, cut: CutLimits, text: str) -> FormMatch | None:
    """The beginning of a secret up to a mark. Dots of the mark may be taken for dots of the secret."""
    bare = run.start + len(text[run.start : run.end].rstrip("."))
    for end in range(run.end, max(bare, run.start + cut.head) - 1, -1):
        if _CUT_BEHIND.match(text, end):
            return run._replace(end=end)
    return None


def _match_cut_tail(run: FormMatch, cut: CutLimits, text: str) -> FormMatch | None:
    """The same of the end of a secret."""
    bare = run.end - len(text[run.start : run.end].lstrip("."))
    for start in range(run.start, min(bare, run.end - cut.tail) + 1):
        if _CUT_BEFORE.search(text[max(0, start - _NEAR) : start]):
            return run._replace(start=start)
    return None


def _json_cut_limits(form: str, cut: CutLimits) -> CutLimits:
    return cut._replace(head=len(_in_json(form[: cut.head])), tail=len(_in_json(form[-cut.tail :])))


def _in_json(text: str) -> str:
    """A text as it stands between the quotes of JSON, each byte as a character: what bytes are searched for."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode())[1:-1].decode("latin-1")

"""Redactor: takes the values of secrets out of whatever is about to be written. Pure, and told of every value first.

A value is found in all its spellings (`model.spellings`). To look costs little where nothing is found, which is nearly
always: what is to be written is encoded once and searched as a whole; only a hit makes it be taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, AnyStr, Final, Generic

import msgspec

from noetl.model.spellings import SHORTEST, spellings

#: what stands where a secret stood
MASK: Final = "[redacted]"
#: of a longer secret, a part this long is taken out where a text was cut off within it
_PART = 8
_LONG = 12
_CUT = "…"


class Redactor:
    """The secrets that are known, and what is left of things without them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        #: too short to be looked for in other text
        self._short: set[str] = set()
        #: longest first: a longer one may hold a shorter one
        self.patterns: tuple[str, ...] = ()
        self.byte_patterns: tuple[bytes, ...] = ()
        self._known: frozenset[str] = frozenset()
        #: the beginnings and ends of long secrets → those
        self._parts: dict[str, list[str]] = {}
        #: all that is looked for, the longest first, and how it stands in JSON
        self._needles: dict[str, bytes] = {}
        self.add(*values)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._values or self._short)

    def add(self, *values: str) -> None:
        """Know more secrets. One of less than 4 characters is a secret by itself, and not looked for in other text."""
        new = {value for value in values if len(value) >= SHORTEST} - self._values
        short = {value for value in values if 0 < len(value) < SHORTEST} - self._short
        if not new and not short:
            return
        self._values |= new
        self._short |= short
        self._known = self._known.union(*map(spellings, new))
        self.patterns = tuple(sorted(self._known, key=_longest_first))
        for value in new:
            for part in (value[:_PART], value[-_PART:]) if len(value) >= _LONG else ():
                self._parts.setdefault(part, []).append(value)
        looked_for = sorted({*self.patterns, *self._parts}, key=_longest_first)
        self._needles = {form: _in_json(form) for form in looked_for}
        written = {self._needles[form] for form in self.patterns}
        self._needles |= {value: b'"%b"' % _in_json(value) for value in self._short}
        plain = {form.encode("utf-8", "surrogatepass") for form in self.patterns}
        wide = {value.encode(code, "surrogatepass") for value in self._values for code in ("utf-16-le", "utf-16-be")}
        self.byte_patterns = tuple(sorted(written | plain | wide, key=lambda form: (-len(form), form)))

    def clean(self, value: Any) -> tuple[Any, bool]:
        """Data without secrets, keys of maps included, and whether there were any. What is clean comes back itself."""
        if not self or value is None or isinstance(value, (bool, float)):
            return value, False
        encoded = msgspec.json.encode(value, enc_hook=str)
        # Only what is somewhere in it is looked for everywhere in it.
        found = [form for form, needle in self._needles.items() if needle in encoded]
        if not found:
            return value, False
        cleaned = self._walk(value, sorted(found, key=len, reverse=True))
        return cleaned, cleaned != value

    def _walk(self, value: Any, forms: list[str]) -> Any:
        if isinstance(value, str):
            return self._without(value, forms)
        if isinstance(value, Mapping):
            return {self._walk(key, forms): self._walk(part, forms) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._walk(part, forms) for part in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return MASK if str(value) in self._values else value
        return value

    def text(self, text: str) -> str:
        """A text without secrets."""
        return self._without(text, [form for form in self._needles if form in text])

    def _without(self, text: str, forms: Iterable[str]) -> str:
        """A text without these: a form, or the part of a long secret that was cut off."""
        if text in self._short:
            return MASK
        for form in forms:
            if form not in text:
                continue
            if form in self._known:
                text = text.replace(form, MASK)
            for value in self._parts.get(form, ()):
                text = _without_parts(text, value)
        return text

    def clean_bytes(self, data: bytes) -> tuple[bytes, bool]:
        """Bytes without secrets, and whether there were any; of JSON and of text in UTF-8 or UTF-16."""
        found = False
        for pattern in self.byte_patterns:
            if pattern in data:
                data, found = data.replace(pattern, MASK.encode()), True
        return data, found

    def lines(self) -> Stream[str]:
        """For text that comes in pieces."""
        return Stream(lambda: self.patterns, "", MASK)

    def bytes_in_pieces(self) -> Stream[bytes]:
        """For bytes that come in pieces."""
        return Stream(lambda: self.byte_patterns, b"", MASK.encode())


class Stream(Generic[AnyStr]):
    """Redacts what comes in pieces: the end of a piece is held back for as long as it may be the beginning of a secret."""

    def __init__(self, patterns: Callable[[], tuple[AnyStr, ...]], empty: AnyStr, mask: AnyStr) -> None:
        self._patterns: Callable[[], tuple[AnyStr, ...]] = patterns
        self._empty: AnyStr = empty
        self._mask: AnyStr = mask
        self._held: AnyStr = empty
        #: whether a secret was found
        self.found = False
        self._known: tuple[AnyStr, ...] = ()
        self._starts: dict[Any, list[AnyStr]] = {}
        self._longest = 0

    def feed(self, piece: AnyStr) -> AnyStr:
        """What may be written now."""
        self._learn()
        text = self._clean(self._held + piece)
        cut = self._open_end(text)
        self._held = text[cut:]
        return text[:cut]

    def finish(self) -> AnyStr:
        """The rest: nothing more comes."""
        rest: AnyStr = self._held
        self._held = self._empty
        return rest

    def _learn(self) -> None:
        found = self._patterns()
        if found is not self._known:
            self._known = found
            self._starts = {}
            for pattern in self._known:
                self._starts.setdefault(pattern[0], []).append(pattern)
            self._longest = max(map(len, self._known), default=0)

    def _clean(self, text: AnyStr) -> AnyStr:
        for pattern in self._known:
            if pattern in text:
                text, self.found = text.replace(pattern, self._mask), True
        return text

    def _open_end(self, text: AnyStr) -> int:
        """Where the beginning of a secret may stand that is not whole yet."""
        for at in range(max(0, len(text) - self._longest + 1), len(text)):
            candidates = self._starts.get(text[at])
            if candidates and any(pattern.startswith(text[at:]) for pattern in candidates):
                return at
        return len(text)


def _longest_first(form: str) -> tuple[int, str]:
    return -len(form), form


def _in_json(text: str) -> bytes:
    """A text as it stands between the quotes of JSON."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode())[1:-1]


def _without_parts(text: str, value: str) -> str:
    """What was cut off within a secret: its beginning at the end of a text, its end at the beginning."""
    at = text.rfind(value[:_PART])
    if at >= 0 and value.startswith(text[at:].removesuffix(_CUT)):
        text = text[:at] + MASK + (_CUT if text.endswith(_CUT) else "")
    at = text.find(value[-_PART:])
    if at >= 0 and value.endswith(text[: at + _PART]):
        text = MASK + text[at + _PART :]
    return text

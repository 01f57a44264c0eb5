"""JSON that comes in blocks, without secrets: only texts and numbers of it are touched, so it stays JSON. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from json.decoder import JSONDecoder
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Final

from noetl.redaction.redactor import MASK, RedactingStream, RedactionMemo, Redactor

#: a text that is longer is not held as a whole
_LONGEST: Final = 1 << 20
#: texts that are whole, each with the character behind it, and what is between them
_WHOLE = re.compile(r'(?:[^"]++|"(?:[^"\\]++|\\.)*+"\s*+(?=\S))*+', re.DOTALL)
_NUMBER = r"-?\d[\d.eE+-]*"
_NUMBER_AT_THE_END = re.compile(rf"(?:{_NUMBER}|-)\Z")
_TOKENS = re.compile(rf'"((?:[^"\\]++|\\.)*+)"(\s*:)?|{_NUMBER}', re.DOTALL)
#: what stands in a text up to its end, both halves of a surrogate pair together
_INSIDE = re.compile(
    r'(?:[^"\\]++|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?!\\u[dD][c-fC-F])(?=.{6})))*+',
    re.DOTALL,
)
_decoded = JSONDecoder(strict=False).decode


class JsonRedactor:
    """Blocks of JSON in UTF-8 in, the same without secrets out."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        #: keys stay different from each other, and the same in all rows
        self.memory = RedactionMemo(redactor)
        #: whether numbers were taken out
        self.found_numbers = False
        self._rest = ""
        #: within a text that is too long to be held
        self._long: RedactingStream | None = None

    def through(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """All of it."""
        for block in blocks:
            yield self._rewrite(self._decoder.decode(block)).encode()
        yield self._rewrite(self._decoder.decode(b"", final=True), last=True).encode()

    def _rewrite(self, text: str, *, last: bool = False) -> str:
        text, self._rest = self._rest + text, ""
        written = []
        while text:
            if self._long is None:
                end = len(text) if last else _border(text)
                written.append(self._clean(text[:end]))
                text = text[end:]
                if len(text) <= _LONGEST or not text.startswith('"'):
                    break
                written.append('"')
                self._long, text = self._redactor.lines(), text[1:]
            piece, text, over = self._within(self._long, text, last=last)
            written.append(piece)
            if not over:
                break
            self._long = None
        self._rest = text
        return "".join(written)

    def _within(self, stream: RedactingStream, text: str, *, last: bool) -> tuple[str, str, bool]:
        """More of a long text: what to write, what is left, and whether it ended."""
        end = _INSIDE.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
        piece = _escape(stream.feed(_decoded(f'"{text[:end]}"')))
        if text[end : end + 1] == '"':
            return f'{piece}{_escape(stream.finish())}"', text[end + 1 :], True
        return (piece + _escape(stream.finish()) + text[end:], "", False) if last else (piece, text[end:], False)

    def _clean(self, text: str) -> str:
        if not self._redactor.is_in_foreign_json(text):
            return text
        return _TOKENS.sub(self._token, text)

    def _token(self, found: re.Match[str]) -> str:
        whole, inside, colon = found[0], found[1], found[2]
        if inside is None:
            if not self._redactor.is_number(whole):
                return whole
            self.found_numbers = True
            return f'"{MASK}"'
        text = _decoded(whole[: len(inside) + 2]) if "\\" in inside else inside
        clean = self.memory.key(text) if colon else self.memory.text(text)
        return whole if clean == text else f'"{_escape(clean)}"{colon or ""}'


def _border(text: str) -> int:
    """Up to where a piece of JSON holds whole texts and numbers."""
    end = _WHOLE.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
    number = _NUMBER_AT_THE_END.search(text[max(0, end - _LONGEST) : end]) if end == len(text) else None
    return end - len(number[0]) if number else end


def _escape(text: str) -> str:
    """A text as it stands between the quotes of JSON; half a surrogate pair can only be written by its number."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return encode_basestring_ascii(text)[1:-1]
    return encode_basestring(text)[1:-1]

"""JSON that is too large to hold: read from blocks of bytes, element by element, in a window of a few megabytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from json.decoder import JSONDecodeError, JSONDecoder
from json.encoder import JSONEncoder
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import msgspec

from noetl.rows.columns import Columns

#: characters in sight at a time; only a single text or number makes it wider
_WINDOW = 1 << 21
_BATCH = 1_000
_DEEPEST = 200
#: how an element ends before a comma, by how it begins
_MARKS = {"{": "},", "[": "],", '"': '",'}
_GUESSES = 16
_SPACE = re.compile(r"[ \t\r\n]*")
_BEYOND = object()


class NotJsonText(ValueError):
    """Where a text is not JSON, and why."""


def examine(blocks: Iterable[bytes]) -> tuple[int | None, dict[str, str] | None]:
    """See that a text is JSON; of a list the number of its elements and, if they are rows, their columns."""
    reader = _JsonReader(blocks)
    if reader.peek() != "[":
        reader.skip()
        reader.finish()
        return None, None
    columns = Columns()
    count = 0
    for batch in reader.batches(whole=False):
        count += len(batch)
        columns.alike = columns.alike and not any(item is _BEYOND for item in batch)
        if columns.alike:
            columns.add(batch)
    reader.finish()
    return count, columns.types() if count else None


def batches(blocks: Iterable[bytes]) -> Iterator[list[Any]]:
    """The elements of a list, some at a time. NotJsonText: it is none."""
    reader = _JsonReader(blocks)
    if reader.peek() != "[":
        reader.refuse("this is not a list")
    yield from reader.batches(whole=True)


#: a text that may go on in the next block, or a run of white space outside of texts
_TEXT_OR_SPACE = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z))|[ \t\r\n]++', re.DOTALL)
#: the rest of a text that a block before has begun
_REST_OF_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("|\Z)', re.DOTALL)


def compact(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """A text that is JSON without the white space between its parts."""
    held, inside = b"", False
    for block in blocks:
        data, start = held + block, 0
        held = b""
        # A backslash at the end belongs to what the next block begins with.
        backslashes = len(data) - len(data.rstrip(b"\\"))
        if backslashes % 2:
            data, held = data[:-1], b"\\"
        if inside:
            rest = _REST_OF_TEXT.match(data)
            assert rest is not None
            start, inside = rest.end(), not rest[1]
        yield data[:start]
        if not inside:
            inside = _ends_inside(data, start)
            yield _TEXT_OR_SPACE.sub(rb"\1", data[start:])


_WHOLE_TEXTS = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+', re.DOTALL)


def _ends_inside(data: bytes, start: int) -> bool:
    """Whether a text that has begun in a block does not end in it."""
    whole = _WHOLE_TEXTS.match(data, start)
    assert whole is not None
    return whole.end() < len(data)


def _refuse_constant(name: str) -> NoReturn:
    raise OverflowError(f"{name} is no number of JSON")


def _number(text: str) -> float:
    if isfinite(number := float(text)):
        return number
    raise OverflowError(f"{text} is out of range")


_scan: Callable[[str, int], tuple[Any, int]]
_scan = JSONDecoder(parse_constant=_refuse_constant, parse_float=_number).scan_once  # type: ignore[attr-defined]
_encode = JSONEncoder(ensure_ascii=False).encode


class _Problem(NamedTuple):
    """Why a value cannot be read; at the edge of what is in sight more of the text may help."""

    why: str
    at_the_edge: bool = False


class _JsonReader:
    """A window that moves over the text."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        #: characters that have left the window
        self._passed = 0
        self._all_in = False
        #: up to here elements are read one by one
        self._unguessed = 0

    # --- the window --------------------------------------------------------------------------------------------------

    def _widen(self, size: int) -> None:
        """Bring at least so many characters into sight, if there are as many."""
        parts = [self._text[self._at :]]
        held = len(parts[0])
        self._passed += self._at
        self._at = 0
        while held < size and not self._all_in:
            block = next(self._blocks, b"")
            self._all_in = not block
            try:
                parts.append(self._decoder.decode(block, self._all_in))
            except UnicodeDecodeError as error:
                raise NotJsonText(f"it is not UTF-8: {error.reason}") from None
            held += len(parts[-1])
        self._text = "".join(parts)

    def peek(self) -> str:
        """The next character that is no white space; nothing: there is none."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches nothing, too
            if self._at < len(self._text):
                return self._text[self._at]
            if self._all_in:
                return ""
            self._widen(_WINDOW)

    def refuse(self, why: str) -> NoReturn:
        raise NotJsonText(f"{why}, at character {self._passed + self._at + 1:,}")

    def finish(self) -> None:
        if self.peek():
            self.refuse("something follows the value")

    # --- values ------------------------------------------------------------------------------------------------------

    def _read_value(self, *, whole: bool) -> Any:
        """The next value; if it is not in sight as a whole, the window grows, or `_BEYOND` is the answer."""
        if not self.peek():
            self.refuse("the text ends where a value is expected")
        size = _WINDOW
        while True:
            value, end, problem = self._scan_value()
            # Of a number that is cut, as in `1.`, a shorter one can be read.
            if problem is None and (end < len(self._text) - len("e+") or self._all_in):
                self._check_surrogates(value, end)
                self._at = end
                return value
            if problem is not None and (self._all_in or not problem.at_the_edge):
                self.refuse(problem.why)
            if len(self._text) - self._at >= size:
                if not whole and self._text[self._at] in "[{":
                    return _BEYOND
                size *= 2
            self._widen(size)

    def _scan_value(self) -> tuple[Any, int, _Problem | None]:
        """The value that begins here and where it ends, as far as that can be seen."""
        try:
            return *_scan(self._text, self._at), None
        except StopIteration as stop:
            return None, 0, _Problem("a value is expected", stop.value >= len(self._text) - len("false"))
        except JSONDecodeError as error:
            edge = error.pos >= len(self._text) - len('\\u0000\\"') or error.msg.startswith("Unterminated")
            return None, 0, _Problem(error.msg, edge)
        except (ValueError, OverflowError, RecursionError) as error:  # also a number of thousands of digits
            return None, 0, _Problem(str(error))

    def _check_surrogates(self, value: Any, end: int) -> None:
        """Python takes half of a surrogate pair for a character; JSON that others read must not have one."""
        if max(self._text.find("\\ud", self._at, end), self._text.find("\\uD", self._at, end)) < 0:
            return
        try:
            _encode(value).encode()
        except UnicodeEncodeError:
            self.refuse("half of a surrogate pair is no character")

    def batches(self, *, whole: bool) -> Iterator[list[Any]]:
        """The elements of the list that comes next; those beyond the window are passed over unless `whole`."""
        singles: list[Any] = []
        for _ in self._members("[", "]"):
            while many := self._read_many():
                yield from filter(None, (singles, many))
                singles = []
            value = self._read_value(whole=whole)
            if value is _BEYOND:
                self.skip()
            singles.append(value)
            if len(singles) == _BATCH:
                yield singles
                singles = []
        if singles:
            yield singles

    def _read_many(self) -> list[Any]:
        """The elements up to a comma near the end of the window: read at once, which is far quicker than one by one.

        A comma is guessed. It was one between elements if all before it reads as a list.
        """
        if len(self._text) - self._at < _WINDOW // 2 and not self._all_in:
            self._widen(_WINDOW)
        self.peek()
        end = len(self._text)
        if self._passed + end <= self._unguessed:
            return []
        mark = _MARKS.get(self._text[self._at : self._at + 1], ",")
        for _ in range(_GUESSES):
            end = self._text.rfind(mark, self._at, end)
            if end < 0:
                break
            try:
                many: list[Any] = msgspec.json.decode(f"[{self._text[self._at : end + len(mark) - 1]}]")
            except (msgspec.DecodeError, RecursionError):
                continue
            if many:
                self._at = end + len(mark)
                return many
        self._unguessed = self._passed + len(self._text)
        return []

    def _members(self, opening: str, closing: str) -> Iterator[None]:
        """Stop before each member of a list or map."""
        assert self.peek() == opening
        self._at += 1
        if self.peek() == closing:
            self._at += 1
            return
        while True:
            yield
            separator = self.peek()
            if separator not in (",", closing):
                self.refuse(f"`,` or `{closing}` is expected")
            self._at += 1
            if separator == closing:
                return

    def skip(self, depth: int = 0) -> None:
        """Pass over a value, seeing that it is JSON."""
        if depth > _DEEPEST:
            self.refuse("it is nested too deep")
        if self._read_value(whole=False) is not _BEYOND:
            return
        if self.peek() == "[":
            for _ in self._members("[", "]"):
                while self._read_many():
                    pass
                self.skip(depth + 1)
            return
        for _ in self._members("{", "}"):
            if self.peek() != '"':
                self.refuse("a key is expected")
            self._read_value(whole=True)
            if self.peek() != ":":
                self.refuse("`:` is expected")
            self._at += 1
            self.skip(depth + 1)

"""HTTP/1.1 without IO: requests as bytes, and a parser of answers. Blocking and asyncio connections share it.

It covers what a NoETL server and the proxies in front of one send: bodies of a known length, chunked bodies, and bodies that end with
the connection. Anything else is refused and never guessed, because a wrong guess would read the next answer as part of this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from noetl.errors import CallInvalid, UnexpectedAnswer

#: limits of an answer, in bytes: its head or trailers, and a line with the size of a chunk
_MOST_HEAD: Final = 64 << 10
_MOST_SIZE_LINE: Final = 4 << 10
#: bytes of the body of an answer that is no success
_MOST_ERROR: Final = 1 << 20
#: interim answers before the one that counts
_MOST_INTERIM: Final = 16
_END_OF_HEAD: Final = b"\r\n\r\n"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_STATUS: Final = re.compile(rb"(HTTP/1\.[01]) ([1-9][0-9]{2})(?: |\r\n|\Z)")
_HEX: Final = re.compile(rb"[0-9A-Fa-f]{1,15}")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_NO_BODY: Final = (204, 304)


def format_headers(headers: Mapping[str, str]) -> str:
    """Return headers as lines. CallInvalid: a value would break out of its line, or cannot be written in HTTP."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise CallInvalid(f"the header {name} has a character that HTTP does not allow")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def format_request(method: str, target: str, headers: str, body: bytes | None = None) -> bytes:
    """Return a request as it is sent; a body is JSON."""
    if not (target.isascii() and target.isprintable()) or " " in target:
        raise CallInvalid(f"{target!r} is no path of a request")
    if body is None:
        return f"{method} {target} HTTP/1.1\r\n{headers}\r\n".encode("latin-1")
    head = (
        f"{method} {target} HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body


class ResponseHead:
    """The status and the headers of an answer. Few headers are ever read, so they are found when asked for."""

    __slots__ = ("_lowered", "_raw", "status", "version")

    def __init__(self, raw: bytes) -> None:
        found = _STATUS.match(raw)
        if found is None:
            raise UnexpectedAnswer("the answer is not HTTP/1.1")
        self.version, self.status = found[1], int(found[2])
        self._raw, self._lowered = raw, raw.lower()

    def header(self, name: str) -> str | None:
        """Return the value of a header, its name in lower case; where it is repeated, the values with commas between them."""
        mark = b"\r\n%b:" % name.encode()
        at = self._lowered.find(mark)
        if at < 0:
            return None
        values = []
        while at >= 0:
            start = at + len(mark)
            end = self._lowered.find(b"\r\n", start)
            values.append(self._raw[start : end if end >= 0 else None].decode("latin-1").strip())
            at = self._lowered.find(mark, start)
        return ", ".join(values)


class ResponseParser:
    """One answer, parsed as it arrives."""

    __slots__ = ("_buffer", "_chunks", "_interim", "_left", "_most", "done", "head", "reusable")

    def __init__(self, most_bytes: int | None = None) -> None:
        self.head: ResponseHead | None = None
        #: whether all of the answer has arrived
        self.done = False
        #: whether the connection can carry another request afterwards
        self.reusable = True
        #: how much of the body may still come before it is too large; None: there is no limit
        self._most = most_bytes
        #: how many interim answers came
        self._interim = 0
        self._buffer = b""
        #: how much of the body is still to come; None: it is chunked, or ends with the connection
        self._left: int | None = None
        self._chunks: _ChunkDecoder | None = None

    def feed(self, data: bytes) -> bytes:
        """Take what has arrived; return what it holds of the body. UnexpectedAnswer: it is malformed, or too large."""
        if self.head is None:
            data = self._feed_head(data)
            if self.head is None:
                return b""
        if self.done:
            self.reusable = self.reusable and not data  # what follows the answer belongs to no request
            return b""
        body = self._feed_body(data)
        if self._most is not None and body:
            self._most -= len(body)
            if self._most < 0:
                raise _too_large()
        return body

    def finish(self) -> None:
        """Note that the server closed the connection. ConnectionResetError: the answer is not complete."""
        if self.head is None:
            raise ConnectionResetError("the server closed the connection without an answer")
        if not self.done and (self._left is not None or self._chunks is not None):
            raise ConnectionResetError("the server closed the connection before the answer was complete")
        self.done, self.reusable = True, False

    def _feed_head(self, data: bytes) -> bytes:
        """Parse the head when it is complete; return what follows it."""
        if self._buffer:  # rare: a head comes in one piece
            data = self._buffer + data
        while True:
            end = data.find(_END_OF_HEAD)
            if (len(data) if end < 0 else end) > _MOST_HEAD:
                raise UnexpectedAnswer(f"the headers of the answer have more than {_MOST_HEAD:,} bytes")
            self._buffer = b"" if end >= 0 else data
            if end < 0:
                return b""
            head = ResponseHead(data[:end])
            data = data[end + len(_END_OF_HEAD) :]
            if head.status >= 200:
                self._frame(head)
                self.head = head
                return data
            self._interim += 1  # the answer that counts follows
            if self._interim > _MOST_INTERIM:
                raise UnexpectedAnswer(f"the server sent more than {_MOST_INTERIM} interim answers")

    def _frame(self, head: ResponseHead) -> None:
        """Find out where the body ends."""
        if head.status >= 300:
            self._most = _MOST_ERROR if self._most is None else min(self._most, _MOST_ERROR)
        length, coding = head.header("content-length"), head.header("transfer-encoding")
        compression, connection = head.header("content-encoding"), head.header("connection")
        if compression is not None and compression.lower() != "identity":
            raise UnexpectedAnswer(f"the answer is compressed ({compression}), which was not asked for")
        if head.version == b"HTTP/1.0" or (connection is not None and "close" in connection.lower()):
            self.reusable = False
        if head.status in _NO_BODY:
            self._left, self.done = 0, True
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise UnexpectedAnswer("it is not clear where the answer ends (Transfer-Encoding)")
            self._chunks = _ChunkDecoder()
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise UnexpectedAnswer("it is not clear where the answer ends (Content-Length)")
            self._left = int(length)
            self.done = self._left == 0
            if self._most is not None and self._left > self._most:
                raise _too_large()
        else:
            self.reusable = False

    def _feed_body(self, data: bytes) -> bytes:
        if self._chunks is not None:
            body = self._chunks.feed(data)
            self.done = self._chunks.done
            self.reusable = self.reusable and not (self.done and self._chunks.excess)
            return body
        if self._left is None:
            return data
        if len(data) > self._left:
            data, self.reusable = data[: self._left], False
        self._left -= len(data)
        self.done = self._left == 0
        return data


class _ChunkDecoder:
    """A chunked body."""

    __slots__ = ("_buffer", "_left", "_trailers", "done")

    def __init__(self) -> None:
        self.done = False
        self._buffer = bytearray()
        #: how much of a chunk is still to come, the line break after it included; 0: its size comes next
        self._left = 0
        #: how many bytes followed the last chunk so far; None: there was no last chunk yet
        self._trailers: int | None = None

    @property
    def excess(self) -> bool:
        """Whether something follows the body."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        parts: list[bytes] = []
        while not self.done and (self._take_chunk(parts) if self._left else self._take_line()):
            pass
        return b"".join(parts)

    def _take_chunk(self, parts: list[bytes]) -> bool:
        """Take what there is of a chunk; return whether that was all of it."""
        wanted = self._left - 2
        if wanted > 0:
            part = bytes(self._buffer[:wanted])
            del self._buffer[: len(part)]
            self._left -= len(part)
            parts.append(part)
        if self._left > 2 or len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise UnexpectedAnswer("a chunk of the answer is longer than announced")
        del self._buffer[:2]
        self._left = 0
        return True

    def _take_line(self) -> bool:
        """Take the size of the next chunk, or a line after the last one; return whether it was there."""
        end = self._buffer.find(b"\r\n")
        most = _MOST_SIZE_LINE if self._trailers is None else _MOST_HEAD - self._trailers
        if (len(self._buffer) if end < 0 else end) > most:
            raise UnexpectedAnswer("a line between the chunks of the answer is too long")
        if end < 0:
            return False
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        if self._trailers is not None:
            self._trailers += len(line)
            self.done = not line
            return True
        size = line.partition(b";")[0].strip(b" \t")
        if not _HEX.fullmatch(size):
            raise UnexpectedAnswer("the size of a chunk of the answer is no number")
        if (count := int(size, 16)) == 0:
            self._trailers = 0
        else:
            self._left = count + 2
        return True


def _too_large() -> UnexpectedAnswer:
    return UnexpectedAnswer("the answer is larger than this client accepts")

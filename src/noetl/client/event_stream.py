"""StreamParser: server-sent events without IO, blocks of a stream in and messages out."""

from __future__ import annotations

from typing import Final, NamedTuple

from noetl.errors import UnexpectedAnswer

#: bytes of one message
_MOST_MESSAGE: Final = 256 << 20


class StreamMessage(NamedTuple):
    """One message of a stream."""

    event: str
    #: None: it has none of its own
    id: str | None
    data: str


class StreamParser:
    """A stream of server-sent events, parsed as it arrives."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        #: up to here is no end of a line
        self._seen = 0
        self._event = "message"
        self._id: str | None = None
        self._data: list[str] = []
        #: bytes of the lines of the message that has no end yet
        self._size = 0

    def feed(self, block: bytes) -> list[StreamMessage]:
        """Take a block; return the messages that it completes."""
        self._buffer += block
        messages = []
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._seen))) >= 0:
            line = bytes(self._buffer[start:end]).rstrip(b"\r").decode("utf-8", "replace")
            self._size += end + 1 - start
            start = end + 1
            if line:
                self._take(line)
            elif self._data:
                messages.append(StreamMessage(self._event, self._id, "\n".join(self._data)))
            if not line:
                self._event, self._id, self._data, self._size = "message", None, [], 0
        del self._buffer[:start]
        self._seen = len(self._buffer)
        if self._size + self._seen > _MOST_MESSAGE:
            raise UnexpectedAnswer("a message of the event stream is larger than this client accepts")
        return messages

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value

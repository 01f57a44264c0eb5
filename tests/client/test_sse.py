"""Streams of events, in whatever pieces they arrive."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from noetl.client import event_stream
from noetl.client.event_stream import StreamMessage, StreamParser
from noetl.errors import UnexpectedAnswer

STREAM = (
    "id: 1\ndata: {}\n\n: still here\n\nid:2\r\ndata: ü\r\ndata:  x\r\n\r\nevent: end\ndata: {}\n\ndata: cut".encode()
)
MESSAGES = [
    StreamMessage("message", "1", "{}"),
    StreamMessage("message", "2", "ü\n x"),
    StreamMessage("end", None, "{}"),
]


@given(data=st.data())
def test_messages_are_the_same_in_whatever_pieces_they_arrive(data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(STREAM) - 1))))
    parser = StreamParser()
    blocks = [STREAM[start:end] for start, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
    assert [message for block in blocks for message in parser.feed(block)] == MESSAGES


def test_a_message_without_an_end_does_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_MOST_MESSAGE", 100)
    with pytest.raises(UnexpectedAnswer, match="larger than"):
        StreamParser().feed(b"data: " + b"x" * 200)


@pytest.mark.parametrize("line", [b"data: " + b"x" * 50 + b"\n", b"data\n"], ids=["long", "empty"])
def test_a_message_of_many_lines_does_not_grow_without_bound(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_MOST_MESSAGE", 100)
    parser = StreamParser()
    for _ in range(100):
        assert len(parser.feed(b"data: x\n\n")) == 1
    with pytest.raises(UnexpectedAnswer, match="larger than"):
        list(map(parser.feed, [line] * 100))

"""HTTP/1.1 without IO: what is understood in whatever pieces it arrives, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from noetl.client.http1 import ResponseParser, format_headers, format_request
from noetl.errors import UnexpectedAnswer, UsageError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX-One: a\r\nx-one: b\r\n\r\nhello"


def parse(*pieces: bytes, most: int | None = None) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser(most)
    return parser, b"".join(parser.feed(piece) for piece in pieces)


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN,
        CHUNKED + b"3\r\nhel\r\n2;name=x\r\nlo\r\n0\r\n\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + INTERIM + PLAIN,
    ],
    ids=["length", "chunked", "trailers", "interim"],
)
@given(data=st.data())
def test_an_answer_is_the_same_in_whatever_pieces_it_arrives(answer: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(answer) - 1))))
    pieces = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    parser, body = parse(*pieces)
    assert (body, parser.done, parser.reusable) == (b"hello", True, True)


def test_headers_are_found_by_their_name_and_repeated_ones_are_joined() -> None:
    head = parse(PLAIN)[0].head
    assert head is not None
    assert (head.status, head.header("x-one"), head.header("x-two")) == (200, "a, b", None)


def test_an_answer_without_a_length_ends_with_the_connection_which_carries_no_other() -> None:
    parser, body = parse(b"HTTP/1.0 200 OK\r\n\r\nhel", b"lo")
    assert not parser.done
    parser.finish()
    assert (body, parser.done, parser.reusable) == (b"hello", True, False)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_answers_have_no_body(status: bytes) -> None:
    parser, body = parse(b"HTTP/1.1 " + status + b"\r\n\r\n")
    assert (body, parser.done, parser.reusable) == (b"", True, True)


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN + b"HTTP/1.1 200 OK",
        b"HTTP/1.1 204 No\r\n\r\nmore",
        CHUNKED + b"0\r\n\r\nmore",
        PLAIN.replace(b"X-One: a", b"Connection: Close"),
    ],
    ids=["length", "nothing", "chunked", "close"],
)
def test_a_connection_with_more_on_it_than_the_answer_carries_no_other_request(answer: bytes) -> None:
    parser, _ = parse(answer)
    assert (parser.done, parser.reusable) == (True, False)


@pytest.mark.parametrize("answer", [b"", PLAIN[:20], PLAIN[:-1], CHUNKED + b"3\r\nhel\r\n"])
def test_an_answer_that_is_cut_short_is_never_taken_for_a_whole_one(answer: bytes) -> None:
    parser, _ = parse(answer)
    with pytest.raises(ConnectionResetError):
        parser.finish()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1\n200 OK\r\n\r\n",
        b"HTTP/1.1 200\nOK\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\n",
        INTERIM * 2_000 + PLAIN,
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        CHUNKED + b"x\r\n",
        CHUNKED + b"-5\r\nhello\r\n",
        CHUNKED + b"3\r\nhello\r\n",
        CHUNKED + b"1" * 5_000,
        CHUNKED + b"0\r\n" + b"T: x\r\n" * 20_000,
    ],
)
def test_what_is_not_clear_is_refused(answer: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        parse(answer)


@given(st.sampled_from([b"", INTERIM, b"HTTP/1.1 ", PLAIN[:17], CHUNKED, CHUNKED + b"5\r\n"]), st.lists(st.binary()))
def test_no_answer_raises_an_error_of_another_kind(start: bytes, pieces: list[bytes]) -> None:
    with suppress(UnexpectedAnswer):
        parse(start, *pieces)


@pytest.mark.parametrize("framing", [b"Content-Length: 1048577\r\n\r\n", b"\r\n" + b"x" * ((1 << 20) + 1)])
@pytest.mark.parametrize("status", [b"302 Found", b"500 Error"])
def test_the_body_of_an_error_has_a_limit_where_that_of_a_success_has_none(framing: bytes, status: bytes) -> None:
    with pytest.raises(UnexpectedAnswer, match="larger than"):
        parse(b"HTTP/1.1 " + status + b"\r\n" + framing)
    parse(b"HTTP/1.1 200 OK\r\n" + framing)


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"])
def test_an_answer_larger_than_is_accepted_is_refused(answer: bytes) -> None:
    assert parse(answer, most=5)[1] == b"hello"
    with pytest.raises(UnexpectedAnswer, match="larger than"):
        parse(answer, most=4)


def test_a_request_is_written_as_http_has_it() -> None:
    headers = format_headers({"Host": "here"})
    assert format_request("GET", "/x?a=1", headers) == b"GET /x?a=1 HTTP/1.1\r\nHost: here\r\n\r\n"
    assert format_request("POST", "/x", headers, b"{}").endswith(
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    "headers", [{"A": "x\r\nB: y"}, {"A": "x\0"}, {"A B": "x"}, {"A:": "x"}, {"A": "…"}, {"A": "x\n"}]
)
def test_no_value_breaks_out_of_its_header(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="does not allow"):
        format_headers(headers)


@pytest.mark.parametrize("target", ["/x y", "/x\r\nHost: other", "/ü"])
def test_no_path_breaks_out_of_its_line(target: str) -> None:
    with pytest.raises(UsageError):
        format_request("GET", target, "")

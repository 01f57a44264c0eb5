"""Files cut into rows: whatever the size of chunks and blocks, no byte is lost and no row is torn."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, strategies as st

from noetl.tools.transfer import text_files
from noetl.tools.transfer.text_files import Piece, UnclosedQuote, pieces

FIELDS = st.text(alphabet='ab",\n\r ;é', max_size=8)


@given(
    rows=st.lists(st.lists(FIELDS, min_size=2, max_size=2), max_size=30),
    size=st.integers(1, 7),
    block=st.integers(1, 40),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_rows_of_csv_are_cut_where_they_end(rows: list[list[str]], size: int, block: int, end: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    body = text.getvalue().encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        found = list(pieces(io.BytesIO(body), 0, size, quote=b'"'))
    assert b"".join(piece.body for piece in found) == body
    counts = [len(list(csv.reader(io.StringIO(piece.body.decode(), newline="")))) for piece in found]
    assert counts == [piece.rows for piece in found]
    assert counts == [size] * (len(rows) // size) + ([len(rows) % size] if len(rows) % size else [])
    assert [piece.last for piece in found] == [False] * (len(found) - 1) + [True] * bool(found)


def _rests(found: list[Piece]) -> list[bytes]:
    """What follows each piece."""
    return [b"".join(piece.body for piece in found[at + 1 :]).strip() for at in range(len(found))]


@given(
    lines=st.lists(st.sampled_from(["a,b", "", "\r", '"x\ny",2', '"",1', '"q""",3']), max_size=40),
    size=st.integers(1, 5),
    fill=st.integers(0, 60),
    block=st.integers(1, 60),
)
def test_chunks_that_come_together_are_the_same_chunks(lines: list[str], size: int, fill: int, block: int) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        singly = list(pieces(io.BytesIO(body), 0, size, quote=b'"'))
        together = list(pieces(io.BytesIO(body), 0, size, quote=b'"', fill=fill))
    bodies = [b"".join(piece.body for piece in found).rstrip() for found in (singly, together)]
    assert bodies[0] == bodies[1] == body.rstrip()
    assert sum(piece.rows for piece in together) == sum(piece.rows for piece in singly)
    assert all(piece.rows % size == 0 and len(piece.body) >= fill for piece in together[:-1])
    assert all(body[piece.end :].strip() == rest for piece, rest in zip(together, _rests(together), strict=True))
    assert [piece.last for piece in together] == [False] * (len(together) - 1) + [True] * bool(together)


def test_a_place_in_the_file_is_where_the_next_row_begins() -> None:
    body = b"1\n2\n3\n4\n5\n"
    found = list(pieces(io.BytesIO(body), 0, 2, quote=None))
    assert [body[piece.end :] for piece in found] == [b"3\n4\n5\n", b"5\n", b""]


def test_lines_without_anything_are_no_rows() -> None:
    found = list(pieces(io.BytesIO(b"\n1\n\n\n2\n3\n\n"), 0, 2, quote=None))
    assert [piece.rows for piece in found] == [2, 1]


STRAY = b'1,5" pipe\n2,"a ""b"",\nc"\n3,x"y"z\n4,"d"\n'


@pytest.mark.parametrize("block", [1, 3, 7, 1000])
@pytest.mark.parametrize("delimiter", [b",", b"||"])
def test_a_quote_opens_a_field_only_at_its_beginning(block: int, delimiter: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        body = STRAY.replace(b",", delimiter)
        found = list(pieces(io.BytesIO(body), 0, 1, quote=b'"', delimiter=delimiter))
    assert [piece.body[:1] for piece in found] == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("body", [b'1,"x\n2,y\n', b'1,"x\n2,y', b'1,"x\n' + b"2,y\n" * 2_000_000])
def test_a_quote_that_is_never_closed_is_called_that_before_all_is_read(body: bytes) -> None:
    with pytest.raises(UnclosedQuote) as found:
        list(pieces(io.BytesIO(b"0,a\n" + body), 0, 10, quote=b'"'))
    assert (found.value.rows, found.value.text[:4]) == (1, b'1,"x')


def test_what_a_line_without_anything_is_depends_on_the_format() -> None:
    def rows(text: bytes, nothing: bytes | None) -> int:
        return sum(piece.rows for piece in pieces(io.BytesIO(text), 0, 9, quote=None, nothing=nothing))

    assert rows(b"1\n\n2\n\n", None) == 4  # of a CSV file with one column: each line is a value
    assert rows(b"{}\n  \n\t\r\n{}\n", b" \t\r\n") == 2
    assert rows(b"{}\n  \n{}\n", b"\r\n") == 3

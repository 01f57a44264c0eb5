"""Offsets to lines and columns, both from 1."""

import pytest

from noetl.model.diagnostics import Source, Span


@pytest.mark.parametrize(
    ("offset", "place"), [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (5, (3, 2)), (7, (4, 1))]
)
def test_a_place_is_a_line_and_a_column(offset: int, place: tuple[int, int]) -> None:
    assert Source("ab\n\ncd\n").place(offset) == place


def test_the_end_of_the_text_has_a_place() -> None:
    assert Source("").span(0, 0) == Span(1, 1, 1, 1)
    assert Source("ab").span(1, 2) == Span(1, 2, 1, 3)


def test_a_span_may_cross_lines() -> None:
    assert Source("ab\ncd").span(1, 4) == Span(1, 2, 2, 2)


@pytest.mark.parametrize("text", ["a\nbc\nd", "a\r\nbc\r\nd"])
def test_the_text_of_a_line_has_no_line_break(text: str) -> None:
    assert [Source(text).line_text(line) for line in (1, 2, 3)] == ["a", "bc", "d"]


def test_the_line_behind_the_last_break_is_empty() -> None:
    assert Source("a\n").line_text(2) == ""


def test_a_line_starts_behind_the_break_before_it() -> None:
    source = Source("ab\ncd\n")
    assert [source.line_start(offset) for offset in (0, 2, 3, 5)] == [0, 0, 3, 3]


def test_columns_count_characters_not_bytes() -> None:
    assert Source("ä𝄞x").place(2) == (1, 3)

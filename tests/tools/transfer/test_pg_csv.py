from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from noetl.tools.transfer.targets.copy_input import is_regular


def _as_copy_reads(text: str) -> list[list[str]]:
    """Rows as PostgreSQL tells them apart: a quote opens or closes wherever it is, two inside of quotes are one."""
    rows, fields, field, inside, at = [], [], "", False, 0
    while at < len(text):
        mark = text[at]
        if mark == '"' and inside and text[at + 1 : at + 2] == '"':
            field, at = field + '"', at + 1
        elif mark == '"':
            inside = not inside
        elif mark == "," and not inside:
            fields, field = [*fields, field], ""
        elif mark == "\n" and not inside:
            rows, fields, field = [*rows, [*fields, field]], [], ""
        else:
            field += mark
        at += 1
    assert not inside
    return [*rows, [*fields, field]] if fields or field or not text.endswith("\n") else rows


@given(st.text('a,"\n', min_size=1, max_size=12))
@example('""\n')
@example(',"a""",\n"""b",c\n')
def test_rows_of_regular_text_are_the_same_to_copy_and_to_readers_of_csv(text: str) -> None:
    if is_regular(text.encode(), b",", b'"'):
        assert _as_copy_reads(text) == list(csv.reader(io.StringIO(text, newline="")))


@given(st.lists(st.lists(st.text('a ,"\nä', max_size=5), min_size=2, max_size=4), min_size=1, max_size=5))
def test_text_that_was_written_by_the_rules_is_regular(rows: list[list[str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    assert is_regular(out.getvalue().encode(), b",", b'"')


@pytest.mark.parametrize(
    "text", ['x"y"\n', 'a,b"c\n', '"a"b\n', '"a\n', "a\n\nb\n", "\na\n", "a\r\nb\n", "a\n\r\nb\r\n", "\\.\n"]
)
def test_text_that_others_may_read_in_another_way_is_not_regular(text: str) -> None:
    assert not is_regular(text.encode(), b",", b'"')


@pytest.mark.parametrize("text", ["a,b\r\nc,d\r\n", '"a\r\n",b\n', "a\\.b\n", '";"\n'])
def test_what_only_looks_odd_is_regular(text: str) -> None:
    assert is_regular(text.encode(), b",", b'"')


class Counted(bytes):
    """Text that knows how much of it was looked through for quotes."""

    looked_through = 0

    def count(self, mark: Any, start: Any = 0, end: Any = None) -> int:
        self.looked_through += (len(self) if end is None else end) - start
        return super().count(mark, start, end)


def test_a_quote_that_nothing_closes_does_not_make_every_line_be_looked_at_again_and_again() -> None:
    text = Counted(b'5" pipe,1\n' + b"a,1\n" * 200_000)
    assert not is_regular(text, b",", b'"')
    assert text.looked_through <= 2 * len(text)

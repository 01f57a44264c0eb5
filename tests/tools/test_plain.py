"""What becomes of values that JSON cannot hold."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from noetl.tools.python.task_result import NotJson, locate, plain

D = decimal.Decimal
Point = namedtuple("Point", "x y")


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (dt.date(2024, 2, 3), "2024-02-03"),
        (dt.datetime(2024, 2, 3, 4, 5, 6), "2024-02-03T04:05:06"),  # noqa: DTZ001
        (dt.datetime(2024, 2, 3, tzinfo=dt.UTC), "2024-02-03T00:00:00+00:00"),
        (dt.time(7, 8, 9), "07:08:09"),
        (D("1.5"), 1.5),
        (D("12"), 12),
        (D("12.00"), 12.0),
        (D("1E+3"), 1000),
        (D("-0.1"), -0.1),
        (D("0.1234567890123456789012345678901"), "0.1234567890123456789012345678901"),
        (D("12345678901234567890123"), 12345678901234567890123),
        (D("1E+400"), 10**400),
        (D("1E+5000"), "1E+5000"),
        ([{1: {None: 2}}, {True: 3, 1.5: 4}], [{"1": {"null": 2}}, {"true": 3, "1.5": 4}]),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xffabc", "AP9hYmM="),
        (bytearray(b"a"), "YQ=="),
        ((1, (2, b"")), [1, [2, ""]]),
        (Point(1, D(2)), [1, 2]),
        (OrderedDict(a=OrderedDict(b=D(1))), {"a": {"b": 1}}),
        (Colour.RED, "red"),
        ([{"when": dt.date(2024, 1, 1), "n": 1}], [{"when": "2024-01-01", "n": 1}]),
    ],
)
def test_dates_decimals_and_bytes_have_a_plain_form(value: Any, result: Any) -> None:
    made = plain(value)
    assert made == result
    assert isinstance(made, type(result))


def test_what_is_plain_already_is_not_copied() -> None:
    rows = {"a": [1, 2.5, "x", None, True]}
    assert plain(rows)["a"] is rows["a"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"rows": [0, 1, 2, {"when": {1}}]}, "`result.rows[3].when` is not JSON: set {1}"),
        (object, "`result` is not JSON: type <class 'object'>"),
        ({"a b": [{(1,): 2}]}, "`result['a b'][0]` has a key that is not text: tuple (1,)"),
        ([{1: 2, "1": 3}], "`result[0]` has two keys that are `1` in JSON"),
        ([D("NaN")], "`result[0]` is not a number that JSON knows: NaN"),
        (iter([]), "`result` is not JSON: list_iterator"),
        (dt.timedelta(1), "`result` is not JSON: timedelta"),
    ],
)
def test_anything_else_is_refused_with_the_way_to_it(value: Any, words: str) -> None:
    with pytest.raises(NotJson) as raised:
        plain(value)
    assert str(raised.value).startswith(words)


def test_what_contains_itself_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    with pytest.raises(NotJson, match="contains itself"):
        plain(cycle)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"rows": [1.0, {"x": float("nan")}]}, "`result.rows[1].x` is not a number that JSON knows: nan"),
        ([float("-inf")], "`result[0]` is not a number that JSON knows: -inf"),
        (["fine", {"t": "a\udc80"}], "`result[1].t` is not Unicode text: 'a\\udc80'"),
        ({"\udc80": 1}, "`result` has a key that is not Unicode text: '\\udc80'"),
    ],
)
def test_numbers_and_texts_without_a_form_are_located(value: Any, words: str) -> None:
    assert str(locate(value)) == words

"""Two values held against each other: every place at which they differ, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET

from noetl.history.diff import diff_values

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def told(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    return [(one.path, one.a, one.b) for one in diff_values("v", a, b)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("v.a.c", 2, 3)]),
        ({"a": 1}, {"b": 1}, [("v.a", 1, UNSET), ("v.b", UNSET, 1)]),
        ([1, 2, 3], [1, 5], [("v[1]", 2, 5), ("v[2]", 3, UNSET)]),
        ({"a b": [{"c": 1}]}, {"a b": [{"c": 2}]}, [('v["a b"][0].c', 1, 2)]),
        ({"a": None}, {}, [("v.a", None, UNSET)]),
        ([1], {"0": 1}, [("v", [1], {"0": 1})]),
        (1, True, [("v", 1, True)]),
        (1, 1.0, []),
    ],
)
def test_a_difference_is_told_as_deep_as_it_lies(a: Any, b: Any, expected: list[tuple[str, Any, Any]]) -> None:
    assert told(a, b) == expected


@given(VALUES)
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    assert told(value, value) == []


@given(VALUES, VALUES)
def test_both_directions_tell_of_the_same_places(a: Any, b: Any) -> None:
    back = {(path, left, right) for path, right, left in map(repr_of, diff_values("v", b, a))}
    assert {repr_of(one) for one in diff_values("v", a, b)} == back


def repr_of(change: Any) -> tuple[str, str, str]:
    return change.path, repr(change.a), repr(change.b)

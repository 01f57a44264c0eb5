"""Diagnostics: collected once each, told in the order of the source."""

import pytest

from noetl.model.diagnostics import MOST, Diagnostics, Edit, Severity, Source, Span, TooManyErrors


def test_what_is_found_comes_in_the_order_of_the_source() -> None:
    problems = Diagnostics(Source("ab\ncd\n"))
    problems.error("late", "m", (4, 5))
    problems.warning("early", "m", (0, 1))
    problems.error("between", "m", (3, 4))
    assert [found.code for found in problems.collect()] == ["early", "between", "late"]


def test_problems_of_one_place_are_ordered_by_their_code() -> None:
    problems = Diagnostics(Source("ab"))
    problems.error("b", "m", (0, 1))
    problems.error("a", "m", (0, 2))
    assert [found.code for found in problems.collect()] == ["a", "b"]


def test_the_same_thing_is_said_once() -> None:
    problems = Diagnostics(Source("ab"))
    problems.error("code", "message", (0, 1), fix="first")
    problems.error("code", "message", (0, 2), fix="second")
    problems.error("code", "other", (0, 1))
    assert [(found.message, found.fix) for found in problems.collect()] == [("message", "first"), ("other", None)]


def test_a_problem_without_a_place_comes_first() -> None:
    problems = Diagnostics(Source("ab"))
    problems.error("here", "m", (0, 1))
    problems.error("nowhere", "m", None)
    assert [(found.code, found.span) for found in problems.collect()] == [("nowhere", None), ("here", Span(1, 1, 1, 2))]


def test_warnings_are_no_errors() -> None:
    problems = Diagnostics(Source(""))
    problems.warning("w", "m", None)
    assert not problems.has_errors
    problems.add("e", Severity.ERROR, "m", None)
    assert problems.has_errors


def test_a_span_is_taken_as_it_is_and_edits_are_kept() -> None:
    problems = Diagnostics(Source(""))
    problems.error("e", "m", Span(3, 4, 3, 5), edits=[Edit(0, 1, "x")])
    (found,) = problems.collect()
    assert (found.span, found.edits) == (Span(3, 4, 3, 5), (Edit(0, 1, "x"),))


def full(*, stops: bool) -> Diagnostics:
    problems = Diagnostics(Source("ab"), stops=stops)
    for number in range(MOST):
        problems.warning("w", f"{number}", (0, 1))
        problems.error("e", f"{number}", (0, 1))
    return problems


def test_errors_are_told_however_many_warnings_there_are() -> None:
    problems = full(stops=False)
    assert not any("more" in one.message for one in problems.collect())
    problems.error("e", "one more", (0, 1))
    told = problems.collect()
    assert len(told) == 2 * MOST
    (last,) = (one.message for one in told if "there are more problems" in one.message)
    assert last.endswith("only the first 5,000 errors are told)")


def test_nothing_more_is_looked_for_when_enough_errors_are_told() -> None:
    problems = full(stops=True)
    problems.warning("w", "one more", (0, 1))
    with pytest.raises(TooManyErrors):
        problems.error("e", "one more", (0, 1))

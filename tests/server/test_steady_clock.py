"""The clock of a process never goes back, passes as time does, and follows a date that is set forward."""

from __future__ import annotations

from hypothesis import given, strategies as st

from noetl.server.core.steady_clock import _NOISE_S, SteadyClock


class Times:
    """A wall clock and a monotonic one."""

    def __init__(self) -> None:
        self.wall, self.passed = 1_000_000.0, 50.0

    def go(self, seconds: float, *, jump: float = 0.0) -> None:
        self.passed += seconds
        self.wall += seconds + jump


def made() -> tuple[Times, SteadyClock]:
    times = Times()
    return times, SteadyClock(lambda: times.wall, lambda: times.passed)


def test_a_date_that_is_set_back_does_not_stop_the_time() -> None:
    times, clock = made()
    before = clock()
    times.go(4, jump=-3600)
    assert clock() - before == 4
    times.go(10)
    assert clock() - before == 14
    assert clock.date() == before + 14 - 3600, "what begins now has the new date"


def test_a_date_that_is_set_forward_is_followed() -> None:
    times, clock = made()
    before = clock()
    times.go(1, jump=7200)
    assert clock() - before == 7201


def test_reading_two_clocks_one_after_the_other_adds_nothing_up() -> None:
    times, clock = made()
    before = clock()
    for _ in range(1000):
        times.go(0.5, jump=-0.1)
        clock()
        times.go(0.5, jump=0.1)
        clock()
    assert abs(clock() - before - 1000) < _NOISE_S


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(-1e8, 1e8)), max_size=30))
def test_it_never_goes_back_and_never_falls_behind_the_time_that_passed(steps: list[tuple[float, float]]) -> None:
    times, clock = made()
    last, passed = clock(), times.passed
    for seconds, jump in steps:
        times.go(seconds, jump=jump)
        now = clock()
        assert now >= last
        assert now - last >= times.passed - passed - 2 * _NOISE_S - 1e-3
        last, passed = now, times.passed

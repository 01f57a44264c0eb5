"""Limits on calls: of a token, of an address, and on guesses of tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import Api
from hypothesis import given, strategies as st
from test_access_matrix import WORKER_ROUTES

from noetl.client import Client, TooManyRequests
from noetl.model.wire import WorkerMessage, encode
from noetl.server.http.access import RequestLimits, request_limits as module
from noetl.server.http.access.request_limits import TokenBucket, network_of


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200), st.floats(0.5, 20), st.floats(1, 50))
def test_a_bucket_gives_no_more_than_its_size_and_its_rate(gaps: list[float], rate: float, most: float) -> None:
    now, taken = 0.0, 0
    bucket = TokenBucket(most, rate, now)
    for gap in gaps:
        now += gap
        taken += bucket.take(now) == 0
    assert taken <= most + rate * now + 1e-6


@given(st.floats(0.1, 20), st.integers(1, 30))
def test_whoever_waits_as_long_as_a_bucket_says_is_given_one(rate: float, calls: int) -> None:
    now = 0.0
    bucket = TokenBucket(1.0, rate, now)
    for _ in range(calls):
        while wait := bucket.take(now):
            assert wait <= 1 / rate + 1e-9
            now += wait + 1e-9


def test_a_token_is_limited_also_where_its_address_is_not() -> None:
    clock = Clock()
    limits = RequestLimits(2, 1000, clock)
    assert [limits.wait_for_call("ann", "192.0.2.1") for _ in range(20)] == [0.0] * 20
    assert limits.wait_for_call("ann", "192.0.2.2") > 0
    assert limits.wait_for_call("bob", "192.0.2.1") == 0
    clock.now += 0.5
    assert limits.wait_for_call("ann", "192.0.2.1") == 0


def test_an_address_is_limited_whatever_tokens_come_from_it() -> None:
    limits = RequestLimits(1000, 2, Clock())
    assert [limits.wait_for_call(f"t{at}", "192.0.2.1") for at in range(20)] == [0.0] * 20
    assert limits.wait_for_call("t99", "192.0.2.1") > 0
    assert limits.wait_for_call("t99", "192.0.2.2") == 0


def test_a_rate_of_zero_is_no_limit() -> None:
    limits = RequestLimits(0, 0, Clock())
    assert not any(limits.wait_for_call("ann", "192.0.2.1") for _ in range(10_000))


def test_refused_calls_use_up_nothing_of_callers_with_a_token() -> None:
    limits = RequestLimits(1, 1, Clock())
    while not limits.wait_for_anonymous("192.0.2.1"):
        pass
    assert limits.wait_for_call("ann", "192.0.2.1") == 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::1", "::2", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("", "x", False),
    ],
)
def test_of_version_6_a_network_is_one_caller(one: str, other: str, is_same: bool) -> None:
    assert (network_of(one) == network_of(other)) == is_same


# --- over the API ------------------------------------------------------------------------------------------------------


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A server whose clock stands still, as far as its limits are concerned: twenty calls, and no more."""
    monkeypatch.setattr("noetl.server.http.app.monotonic", lambda: 1000.0)
    with Api(tmp_path / "home", token_rate=2, address_rate=1000, more=WORKER_ROUTES) as api:
        yield api


def test_more_calls_than_are_allowed_are_refused_with_when_to_come_again(limited: Api) -> None:
    token = limited.add_token("ann", "viewer")
    answers = [limited.call("GET", "/api/executions", token=token) for _ in range(22)]
    assert [one.status for one in answers] == [200] * 20 + [429] * 2
    assert answers[-1].headers["retry-after"] == "1"
    assert answers[-1].data["detail"] == "too many requests: try again in 1 s"
    assert limited.get("/api/executions").status == 200


def test_workers_are_not_limited(limited: Api) -> None:
    token = limited.add_token("w", "worker")
    body = encode(WorkerMessage("w"))
    assert {limited.call("POST", "/api/work", body, token).status for _ in range(40)} == {200}


def test_guesses_of_tokens_are_slowed_down_and_harm_nobody_who_was_there_before(limited: Api) -> None:
    known, new = limited.add_token("ann", "viewer"), limited.add_token("bob", "viewer")
    assert limited.call("GET", "/api/executions", token=known).status == 200
    found = [limited.call("GET", "/api/executions", token=f"noetl_{at}").status for at in range(60)]
    guesses = int(module._GUESSES)
    assert found == [401] * guesses + [429] * (60 - guesses)
    assert limited.call("GET", "/api/executions", token=known).status == 200
    assert limited.get("/api/executions").status == 200
    # A token that this server has not seen before waits its turn: else guesses could be told from it.
    assert limited.call("GET", "/api/executions", token=new).status == 429


def test_calls_that_are_refused_or_need_no_token_are_limited_as_well(
    limited: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANONYMOUS_PER_S", 1.0)
    assert [limited.call("GET", "/health", token="").status for _ in range(12)] == [200] * 10 + [429] * 2
    assert limited.call("GET", "/api/executions", token="").status == 429
    assert limited.call("GET", "/api/executions", Host="evil.example").status == 429
    assert limited.get("/api/executions").status == 200


# --- clients -----------------------------------------------------------------------------------------------------------


def test_a_client_waits_as_long_as_it_is_told_and_tries_again(tmp_path: Path) -> None:
    said: list[str] = []
    with (
        Api(tmp_path / "home", token_rate=1) as api,
        Client(f"http://127.0.0.1:{api.port}", api.owner, report=said.append) as client,
    ):
        began = time.monotonic()
        for _ in range(12):
            client.executions()
        assert time.monotonic() - began >= 1
    assert said
    assert said[0].endswith("limits its calls: trying again in 1 s")


def test_a_client_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.client.transport._BUSY_S", 0.0)
    monkeypatch.setattr("noetl.server.http.app.monotonic", lambda: 1000.0)
    with Api(tmp_path / "home", token_rate=1) as api, Client(f"http://127.0.0.1:{api.port}", api.owner) as client:
        for _ in range(10):
            client.executions()
        with pytest.raises(TooManyRequests, match="too many requests") as refused:
            client.executions()
        assert (refused.value.status, refused.value.retry_after_s) == (429, 1.0)

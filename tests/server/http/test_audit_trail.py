"""What is written of calls: each change, and refused calls in a number that no flood can drive up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from apiserver import DOUBLE, Api
from waiting import until, wait_until

from noetl.model.access import AuditEntry, AuditQuery, format_time
from noetl.ports import StoreFailed
from noetl.server.http.access import AuditTrail, audit_trail as module
from noetl.stores.memory import MemoryLog


class Flaky:
    """An access store that may be away."""

    def __init__(self) -> None:
        self._store = MemoryLog().access()
        self.away = False

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        if self.away:
            raise StoreFailed("the disk is full")
        await self._store.record(entries)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Fixture:
    def __init__(self) -> None:
        self.store, self.now, self.said = Flaky(), 1_800_000_000.0, list[str]()
        self.trail = AuditTrail(self.store, lambda: self.now, days=1, warn=self.said.append)  # type: ignore[arg-type]

    def entry(self, origin: str = "192.0.2.1", action: str = "GET /x", who: str = "", **more: Any) -> AuditEntry:
        return AuditEntry(
            self.trail.stamp(), who, action, origin=origin, **{"outcome": "refused", "status": 401, **more}
        )

    def written(self) -> list[AuditEntry]:
        return self.store.audit(AuditQuery(limit=100_000))[::-1]


def scenario(work: Callable[[Fixture], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        made = Fixture()
        try:
            await work(made)
        finally:
            await made.trail.close()

    asyncio.run(run())


def test_the_first_refused_call_is_written_at_once_and_the_others_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COUNTED_S", (0.2,))

    async def work(made: Fixture) -> None:
        for _ in range(500):
            made.trail.refuse(made.entry())
            made.now += 0.001
        await until(lambda: len(made.written()) == 2)
        first, others = made.written()
        assert (first.count, others.count, others.origin) == (1, 499, "192.0.2.1")
        assert first.at < others.until <= others.at
        await asyncio.sleep(0.5)  # windows without a call: nothing is written of them, and the next call is a first one
        assert len(made.written()) == 2
        made.trail.refuse(made.entry())
        await until(lambda: len(made.written()) == 3)

    scenario(work)


def test_what_was_counted_is_written_at_the_end() -> None:
    async def work(made: Fixture) -> None:
        for _ in range(10):
            made.trail.refuse(made.entry())
        await made.trail.close()
        assert [one.count for one in made.written()] == [1, 9]

    scenario(work)


def test_windows_grow_while_calls_keep_coming() -> None:
    assert module._COUNTED_S == (60.0, 600.0, 3600.0)


def test_refused_calls_of_any_number_of_addresses_callers_and_actions_are_a_bounded_number_of_entries() -> None:
    async def work(made: Fixture) -> None:
        calls = 0
        for address in range(500):
            for at in range(20):
                made.trail.refuse(made.entry(f"10.0.{address // 250}.{address % 250}", f"GET /{at}", who=f"t{at}"))
                calls += 1
        for at in range(500):  # of version 6, one caller has a whole network of addresses
            made.trail.refuse(made.entry(f"2001:db8::{at:x}"))
            calls += 1
        await made.trail.close()
        written = made.written()
        assert len(written) <= 2 * (2 * module._MOST_COUNTED + 1)
        assert sum(one.count for one in written) == calls

    scenario(work)


def test_what_changed_something_is_never_counted_with_others() -> None:
    async def work(made: Fixture) -> None:
        for _ in range(50):
            await made.trail.record(made.entry(action="execution.cancel", outcome="done", status=200))
        assert [one.count for one in made.written()] == [1] * 50

    scenario(work)


def test_while_the_store_is_away_entries_wait_and_somebody_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_S", 0.05)

    async def work(made: Fixture) -> None:
        made.store.away = True
        for at in range(5):
            await made.trail.record(made.entry(action=f"a{at}", outcome="done", status=200))
        assert made.written() == []
        assert len(made.said) == 1
        assert "the disk is full" in made.said[0]
        made.store.away = False
        await until(lambda: len(made.written()) == 5)
        assert [one.action for one in made.written()] == [f"a{at}" for at in range(5)]

    scenario(work)


def test_entries_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 10)

    async def work(made: Fixture) -> None:
        made.store.away = True
        for at in range(50):
            await made.trail.record(made.entry(action=f"a{at}", outcome="done", status=200))
        made.store.away = False
        await made.trail.close()
        assert [one.action for one in made.written()] == [f"a{at}" for at in range(40, 50)]

    scenario(work)


def test_entries_are_forgotten_after_their_days() -> None:
    async def work(made: Fixture) -> None:
        await made.trail.record(made.entry(action="old", outcome="done", status=200))
        made.now += 2 * 86_400
        await made.trail.record(made.entry(action="new", outcome="done", status=200))
        assert [one.action for one in made.written()] == ["new"]

    scenario(work)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("noetl_vXe8kq_-0123456789 x", "noetl_… x"),
        ("a\x1b[2Jb\nc", "a�[2Jb�c"),
        ("x" * 10_000, "x" * 299 + "…"),
        ("noetl dev", "noetl dev"),
    ],
)
def test_an_entry_has_no_token_no_control_characters_and_no_long_texts(text: str, shown: str) -> None:
    async def work(made: Fixture) -> None:
        await made.trail.record(made.entry(action=text, object=text, reason=text))
        (one,) = made.written()
        assert (one.action, one.object, one.reason) == (shown,) * 3

    scenario(work)


def test_times_are_in_the_order_of_their_texts() -> None:
    times = [0.0, 0.001, 1.0, 1_800_000_000.0, 1_800_000_000.5, 4_000_000_000.0]
    assert sorted(map(format_time, times)) == list(map(format_time, times))


# --- over the API ------------------------------------------------------------------------------------------------------


def entries(api: Api, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/api/audit?limit=1000{query}").data["entries"]
    return found


def test_a_change_is_in_the_log_by_the_time_it_is_answered(api: Api) -> None:
    token = api.add_token("ann", "author")
    run = api.call("POST", "/api/executions", {"playbook": DOUBLE}, token).data["execution_id"]
    (entry,) = entries(api)
    assert (entry["who"], entry["action"], entry["object"]) == ("ann", "execution.start", f"{run} double")
    assert (entry["origin"], entry["outcome"], entry["status"], entry["count"]) == ("127.0.0.1", "done", 201, 1)


def test_refused_calls_are_in_the_log_whoever_makes_them(api: Api) -> None:
    viewer = api.add_token("vera", "viewer")
    api.call("GET", "/api/executions", token="")
    api.call("GET", "/api/executions", token="noetl_not_a_token_at_all")
    api.call("POST", "/api/executions/x/cancel", token=viewer)
    api.get("/api/executions", Host="evil.example")
    api.call("POST", "/api/executions/nobody/cancel")
    api.call("POST", "/api/executions", {"playbook": "- ["})
    wait_until(lambda: len(entries(api)) >= 5)
    found = [(one["who"], one["action"], one["object"], one["outcome"], one["status"]) for one in entries(api)]
    assert sorted(found, key=str) == [
        ("", "GET /api/executions", "", "refused", 401),  # the second of these is counted
        ("", "GET /api/executions", "", "refused", 421),
        ("owner", "execution.cancel", "nobody", "failed", 404),
        ("owner", "execution.start", "", "failed", 422),
        ("vera", "execution.cancel", "x", "refused", 403),
    ]
    assert "not_a_token" not in str(entries(api))


def test_what_changes_nothing_and_is_allowed_is_not_in_the_log(api: Api) -> None:
    run = api.run(DOUBLE)
    before = len(entries(api))
    api.get(f"/api/executions/{run['execution_id']}/events")
    api.call("POST", "/api/validate", {"playbook": DOUBLE})
    api.get("/health")
    api.get("/api/executions/nobody")
    assert len(entries(api)) == before


def test_the_log_is_filtered_and_comes_in_pages(api: Api) -> None:
    ann, bob = api.add_token("ann", "author"), api.add_token("bob", "author")
    for token in (ann, bob, ann, ann):
        api.call("POST", "/api/executions", {"playbook": DOUBLE}, token)
    assert [one["who"] for one in entries(api, "&who=ann")] == ["ann"] * 3
    assert len(entries(api, "&action=execution.start")) == 4
    assert entries(api, "&action=execution.cancel") == []
    assert entries(api, "&until=2020-01-01") == []
    assert len(entries(api, "&since=2020-01-01T00:00:00Z")) == 4
    page = api.get("/api/audit?limit=3").data
    assert len(page["entries"]) == 3
    rest = api.get(f"/api/audit?limit=3&cursor={page['cursor']}").data
    assert (len(rest["entries"]), rest["cursor"]) == (1, None)
    numbers = [one["number"] for one in (*page["entries"], *rest["entries"])]
    assert numbers == sorted(numbers, reverse=True)
    assert api.get("/api/audit?since=yesterday").status == 400

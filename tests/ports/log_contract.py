"""What every event log must do, whatever it keeps its events in."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import pytest

from noetl.errors import UsageError
from noetl.model.access import allows_path
from noetl.model.events import Event, event_id
from noetl.ports import Conflict, EventLog, LogLine, PlaybookSource
from noetl.stores.verify import verify_store


def timestamp(seq: int) -> str:
    return f"2026-01-02T03:{seq // 60 % 60:02}:{seq % 60:02}.000000+00:00"


def events(execution_id: str, first: int, last: int, **payload: object) -> list[Event]:
    """Events as an engine would write them: the first one opens the execution."""
    found = []
    for seq in range(first, last + 1):
        opening = {"playbook": "hash", "workload": {}} if seq == 1 else {}
        found.append(
            Event(
                event_id(execution_id, seq),
                execution_id,
                seq,
                timestamp(seq),
                "server",
                "playbook.execution.requested" if seq == 1 else "step.started",
                "playbook" if seq == 1 else "step",
                "books/one" if seq == 1 else "start",
                "in_progress",
                {**opening, **payload},
                event_id(execution_id, seq - 1) if seq > 1 else None,
            )
        )
    return found


def line(text: str) -> LogLine:
    return LogLine(timestamp(1), "start", "task", None, "stdout", text)


def asked(key: str, caller: str) -> dict[str, str]:
    """Who asked for an execution, and with which key."""
    return {"by": caller, "key": key} if caller else {"key": key}


class EventLogContract:
    """Inherit, and give the fixtures `log` and `beside`: another process's view on the same store."""

    async def test_events_come_back_as_they_were_written(self, log: EventLog) -> None:
        written = events("x", 1, 5, text="grüße", deep={"a": [1, None, 2.5]})
        await log.append(written[:2], status="running")
        await log.append(written[2:], status="running")
        assert log.read("x") == written

    async def test_a_part_of_a_log_can_be_read(self, log: EventLog) -> None:
        written = events("x", 1, 6)
        await log.append(written, status="running")
        assert log.read("x", after=2) == written[2:]
        assert log.read("x", after=2, limit=3) == written[2:5]
        assert log.read("x", limit=1) == written[:1]
        assert log.read("x", after=6) == []
        assert log.read("x", after=99) == []
        assert log.read("unknown") == []

    async def test_logs_of_different_executions_do_not_mix(self, log: EventLog) -> None:
        for seq in range(1, 4):
            for name in ("a", "b", "ab"):
                await log.append(events(name, seq, seq), status="running")
        for name in ("a", "b", "ab"):
            assert log.read(name) == events(name, 1, 3)

    @pytest.mark.parametrize("first", [1, 3, 5, 6])
    async def test_a_seq_that_does_not_go_on_is_a_conflict(self, log: EventLog, first: int) -> None:
        await log.append(events("x", 1, 3), status="running")
        with pytest.raises(Conflict):
            await log.append(events("x", first, first + 1), status="completed", snapshot=b"no")
        assert log.read("x") == events("x", 1, 3)
        assert log.snapshot("x") is None
        found = log.summary("x")
        assert found is not None
        assert (found.status, found.seq) == ("running", 3)

    @pytest.mark.parametrize("broken", [(1, 3), (2, 1), (1, 1)])
    async def test_an_append_with_a_hole_in_it_is_a_conflict(self, log: EventLog, broken: Sequence[int]) -> None:
        with pytest.raises(Conflict):
            await log.append([events("x", seq, seq)[0] for seq in broken], status="running")
        assert log.read("x") == []
        assert log.summary("x") is None

    async def test_an_append_of_nothing_does_nothing(self, log: EventLog) -> None:
        await log.append([], status="running")
        assert log.summaries() == []

    async def test_events_may_be_changed_behind_the_call(self, log: EventLog) -> None:
        payload: dict[str, object] = {}
        event = events("x", 1, 1)[0]
        event.payload["ctx"] = payload
        writing = asyncio.ensure_future(log.append([event], status="running"))
        await asyncio.sleep(0)
        payload["late"] = True
        await writing
        assert log.read("x")[0].payload["ctx"] == {}

    async def test_of_two_who_write_the_same_seq_one_wins(self, log: EventLog, beside: EventLog) -> None:
        for seq in range(1, 20):
            both = [
                one.append(events("x", seq, seq, by=name), status=name)
                for one, name in ((log, "log"), (beside, "beside"))
            ]
            outcomes = await asyncio.gather(*both, return_exceptions=True)
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "NoneType"]
            winner = "log" if outcomes[0] is None else "beside"
            assert log.read("x")[-1].payload["by"] == winner
            found = beside.summary("x")
            assert found is not None
            assert found.status == winner

    async def test_many_callers_at_once_do_not_disturb_one_another(self, log: EventLog) -> None:
        async def caller(number: int) -> None:
            for start in range(1, 40, 4):
                await log.append(events(f"x{number}", start, start + 3), status="running")

        async def loser(number: int) -> None:
            for _ in range(5):
                with pytest.raises(Conflict):
                    await log.append(events(f"x{number}", 77, 78), status="running")

        await asyncio.gather(*[caller(number) for number in range(64)], *[loser(number) for number in range(8)])
        for number in range(64):
            assert log.read(f"x{number}") == events(f"x{number}", 1, 40)
        assert list(verify_store(log)) == []  # type: ignore[arg-type]

    async def test_appends_that_wait_together_are_written_in_order(self, log: EventLog) -> None:
        writing = [log.append(events("x", seq, seq), status=f"s{seq}") for seq in range(1, 50)]
        await asyncio.gather(*writing)
        found = log.summary("x")
        assert found is not None
        assert (found.status, found.seq, found.updated_at) == ("s49", 49, timestamp(49))

    async def test_a_summary_follows_the_log(self, log: EventLog) -> None:
        await log.append(events("x", 1, 2, parent={"execution_id": "above"}), status="requested")
        await log.append(events("x", 3, 3), status="completed")
        found = log.summary("x")
        assert found is not None
        assert (found.path, found.playbook, found.parent) == ("books/one", "hash", "above")
        assert (found.requested_at, found.updated_at) == (timestamp(1), timestamp(3))
        assert (found.status, found.seq, found.owner, found.alive) == ("completed", 3, None, False)

    async def test_summaries_begin_with_the_latest_request(self, log: EventLog) -> None:
        for name in ("b", "c", "a"):
            await log.append(events(name, 1, 1), status="running")
        await log.append(events("b", 2, 2), status="running")
        await log.append(events("c", 2, 2), status="failed")
        assert [one.execution_id for one in log.summaries()] == ["a", "c", "b"]
        assert [one.execution_id for one in log.summaries(limit=2)] == ["a", "c"]
        assert [one.execution_id for one in log.summaries(unfinished=True)] == ["a", "b"]
        assert [one.execution_id for one in log.summaries(before="a")] == ["c", "b"]
        assert [one.execution_id for one in log.summaries(before="a", unfinished=True)] == ["b"]
        assert log.summaries(before="b") == []
        assert len(log.summaries(before="nobody")) == 3

    async def test_children_can_be_told_from_those_that_have_no_parent(self, log: EventLog) -> None:
        await log.append(events("a", 1, 1), status="running")
        for name, status in (("a1", "completed"), ("a2", "running")):
            await log.append(events(name, 1, 1, parent={"execution_id": "a"}), status=status)
        await log.append(events("b", 1, 1), status="running")
        await log.append(events("b1", 1, 1, parent={"execution_id": "b"}), status="running")
        assert [one.execution_id for one in log.summaries(limit=1, parent="")] == ["b"]
        assert [one.execution_id for one in log.summaries(parent="")] == ["b", "a"]
        assert [one.execution_id for one in log.summaries(parent="a")] == ["a2", "a1"]
        assert [one.execution_id for one in log.summaries(parent="a", unfinished=True)] == ["a2"]
        assert log.summaries(parent="a1") == []

    async def test_those_that_are_under_way_are_told_from_those_that_are_not(self, log: EventLog) -> None:
        for name, status in (("a", "running"), ("ab", "completed"), ("b", "paused"), ("c", "failed"), ("d", "running")):
            await log.append(events(name, 1, 1), status=status)
        assert log.under_way(["a", "ab", "b", "c", "x", "", 'q"\\']) == {"a", "b"}
        assert log.under_way([]) == set()

    async def test_an_execution_is_found_by_the_key_that_its_caller_started_it_with(
        self, log: EventLog, beside: EventLog
    ) -> None:
        await log.append(events("x", 1, 2, asked=asked("k", "ann")), status="running")
        await log.append(events("y", 1, 1, asked=asked("k", "bob")), status="running")
        await log.append(events("z", 1, 1, asked={"by": "ann"}), status="running")
        for one in (log, beside):
            found = [one.execution_of_key(caller, "k") for caller in ("ann", "bob", "", "eve")]
            assert found == ["x", "y", None, None]
            assert one.execution_of_key("ann", "other") is None
        summaries = {one.execution_id: (one.caller, one.key) for one in beside.summaries()}
        assert summaries == {"x": ("ann", "k"), "y": ("bob", "k"), "z": (None, None)}
        assert list(verify_store(log)) == []  # type: ignore[arg-type]

    async def test_a_key_starts_one_execution_whoever_else_tries(self, log: EventLog, beside: EventLog) -> None:
        """Of the others nothing is written, and what is committed along with them is."""
        names = [f"{number:03}" for number in range(24)]
        outcomes = await asyncio.gather(
            *(
                one.append(events(name, 1, 2, asked=asked(f"k{int(name) % 3}", "")), status="running")
                for name in names
                for one in ((log, beside)[int(name) // 3 % 2],)
            ),
            *(log.append(events(f"free-{name}", 1, 1), status="running") for name in names),
            return_exceptions=True,
        )
        assert outcomes[24:] == [None] * 24
        assert sum(one is None for one in outcomes[:24]) == 3
        assert all(one is None or type(one) is Conflict for one in outcomes)
        winners = {f"k{number}": beside.execution_of_key("", f"k{number}") for number in range(3)}
        won = {name for name, outcome in zip(names, outcomes, strict=False) if outcome is None}
        assert set(winners.values()) == won
        for name in names:
            assert (len(log.read(name)), log.summary(name) is None) == ((2, False) if name in won else (0, True))
        first = min(won)
        await log.append(events(first, 3, 3), status="completed")
        with pytest.raises(Conflict):
            await log.append(events("late", 1, 1, asked=asked(f"k{int(first) % 3}", "")), status="running")
        assert list(verify_store(log)) == []  # type: ignore[arg-type]

    async def test_a_key_is_free_again_when_its_execution_is_forgotten(self, log: EventLog, beside: EventLog) -> None:
        await log.append(events("x", 1, 1, asked=asked("k", "ann")), status="completed")
        await log.forget("x")
        assert beside.execution_of_key("ann", "k") is None
        await beside.append(events("y", 1, 1, asked=asked("k", "ann")), status="running")
        assert log.execution_of_key("ann", "k") == "y"

    async def test_the_beginning_of_an_id_is_enough_if_it_fits_one(self, log: EventLog) -> None:
        for name in ("abc1", "abc", "abd", "b%"):
            await log.append(events(name, 1, 1), status="running")
        ids = {given: found and found.execution_id for given in ("abd", "abc", "abc1", "b", "x", "", "%") if [
            found := log.summary(given)
        ]}  # fmt: skip
        assert ids == {"abd": "abd", "abc": "abc", "abc1": "abc1", "b": "b%", "x": None, "": None, "%": None}
        with pytest.raises(UsageError, match="abc, abc1, abd"):
            log.summary("ab")

    async def test_with_paths_only_executions_of_these_playbooks_are_there(self, log: EventLog) -> None:
        where = {
            "a1": "crm/sync", "a2": "crm", "b": "crm/sync/deep", "c": "crmx/sync", "d": "payroll/pay", "e": "CRM/sync",
            "f": "grüße/%_*", "g": "x",
        }  # fmt: skip
        for name, path in where.items():
            opening = msgspec.structs.replace(events(name, 1, 1)[0], entity_id=path)
            await log.append([opening], status="running")
        for paths in (
            ["crm/*"], ["crm"], ["crm/sync", "x"], ["crm/sync/*"], ["nobody/*"], ["grüße/*"], ["%/*"], ["_/*", "c*"], ["payroll/pay/*"],
        ):  # fmt: skip
            visible = [name for name, path in reversed(where.items()) if allows_path(paths, path)]
            for unfinished in (False, True):
                found = log.summaries(paths=paths, unfinished=unfinished)
                assert [one.execution_id for one in found] == visible, paths
            assert [one.execution_id for one in log.summaries(paths=paths, limit=1)] == visible[:1]
            assert {name for name in where if log.summary(name, paths=paths) is not None} == set(visible)
        assert len(log.summaries(paths=[])) == len(where)
        # The beginning of an id says nothing of executions that are not there.
        assert getattr(log.summary("a", paths=["crm/*"]), "execution_id", None) == "a1"
        assert log.summary("a", paths=["payroll/*"]) is None

    async def test_the_latest_snapshot_is_found_and_those_of_the_near_past(self, log: EventLog) -> None:
        assert log.snapshot("x") is None
        for seq in range(1, 31, 2):
            await log.append(events("x", seq, seq + 1), status="running", snapshot=b"%d" % (seq + 1))
        await log.append(events("x", 31, 31), status="running")
        assert log.snapshot("x") == (30, b"30")
        assert log.snapshot("x", upto=29) == (28, b"28")
        assert log.snapshot("x", upto=26) == (26, b"26")
        assert log.snapshot("x", upto=1) is None
        assert log.snapshot("y") is None

    async def test_who_claims_first_owns_it_until_its_end(self, log: EventLog, beside: EventLog) -> None:
        await log.append(events("x", 1, 1), status="running")
        assert await log.claim("x")
        assert await log.claim("x")
        assert not await beside.claim("x")
        found = beside.summary("x")
        assert found is not None
        assert found.alive
        await log.close()
        found = beside.summary("x")
        assert found is not None
        assert not found.alive
        assert await beside.claim("x")
        assert beside.summaries()[0].owner != found.owner

    async def test_an_execution_can_be_claimed_before_its_first_event(self, log: EventLog, beside: EventLog) -> None:
        assert await log.claim("x")
        assert not await beside.claim("x")
        await log.append(events("x", 1, 1), status="running")
        assert log.summaries()[0].alive

    async def test_of_many_who_claim_at_once_one_wins(self, log: EventLog, beside: EventLog) -> None:
        for number in range(20):
            claims = await asyncio.gather(log.claim(f"x{number}"), beside.claim(f"x{number}"))
            assert sorted(claims) == [False, True]

    async def test_requests_reach_the_owner_once_and_in_order(self, log: EventLog, beside: EventLog) -> None:
        await log.claim("x")
        await beside.claim("y")
        for number in range(3):
            beside.post("x", b"%d" % number)
        log.post("y", b"y")
        log.post("nobody", b"?")
        assert [one[1:] for one in log.collect()] == [("x", b"0"), ("x", b"1"), ("x", b"2")]
        assert log.collect() == []
        assert [one[1:] for one in beside.collect()] == [("y", b"y")]
        log.post("x", b"mine")
        assert [one[1:] for one in log.collect()] == [("x", b"mine")]

    async def test_numbers_of_requests_only_grow_whatever_is_settled(self, log: EventLog, beside: EventLog) -> None:
        await log.claim("x")
        numbers = []
        for seq in (1, 2, 3):
            posted = beside.post("x", b"?")
            [(number, _, _)] = log.collect()
            assert posted == number
            log.settle(number)
            await log.append(events("y", seq, seq), status="running")
            numbers.append(number)
        assert numbers == sorted(set(numbers))

    async def test_requests_wait_for_an_owner(self, log: EventLog, beside: EventLog) -> None:
        assert log.collect() == []
        beside.post("x", b"early")
        assert log.collect() == []
        await log.claim("x")
        assert [one[1:] for one in log.collect()] == [("x", b"early")]

    async def test_a_playbook_is_kept_under_its_hash(self, log: EventLog, beside: EventLog) -> None:
        source = PlaybookSource("hash", "text: ü\n", "books/one.yaml", legacy=True)
        assert log.source("hash") is None
        await log.keep_source(source)
        await log.keep_source(source)
        assert log.source("hash") == beside.source("hash") == source
        moved = PlaybookSource("hash", "text: ü\n", "books/two.yaml", legacy=True)
        await beside.keep_source(moved)
        assert log.source("hash") == moved

    async def test_a_playbook_is_found_by_the_path_it_ran_under(self, log: EventLog) -> None:
        for number, name in enumerate(("x", "y")):
            await log.keep_source(PlaybookSource(name, f"text {number}", "one.yaml"))
            await log.append(events(name, 1, 1, playbook=name), status="running")
        assert log.latest("books/one") == log.source("y")
        assert log.latest("books/other") is None

    async def test_lines_can_be_followed(self, log: EventLog) -> None:
        assert log.lines("x") == []
        log.write_lines("x", [line("one"), line("two")])
        log.write_lines("y", [line("other")])
        first = log.lines("x")
        assert [found.text for _, found in first] == ["one", "two"]
        log.write_lines("x", [line("three")])
        assert [found for _, found in log.lines("x", after=first[-1][0])] == [line("three")]
        assert log.lines("x", after=10_000) == []

    async def test_what_waits_is_written_at_the_end(self, log: EventLog, reopen: Callable[[], EventLog]) -> None:
        writing = [asyncio.ensure_future(log.append(events(f"x{n}", 1, 3), status="running")) for n in range(20)]
        await asyncio.sleep(0)
        log.write_lines("x1", [line("last")])
        await log.close()
        await asyncio.gather(*writing)
        again = reopen()
        assert len(again.summaries()) == 20
        assert [found.text for _, found in again.lines("x1")] == ["last"]
        await again.close()

    async def test_what_is_written_is_sound(self, log: EventLog) -> None:
        await log.append(events("x", 1, 9), status="running")
        await log.append(events("y", 1, 1), status="running")
        assert list(verify_store(log)) == []  # type: ignore[arg-type]

    async def test_what_is_forgotten_is_gone_and_nothing_else(self, log: EventLog, beside: EventLog) -> None:
        await log.append(events("x", 1, 3), status="completed", snapshot=b"state")
        await log.append(events("y", 1, 3), status="completed", snapshot=b"state")
        log.write_lines("x", [line("one")])
        log.write_lines("y", [line("two")])
        beside.post("x", b"{}")
        await log.forget("x")
        assert log.summary("x") is None
        assert log.read("x") == []
        assert log.snapshot("x") is None
        assert log.lines("x") == []
        assert len(log.read("y")) == 3
        assert [one.text for _, one in log.lines("y")] == ["two"]
        await log.append(events("x", 1, 2), status="running")
        assert len(beside.read("x")) == 2

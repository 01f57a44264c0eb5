"""What every access store must do: tokens and the audit log."""

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from noetl.model.access import ApiToken, AuditEntry, AuditQuery, Role
from noetl.ports import AccessStore
from noetl.stores.verify import verify_audit


def token(name: str, role: Role = "viewer", **more: Any) -> ApiToken:
    return ApiToken(name, role, sha256(name.encode()).hexdigest(), "abcd", "2026-01-02T03:04:05+00:00", **more)


def entry(second: int, who: str = "ann", action: str = "execution.cancel", **more: Any) -> AuditEntry:
    return AuditEntry(f"2026-01-02T03:04:{second:02}.000+00:00", who, action, **more)


class AccessContract:
    """Inherit, and give the fixtures `access` and `access_beside`: another process's view on the same store."""

    async def test_a_token_is_found_by_its_hash_from_every_process(
        self, access: AccessStore, access_beside: AccessStore
    ) -> None:
        kept = token("ann", paths=("crm/*",), expires=12.5)
        assert await access.add_token(kept)
        for store in (access, access_beside):
            assert store.find_token(kept.sha256) == kept
            assert store.find_token("0" * 64) is None
            assert store.tokens() == [kept]

    async def test_tokens_are_listed_by_name(self, access: AccessStore) -> None:
        for name in ("b", "a", "C", "b-2"):
            await access.add_token(token(name))
        assert [one.name for one in access.tokens()] == ["C", "a", "b", "b-2"]

    async def test_a_name_is_given_once(self, access: AccessStore, access_beside: AccessStore) -> None:
        given = await asyncio.gather(access.add_token(token("ann")), access_beside.add_token(token("ann", "admin")))
        assert sorted(given) == [False, True]
        assert len(access.tokens()) == 1

    async def test_a_removed_token_is_gone_for_every_process(
        self, access: AccessStore, access_beside: AccessStore
    ) -> None:
        kept = token("ann")
        await access.add_token(kept)
        assert await access_beside.remove_token("ann") == kept
        assert await access_beside.remove_token("ann") is None
        assert access.find_token(kept.sha256) is None
        assert await access.add_token(token("ann"))

    async def test_the_last_use_of_a_token_only_moves_forward(self, access: AccessStore) -> None:
        await access.add_token(token("ann"))
        for at in (50.0, 70.0, 60.0):
            await access.note_use("ann", at)
        await access.note_use("nobody", 1.0)
        assert [one.last_used for one in access.tokens()] == [70.0]

    async def test_entries_of_the_audit_log_come_back_the_latest_first_with_their_numbers(
        self, access: AccessStore, access_beside: AccessStore
    ) -> None:
        written = [entry(1, object="grüße", origin="::1"), entry(2, outcome="refused", status=403, count=7)]
        await access.record(written)
        await access_beside.record([entry(3)])
        found = access.audit(AuditQuery())
        assert [one.number for one in found] == [3, 2, 1]
        assert (found[2].object, found[1].count, found[1].status) == ("grüße", 7, 403)

    @pytest.mark.parametrize(
        ("query", "numbers"),
        [
            (AuditQuery(limit=2), [5, 4]),
            (AuditQuery(before=4), [3, 2, 1]),
            (AuditQuery(since=entry(3).at), [5, 4, 3]),
            (AuditQuery(until=entry(3).at), [2, 1]),
            (AuditQuery(since=entry(2).at, until=entry(4).at), [3, 2]),
            (AuditQuery(who="bob"), [4, 2]),
            (AuditQuery(who="bob", action="token.add"), [4]),
            (AuditQuery(who="eve"), []),
        ],
    )
    async def test_the_audit_log_is_filtered(self, access: AccessStore, query: AuditQuery, numbers: list[int]) -> None:
        await access.record([entry(1), entry(2, "bob"), entry(3), entry(4, "bob", "token.add"), entry(5)])
        assert [one.number for one in access.audit(query)] == numbers

    async def test_many_who_record_at_once_leave_one_chain_without_a_gap(
        self, access: AccessStore, access_beside: AccessStore
    ) -> None:
        await asyncio.gather(*(store.record([entry(at)]) for at in range(20) for store in (access, access_beside)))
        assert [number for number, _, _ in access.raw_audit()] == list(range(1, 41))
        assert list(verify_audit(access)) == []

    @pytest.mark.parametrize(
        ("before", "left"),
        [(entry(0).at, [1, 2, 3, 4]), (entry(3).at, [3, 4]), (entry(4).at, [4]), (entry(59).at, [4])],
    )
    async def test_old_entries_are_forgotten_but_never_the_latest_one(
        self, access: AccessStore, before: str, left: list[int]
    ) -> None:
        await access.record([entry(at) for at in range(1, 5)])
        assert await access.prune_audit(before) == 4 - len(left)
        assert [number for number, _, _ in access.raw_audit()] == left
        await access.record([entry(9)])
        assert [one.number for one in access.audit(AuditQuery(limit=1))] == [5]
        assert list(verify_audit(access)) == []

    async def test_an_entry_whose_clock_was_wrong_takes_no_others_along(self, access: AccessStore) -> None:
        await access.record([entry(30), entry(1), entry(31)])
        assert await access.prune_audit(entry(20).at) == 0

    async def test_nothing_is_forgotten_of_an_empty_audit_log(self, access: AccessStore) -> None:
        assert await access.prune_audit(entry(59).at) == 0
        assert list(verify_audit(access)) == []

"""SqlAccess and MemoryAccess: tokens and the audit log beside a log of executions, in its database or in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from noetl.model.access import ApiToken, AuditEntry, AuditQuery
from noetl.ports import AccessStore
from noetl.stores.appends import link

Row = tuple[Any, ...]
#: what stands before the first entry of the audit log
AUDIT_ROOT: Final = sha256(b"audit").digest()
_PAGE = 1_000
_token = msgspec.json.Decoder(ApiToken)
_entry = msgspec.json.Decoder(AuditEntry)


class SqlAccess(AccessStore):
    """An `AccessStore` over the queries of a database."""

    def __init__(
        self,
        read: Callable[..., list[Row]],
        write: Callable[..., Awaitable[list[Row]]],
        append: Callable[[Row], Awaitable[None]],
        prune: Callable[[str], Awaitable[int]],
    ) -> None:
        #: a query that reads, and one that writes, by name with its parameters
        self._read, self._write = read, write
        #: appends an entry to the audit log: time, name, action and body; and forgets entries
        self._append, self._prune = append, prune

    def find_token(self, sha256: str) -> ApiToken | None:
        """See the port."""
        return _token_of(self._read("find_token", sha256))

    def tokens(self) -> list[ApiToken]:
        """See the port."""
        return [token for row in self._read("tokens") if (token := _token_of([row])) is not None]

    async def add_token(self, token: ApiToken) -> bool:
        """See the port."""
        return bool(await self._write("add_token", token.name, token.sha256, msgspec.json.encode(token)))

    async def remove_token(self, name: str) -> ApiToken | None:
        """See the port."""
        return _token_of(await self._write("remove_token", name))

    async def note_use(self, name: str, at: float) -> None:
        """See the port."""
        await self._write("note_use", at, name)

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """See the port."""
        for one in entries:
            await self._append((one.at, one.who, one.action, encode_entry(one)))

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """See the port."""
        rows = self._read("audit", query.before, query.since, query.until, query.who, query.action, query.limit)
        return [msgspec.structs.replace(_entry.decode(body), number=number) for number, body in rows]

    async def prune_audit(self, before: str) -> int:
        """See the port."""
        return await self._prune(before)

    def raw_audit(self) -> Iterator[tuple[int, bytes, bytes]]:
        """See the port."""
        after = 0
        while rows := self._read("raw_audit", after, _PAGE):
            yield from ((number, body, digest) for number, body, digest in rows)
            after = rows[-1][0]

    def audit_ends(self) -> tuple[int, bytes, int, bytes]:
        """See the port."""
        forgotten, forgotten_hash, number, digest = self._read("audit_ends")[0]
        return forgotten, forgotten_hash, number, digest


class MemoryAccess(AccessStore):
    """An `AccessStore`; several logs in memory may share one."""

    def __init__(self) -> None:
        self._tokens: dict[str, ApiToken] = {}
        self._entries: list[tuple[int, bytes, bytes]] = []
        self._forgotten = self._last = (0, AUDIT_ROOT)

    def find_token(self, sha256: str) -> ApiToken | None:
        """See the port."""
        return next((one for one in self._tokens.values() if one.sha256 == sha256), None)

    def tokens(self) -> list[ApiToken]:
        """See the port."""
        return [self._tokens[name] for name in sorted(self._tokens)]

    async def add_token(self, token: ApiToken) -> bool:
        """See the port."""
        return self._tokens.setdefault(token.name, token) is token

    async def remove_token(self, name: str) -> ApiToken | None:
        """See the port."""
        return self._tokens.pop(name, None)

    async def note_use(self, name: str, at: float) -> None:
        """See the port."""
        found = self._tokens.get(name)
        if found is not None and (found.last_used or 0) < at:
            self._tokens[name] = msgspec.structs.replace(found, last_used=at)

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """See the port."""
        for one in entries:
            body = encode_entry(one)
            self._last = self._last[0] + 1, link(self._last[1], body)
            self._entries.append((self._last[0], body, self._last[1]))

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """See the port."""
        found = [
            msgspec.structs.replace(_entry.decode(body), number=number) for number, body, _ in reversed(self._entries)
        ]
        return [one for one in found if _is_wanted(one, query)][: query.limit]

    async def prune_audit(self, before: str) -> int:
        """See the port."""
        count = len(self._entries)
        young = next((at for at, row in enumerate(self._entries) if _entry.decode(row[1]).at >= before), count)
        gone = min(young, max(0, count - 1))
        if gone:
            self._forgotten = self._entries[gone - 1][0], self._entries[gone - 1][2]
            del self._entries[:gone]
        return gone

    def raw_audit(self) -> Iterator[tuple[int, bytes, bytes]]:
        """See the port."""
        yield from list(self._entries)

    def audit_ends(self) -> tuple[int, bytes, int, bytes]:
        """See the port."""
        return (*self._forgotten, *self._last)


def encode_entry(entry: AuditEntry) -> bytes:
    """Return an entry as it is stored: its number is that of its row."""
    return msgspec.json.encode(msgspec.structs.replace(entry, number=0))


def _token_of(rows: Sequence[Row]) -> ApiToken | None:
    if not rows:
        return None
    body, last_used = rows[0]
    return msgspec.structs.replace(_token.decode(body), last_used=last_used)


def _is_wanted(entry: AuditEntry, query: AuditQuery) -> bool:
    return (
        (query.before is None or entry.number < query.before)
        and (query.since is None or entry.at >= query.since)
        and (query.until is None or entry.at < query.until)
        and (query.who is None or entry.who == query.who)
        and (query.action is None or entry.action == query.action)
    )

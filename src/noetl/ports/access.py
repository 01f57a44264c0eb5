"""The access store: tokens and the audit log, beside the executions, for all processes that share them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from noetl.model.access import ApiToken, AuditEntry, AuditQuery


class AccessStore(Protocol):
    """Who may call, and who called. StoreFailed: the store cannot be read or written now."""

    def find_token(self, sha256: str) -> ApiToken | None:
        """The token of a hash; None: there is none, or not any more."""

    def tokens(self) -> list[ApiToken]:
        """All tokens, expired ones too, by name."""

    async def add_token(self, token: ApiToken) -> bool:
        """Keep a token; False: its name is taken."""

    async def remove_token(self, name: str) -> ApiToken | None:
        """Forget a token; None: there is none of that name."""

    async def note_use(self, name: str, at: float) -> None:
        """Keep when a token was last shown; an earlier time than the one that is kept changes nothing."""

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Append to the audit log; durable when this returns. Each entry gets the next number, without a gap."""

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Entries, the latest first."""

    async def prune_audit(self, before: str) -> int:
        """Forget the entries that are older than a time; how many. The latest one of all stays, and all after a younger one."""

    def raw_audit(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The entries as they are stored: number, body and hash, in order; nothing is checked."""

    def audit_ends(self) -> tuple[int, bytes, int, bytes]:
        """Number and hash of the last entry that was forgotten, and of the last one that was written."""


@runtime_checkable
class HasAccess(Protocol):
    """A log beside which tokens and the audit log are kept."""

    def access(self) -> AccessStore:
        """The access store."""

"""Idempotency keys: an execution that is asked for with a key starts once, however often and wherever it is asked for."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from noetl.errors import NoetlError
from noetl.ports import EventLog, Summary
from noetl.server.core.execution_ids import id_of_earlier_key

#: characters of a key
LONGEST_KEY: Final = 255


class KeyReused(NoetlError):
    """A key that has started an execution comes with another request."""

    def __init__(self, key: str, execution_id: str) -> None:
        super().__init__(f"the key {key!r} was used for another request, which started {execution_id}")
        self.execution_id = execution_id


class StartKey(msgspec.Struct, frozen=True):
    """A caller's key for one execution, and the digest of what it is asked for with."""

    caller: str
    key: str
    digest: str

    def describe(self) -> dict[str, str]:
        """Return what the first event holds of it, as `asked`; the store finds the key there."""
        by = {"by": self.caller} if self.caller else {}
        return {**by, "key": self.key, "digest": self.digest}


def digest_request(request: dict[str, Any]) -> str:
    """Return what tells one request for an execution from another, however its JSON is spelled."""
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()


def find_started(log: EventLog, key: StartKey) -> Summary | None:
    """Return the execution that was started with a key; None: there is none. KeyReused: by another request."""
    execution_id = log.execution_of_key(key.caller, key.key)
    found = log.summary(execution_id or id_of_earlier_key(key.caller, key.key))
    if found is None:
        return None
    first = log.read(found.execution_id, limit=1)[0]
    if (first.payload.get("asked") or {}).get("digest") != key.digest:
        raise KeyReused(key.key, found.execution_id)
    return found

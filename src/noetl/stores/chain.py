"""The hash chain over an execution's log: no event can be changed, left out or moved unnoticed."""

from __future__ import annotations

from hashlib import sha256


def root(execution_id: str) -> bytes:
    """What stands before the first event."""
    return sha256(execution_id.encode()).digest()


def link(before: bytes, body: bytes) -> bytes:
    """The hash of an event, from that of the event before it and its own stored bytes."""
    return sha256(before + body).digest()

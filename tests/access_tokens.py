"""Tokens for processes under test that do not share the home of their server: in a file that servers read at their start."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from noetl.model.access import ApiToken, Role
from noetl.server.http.access import new_token
from noetl.server.http.access.tokens import hash_token


def give_access(folder: Path, role: Role = "admin") -> dict[str, str]:
    """Make a token; return the variables that make servers admit it, and clients and workers show it."""
    token, path = new_token(), folder / "tokens.json"
    kept = ApiToken("tests", role, hash_token(token), token[-4:], "2026-01-01T00:00:00+00:00")
    folder.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_bytes(msgspec.json.encode([kept]))
    # Load is not what they are tested for, unless a test says so.
    limits = {"NOETL_TOKEN_RATE": "0", "NOETL_ADDRESS_RATE": "0"}
    return {"NOETL_TOKENS": str(path), "NOETL_TOKEN": token, **limits}


def authorization(environment: dict[str, str] | None = None) -> dict[str, str]:
    """Return the header that shows the token."""
    return {"Authorization": f"Bearer {(environment or os.environ)['NOETL_TOKEN']}"}

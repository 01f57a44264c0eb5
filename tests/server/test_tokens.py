"""What is kept of tokens."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from noetl.server.http.api_tokens import PREFIX, ApiTokens

from noetl.errors import UsageError


@pytest.fixture
def tokens(tmp_path: Path) -> ApiTokens:
    return ApiTokens(tmp_path / "new" / "tokens.json", lambda: 1000.0)


def test_a_token_is_known_by_its_hash_alone(tokens: ApiTokens) -> None:
    token = tokens.add("ann", "author")
    assert token.startswith(PREFIX)
    assert len(token) >= 45
    assert token.removeprefix(PREFIX) not in tokens.path.read_text()
    found = tokens.of(token)
    assert found is not None
    assert (found.name, found.role, found.hint) == ("ann", "author", token[-4:])
    assert tokens.of(token[:-1]) is None
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600


def test_what_another_process_changed_is_seen_at_once(tokens: ApiTokens) -> None:
    other = ApiTokens(tokens.path, lambda: 1000.0)
    token = other.add("ann", "viewer")
    assert tokens.of(token) is not None
    other.add("bob", "viewer")
    assert [one.name for one in tokens.all()] == ["ann", "bob"]
    other.remove("ann")
    assert tokens.of(token) is None
    assert other.remove("ann") is None


def test_there_are_no_two_tokens_of_a_name(tokens: ApiTokens) -> None:
    tokens.add("ann", "viewer")
    with pytest.raises(UsageError, match="already"):
        tokens.add("ann", "admin")


def test_a_file_that_cannot_be_read_lets_nobody_in(tokens: ApiTokens) -> None:
    tokens.add("ann", "viewer")
    tokens.path.write_text("[{")
    with pytest.raises(UsageError, match="cannot be read"):
        tokens.all()

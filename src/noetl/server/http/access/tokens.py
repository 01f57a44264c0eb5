"""KnownTokens: the tokens of the store, of a file and of the server's owner, as a server looks them up.

A token is 256 random bits; what is kept of it is its hash. What the store says of one is believed for half a second, so a
token that was removed, by whichever server, is refused within a second.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from noetl.errors import NoetlError, UsageError, describe_os_error
from noetl.lru import LruCache
from noetl.model.access import OWNER, TOKEN_PREFIX, ApiToken, TokenRequest
from noetl.ports import AccessStore

#: seconds for which what the store said of a token is believed
BELIEVED_S: Final = 0.5
#: seconds between two notes in the store that a token is in use
_NOTED_S: Final = 60.0
#: tokens that are remembered
_MOST_KNOWN: Final = 10_000
_tokens = msgspec.json.Decoder(list[ApiToken])


def new_token() -> str:
    """Return a token that nobody can guess."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def make_owner_token(token: str) -> ApiToken:
    """Return what a server knows of the token that it makes for its owner."""
    return ApiToken(OWNER, "admin", hash_token(token), token[-4:], "")


async def add_token(
    store: AccessStore, file: TokenFile, request: TokenRequest, clock: Callable[[], float]
) -> tuple[str, ApiToken]:
    """Make a token; it is returned this once, with what is kept of it. UsageError: it cannot be, or its name is taken."""
    token, now = new_token(), clock()
    created_at = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    kept = request.make_token(hash_token(token), token[-4:], created_at, now)
    if any(one.name == kept.name for one in file.read()) or not await store.add_token(kept):
        raise UsageError(f"there is a token {kept.name!r} already; `noetl token remove {kept.name}` removes it")
    return token, kept


async def remove_token(store: AccessStore, file: TokenFile, name: str) -> ApiToken | None:
    """Forget a token, wherever it is kept; None: there is none of that name."""
    return await store.remove_token(name) or await asyncio.to_thread(file.remove, name)


class TokenFile:
    """The tokens of a file: those that earlier versions made, or that a deployment provides. It is read when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: list[ApiToken] = []

    def read(self) -> list[ApiToken]:
        """Return the tokens, expired ones too. UsageError: the file cannot be read."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._seen, self._tokens = None, []
            return []
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            try:
                self._tokens = _tokens.decode(self.path.read_bytes())
            except (OSError, msgspec.MsgspecError) as error:
                raise UsageError(f"{self.path}: the tokens cannot be read: {describe_os_error(error)}") from None
            self._seen = seen
        return self._tokens

    def remove(self, name: str) -> ApiToken | None:
        """Take a token out of the file; None: there is none of that name."""
        known = self.read()
        found = next((one for one in known if one.name == name), None)
        if found is not None:
            self._write([one for one in known if one is not found])
        return found

    def _write(self, tokens: list[ApiToken]) -> None:
        """Never half a file, and nobody else may read it."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as target:
            target.write(msgspec.json.format(msgspec.json.encode(tokens), indent=2) + b"\n")
            target.flush()
            os.fsync(target.fileno())
        draft.replace(self.path)


class _Believed(NamedTuple):
    """What was said of a token, and until when that is believed."""

    token: ApiToken | None
    until: float


class KnownTokens:
    """The tokens that a server admits."""

    def __init__(
        self, store: AccessStore, file: TokenFile, clock: Callable[[], float], owner: ApiToken | None = None
    ) -> None:
        self.store, self.file = store, file
        self._clock, self._owner = clock, owner
        self._known: LruCache[str, _Believed] = LruCache(_MOST_KNOWN)
        self._looking: dict[str, asyncio.Task[ApiToken | None]] = {}
        #: when the use of a token was last noted
        self._noted: LruCache[str, float] = LruCache(_MOST_KNOWN)
        self._tasks: set[asyncio.Task[None]] = set()

    def are_configured(self) -> bool:
        """Return whether anybody has made a token: that of the owner does not count."""
        return bool(self.file.read() or self.store.tokens())

    def was_valid(self, presented: str) -> bool:
        """Return whether a token is remembered as one that was valid a while ago."""
        digest = hash_token(presented)
        found = self._known.get(digest)
        return (found is not None and found.token is not None) or self._is_owner(digest)

    def _is_owner(self, digest: str) -> bool:
        return self._owner is not None and hmac.compare_digest(self._owner.sha256, digest)

    async def find(self, presented: str) -> ApiToken | None:
        """Return the token that was presented; None: it is none, or not any more. NoetlError: that cannot be told now."""
        digest = hash_token(presented)
        if self._is_owner(digest):
            return self._owner
        believed = self._known.get(digest)
        if believed is None or believed.until <= monotonic():
            found = await self._look_up(digest)
        else:
            found = believed.token
        if found is None or not hmac.compare_digest(found.sha256, digest) or found.is_expired(self._clock()):
            return None
        self._note_use(found)
        return found

    async def is_valid(self, token: ApiToken) -> bool:
        """Return whether a token that was admitted still is."""
        if token is self._owner:
            return True
        believed = self._known.get(token.sha256)
        found = believed.token if believed and believed.until > monotonic() else await self._look_up(token.sha256)
        return found is not None and not found.is_expired(self._clock())

    async def _look_up(self, digest: str) -> ApiToken | None:
        """Ask the store, once for all that ask at the same time."""
        task = self._looking.get(digest)
        if task is None:
            task = self._looking[digest] = asyncio.create_task(asyncio.to_thread(self._read, digest))
            task.add_done_callback(lambda done: self._on_looked_up(digest, done))
        return await asyncio.shield(task)

    def _read(self, digest: str) -> ApiToken | None:
        found = None
        for one in self.file.read():  # all of them, always: how long it takes says nothing
            if hmac.compare_digest(one.sha256, digest):
                found = one
        return found or self.store.find_token(digest)

    def _on_looked_up(self, digest: str, done: asyncio.Task[ApiToken | None]) -> None:
        del self._looking[digest]
        if done.cancelled() or done.exception() is not None:
            return
        found = done.result()
        if found is not None or self._known.get(digest) is not None:  # guesses push out nothing
            self._known.put(digest, _Believed(found, monotonic() + BELIEVED_S))

    def _note_use(self, token: ApiToken) -> None:
        """Let the store know, now and then, that a token is in use."""
        now = self._clock()
        if now - max(self._noted.get(token.name) or 0.0, token.last_used or 0.0) < _NOTED_S:
            return
        self._noted.put(token.name, now)
        task = asyncio.create_task(self._write_use(token.name, now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_use(self, name: str, now: float) -> None:
        with suppress(NoetlError):  # it is noted the next time
            await self.store.note_use(name, now)

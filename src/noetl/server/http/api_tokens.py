"""Tokens: who may call the API, and as what. Their hashes lie in a file; a token itself is shown once, when it is made."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from noetl.errors import UsageError, describe_os_error

Permission = Literal["open", "read", "operate", "author", "admin", "work"]
Role = Literal["viewer", "operator", "author", "admin", "worker"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
#: what each may do; `open` is for everybody, without a token too
MAY: Final[dict[Role, frozenset[Permission]]] = {
    "viewer": frozenset({"open", "read"}),
    "operator": frozenset({"open", "read", "operate"}),
    "author": frozenset({"open", "read", "operate", "author"}),
    "admin": frozenset(get_args(Permission)),
    "worker": frozenset({"open", "work"}),
}
#: what every token begins with, so that one is recognized where it should not be
PREFIX = "noetl_"


class ApiToken(msgspec.Struct, frozen=True):
    """What is kept of a token."""

    name: str
    role: Role
    sha256: str
    #: its last characters, to tell it from others
    hint: str
    created_at: str
    #: seconds since the epoch; None: it holds until it is removed
    expires: float | None = None


_tokens = msgspec.json.Decoder(list[ApiToken])


class ApiTokens:
    """The tokens of a file, which is read again whenever it has changed: one that was removed holds no longer."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._tokens: list[ApiToken] = []

    def all(self) -> list[ApiToken]:
        """Those that there are, expired ones too. UsageError: the file cannot be read."""
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

    def of(self, presented: str) -> ApiToken | None:
        """The token that was presented; None: it is none, or not any more."""
        digest = _digest(presented)
        found = None
        for one in self.all():  # all of them, always: how long it takes says nothing
            if hmac.compare_digest(one.sha256, digest):
                found = one
        if found is None or (found.expires is not None and found.expires <= self._clock()):
            return None
        return found

    def add(self, name: str, role: Role, *, lasts: float | None = None) -> str:
        """Make a token and keep its hash; the token itself is not kept anywhere."""
        known = self.all()
        if any(one.name == name for one in known):
            raise UsageError(f"there is a token {name!r} already; `noetl token remove {name}` removes it")
        token, now = PREFIX + secrets.token_urlsafe(32), self._clock()
        made = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        expires = None if lasts is None else now + lasts
        self._write([*known, ApiToken(name, role, _digest(token), token[-4:], made, expires)])
        return token

    def remove(self, name: str) -> ApiToken | None:
        """Take a token away; None: there was none of that name."""
        known = self.all()
        found = next((one for one in known if one.name == name), None)
        if found is not None:
            self._write([one for one in known if one is not found])
        return found

    def _write(self, tokens: list[ApiToken]) -> None:
        """Never half a file, and nobody else may read it."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as target:
            target.write(msgspec.json.format(msgspec.json.encode(tokens), indent=2) + b"\n")
            target.flush()
            os.fsync(target.fileno())
        draft.replace(self.path)


def roles_with(permission: Permission) -> str:
    """The roles that may do something, in words."""
    *most, last = [f"`{role}`" for role in ROLES if permission in MAY[role]]
    return f"{', '.join(most)} and {last} may" if most else f"{last} may"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()

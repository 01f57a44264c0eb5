"""Access: roles and what each may do, the tokens that callers show, and what each token is for. Entries of the audit log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import msgspec

from noetl.errors import UsageError

Permission = Literal["open", "read", "operate", "author", "admin", "work"]
Role = Literal["viewer", "operator", "author", "admin", "worker"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
#: what each may do; `open` needs no token
MAY: Final[dict[Role, frozenset[Permission]]] = {
    "viewer": frozenset({"open", "read"}),
    "operator": frozenset({"open", "read", "operate"}),
    "author": frozenset({"open", "read", "operate", "author"}),
    "admin": frozenset(get_args(Permission)),
    "worker": frozenset({"open", "work"}),
}
#: what every token begins with, so that one is recognized where it should not be
TOKEN_PREFIX: Final = "noetl_"  # noqa: S105  the beginning of every token, and no secret
#: the name of the token that a server makes for its owner
OWNER: Final = "owner"
#: the pool of a worker's token that names none, and what stands for every pool
DEFAULT_POOL, ANY_POOL = "default", "*"
#: of a token: characters of its name, how many path prefixes, and characters of each
_LONGEST_NAME, _MOST_PATHS, _LONGEST_PATH = 100, 100, 500
#: seconds for which a token may be valid
_LONGEST_S = 100 * 366 * 86_400
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_WORKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\*?")


def roles_with(permission: Permission) -> str:
    """Return the roles that may do something, in words."""
    *most, last = [f"`{role}`" for role in ROLES if permission in MAY[role]]
    return f"{', '.join(most)} and {last} may" if most else f"{last} may"


class ApiToken(msgspec.Struct, frozen=True):
    """What is kept of a token: never the token itself, but its hash."""

    name: str
    role: Role
    #: empty: it is not shown
    sha256: str = ""
    #: its last characters, to tell it from others
    hint: str = ""
    created_at: str = ""
    #: seconds since the epoch; None: it is valid until it is removed
    expires: float | None = None
    #: the playbook paths that it may see, start and change: `crm/sync`, or `crm/*` for all below; none: all
    paths: tuple[str, ...] = ()
    #: of a worker's: what its workers are called, `w1` (and `w1-…`) or `gpu*`; None: any name that is no other token's
    worker: str | None = None
    #: of a worker's: the pools that it may serve; none: all
    pools: tuple[str, ...] = ()
    #: when it was last shown to a server, to the minute; in seconds since the epoch
    last_used: float | None = None

    def is_expired(self, now: float) -> bool:
        """Return whether its time is over."""
        return self.expires is not None and self.expires <= now

    def may_see(self, path: str) -> bool:
        """Return whether it is for playbooks of a path."""
        return allows_path(self.paths, path)

    def may_be(self, worker: str) -> bool:
        """Return whether workers with this token may have a name."""
        if self.worker is None:
            return True
        if self.worker.endswith("*"):
            return worker.startswith(self.worker[:-1])
        return worker == self.worker or worker.startswith(f"{self.worker}-")

    def foreign_pools(self, pools: Iterable[str]) -> list[str]:
        """Return those of some pools that workers with this token may not serve."""
        return [one for one in pools if one not in self.pools] if self.pools else []


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token that is wanted."""

    name: str
    role: Role
    #: the playbook paths that it is for, such as `crm/*`; none: all
    paths: tuple[str, ...] = ()
    #: of a worker's: the name of its workers, or the beginning of one with `*` at the end
    worker: str | None = None
    #: of a worker's: its pools; none: `default`; `*`: all
    pools: tuple[str, ...] = ()
    #: seconds that it is valid; None: until it is removed
    expires_s: float | None = None

    def make_token(self, sha256: str, hint: str, created_at: str, now: float) -> ApiToken:
        """Return what is kept of the token. UsageError: there can be no such token."""
        self._check()
        pools = self.pools or ((DEFAULT_POOL,) if self.role == "worker" else ())
        return ApiToken(
            self.name,
            self.role,
            sha256,
            hint,
            created_at,
            None if self.expires_s is None else now + self.expires_s,
            () if "*" in self.paths else tuple(dict.fromkeys(self.paths)),
            self.worker,
            () if ANY_POOL in pools else tuple(dict.fromkeys(pools)),
        )

    def _check(self) -> None:
        if len(self.name) > _LONGEST_NAME or not _NAME.fullmatch(self.name) or self.name == OWNER:
            raise UsageError(
                f"{self.name[:_LONGEST_NAME]!r} is no name for a token: use up to {_LONGEST_NAME} letters, digits and "
                f"`.`, `_`, `@`, `+`, `-`, and not `{OWNER}`"
            )
        if self.expires_s is not None and not 0 < self.expires_s <= _LONGEST_S:
            raise UsageError("a token is valid for a time above zero and below 100 years, or until it is removed")
        is_worker = self.role == "worker"
        if not is_worker and (self.worker is not None or self.pools):
            raise UsageError(
                f"only a token with the role `worker` is for a worker and its pools; this one is `{self.role}`"
            )
        if is_worker and self.paths:
            raise UsageError(
                "a token with the role `worker` is limited by its worker's name and its pools, not by paths"
            )
        if self.worker is not None and not (_WORKER.fullmatch(self.worker) and len(self.worker) <= _LONGEST_NAME):
            raise UsageError(f"{self.worker[:_LONGEST_NAME]!r} names no worker: write a name, or its beginning and `*`")
        _check_paths(self.paths)
        if len(self.pools) > _MOST_PATHS or any(not one or len(one) > _LONGEST_PATH for one in self.pools):
            raise UsageError(
                f"a token has up to {_MOST_PATHS} pools, each with a name of up to {_LONGEST_PATH} characters"
            )


def _check_paths(paths: Sequence[str]) -> None:
    if len(paths) > _MOST_PATHS or any(len(one) > _LONGEST_PATH for one in paths):
        raise UsageError(f"a token has up to {_MOST_PATHS} paths, each of up to {_LONGEST_PATH} characters")
    for one in paths:
        if one != "*" and ("*" in one.removesuffix("/*") or not one.removesuffix("/*") or not one.isprintable()):
            raise UsageError(
                f"{one!r} is no path of playbooks: write a path, or `crm/*` for all that begin with `crm/`"
            )


def allows_path(paths: Sequence[str], path: str) -> bool:
    """Return whether a playbook's path is among some, each a path or `prefix/*`; none are all. As the queries of stores do."""
    if not paths:
        return True
    return any(path == one or (one.endswith("/*") and path.startswith(one[:-1])) for one in paths)


class AuditEntry(msgspec.Struct, frozen=True):
    """A call that changed something or was refused, or a command on a local store."""

    #: in UTC, to the millisecond
    at: str
    #: the name of the token; of a command, the user of the system; empty: nobody is known
    who: str
    #: what was wanted, such as `execution.cancel`; of what reached no route, its method and path
    action: str
    #: on what: the id and path of an execution, the name of a token …
    object: str = ""
    #: from where: the address of the caller; of a command, the machine
    origin: str = ""
    outcome: Literal["done", "refused", "failed"] = "done"
    #: the status of the answer; None: of a command
    status: int | None = None
    #: why it was refused
    reason: str = ""
    #: how many such calls this entry stands for, and when the last of them came
    count: int = 1
    until: str = ""
    #: its place in the log; 0: it is not there yet
    number: int = 0


def format_time(at: float) -> str:
    """Return a time, in seconds since the epoch, as the audit log has it: such texts are in the order of their times."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


class AuditQuery(msgspec.Struct, frozen=True):
    """Which entries of the audit log are wanted."""

    since: str | None = None
    until: str | None = None
    who: str | None = None
    action: str | None = None
    #: only entries before this one
    before: int | None = None
    limit: int = 100

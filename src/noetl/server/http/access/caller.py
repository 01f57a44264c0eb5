"""Caller: who makes a call, from where, and what of the executions and workers is theirs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.model.access import MAY, OWNER, ApiToken, Permission
from noetl.server.http.bodies import HttpProblem

#: characters of a worker's name
_LONGEST_NAME = 200


class Caller(msgspec.Struct, frozen=True):
    """Who makes a call."""

    #: from where; a proxy, if there is one
    address: str
    #: None: nobody is known, and the route is open
    token: ApiToken | None = None

    @property
    def name(self) -> str:
        """The name of the token; empty: nobody is known."""
        return self.token.name if self.token is not None else ""

    @property
    def recorded_name(self) -> str:
        """The name that executions and idempotency keys get; the owner has none there, as commands on this machine have none."""
        return "" if self.name == OWNER else self.name

    @property
    def paths(self) -> tuple[str, ...]:
        """The playbook paths that they may see, start and change; none: all."""
        return self.token.paths if self.token is not None else ()

    def may(self, permission: Permission) -> bool:
        """Return whether their role has a permission."""
        return self.token is not None and permission in MAY[self.token.role]

    def may_see(self, path: str) -> bool:
        """Return whether playbooks of a path are theirs to see."""
        return self.token is not None and self.token.may_see(path)

    def check_path(self, path: str) -> None:
        """Refuse a playbook, given with its text, whose path is not theirs."""
        if not self.may_see(path):
            mine = ", ".join(f"`{one}`" for one in self.paths)
            raise HttpProblem(403, f"this token is for the playbooks {mine}, and this one's path is {path!r}")

    def check_worker(self, worker: str, pools: Iterable[str]) -> None:
        """Refuse a worker whose name or pools are not those of the token."""
        token = self.token
        if not 0 < len(worker) <= _LONGEST_NAME or not worker.isprintable():
            raise HttpProblem(400, f"a worker's name has 1 to {_LONGEST_NAME} printable characters")
        if token is None or not token.may_be(worker):
            name = token.worker if token is not None else None
            raise HttpProblem(
                403,
                f"this token is for workers named `{name}`, not {worker!r}: start them with `noetl worker --name NAME`",
            )
        if foreign := token.foreign_pools(pools):
            mine, others = ", ".join(f"`{one}`" for one in token.pools), ", ".join(f"`{one}`" for one in foreign)
            raise HttpProblem(
                403, f"this token is for the pools {mine}, not {others}: `noetl token add --pool` names pools"
            )

"""Credentials of one execution, as its tasks use them. Each docstring is the contract."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from noetl.errors import NoetlError
from noetl.redaction import Redactor


class NoCredential(NoetlError):
    """A credential is not there, or is not what it should be. The message never holds a value."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class Keychain(Protocol):
    """The credentials of one execution, where its tasks run. What it has found out is in `redactor`, before anybody else.

    NoCredential: one is missing, or whoever keeps it does not answer.
    """

    #: knows every value that was found
    redactor: Redactor
    #: whether the playbook declares any
    declared: bool
    #: what templates read as `keychain`
    scope: dict[str, Any]

    async def ready(self, reading: Collection[str] = ()) -> None:
        """Resolve all that is declared; of those that templates read, have tokens that hold."""

    async def credential(self, name: str) -> dict[str, Any]:
        """A credential for use now: its `kind`, its parts, and a token that holds where it has one."""

    async def renew_credential(self, name: str, used: Mapping[str, Any]) -> dict[str, Any] | None:
        """The same with another token than the one that was refused; None: it is of a kind that has none."""

    async def secret(self, provider: str, secret: str, key: str | None) -> Any:
        """A secret that no keychain declares."""

    def close(self) -> None:
        """Forget it all: the execution is over."""

"""What a result store needs of the place where its payloads lie. Each docstring is the law."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.results.names import Place


class Lying(msgspec.Struct, frozen=True):
    """A payload that lies on a shelf."""

    place: Place
    bytes: int
    #: when it was put there
    since: float


class Half(msgspec.Struct, frozen=True):
    """What was left of a payload by somebody who was killed while putting it there."""

    #: as people are told of it
    shown: str
    bytes: int
    remove: Callable[[], None]


class Shelf(Protocol):
    """A place for whole files. StoreFailed: it cannot be reached, or refuses; the message has no secret in it."""

    @property
    def kind(self) -> str:
        """The type of references to it."""

    @property
    def auth_reference(self) -> str | None:
        """What its references say of the credential that opens it."""

    def locator(self, place: Place) -> dict[str, Any]:
        """What its references say of a place."""

    def place(self, reference: Mapping[str, Any]) -> Place | None:
        """Where a reference leads; None: to another place of this kind. UsageError: to no payload at all."""

    def put(self, draft: Path, place: Place) -> None:
        """Take a file away and keep it, as a whole or not at all; durable when this returns. Twice is as good as once."""

    def local(self, place: Place) -> Path:
        """A file of this machine with the payload in it. ResultGone: it is not there any more."""

    def listed(self) -> Iterator[Lying]:
        """What lies there."""

    def halves(self, before: float) -> Iterator[Half]:
        """What lies there since before then and will never be a payload."""

    def shown(self, place: Place) -> str:
        """A place as people are told of it."""

    def remove(self, place: Place) -> None:
        """Remove a payload; one that is gone already is no matter."""

    def close(self) -> None:
        """Let go of connections."""

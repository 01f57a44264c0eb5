"""What a result store needs of the place where its payloads lie. Each docstring is the law."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.errors import UsageError
from noetl.results import codec

# Names of payloads: the hash of the bytes, when they expire, of what kind they are.
#
# So removing what is over needs no index, writing twice changes nothing, and reading trusts no reference.


#: the parts of a list that was stored piece by piece
MANIFEST = "application/vnd.noetl.parts+json"
#: a folder of a store that is no execution
DRAFTS = "drafts"
_SUFFIXES = {**codec.SUFFIXES, MANIFEST: ".parts.json.zst"}
_NAME = re.compile(
    rf"(?P<hash>[0-9a-f]{{32}})(\.x(?P<expires>\d+))?(?P<suffix>{'|'.join(map(re.escape, _SUFFIXES.values()))})"
)
_OWNER = re.compile(r"\w[\w-]*")


class PayloadPlace(msgspec.Struct, frozen=True):
    """Where in a store a payload lies."""

    #: the execution it belongs to
    owner: str
    #: how the hash of its bytes begins
    hash: str
    content_type: str
    #: milliseconds
    expires: int | None = None

    def __str__(self) -> str:
        expires = "" if self.expires is None else f".x{self.expires}"
        return f"{self.owner}/{self.hash}{expires}{_SUFFIXES[self.content_type]}"

    def is_over(self, now: float) -> bool:
        """Whether its time has run out."""
        return self.expires is not None and self.expires <= now * 1000


def parse_place(text: str) -> PayloadPlace | None:
    """What a text names; None: nothing in a store has such a name."""
    owner, _, name = text.partition("/")
    found = _NAME.fullmatch(name)
    if found is None or not _OWNER.fullmatch(owner) or owner == DRAFTS:
        return None
    content_type = next(kind for kind, suffix in _SUFFIXES.items() if suffix == found["suffix"])
    return PayloadPlace(owner, found["hash"], content_type, int(found["expires"]) if found["expires"] else None)


def read_locator(locator: Any, key: str) -> str:
    """A part of a reference's locator. UsageError: it has none."""
    said = locator.get(key) if isinstance(locator, Mapping) else None
    if not isinstance(said, str):
        raise UsageError(f"the reference does not say where in the result store its payload is (`locator.{key}`)")
    return said


def require_place(text: str, said: str) -> PayloadPlace:
    """The place that a reference leads to. They come from playbooks too: none leads out of the store."""
    found = parse_place(text)
    if found is None:
        raise UsageError(f"the reference does not lead to a payload of this result store: {said[:200]!r}")
    return found


class BackendEntry(msgspec.Struct, frozen=True):
    """A payload in a backend."""

    place: PayloadPlace
    bytes: int
    #: when it was put there
    since: float


class PartialPayload(msgspec.Struct, frozen=True):
    """What was left of a payload by somebody who was killed while putting it there."""

    #: as people are told of it
    display_name: str
    bytes: int
    remove: Callable[[], None]


class PayloadBackend(Protocol):
    """A place for whole files. StoreFailed: it cannot be reached, or refuses; the message has no secret in it."""

    @property
    def kind(self) -> str:
        """The type of references to it."""

    @property
    def auth_reference(self) -> str | None:
        """What its references say of the credential that opens it."""

    def locator(self, place: PayloadPlace) -> dict[str, Any]:
        """What its references say of a place."""

    def place(self, reference: Mapping[str, Any]) -> PayloadPlace | None:
        """Where a reference leads; None: to another place of this kind. UsageError: to no payload at all."""

    def put(self, draft: Path, place: PayloadPlace) -> None:
        """Take a file away and keep it, as a whole or not at all; durable when this returns. Twice is as good as once."""

    def local(self, place: PayloadPlace) -> Path:
        """A file of this machine with the payload in it. ResultGone: it is not there any more."""

    def list_entries(self) -> Iterator[BackendEntry]:
        """What lies there."""

    def list_partial(self, before: float) -> Iterator[PartialPayload]:
        """What lies there since before then and will never be a payload."""

    def display_name(self, place: PayloadPlace) -> str:
        """A place as people are told of it."""

    def remove(self, place: PayloadPlace) -> None:
        """Remove a payload; one that is gone already is no matter."""

    def close(self) -> None:
        """Let go of connections."""

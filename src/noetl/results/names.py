"""Names of payloads: the hash of the bytes, when they expire, of what kind they are.

So removing what is over needs no index, writing twice changes nothing, and reading trusts no reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.results import codec

#: the parts of a list that was stored piece by piece
MANIFEST = "application/vnd.noetl.parts+json"
#: a folder of a store that is no execution
DRAFTS = "drafts"
_SUFFIXES = {**codec.SUFFIXES, MANIFEST: ".parts.json.zst"}
_NAME = re.compile(
    rf"(?P<hash>[0-9a-f]{{32}})(\.x(?P<expires>\d+))?(?P<suffix>{'|'.join(map(re.escape, _SUFFIXES.values()))})"
)
_OWNER = re.compile(r"\w[\w-]*")


class Place(msgspec.Struct, frozen=True):
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


def place_of(text: str) -> Place | None:
    """What a text names; None: nothing in a store has such a name."""
    owner, _, name = text.partition("/")
    found = _NAME.fullmatch(name)
    if found is None or not _OWNER.fullmatch(owner) or owner == DRAFTS:
        return None
    content_type = next(kind for kind, suffix in _SUFFIXES.items() if suffix == found["suffix"])
    return Place(owner, found["hash"], content_type, int(found["expires"]) if found["expires"] else None)


def named(locator: Any, key: str) -> str:
    """A part of a reference's locator. UsageError: it has none."""
    said = locator.get(key) if isinstance(locator, Mapping) else None
    if not isinstance(said, str):
        raise UsageError(f"the reference does not say where in the result store its payload is (`locator.{key}`)")
    return said


def believed(text: str, said: str) -> Place:
    """The place that a reference leads to. They come from playbooks too: none leads out of the store."""
    found = place_of(text)
    if found is None:
        raise UsageError(f"the reference does not lead to a payload of this result store: {said[:200]!r}")
    return found

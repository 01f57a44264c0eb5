"""Encryption at rest: each version of a credential under a key of its own, which lies wrapped under the master key.

AES-256-GCM both times. What a ciphertext belongs to is authenticated with it, so that none can stand in for another;
to change the master key is to wrap the small keys anew.
"""

from __future__ import annotations

import binascii
import hashlib
import secrets
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.config import Secret
from noetl.ports import NoCredential
from noetl.secrets import aead

_BYTES = 32
_NONCE = 12


class Key(msgspec.Struct, frozen=True):
    """A master key."""

    secret: Secret

    @property
    def id(self) -> str:
        """What tells it from others, and nothing about it."""
        return hashlib.sha256(b"noetl master key:" + self.raw).hexdigest()[:16]

    @property
    def raw(self) -> bytes:
        """Its bytes."""
        return _decoded(self.secret.reveal())


class Sealed(msgspec.Struct, frozen=True):
    """What is kept of a secret value."""

    #: the master key's id
    key: str
    #: the value's own key, encrypted, and the value, encrypted; both with their nonce in front, in base64
    wrapped: str
    data: str


def new_key() -> Key:
    """A master key that nobody has had before."""
    return Key(Secret(urlsafe_b64encode(secrets.token_bytes(_BYTES)).decode()))


def key_of(text: str, where: str) -> Key:
    """A master key as people write it: 32 bytes in base64."""
    try:
        raw = _decoded(text.strip())
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != _BYTES:
        raise NoCredential(
            f"{where} does not hold a key: it must be {_BYTES} random bytes in base64, such as "
            f"`openssl rand -base64 {_BYTES}` prints"
        )
    return Key(Secret(text.strip()))


def seal(value: dict[str, Any], key: Key, about: Sequence[Any]) -> Sealed:
    """Encrypt a value; `about` is what it belongs to."""
    own = secrets.token_bytes(_BYTES)
    data = _encrypt(own, msgspec.json.encode(value), _context("data", about))
    return Sealed(key.id, _encrypt(key.raw, own, _context("key", about, key.id)), data)


def rewrap(sealed: Sealed, old: Key, new: Key, about: Sequence[Any]) -> Sealed:
    """The same value under another master key."""
    own = _decrypt(old.raw, sealed.wrapped, _context("key", about, old.id))
    return Sealed(new.id, _encrypt(new.raw, own, _context("key", about, new.id)), sealed.data)


def unseal(sealed: Sealed, key: Key, about: Sequence[Any]) -> dict[str, Any]:
    """The value; NoCredential: it was changed, or is another one's."""
    own = _decrypt(key.raw, sealed.wrapped, _context("key", about, key.id))
    value: dict[str, Any] = msgspec.json.decode(_decrypt(own, sealed.data, _context("data", about)))
    return value


def _context(what: str, about: Sequence[Any], *more: str) -> bytes:
    return msgspec.json.encode(["noetl credential", 1, what, *about, *more])


def _encrypt(key: bytes, value: bytes, context: bytes) -> str:
    nonce = secrets.token_bytes(_NONCE)
    return urlsafe_b64encode(nonce + aead.encrypt(key, nonce, value, context)).decode()


def _decrypt(key: bytes, text: str, context: bytes) -> bytes:
    try:
        data = _decoded(text)
        return aead.decrypt(key, data[:_NONCE], data[_NONCE:], context)
    except (ValueError, binascii.Error):
        raise NoCredential("what is stored of it was changed or damaged; remove it and add it again") from None


def _decoded(text: str) -> bytes:
    """Base64 of either alphabet, with or without its padding; nothing else."""
    text = text.replace("-", "+").replace("_", "/").rstrip("=")
    return b64decode(text + "=" * (-len(text) % 4), validate=True)

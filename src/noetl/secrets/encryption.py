"""Encryption at rest: each version of a credential under a key of its own, which lies wrapped under the master key.

AES-256-GCM both times. What a ciphertext belongs to is authenticated with it, so that none can stand in for another;
to change the master key is to wrap the small keys anew.
"""

from __future__ import annotations

import binascii
import fcntl
import hashlib
import os
import secrets
import stat
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from noetl.config import Secret
from noetl.errors import UsageError
from noetl.ports import NoCredential

# Files that only their user may look into, replaced as a whole or not at all.


def read_private(file: Path) -> str:
    """What is in it."""
    return file.read_text(encoding="utf-8")


def write_private(file: Path, text: str) -> None:
    """Replace it; durable when this returns. No other file ever holds the text for others to see."""
    make_folder(file.parent)
    made = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            os.fchmod(handle, 0o600)
            opened.write(text.encode("utf-8"))
            opened.flush()
            os.fsync(handle)
        made.replace(file)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise
    _sync_folder(file.parent)


@contextmanager
def only_one(file: Path) -> Iterator[None]:
    """One process at a time, by a lock that ends with whoever holds it."""
    make_folder(file.parent)
    handle = os.open(file.with_name(f"{file.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """A folder for its user alone; one that was there before is left as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# AES-256-GCM. libsodium does it with the AES instructions of the processor, and has no other way. Where a processor lacks
# them, the larger library `cryptography` does the same in software, if it is installed.


#: what authenticates a message, at its end
_TAG_BYTES = 16


def encrypt(key: bytes, nonce: bytes, message: bytes, context: bytes) -> bytes:
    """Encrypt a message; `context` is authenticated with it."""
    from nacl.bindings import crypto_aead_aes256gcm_encrypt  # slow to import, and rarely needed
    from nacl.exceptions import UnavailableError

    try:
        return crypto_aead_aes256gcm_encrypt(message, context, nonce, key)
    except UnavailableError:
        return encrypt_in_software(key, nonce, message, context)


def decrypt(key: bytes, nonce: bytes, data: bytes, context: bytes) -> bytes:
    """Decrypt a message; ValueError: the data, or its context, was changed, or the key is another one."""
    from nacl.bindings import crypto_aead_aes256gcm_decrypt
    from nacl.exceptions import CryptoError, UnavailableError

    if len(data) < _TAG_BYTES:
        raise ValueError("too short to have been encrypted")
    try:
        return crypto_aead_aes256gcm_decrypt(data, context, nonce, key)
    except UnavailableError:
        return decrypt_in_software(key, nonce, data, context)
    except CryptoError as error:
        raise ValueError("not encrypted with this key and context") from error


def encrypt_in_software(key: bytes, nonce: bytes, message: bytes, context: bytes) -> bytes:
    """`encrypt` on a processor without AES instructions."""
    encrypted: bytes = _software_cipher(key).encrypt(nonce, message, context)
    return encrypted


def decrypt_in_software(key: bytes, nonce: bytes, data: bytes, context: bytes) -> bytes:
    """`decrypt` on a processor without AES instructions."""
    cipher = _software_cipher(key)
    wrong: type[Exception] = import_module("cryptography.exceptions").InvalidTag
    try:
        message: bytes = cipher.decrypt(nonce, data, context)
    except wrong as error:
        raise ValueError("not encrypted with this key and context") from error
    return message


def _software_cipher(key: bytes) -> Any:
    try:
        module = import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ModuleNotFoundError:
        raise NoCredential(
            "this processor has no AES instructions, so stored credentials need a library more: "
            "run `pip install cryptography`"
        ) from None
    return module.AESGCM(key)


_BYTES = 32
_NONCE = 12


class MasterKey(msgspec.Struct, frozen=True):
    """A master key."""

    secret: Secret

    @property
    def id(self) -> str:
        """What tells it from others, and nothing about it."""
        return hashlib.sha256(b"noetl master key:" + self.raw).hexdigest()[:16]

    @property
    def raw(self) -> bytes:
        """Its bytes."""
        return _decode_base64(self.secret.reveal())


class SealedValue(msgspec.Struct, frozen=True):
    """What is kept of a secret value."""

    #: the master key's id
    key: str
    #: the value's own key, encrypted, and the value, encrypted; both with their nonce in front, in base64
    wrapped: str
    data: str


def new_key() -> MasterKey:
    """A master key that nobody has had before."""
    return MasterKey(Secret(urlsafe_b64encode(secrets.token_bytes(_BYTES)).decode()))


def parse_key(text: str, where: str) -> MasterKey:
    """A master key as people write it: 32 bytes in base64."""
    try:
        raw = _decode_base64(text.strip())
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != _BYTES:
        raise NoCredential(
            f"{where} does not hold a key: it must be {_BYTES} random bytes in base64, such as "
            f"`openssl rand -base64 {_BYTES}` prints"
        )
    return MasterKey(Secret(text.strip()))


def seal(value: dict[str, Any], key: MasterKey, about: Sequence[Any]) -> SealedValue:
    """Encrypt a value; `about` is what it belongs to."""
    own = secrets.token_bytes(_BYTES)
    data = _encrypt(own, msgspec.json.encode(value), _context("data", about))
    return SealedValue(key.id, _encrypt(key.raw, own, _context("key", about, key.id)), data)


def rewrap(sealed: SealedValue, old: MasterKey, new: MasterKey, about: Sequence[Any]) -> SealedValue:
    """The same value under another master key."""
    own = _decrypt(old.raw, sealed.wrapped, _context("key", about, old.id))
    return SealedValue(new.id, _encrypt(new.raw, own, _context("key", about, new.id)), sealed.data)


def unseal(sealed: SealedValue, key: MasterKey, about: Sequence[Any]) -> dict[str, Any]:
    """The value; NoCredential: it was changed, or is another one's."""
    own = _decrypt(key.raw, sealed.wrapped, _context("key", about, key.id))
    value: dict[str, Any] = msgspec.json.decode(_decrypt(own, sealed.data, _context("data", about)))
    return value


def _context(what: str, about: Sequence[Any], *more: str) -> bytes:
    return msgspec.json.encode(["noetl credential", 1, what, *about, *more])


def _encrypt(key: bytes, value: bytes, context: bytes) -> str:
    nonce = secrets.token_bytes(_NONCE)
    return urlsafe_b64encode(nonce + encrypt(key, nonce, value, context)).decode()


def _decrypt(key: bytes, text: str, context: bytes) -> bytes:
    try:
        data = _decode_base64(text)
        return decrypt(key, data[:_NONCE], data[_NONCE:], context)
    except (ValueError, binascii.Error):
        raise NoCredential("what is stored of it was changed or damaged; remove it and add it again") from None


def _decode_base64(text: str) -> bytes:
    """Base64 of either alphabet, with or without its padding; nothing else."""
    text = text.replace("-", "+").replace("_", "/").rstrip("=")
    return b64decode(text + "=" * (-len(text) % 4), validate=True)


# The master keys: from NOETL_KEY, or from a file that nobody else may read. There is no default key.


_HEAD = "# The key of this folder's credentials. Without it they are lost; whoever has it can read them.\n"


class MasterKeys:
    """The keys at hand: the first one encrypts, each of them decrypts."""

    def __init__(self, given: Secret | None, file: Path) -> None:
        self._given = given
        self.file = file

    @property
    def from_environment(self) -> bool:
        """Whether NOETL_KEY is set; the file is not looked at then."""
        return self._given is not None and bool(self._given)

    def keys(self) -> list[MasterKey]:
        """All of them; none: there is no key yet."""
        if self.from_environment:
            assert self._given is not None
            return [parse_key(part, "NOETL_KEY") for part in self._given.reveal().split(",")]
        try:
            check_mode(self.file)
            text = read_private(self.file)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NoCredential(f"the key file {self.file} cannot be read: {error.strerror}") from None
        lines = [line.strip() for line in text.splitlines()]
        return [parse_key(line, f"the key file {self.file}") for line in lines if line and not line.startswith("#")]

    def first(self) -> MasterKey:
        """The key that encrypts; made, and kept in the file, when there is none."""
        found = self.keys()
        if found:
            return found[0]
        made = new_key()
        self.keep([made])
        return made

    def keep(self, keys: list[MasterKey]) -> None:
        """Have the file hold just these."""
        if self.from_environment:
            raise UsageError("the key comes from NOETL_KEY: set that to `new,old` and call `noetl credential rotate`")
        try:
            write_private(self.file, _HEAD + "".join(f"{key.secret.reveal()}\n" for key in keys))
        except OSError as error:
            raise NoCredential(f"the key file {self.file} cannot be written: {error.strerror}") from None


def check_mode(file: Path) -> None:
    """Refuse a file with a secret that others may read."""
    mode = stat.S_IMODE(os.stat(file).st_mode)  # noqa: PTH116  the same, and OSErrors with their own words
    if mode & 0o077:
        raise NoCredential(f"{file} can be read by others (its mode is {mode:04o}): `chmod 600 {file}` mends that")

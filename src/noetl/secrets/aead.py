"""AES-256-GCM: encryption that notices when its result, or what that belongs to, was changed.

libsodium does it with the AES instructions of the processor, and has no other way. Where a processor lacks them, the
larger library `cryptography` does the same in software, if it is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from noetl.ports import NoCredential

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

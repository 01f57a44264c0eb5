"""AES-256-GCM, whichever library does it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from noetl.ports import NoCredential
from noetl.secrets import encryption
from noetl.secrets.encryption import SealedValue, parse_key, unseal

KEY, NONCE, CONTEXT = bytes(range(32)), bytes(range(12)), b"what it belongs to"


def test_what_either_library_encrypted_the_other_decrypts() -> None:
    with_instructions = encryption.encrypt(KEY, NONCE, b"a secret", CONTEXT)
    in_software = encryption.encrypt_in_software(KEY, NONCE, b"a secret", CONTEXT)
    assert with_instructions == in_software
    assert encryption.decrypt(KEY, NONCE, in_software, CONTEXT) == b"a secret"
    assert encryption.decrypt_in_software(KEY, NONCE, with_instructions, CONTEXT) == b"a secret"


def test_a_credential_that_an_earlier_version_stored_is_read() -> None:
    """The text is what the library `cryptography` made of it."""
    key = parse_key("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "a test")
    sealed = SealedValue(
        key.id,
        "jv47yQZRsbYlGmR4Yd8HBMoSrNvtHo22vQDvwjUFYl6C_v4TPNDykmpMqqsRb0X7QVJQOnFHzRHvCF9G",
        "CV_0zTw4Y1m_QsH8xSlapnmhXFfDTtezObJsvv0PWqtVCWUmLZTosHkQxWCsoHzOiAI=",
    )
    assert unseal(sealed, key, ["shop", 1]) == {"password": "hunter2"}


@pytest.mark.parametrize("decrypt", [encryption.decrypt, encryption.decrypt_in_software])
def test_a_change_is_noticed(decrypt: Any) -> None:
    data = encryption.encrypt(KEY, NONCE, b"a secret", CONTEXT)
    changed = bytes([data[0] ^ 1]) + data[1:]
    for key, nonce, found, context in (
        (KEY, NONCE, changed, CONTEXT),
        (KEY, NONCE, data[:-1], CONTEXT),
        (KEY, NONCE, data, b"something else"),
        (KEY[::-1], NONCE, data, CONTEXT),
        (KEY, NONCE[::-1], data, CONTEXT),
    ):
        with pytest.raises(ValueError, match="not encrypted"):
            decrypt(key, nonce, found, context)


@pytest.mark.parametrize("length", [0, 5, 15])
def test_what_is_too_short_is_a_change_as_well(length: int) -> None:
    with pytest.raises(ValueError, match="too short"):
        encryption.decrypt(KEY, NONCE, bytes(length), CONTEXT)


def test_a_short_nonce_is_a_change_as_well() -> None:
    with pytest.raises(ValueError, match="not encrypted"):
        encryption.decrypt(KEY, b"short", bytes(20), CONTEXT)


def without_instructions(*arguments: object) -> bytes:
    from nacl.exceptions import UnavailableError

    raise UnavailableError("Construction requires hardware acceleration")


def test_a_processor_without_aes_instructions_uses_software(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = encryption.encrypt(KEY, NONCE, b"a secret", CONTEXT)
    monkeypatch.setattr("nacl.bindings.crypto_aead_aes256gcm_encrypt", without_instructions)
    monkeypatch.setattr("nacl.bindings.crypto_aead_aes256gcm_decrypt", without_instructions)
    assert encryption.encrypt(KEY, NONCE, b"a secret", CONTEXT) == usual
    assert encryption.decrypt(KEY, NONCE, usual, CONTEXT) == b"a secret"
    # What an environment without the library has.
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(NoCredential, match="pip install cryptography"):
        encryption.decrypt(KEY, NONCE, usual, CONTEXT)

"""The credential store: one file in NOETL_HOME. Names, kinds and the names of parts can be read, values cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.model.nearest import nearest
from noetl.ports import NoCredential
from noetl.secrets.encryption import (
    MasterKey,
    MasterKeys,
    SealedValue,
    new_key,
    only_one,
    read_private,
    rewrap,
    seal,
    unseal,
    write_private,
)


class StoredCredential(msgspec.Struct, frozen=True):
    """A credential as it lies in the file."""

    kind: str
    #: the names of its parts
    fields: tuple[str, ...]
    #: counted from 1; each new value is a new one
    version: int
    created_at: str
    updated_at: str
    sealed: SealedValue

    def about(self, name: str) -> list[Any]:
        """What the ciphertext belongs to."""
        return [name, self.kind, list(self.fields), self.version]


class CredentialFile(msgspec.Struct):
    """The whole file."""

    format: int = 1
    credentials: dict[str, StoredCredential] = {}


class CredentialStore:
    """The credentials of one home."""

    def __init__(self, file: Path, master: MasterKeys, clock: Callable[[], float]) -> None:
        self.file = file
        self.master = master
        self._clock = clock

    def all(self) -> dict[str, StoredCredential]:
        """What there is, by name; no key is needed for that."""
        return dict(sorted(self._read().credentials.items()))

    def get(self, name: str) -> tuple[str, dict[str, Any]]:
        """Kind and parts of a credential."""
        try:
            return self._get(name)
        except NoCredential:
            # The key may have been changed between a look at the file and one at the key.
            return self._get(name)

    def _get(self, name: str) -> tuple[str, dict[str, Any]]:
        kept = self._read().credentials.get(name)
        if kept is None:
            raise NoCredential(f"the credential store has no `{name}`; `noetl credential add {name}` puts it there")
        try:
            return kept.kind, unseal(kept.sealed, self._key(kept.sealed.key), kept.about(name))
        except NoCredential as error:
            raise NoCredential(f"credential `{name}`: {error}") from None

    def add(self, name: str, kind: str, fields: Mapping[str, Any]) -> StoredCredential:
        """A new credential."""
        with only_one(self.file):
            content = self._read()
            if name in content.credentials:
                said = f"there is a credential `{name}` already"
                raise UsageError(f"{said}; `noetl credential rotate {name}` gives it a new value")
            return self._put(content, name, kind, fields, 1, self._now())

    def replace(self, name: str, fields: Mapping[str, Any]) -> StoredCredential:
        """New values for a credential."""
        with only_one(self.file):
            content = self._read()
            old = self._require(content, name)
            return self._put(content, name, old.kind, fields, old.version + 1, old.created_at)

    def remove(self, names: tuple[str, ...]) -> None:
        """Forget credentials: all of them, or none when one is not there."""
        with only_one(self.file):
            content = self._read()
            for name in names:
                self._require(content, name)
            for name in dict.fromkeys(names):
                del content.credentials[name]
            self._write(content)

    def change_key(self) -> int:
        """Put everything under a new master key; how many credentials there are.

        From a file: a new key is made. Until all is written the file has both, so that a crash costs nothing. From
        NOETL_KEY, which holds `new,old` then: the first one is the new one.
        """
        with only_one(self.file):
            content = self._read()
            keys = self.master.keys()
            if self.master.from_environment:
                new = keys[0]
            else:
                new = new_key()
                self.master.keep([new, *keys])
            for name, kept in content.credentials.items():
                content.credentials[name] = self._rewrap(name, kept, new)
            self._write(content)
            if not self.master.from_environment:
                self.master.keep([new])
            return len(content.credentials)

    # --- the file ----------------------------------------------------------------------------------------------------

    def _rewrap(self, name: str, kept: StoredCredential, new: MasterKey) -> StoredCredential:
        try:
            sealed = rewrap(kept.sealed, self._key(kept.sealed.key), new, kept.about(name))
        except NoCredential as error:
            raise NoCredential(f"credential `{name}`: {error}; nothing was changed") from None
        return msgspec.structs.replace(kept, sealed=sealed)

    def _put(
        self, content: CredentialFile, name: str, kind: str, fields: Mapping[str, Any], version: int, created: str
    ) -> StoredCredential:
        if content.credentials and not self.master.keys():
            raise NoCredential(self._no_key())
        names = tuple(sorted(fields))
        sealed = seal(dict(fields), self.master.first(), [name, kind, list(names), version])
        kept = content.credentials[name] = StoredCredential(kind, names, version, created, self._now(), sealed)
        self._write(content)
        return kept

    def _require(self, content: CredentialFile, name: str) -> StoredCredential:
        kept = content.credentials.get(name)
        if kept is None:
            meant = nearest(name, content.credentials)
            raise UsageError(f"there is no credential `{name}`" + (f"; did you mean `{meant}`?" if meant else ""))
        return kept

    def _key(self, wanted: str) -> MasterKey:
        keys = self.master.keys()
        for key in keys:
            if key.id == wanted:
                return key
        if not keys:
            raise NoCredential(self._no_key())
        where = "NOETL_KEY" if self.master.from_environment else str(self.master.file)
        raise NoCredential(f"it was encrypted with another key than the one in {where}")

    def _no_key(self) -> str:
        return f"there are credentials, but not their key: put it back into {self.master.file}, or set NOETL_KEY"

    def _read(self) -> CredentialFile:
        try:
            return msgspec.json.decode(read_private(self.file), type=CredentialFile)
        except FileNotFoundError:
            return CredentialFile()
        except OSError as error:
            raise NoCredential(f"the credential store {self.file} cannot be read: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NoCredential(f"the credential store {self.file} is damaged: {error}") from None

    def _write(self, content: CredentialFile) -> None:
        try:
            write_private(self.file, msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n")
        except OSError as error:
            raise NoCredential(f"the credential store {self.file} cannot be written: {error.strerror}") from None

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")

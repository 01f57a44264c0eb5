"""The master keys: from NOETL_KEY, or from a file that nobody else may read. There is no default key."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from noetl.config import Secret
from noetl.errors import UsageError
from noetl.ports import NoCredential
from noetl.secrets.crypt import Key, key_of, new_key
from noetl.secrets.files import read_private, write_private

_HEAD = "# The key of this folder's credentials. Without it they are lost; whoever has it can read them.\n"


class Master:
    """The keys at hand: the first one encrypts, each of them decrypts."""

    def __init__(self, given: Secret | None, file: Path) -> None:
        self._given = given
        self.file = file

    @property
    def from_environment(self) -> bool:
        """Whether NOETL_KEY is set; the file is not looked at then."""
        return self._given is not None and bool(self._given)

    def keys(self) -> list[Key]:
        """All of them; none: there is no key yet."""
        if self.from_environment:
            assert self._given is not None
            return [key_of(part, "NOETL_KEY") for part in self._given.reveal().split(",")]
        try:
            check_mode(self.file)
            text = read_private(self.file)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NoCredential(f"the key file {self.file} cannot be read: {error.strerror}") from None
        lines = [line.strip() for line in text.splitlines()]
        return [key_of(line, f"the key file {self.file}") for line in lines if line and not line.startswith("#")]

    def first(self) -> Key:
        """The key that encrypts; made, and kept in the file, when there is none."""
        found = self.keys()
        if found:
            return found[0]
        made = new_key()
        self.keep([made])
        return made

    def keep(self, keys: list[Key]) -> None:
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

"""Settings: one frozen struct, read once from the environment. Nothing else reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from noetl.errors import UsageError

#: names of variables that may hold credentials of ours; no tool sees them
_OURS = ("NOETL_KEY", "NOETL_KEY_FILE", "NOETL_TOKEN", "VAULT_TOKEN")
#: variables of larger installations, and the value of each that asks for nothing more than this machine
_LARGER = {"NOETL_SERVER": "", "NOETL_STORE": "", "NOETL_BUS": "local", "NOETL_RESULTS": ""}


class Secret:
    """A text that must be asked for by name: neither `print` nor a traceback nor an encoder shows it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "[redacted]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret cannot be written")


class Settings(msgspec.Struct, frozen=True):
    """How this process is set up."""

    home: Path
    #: `process` survives the death of the process, `power` also that of the machine
    durability: Literal["process", "power"] = "process"
    #: the environment that tools may see
    environment: dict[str, str] = {}
    #: what credentials are encrypted with, by itself or in a file; None: the file `key` in the home
    key: Secret | None = None
    key_file: Path | None = None
    #: HashiCorp Vault
    vault_address: str | None = None
    vault_token: Secret | None = None
    vault_namespace: str | None = None


def settings() -> Settings:
    """The settings of this process."""
    env = os.environ
    for name, harmless in _LARGER.items():
        if env.get(name) not in (None, "", harmless):
            # To run here what was meant for elsewhere would be worse than not to run it.
            raise UsageError(f"{name} is set, but this version keeps to this machine and NOETL_HOME; unset {name}")
    seen = {name: value for name, value in env.items() if name not in _OURS}
    durability = env.get("NOETL_DURABILITY") or "process"
    if durability not in ("process", "power"):
        raise UsageError(f"NOETL_DURABILITY is {durability!r}; write `process`, or `power` to survive a power cut")
    return Settings(
        _home(env.get("NOETL_HOME")),
        "power" if durability == "power" else "process",
        seen,
        key=_secret(env.get("NOETL_KEY")),
        key_file=Path(env["NOETL_KEY_FILE"]).expanduser().absolute() if env.get("NOETL_KEY_FILE") else None,
        vault_address=env.get("VAULT_ADDR") or None,
        vault_token=_secret(env.get("VAULT_TOKEN")),
        vault_namespace=env.get("VAULT_NAMESPACE") or None,
    )


def _secret(text: str | None) -> Secret | None:
    return Secret(text) if text else None


def _home(given: str | None) -> Path:
    try:
        home = Path(given).expanduser() if given else Path.home() / ".noetl"
    except RuntimeError:
        where = f"the user of NOETL_HOME={given} is not known" if given else "there is no home folder"
        raise UsageError(f"{where}; set NOETL_HOME to a folder for what is recorded") from None
    return home.absolute()

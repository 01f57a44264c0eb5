"""Settings: one frozen struct, read once from the environment. Nothing else reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from noetl.errors import UsageError

#: names of variables that may hold credentials of ours; no tool sees them
_OURS = ("NOETL_KEY", "NOETL_TOKEN")
#: variables of larger installations, and the value of each that asks for nothing more than this machine
_LARGER = {"NOETL_SERVER": "", "NOETL_STORE": "", "NOETL_BUS": "local", "NOETL_RESULTS": ""}


class Settings(msgspec.Struct, frozen=True):
    """How this process is set up."""

    home: Path
    #: `process` survives the death of the process, `power` also that of the machine
    durability: Literal["process", "power"] = "process"
    #: the environment that tools may see
    environment: dict[str, str] = {}


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
    return Settings(_home(env.get("NOETL_HOME")), "power" if durability == "power" else "process", seen)


def _home(given: str | None) -> Path:
    try:
        home = Path(given).expanduser() if given else Path.home() / ".noetl"
    except RuntimeError:
        where = f"the user of NOETL_HOME={given} is not known" if given else "there is no home folder"
        raise UsageError(f"{where}; set NOETL_HOME to a folder for what is recorded") from None
    return home.absolute()

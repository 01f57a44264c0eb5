"""Settings: one frozen struct, read once from the environment. Nothing else reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from noetl.errors import UsageError

#: names of variables that may hold credentials of ours; no tool sees them
_OURS = ("NOETL_KEY", "NOETL_TOKEN")


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
    home = Path(env["NOETL_HOME"]) if env.get("NOETL_HOME") else Path.home() / ".noetl"
    seen = {name: value for name, value in env.items() if name not in _OURS}
    durability = env.get("NOETL_DURABILITY") or "process"
    if durability not in ("process", "power"):
        raise UsageError(f"NOETL_DURABILITY is {durability!r}; write `process`, or `power` to survive a power cut")
    return Settings(home.expanduser().absolute(), "power" if durability == "power" else "process", seen)

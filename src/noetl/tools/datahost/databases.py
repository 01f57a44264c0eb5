"""Databases, opened for a task and closed with it: a file that is held open is one that nobody else can use."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from noetl.rows.duck import duckdb
from noetl.tools.datahost.failing import Failing, is_locked
from noetl.tools.datahost.host import Running

#: how long a file that somebody else uses is waited for
_PATIENCE_S = 30.0


def config_of(spec: Mapping[str, Any], *, memory: str = "50%") -> dict[str, Any]:
    """The settings of a database for a task with this spec: what restricts it, no statement can undo."""
    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "memory_limit": memory,
    }
    limit, strict = spec.get("limits.memory_mb"), spec.get("isolation") == "strict"
    offline = spec.get("network") == "off" or spec.get("allow_hosts") is not None
    if limit:
        config["memory_limit"] = f"{limit}MB"
    if strict or offline:
        # Without access to what is outside no extension can be loaded, and nothing else knows of networks.
        config["enable_external_access"] = False
    if offline and not strict:
        config["allowed_directories"] = ["/"]
    if strict or offline or limit:
        config["lock_configuration"] = True
    return config


@contextlib.contextmanager
def opened(running: Running, file: str | None, config: Mapping[str, Any]) -> Iterator[Any]:
    """A connection to a database, closed behind it; without a file to an empty one in memory."""
    connection = _connect(running, file or ":memory:", {**config, "temp_directory": str(running.scratch / "spill")})
    try:
        with running.using(connection):
            yield connection
    finally:
        connection.close()


def connect(running: Running, file: str | None, config: Mapping[str, Any]) -> Any:
    """The same for longer than a call; to be closed by whoever asks."""
    return _connect(running, file or ":memory:", {**config, "temp_directory": str(running.scratch / "spill")})


def _connect(running: Running, file: str, config: dict[str, Any]) -> Any:
    module = duckdb()
    if file != ":memory:":
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    give_up, pause = time.monotonic() + _PATIENCE_S, 0.01
    while True:
        try:
            return module.connect(file, config=config)
        except module.Error as error:
            if not is_locked(error):
                raise
            if time.monotonic() > give_up:
                message = f"`{file}` is used by another process, for {_PATIENCE_S:g} s now: {error}"
                raise Failing("sql", message, retryable=True) from None
        running.check()
        time.sleep(pause)
        pause = min(2 * pause, 0.5)

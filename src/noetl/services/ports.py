"""Servers on ports of this machine."""

from __future__ import annotations

import socket
import time
from typing import Self

from noetl.errors import NoetlError

_BETWEEN_S = 0.02


class NotStarted(NoetlError):
    """A server did not come up."""


class LocalServer:
    """A server that runs for as long as it is needed."""

    @property
    def host(self) -> str:
        """Where it listens."""
        return "127.0.0.1"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start. NotStarted: it does not."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it."""
        raise NotImplementedError


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether nobody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def wait_for(port: int, within: float, what: str) -> None:
    """Wait until somebody listens. NotStarted: nobody does."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        if not is_free(port):
            return
        time.sleep(_BETWEEN_S)
    raise NotStarted(f"{what} did not listen on port {port} within {within:g} s")

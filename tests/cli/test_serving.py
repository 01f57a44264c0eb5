"""Sockets of servers."""

from __future__ import annotations

import contextlib
import socket

import pytest

from noetl.cli.serving import bound
from noetl.errors import UsageError


def test_answers_go_out_at_once() -> None:
    """asyncio switches Nagle's algorithm off only for sockets that say that they are TCP."""
    with contextlib.closing(bound("127.0.0.1", 0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_named_with_the_way_out() -> None:
    with contextlib.closing(bound("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match="--port names another one"):
            bound("127.0.0.1", port)

"""The live tree at a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Shell

COLUMNS = 44
CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.mark.usefixtures("playbooks")
def test_at_a_narrow_terminal_there_is_room_for_what_ctrl_c_writes(shell: Shell, home: Path) -> None:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 20, COLUMNS, 0, 0))
    environment = {name: value for name, value in shell.environment.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        shell.command("run", "approval.yaml"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**environment, "TERM": "xterm", "NOETL_HOME": str(home)},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  nothing else runs here
    )
    os.close(terminal)
    seen = b""
    while b"waits for" not in seen:
        seen += os.read(controller, 65_536)
    time.sleep(0.3)
    os.write(controller, b"\x03")
    while b"^C" not in seen:
        seen += os.read(controller, 65_536)
    before = CODES.sub(b"", seen[: seen.index(b"^C")]).decode()
    lines = re.split(r"[\r\n]+", before)
    assert any("…" in line for line in lines), "something had to be cut"
    assert max(map(len, lines)) <= COLUMNS - 3
    assert process.wait(120) == 130
    os.close(controller)

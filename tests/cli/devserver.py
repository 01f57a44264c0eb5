"""`noetl dev` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any, Self

from forkserver import ForkedProcess
from waiting import wait_until

from cli.conftest import Result, Shell

LISTENS = re.compile(r"listening on (\S+);")


class Dev:
    """A server that was started, and its address."""

    def __init__(self, shell: Shell, *options: str, **environment: str) -> None:
        self._shell, self._options, self._environment = shell, options, environment
        self._home = os.environ["NOETL_HOME"]
        self.url = ""
        self.process: ForkedProcess

    def __enter__(self) -> Self:
        port = self.url.rpartition(":")[2] or "0"
        environment = {**self._shell.environment, "NOETL_HOME": self._home, **self._environment}
        self.process = self._shell.forkserver.start(
            "dev", "--port", port, *self._options, cwd=Path.cwd(), env=environment
        )
        wait_until(lambda: LISTENS.search(self.process.said()) or self.process.poll() is not None)
        found = LISTENS.search(self.process.said())
        assert found, self.process.said()
        self.url = found[1]
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, how: int = signal.SIGTERM) -> Result:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> Result:
        out, err = self.process.communicate()
        return Result(self.process.wait(), out.decode(), err.decode())

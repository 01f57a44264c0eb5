"""`noetl dev` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any, Self

from cli.conftest import Result, Shell


class Dev:
    """A server that was started, and its address."""

    def __init__(self, shell: Shell, *options: str, **environment: str) -> None:
        self._shell, self._options, self._environment = shell, options, environment
        self._home = os.environ["NOETL_HOME"]
        self.url = ""
        self.process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        port = self.url.rpartition(":")[2] or "0"
        self.process = subprocess.Popen(
            self._shell.command("dev", "--port", port, *self._options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self._shell.environment, "NOETL_HOME": self._home, **self._environment},
        )
        assert self.process.stderr is not None
        told = ""
        while "listening on " not in told:
            line = self.process.stderr.readline()
            assert line, told
            told += line
        self.url = told.partition("listening on ")[2].partition(";")[0].strip()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, how: int = signal.SIGTERM) -> Result:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=120)
        return Result(self.process.returncode, out, err)

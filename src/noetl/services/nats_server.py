"""A NATS server with JetStream from a Python package, with a user and a password, on a port of loopback."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from noetl.services.servers import LocalServer, NotStarted, free_port, wait_for

NOT_INSTALLED = "NATS for development is not installed; it comes with: pip install 'noetl[devservices]'"
_USER = "noetl"
_START_S = 20
_END_S = 10


class NatsServer(LocalServer):
    """One server over a folder; a folder that was used before keeps its streams."""

    def __init__(self, folder: Path, *, settings: str = "", port: int = 0, password: str = "") -> None:
        self.folder = folder
        self.port = port or free_port()
        self.password = password or secrets.token_urlsafe(18)
        #: more of its configuration, as its file has it
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def user(self) -> str:
        """Who may do everything."""
        return _USER

    def url(self, path: str = "") -> str:
        """What a client connects to; `path` is the prefix of a bus, or the bucket of a result store."""
        return f"nats://{_USER}:{self.password}@{self.host}:{self.port}" + (f"/{path}" if path else "")

    def start(self) -> None:
        """Start, or again after `stop` and `kill` on the same port."""
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
        if program is None:
            raise NotStarted(NOT_INSTALLED)
        self._process = subprocess.Popen(  # noqa: S603  the program was looked up above
            [program, "--config", str(self._write_config())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for(self.port, _START_S, "the NATS server")
        except NotStarted as error:
            self.kill()
            raise NotStarted(f"{error}; its log is {self.folder / 'log'}") from None

    def _write_config(self) -> Path:
        """Its configuration, in a file that nobody else reads: arguments of a process are seen by everybody."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "nats.conf"
        text = {name: json.dumps(str(self.folder / name)) for name in ("store", "log")}
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(
                f"listen: {json.dumps(f'{self.host}:{self.port}')}\nlog_file: {text['log']}\n"
                f"jetstream {{ store_dir: {text['store']} }}\n"
                f"authorization {{ user: {_USER}, password: {json.dumps(self.password)} }}\n{self._settings}\n"
            )
        return file

    def stop(self) -> None:
        """Stop in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as if the power had gone."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        self._process = None

    def wipe(self) -> None:
        """Take away every stream of a server that does not run."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)

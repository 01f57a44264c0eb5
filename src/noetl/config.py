"""Settings: one frozen struct, read once from the environment and from `noetl.toml`. Nothing else reads them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from noetl.errors import CallInvalid, UsageError, describe_os_error

#: names of variables that may hold credentials of ours; no tool sees them
_OURS = ("NOETL_KEY", "NOETL_KEY_FILE", "NOETL_TOKEN", "NOETL_STORE", "NOETL_BUS", "NOETL_RESULTS", "VAULT_TOKEN")
#: the same of a service that results lie at, if they do and no keychain entry opens it
_THEIRS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY")
FILE = "noetl.toml"
#: how an address of the store is written
STORES = "postgresql://USER:PASSWORD@HOST/DATABASE, sqlite:///FILE or sqlite:////ABSOLUTE/FILE"


class Setting(msgspec.Struct, frozen=True):
    """A variable of the environment that is read, as the reference describes it."""

    doc: str
    #: what holds where it is not set, in words
    default: str = "none"
    #: the files that may hold it, too: `home` is `noetl.toml` of NOETL_HOME, `project` also that of the current folder
    file: Literal["", "home", "project"] = ""


#: every variable; secrets, and the place of the file itself, are in no file, and addresses are in no project's
SETTINGS: Final[dict[str, Setting]] = {
    "NOETL_HOME": Setting("the folder for executions, results, credentials and `noetl.toml`", "`~/.noetl`"),
    "NOETL_STORE": Setting(
        "where executions are recorded: `postgresql://USER:PASSWORD@HOST/DATABASE`, `sqlite:///FILE` relative to the current "
        "folder (in a file: to the folder of that file), or `sqlite:////ABSOLUTE/FILE`",
        "`noetl.db` in NOETL_HOME",
        "home",
    ),
    "NOETL_DURABILITY": Setting(
        "what a record in SQLite survives: `process` the end of the process, `power` also a power cut", "`process`", "project"
    ),
    "NOETL_CATALOG": Setting(
        "folders in which called playbooks are found by their path, with commas between them", file="project"
    ),
    "NOETL_RESULTS": Setting(
        "where large results are kept: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `nats://…`, `postgresql://…` or `postgres`; the "
        "first is the usual one, others follow a comma",
        "files in NOETL_HOME",
        "home",
    ),
    "NOETL_RESULTS_CACHE_MB": Setting(
        "megabytes of results that are also kept on this machine, where they are stored elsewhere", "2048", "project"
    ),
    "NOETL_BUS": Setting(
        "the NATS servers that wake workers, `nats://USER:PASSWORD@HOST:4222`, with commas between them; or `local`",
        "`local`: workers poll",
        "home",
    ),
    "NOETL_LEASE": Setting(
        "seconds without a heartbeat after which a server or a worker counts as dead, from 1 to 3600",
        "10 for servers, 30 for workers",
        "project",
    ),
    "NOETL_POLL": Setting("`off`: a worker asks for work only when NATS wakes it", "`on`", "project"),
    "NOETL_SERVER": Setting(
        "the servers that commands act on, `http://HOST:PORT`, with commas between them: the first that answers",
        "this machine",
        "home",
    ),
    "NOETL_HOSTS": Setting("names that a server is reached by, besides its address, with commas between them", file="home"),
    "NOETL_TOKEN": Setting("the token that commands show to a server"),
    "NOETL_TOKENS": Setting("the file in which a server looks tokens up", "`tokens.json` in NOETL_HOME"),
    "NOETL_KEY": Setting("the key that credentials are encrypted with"),
    "NOETL_KEY_FILE": Setting("the file that holds that key", "`key` in NOETL_HOME"),
    "VAULT_ADDR": Setting("the address of HashiCorp Vault"),
    "VAULT_TOKEN": Setting("the token for it"),
    "VAULT_NAMESPACE": Setting("the namespace there"),
}  # fmt: skip
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
    #: the PostgreSQL database that executions are recorded in; None: a SQLite file
    store: Secret | None = None
    #: that file; None: `noetl.db` in the home
    store_file: Path | None = None
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
    #: folders in which called playbooks are found by their path
    catalog: tuple[Path, ...] = ()

    @property
    def database(self) -> Path:
        """The SQLite file that executions are recorded in, where no database is named."""
        return self.store_file or self.home / "noetl.db"

    @property
    def has_records(self) -> bool:
        """Whether there can be executions: a command that only reads makes no folder for them."""
        return self.store is not None or self.database.parent.is_dir()

    @property
    def hidden(self) -> list[Path]:
        """What confined tasks may not read."""
        if self.store_file is None:
            return [self.home]
        beside = ("", "-wal", "-shm", ".lock", ".owners")
        return [self.home, *(self.store_file.with_name(self.store_file.name + one) for one in beside)]


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
    store, store_file = _store(env.get("NOETL_STORE"))
    return Settings(
        home,
        "power" if durability == "power" else "process",
        seen,
        key=_secret(env.get("NOETL_KEY")),
        key_file=Path(env["NOETL_KEY_FILE"]).expanduser().absolute() if env.get("NOETL_KEY_FILE") else None,
        vault_address=env.get("VAULT_ADDR") or None,
        vault_token=_secret(env.get("VAULT_TOKEN")),
        vault_namespace=env.get("VAULT_NAMESPACE") or None,
        store=store,
        store_file=store_file,
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
        catalog=tuple(Path(one).expanduser().absolute() for one in _list(env.get("NOETL_CATALOG"))),
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


def _file(home: Path) -> dict[str, str]:
    """What `noetl.toml` says: that of the home, and over it that of the current folder."""
    found = _read_file(home / FILE, "home")
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return found
    return found if here == home else {**found, **_read_file(here / FILE, "project")}


def _read_file(path: Path, kind: str) -> dict[str, str]:
    if not path.is_file():
        return {}
    import tomllib

    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {describe_os_error(error)}") from None
    known: dict[str, str] = {}
    for key, value in found.items():
        name = key if key in SETTINGS else f"NOETL_{key.upper()}" if key.islower() else key
        _check_key(path, key, name, kind)
        if name in known:
            raise UsageError(f"{path}: `{key}` and another key both set {name}; keep one")
        known[name] = _text(_relative_to_file(name, value, path.parent))
    return known


def _check_key(path: Path, key: str, name: str, kind: str) -> None:
    """Refuse a key that this file may not have: a project's file names no servers, stores or hosts."""
    where = SETTINGS[name].file if name in SETTINGS else ""
    if where == "home" and kind == "project":
        raise UsageError(
            f"{path}: a project's file cannot set `{key}`; set {name} in the environment, or in {FILE} of NOETL_HOME"
        )
    if not where:
        may = ", ".join(one for one, about in SETTINGS.items() if about.file in ("project", kind))
        raise UsageError(f"{path}: `{key}` is not known there; it may have {may}")


def _relative_to_file(name: str, value: Any, folder: Path) -> Any:
    """A path in a file starts at the folder of that file."""
    if name == "NOETL_CATALOG":
        given = value if isinstance(value, list) else list(_list(str(value)))
        return [str(folder / Path(str(one)).expanduser()) for one in given]
    if name == "NOETL_STORE" and isinstance(value, str) and value.startswith(_SQLITE):
        path = value.removeprefix(_SQLITE)
        return f"{_SQLITE}{folder / path}" if path else value
    return value


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


_SQLITE = "sqlite:///"


def _store(text: str | None) -> tuple[Secret | None, Path | None]:
    """The address of a database, or a file. What is wrong with it is told without it: it may hold a password."""
    if not text or text.startswith(("postgresql://", "postgres://")):
        return _secret(text), None
    if not text.startswith("sqlite:"):
        raise UsageError(f"NOETL_STORE is not the address of a store; write {STORES}")
    path = text.removeprefix(_SQLITE) if text.startswith(_SQLITE) else ""
    if not path or path == ":memory:" or path.endswith("/") or "?" in path:
        raise UsageError(
            f"NOETL_STORE={mask_login(text)} names no file; write sqlite:///FILE, or sqlite:////ABSOLUTE/FILE with four slashes"
        )
    file = Path(path).absolute()
    if not file.parent.is_dir() and not path.startswith("/"):
        raise UsageError(
            f"NOETL_STORE={text}: there is no folder {file.parent}; with three slashes the file is relative to the current "
            f"folder, and an absolute one is written with four: sqlite:////{path}"
        )
    return None, file


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

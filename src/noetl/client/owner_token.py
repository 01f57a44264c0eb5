"""The owner's token: a server of this machine leaves it in NOETL_HOME, where its owner's commands and workers find it.

It is new at each start of a server, and valid for as long as that runs. Beside it stands the address that it is for: it is sent
to that address of loopback alone, and only while the server that wrote it holds the file, so nobody else can listen there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from noetl.client.address import ServerAddress
from noetl.config import Secret
from noetl.errors import UsageError

_FOLDER: Final = "owner"
_LOCALHOST: Final = "localhost"
#: the address of loopback at which a server is reached that listens on a wildcard address
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  compared with, not bound to


class OwnerToken(msgspec.Struct, frozen=True):
    """What a server leaves."""

    #: the address of loopback, as a number
    host: str
    port: int
    token: str


def loopback_of(bound: str) -> str | None:
    """Return the address of loopback, as a number, at which a server is reached; None: there is none."""
    import ipaddress

    host = _WILDCARDS.get(bound, "127.0.0.1" if bound == _LOCALHOST else bound)
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return host
    return None


def make_home_private(home: Path) -> None:
    """Let only its owner look into NOETL_HOME, also where it is there already. UsageError: that cannot be."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = home.stat()
    if found.st_uid != os.geteuid():
        raise UsageError(
            f"NOETL_HOME is {home}, which belongs to another user: whoever owns it can read what servers keep there. "
            f"Set NOETL_HOME to a folder of your own"
        )
    if found.st_mode & (stat.S_ISVTX | stat.S_IWOTH):
        raise UsageError(
            f"NOETL_HOME is {home}, a folder for all users: set it to a folder of your own, such as {home}/noetl"
        )
    # A database that `noetl dev --postgres` starts for root runs as another user, who has to pass through.
    wanted = 0o711 if os.geteuid() == 0 and (home / "postgres").is_dir() else 0o700
    if stat.S_IMODE(found.st_mode) & 0o077 & ~wanted:
        home.chmod(wanted)


@contextlib.contextmanager
def publish_owner_token(home: Path, left: OwnerToken) -> Iterator[None]:
    """Leave a token in the home for as long as this lasts."""
    folder = home / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    path = _path(home, left.host, left.port)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(file, 0o600)
        os.write(file, msgspec.json.encode(left))
        fcntl.flock(file, fcntl.LOCK_EX)
        draft.replace(path)
        yield
    finally:
        with contextlib.suppress(OSError):
            if os.fstat(file).st_ino == path.stat().st_ino:
                path.unlink()
        os.close(file)


def find_owner_token(home: Path, address: ServerAddress) -> OwnerToken | None:
    """Return the token that a server of this machine has left for its owner; None: the address is not that of such a server."""
    if address.is_tls or address.base or address.basic is not None:
        return None
    hosts = ("127.0.0.1", "::1") if address.host == _LOCALHOST else (address.host,)
    for host in hosts:
        found = _read(_path(home, host, address.port))
        if found is not None and (found.host, found.port) == (host, address.port):
            return found
    return None


def _read(path: Path) -> OwnerToken | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    with contextlib.closing(os.fdopen(file, "rb")) as opened:
        if not _is_held(file):
            return None
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(opened.read(), type=OwnerToken)
    return None


def _is_held(file: int) -> bool:
    """Whether the server that wrote a file lives: the kernel lets go of its lock at its end."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _path(home: Path, host: str, port: int) -> Path:
    return home / _FOLDER / f"{host.replace(':', '-').replace('/', '-')}_{port}.json"


class TokenSource:
    """The token that a server is shown: NOETL_TOKEN or what was passed, else the owner's of a server of this machine."""

    def __init__(self, given: Secret | None, home: Path | None) -> None:
        self._given, self._home = given, home

    def read(self, address: ServerAddress) -> tuple[ServerAddress, Secret | None]:
        """Return the token for an address, and the address itself: `localhost` as the number at which that server listens."""
        if self._given or self._home is None:
            return address, self._given
        found = find_owner_token(self._home, address)
        if found is None:
            return address, None
        return msgspec.structs.replace(address, host=found.host), Secret(found.token)

    def format_headers(self, address: ServerAddress) -> tuple[ServerAddress, Secret]:
        """Return the headers of every request to an address, see `read`."""
        where, token = self.read(address)
        return where, where.format_headers(token)

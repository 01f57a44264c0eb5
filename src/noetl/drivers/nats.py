"""NATS servers: their addresses, and a connection to one that is new enough; with nats-py, an optional part.

A connection that breaks is not mended but replaced, by whoever uses it: the library gives up for ever where a server says that
a password is wrong, or that it holds too many connections.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from noetl.config import Secret
from noetl.errors import NoetlError, UsageError

T = TypeVar("T")

MISSING = "NATS needs nats-py, which comes with: pip install 'noetl[nats]'"
SCHEMES = ("nats", "tls")
#: older servers may lose a whole stream when they are killed
OLDEST = (2, 10, 23)
_PORT = 4222
_CONNECT_S = 3
#: a server that says nothing for two of these is taken for dead
_PING_S = 5
#: how soon a broken connection is noticed
_LOOK_S = 0.1
_DENIED = re.compile(r"authoriz|authentic|permission|user credentials", re.IGNORECASE)
_TOKEN = re.compile(r"[^A-Za-z0-9_-]")


class NatsFailed(NoetlError):
    """A server cannot be reached, or cannot be used. The message has no secret in it."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        #: whether another attempt may change it
        self.retryable = retryable


class _ConnectionCut(NatsFailed):
    """A server has ended the connection while it was made."""


class NatsAddress(msgspec.Struct, frozen=True):
    """Servers of one cluster, and who asks."""

    #: `nats://host:port` each
    servers: tuple[str, ...]
    #: what stands behind the servers: a prefix, or a bucket
    path: str = ""
    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None

    def __str__(self) -> str:
        return ",".join(self.servers)


def address_of(text: str, setting: str) -> NatsAddress:
    """The servers that a text names, separated with commas. UsageError: it names none; a password is not shown."""
    found = [_split(one.strip(), setting) for one in text.split(",") if one.strip()]
    if not found:
        raise UsageError(f"{setting} names no server: write nats://USER:PASSWORD@HOST:{_PORT}")
    paths = {parts.path.strip("/") for parts in found} - {""}
    if len(paths) > 1:
        raise UsageError(f"{setting} names servers of one cluster, so what stands behind them must be the same")
    servers = tuple(f"{parts.scheme}://{_host(parts)}:{parts.port or _PORT}" for parts in found)
    path = unquote(paths.pop()) if paths else ""
    known = next((parts for parts in found if parts.username), None)
    if known is None:
        return NatsAddress(servers, path)
    user = unquote(known.username or "")
    if known.password is None:
        return NatsAddress(servers, path, token=Secret(user))
    return NatsAddress(servers, path, user, Secret(unquote(known.password)))


def _split(one: str, setting: str) -> SplitResult:
    parts = urlsplit(one if "://" in one else f"nats://{one}")
    try:
        # What stands before an `@` behind a `/` is the rest of a password, and the path is shown.
        usable = bool(parts.hostname) and parts.port != 0 and "@" not in parts.path
    except ValueError:
        usable = False
    if not usable or parts.scheme not in SCHEMES:
        raise UsageError(f"{setting} is no address of a NATS server: write nats://USER:PASSWORD@HOST:{_PORT}")
    return parts


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host


def token_of(name: str) -> str:
    """Any name as a part of a subject or of a stream's name; different names stay different."""
    return _TOKEN.sub(lambda found: "".join(f"={byte:02X}" for byte in found[0].encode()), name) or "="


async def connect_nats(address: NatsAddress) -> Any:
    """A connection to the first server that has one. NatsFailed: none has."""
    failed: NatsFailed | None = None
    for server in address.servers:
        try:
            return await _connect_patiently(server, address)
        except NatsFailed as error:
            # One that would do if it were there is worth more than one that will not do.
            failed = error if failed is None or error.retryable else failed
    assert failed is not None
    raise failed


async def _connect_patiently(server: str, address: NatsAddress) -> Any:
    """A server that refuses somebody hangs up, often before its reason was read. Then it is asked to be verbose, so that
    the library waits for what it says."""
    try:
        return await _connect_once(server, address)
    except _ConnectionCut:
        return await _connect_once(server, address, verbose=True)


async def _connect_once(server: str, address: NatsAddress, *, verbose: bool = False) -> Any:
    try:
        from nats.aio.client import Client
        from nats.errors import Error
    except ImportError:
        raise NatsFailed(MISSING, retryable=False) from None
    client, said = Client(), list[Exception]()

    async def wrong(error: Exception) -> None:
        said.append(error)
        del said[:-1]

    options: dict[str, Any] = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0}
    try:
        await client.connect(
            [server],
            name="noetl",
            user=address.user,
            password=address.password.reveal() if address.password else None,
            token=address.token.reveal() if address.token else None,
            connect_timeout=_CONNECT_S,
            ping_interval=_PING_S,
            verbose=verbose,
            error_cb=wrong,
            **options,
        )
        _check(client, server)
    except (Error, OSError, TimeoutError, NatsFailed) as error:
        await close_quietly(client)
        raise _connect_failure(server, said[-1] if said and not isinstance(error, NatsFailed) else error) from None
    except BaseException:
        await close_quietly(client)
        raise
    return client


async def wait_until_closed(client: Any) -> None:
    """Wait until a connection is gone. The library tells nobody of it when it breaks with something still to be written."""
    while not client.is_closed:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)


def _check(client: Any, server: str) -> None:
    try:
        seen = client.connected_server_version
        version = (seen.major, seen.minor, seen.patch)
    except ValueError:
        version = (0, 0, 0)
    if version < OLDEST:
        has, wanted = (".".join(map(str, one)) for one in (version, OLDEST))
        said = (
            f"the NATS server at {server} is version {has}; {wanted} or later is needed: older ones lose what they keep"
        )
        raise NatsFailed(said, retryable=False)


def _connect_failure(server: str, error: Exception) -> NatsFailed:
    if isinstance(error, NatsFailed):
        return error
    said = describe_nats_error(error)
    if _DENIED.search(said):
        return NatsFailed(f"the NATS server at {server} refuses the user and password, or the token", retryable=False)
    hung_up = isinstance(error, ConnectionResetError | BrokenPipeError)
    return (_ConnectionCut if hung_up else NatsFailed)(f"the NATS server at {server} cannot be reached: {said}")


def describe_nats_error(error: Exception) -> str:
    """What went wrong, as the library says it."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    said = str(error).removeprefix("nats: ").strip()
    return " ".join(said.split()) or type(error).__name__


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Have the library do something. Whoever is cancelled meanwhile hears of it, which the library keeps to itself."""
    return await asyncio.shield(work)


async def close_quietly(client: Any, within: float = 2.0) -> None:
    """Close a connection, in whatever state it is."""
    closing = asyncio.ensure_future(client.close())
    await asyncio.wait({closing}, timeout=within)
    closing.cancel()
    # The library may say anything here, and nobody needs the connection any more.
    if closing.done() and not closing.cancelled():
        closing.exception()

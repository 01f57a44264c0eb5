"""Opens the result store that the settings name: each address becomes a backend. The first one is the default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from noetl.config import Secret, Settings
from noetl.errors import UsageError
from noetl.ports import NoCredential, StoreFailed
from noetl.redaction import ADDRESS_HINT, is_address
from noetl.results.backends.backend import PayloadBackend
from noetl.results.backends.file_cache import FileCache
from noetl.results.backends.folder import FolderBackend
from noetl.results.store import PayloadStore

#: the credential that opens a store, unless its address names another
ENTRY = "results"
_OBJECTS = ("s3", "gs", "az")
_POSTGRES = ("postgres", "postgresql")
_NATS = ("nats://", "tls://")
_HELP = "a folder, s3://bucket/prefix, gs://…, az://…, postgresql://… or nats://host:4222/bucket"

#: kind and parts of a credential by its name; None: there is none. NoCredential: it cannot be read
Credentials = Callable[[str], Mapping[str, Any] | None]
_FITTING = {
    "object_store": ("s3_credential", "generic"),
    "relational": ("postgres_credential", "generic"),
    "nats": ("basic", "bearer", "generic"),
}


def open_payloads(settings: Settings, credentials: Credentials, clock: Callable[[], float]) -> PayloadStore:
    """The store that the settings name. UsageError: an address in them is none."""
    home, sync = settings.home, settings.durability == "power"
    usual = FolderBackend(home / "results", sync=sync)
    brought = FileCache(home / "cache", settings.results_cache_mb << 20)
    backends = [_open_backend(one, credentials, brought, sync=sync) for one in _places(settings.results)] or [usual]
    kinds = [backend.kind for backend in backends]
    twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
    if twice is not None:
        raise UsageError(f"NOETL_RESULTS names several stores of type `{twice}`; there can be one of each")

    def fetch(reference: Mapping[str, Any], auth: Mapping[str, Any] | None) -> list[Path]:
        from noetl.results.backends.bucket import ObjectFetcher

        return ObjectFetcher(brought, lambda name: require_credential(name, credentials))(reference, auth)

    # What was stored in the home before another place was named can still be read.
    also = [usual] if settings.results else []
    sealing = (
        [Secret(one) for part in key.reveal().split(",") if (one := part.strip())] if (key := settings.key) else []
    )
    return PayloadStore(backends, home / "results", clock=clock, sync=sync, also=also, fetch=fetch, sealing=sealing)


def _places(addresses: Sequence[str]) -> list[str]:
    """The places that addresses name: the servers of one NATS cluster are one."""
    servers = [one for one in addresses if one.startswith(_NATS)]
    places = [one for one in addresses if one not in servers[1:]]
    return [",".join(servers) if one in servers else one for one in places]


def _open_backend(address: str, credentials: Credentials, brought: FileCache, *, sync: bool) -> PayloadBackend:
    scheme, has_scheme, _ = address.partition("://")
    if scheme in _OBJECTS and has_scheme:
        return _open_bucket(address, credentials, brought)
    if address.partition("?")[0] in _POSTGRES or (scheme in _POSTGRES and has_scheme):
        return _open_table(address, credentials, brought)
    if address.startswith(_NATS):
        return _open_nats(address, credentials, brought)
    if has_scheme and scheme != "file":
        raise UsageError(f"NOETL_RESULTS: a result store at {scheme}:// is not known to this version; write {_HELP}")
    path = Path(unquote(urlsplit(address).path) if has_scheme else address).expanduser()
    if not path.is_absolute():
        raise UsageError(f"NOETL_RESULTS: {address!r} is no absolute path; write {_HELP}")
    return FolderBackend(path, sync=sync)


def _open_bucket(address: str, credentials: Credentials, brought: FileCache) -> PayloadBackend:
    from noetl.drivers.object_stores import Bucket, BucketFailed
    from noetl.results.backends.bucket import BucketBackend

    parts = urlsplit(address)
    if not parts.netloc:
        raise UsageError(f"NOETL_RESULTS: {address!r} says no bucket; write {parts.scheme}://bucket/prefix")
    entry, found = _entry("object_store", parts.query, credentials)

    def open_() -> Bucket:
        try:
            return Bucket(parts.scheme, parts.netloc, found(), entry)
        except (BucketFailed, NoCredential) as error:
            raise StoreFailed(f"the result store: {error}") from None

    return BucketBackend(open_, parts.netloc, parts.path, cache=brought, entry=entry)


def _open_table(address: str, credentials: Credentials, brought: FileCache) -> PayloadBackend:
    from noetl.results.backends.postgres_tables import PostgresBackend

    if "://" in address and not is_address(
        address
    ):  # the rest of a password would be taken for a place, which is shown
        raise UsageError(f"NOETL_RESULTS is no address of PostgreSQL; {ADDRESS_HINT}")
    parts = urlsplit(address)
    entry, found = ("", lambda: None) if parts.password else _entry("relational", parts.query, credentials)
    keys = ("dsn", "host", "port", "user", "password", "sslmode")

    def options() -> Mapping[str, Any]:
        try:
            given = found() or {}
        except NoCredential as error:
            raise StoreFailed(f"the result store: {error}") from None
        if not parts.netloc and not given:
            raise StoreFailed(_no_database_message(address, credentials(ENTRY)))
        if given.get("dsn"):
            return {"conninfo": str(given["dsn"])}
        more = {key: given[key] for key in keys if given.get(key) not in (None, "")}
        more |= {"dbname": given["database"]} if given.get("database") else {}
        return {"conninfo": _without_auth(address) if parts.netloc else "", **more}

    host = f"{parts.hostname or ''}{parts.path}"
    return PostgresBackend(
        options, f"postgresql://{host}" if parts.netloc else "postgresql", cache=brought, entry=entry
    )


def _no_database_message(address: str, other: Mapping[str, Any] | None) -> str:
    """What to say of a database that neither an address nor a credential names."""
    but = f", and the one that it has is a `{other['kind']}`" if other is not None else ""
    return (
        f"NOETL_RESULTS is {address!r}, so the credential store must have an entry `{ENTRY}`, a `postgres_credential` that says "
        f"where the database is{but}; or name another entry, postgres?auth=NAME, or write postgresql://host/database"
    )


def _open_nats(address: str, credentials: Credentials, brought: FileCache) -> PayloadBackend:
    from noetl.drivers.nats import NatsAddress, address_of
    from noetl.results.backends.nats_objects import BUCKET, NatsBackend

    plain, _, query = address.partition("?")
    said = address_of(plain, "NOETL_RESULTS")
    bucket = said.path or BUCKET
    if not re.fullmatch(r"[A-Za-z0-9_-]+", bucket):
        raise UsageError(f"NOETL_RESULTS: {bucket!r} is no name of a bucket of NATS: letters, digits, `_` and `-` are")
    is_whole = said.user is not None or said.token is not None
    entry, found = ("", lambda: None) if is_whole else _entry("nats", query, credentials)

    def options() -> NatsAddress:
        try:
            given = found() or {}
        except NoCredential as error:
            raise StoreFailed(f"the result store: {error}") from None
        user, password, token = (given.get(one) for one in ("user", "password", "token"))
        user = user or given.get("username")
        if user and password:
            return NatsAddress(said.servers, user=str(user), password=Secret(str(password)))
        return NatsAddress(said.servers, token=Secret(str(token))) if token else said

    return NatsBackend(options, str(said), bucket, cache=brought, entry=entry)


def _entry(kind: str, query: str, credentials: Credentials) -> tuple[str, Callable[[], Mapping[str, Any] | None]]:
    """The credential of an address: the one that `?auth=NAME` names has to be there, `results` may be."""
    if named := dict(parse_qsl(query)).get("auth"):
        return named, cache(lambda: _check_kind(kind, named, require_credential(named, credentials)))
    found = credentials(ENTRY)
    if found is None or found["kind"] not in _FITTING[kind]:
        return "", lambda: None
    return ENTRY, lambda: found


def _check_kind(kind: str, name: str, found: Mapping[str, Any]) -> Mapping[str, Any]:
    if found["kind"] not in _FITTING[kind]:
        kinds = " or ".join(f"`{one}`" for one in _FITTING[kind])
        raise NoCredential(f"the credential `{name}` is a `{found['kind']}`; NOETL_RESULTS needs a {kinds} there")
    return found


def require_credential(name: str, credentials: Credentials) -> Mapping[str, Any]:
    """A credential that must be there."""
    found = credentials(name)
    if found is None:
        raise NoCredential(f"the credential store has no `{name}`; `noetl credential add {name}` puts it there")
    return found


def _without_auth(address: str) -> str:
    parts = urlsplit(address)
    query = "&".join(one for one in parts.query.split("&") if one and not one.startswith("auth="))
    return urlunsplit(parts._replace(query=query))

"""What each kind of credential consists of, which of it is secret, and how a plain text becomes one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from noetl.model.spellings import SHORTEST


class Kind(msgspec.Struct, frozen=True):
    """The parts of a kind of credential."""

    #: without these it is not one
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    #: what a source that yields one text yields; None: it has to yield a map
    main: str | None = None


KINDS: Final[Mapping[str, Kind]] = {
    "bearer": Kind(("token",), (), "token"),
    "basic": Kind(("username", "password"), (), "password"),
    "header": Kind(("value",), ("header", "prefix"), "value"),
    "oauth2_client_credentials": Kind(
        ("token_url", "client_id", "client_secret"), ("scope", "audience"), "client_secret"
    ),
    "postgres_credential": Kind((), ("dsn", "host", "port", "database", "user", "password", "sslmode"), "dsn"),
    "duckdb_credential": Kind((), (), "value"),
    "s3_credential": Kind(
        ("access_key_id", "secret_access_key"), ("session_token", "region", "endpoint", "bucket"), "secret_access_key"
    ),
    "secret_manager": Kind((), (), "value"),
    "generic": Kind((), (), "value"),
}
#: other names under which a part is known elsewhere
_ALSO: Final = {
    "access_key": "access_key_id",
    "aws_access_key_id": "access_key_id",
    "secret_key": "secret_access_key",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "dbname": "database",
    "db": "database",
    "username": "user",
    "endpoint_url": "endpoint",
}
#: parts that say where and as whom: taking them out of every text would take out half of what it says
_OPEN: Final = frozenset(
    [
        "host",
        "hostname",
        "port",
        "database",
        "dbname",
        "db",
        "schema",
        "user",
        "username",
        "sslmode",
        "region",
        "endpoint",
        "endpoint_url",
        "bucket",
        "account",
        "token_url",
        "client_id",
        "scope",
        "audience",
        "header",
        "prefix",
        "token_type",
        "expires_at",
        "kind",
        "type",
        "name",
        "ssl",
    ]
)
#: parts that are nothing else than secret
_SURELY: Final = frozenset({"token", "password", "value", "client_secret", "secret_access_key"})
_EMPTY: Final = (None, "")


def fields_of(kind: str, raw: Any) -> dict[str, Any]:
    """The parts that a source's answer holds: a map, JSON text of one, or a text that is the main part."""
    if isinstance(raw, str) and raw.lstrip().startswith("{"):
        try:
            decoded = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            decoded = raw
        raw = decoded if isinstance(decoded, dict) else raw
    about = KINDS[kind]
    if isinstance(raw, Mapping):
        fields = {str(name): value for name, value in raw.items()}
        lonely = about.main not in fields and len(fields) == 1 and len(about.required) == 1
        return {about.main: next(iter(fields.values()))} if lonely and about.main else fields
    if kind == "basic" and isinstance(raw, str) and ":" in raw:
        username, _, password = raw.partition(":")
        return {"username": username, "password": password}
    return {about.main or "value": raw}


def completed(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same with parts under their own names, and with what follows from others."""
    known = {*KINDS[kind].required, *KINDS[kind].optional}
    made: dict[str, Any] = {}
    for name, value in fields.items():
        also = _ALSO.get(name, name)
        made[also if name not in known and also in known and also not in fields else name] = value
    if kind == "postgres_credential" and isinstance(made.get("dsn"), str):
        made = {**_parts_of_address(made["dsn"]), **made}
    return made


def _parts_of_address(dsn: str) -> dict[str, Any]:
    """`postgresql://user:password@host:port/database` in its parts; of any other form nothing."""
    try:
        parts = urlsplit(dsn)
        port = parts.port
    except ValueError:
        return {}
    if not parts.scheme.startswith("postgres"):
        return {}
    found = {
        "host": parts.hostname,
        "port": port,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "database": unquote(parts.path.lstrip("/")) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def missing_in(kind: str, fields: Mapping[str, Any]) -> list[str]:
    """The parts that are not there."""
    lacking = [name for name in KINDS[kind].required if fields.get(name) in _EMPTY]
    # A key alone is a user without a password to some services.
    if kind == "basic" and lacking == ["password"] and fields.get("password") == "":
        return []
    if not KINDS[kind].required and all(value in _EMPTY for value in fields.values()):
        return [KINDS[kind].main or "value"]
    return lacking


def secrets_in(kind: str, fields: Mapping[str, Any]) -> Iterator[str]:
    """The texts that must not be shown."""
    alone = kind == "basic" and fields.get("password") in _EMPTY
    for name, value in fields.items():
        if name not in _OPEN or (alone and name == "username"):
            # What is short and not sure to be a secret may as well be a setting: `retries: "3"`.
            yield from (text for text in _texts(value) if len(text) >= SHORTEST or name in _SURELY)
    if kind == "basic":
        yield f"{fields.get('username', '')}:{fields.get('password', '')}"
    if kind == "postgres_credential" and isinstance(fields.get("dsn"), str):
        # As it stands in the address, which may be another spelling than the decoded one.
        secret = urlsplit(fields["dsn"]).password if "://" in fields["dsn"] else None
        yield from [secret] if secret else []


def is_open(name: str) -> bool:
    """Whether a part may be shown while it is typed."""
    return name in _OPEN


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value != value.strip():
            yield value.strip()
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if name not in _OPEN:
                yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)

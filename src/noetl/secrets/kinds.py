"""What each kind of credential consists of, which of it is secret, and how a plain text becomes one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

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
_SURELY: Final = re.compile(
    r"(^|[_-])(token|pass(word|wd|code|phrase)?|pw|pin|secret|value|(access|api|private)?_?key)$", re.IGNORECASE
)
#: in an address: the password before the host, and parameters; and settings that are no address
_LOGIN: Final = re.compile(r"://[^:/?#@]*:(.*)@")
_PARAMETER: Final = re.compile(r"[?&]([^=&#]+)=([^&#]*)")
_PARAMETERS: Final = frozenset({"user", "password", "sslmode", "sslpassword"})
_SETTING: Final = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*)")
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
    """The parts of `postgresql://user:password@host:port/database?…`, or of `host=… password=…`."""
    if "://" not in dsn:
        given = {
            _ALSO.get(name, name): re.sub(r"\\(.)", r"\1", value.strip("'")) for name, value in _SETTING.findall(dsn)
        }
        return {name: value for name, value in given.items() if value}
    try:
        parts = urlsplit(dsn)
        port = parts.port
    except ValueError:
        return {}
    if not parts.scheme.startswith("postgres"):
        return {}
    made = {
        "host": parts.hostname,
        "port": port,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "database": unquote(parts.path.lstrip("/")) or None,
        **{name: value for name, value in parse_qsl(parts.query) if name in _PARAMETERS},
    }
    return {name: value for name, value in made.items() if value is not None}


def _passwords_in(dsn: str) -> Iterator[str]:
    """The passwords of an address, decoded and as they stand in it, which may be another spelling."""
    yield from (str(value) for name, value in _parts_of_address(dsn).items() if "password" in name)
    yield from (value for name, value in _PARAMETER.findall(dsn) if "password" in name)
    try:
        password = urlsplit(dsn).password
    except ValueError:  # it is no address that anybody could use, and still there is a password in it
        found = _LOGIN.search(dsn)
        password = found[1] if found else None
    yield from [password, unquote(password)] if password else []


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
            yield from _texts(name, value)
    if kind == "basic":
        yield f"{fields.get('username', '')}:{fields.get('password', '')}"
    if kind == "postgres_credential" and isinstance(fields.get("dsn"), str):
        yield from _passwords_in(fields["dsn"])


def is_open(name: str) -> bool:
    """Whether a part may be shown while it is typed."""
    return name in _OPEN


def _texts(name: str, value: Any) -> Iterator[str]:
    """The texts in a part. What is short or a number may as well be a setting, unless its name says that it is none."""
    surely = _SURELY.search(name) is not None
    if isinstance(value, str):
        yield from (text for text in {value, value.strip()} if text and (surely or len(text) >= SHORTEST))
    elif isinstance(value, Mapping):
        for below, part in value.items():
            if below not in _OPEN:
                yield from _texts(str(below), part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(name, part)
    elif surely and isinstance(value, int) and not isinstance(value, bool):
        yield str(value)

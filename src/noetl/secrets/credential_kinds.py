"""What each kind of credential consists of, which of it is secret, and how a plain text becomes one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from noetl.model.nearest import nearest
from noetl.redaction import ADDRESS_HINT, SHORTEST_SECRET, is_address, parts_of_address, passwords_in_address


class CredentialKind(msgspec.Struct, frozen=True):
    """The parts of a kind of credential."""

    #: without these it is not one
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    #: what a source that yields one text yields; None: it has to yield a map
    main: str | None = None


CREDENTIAL_KINDS: Final[Mapping[str, CredentialKind]] = {
    "bearer": CredentialKind(("token",), (), "token"),
    "basic": CredentialKind(("username", "password"), (), "password"),
    "header": CredentialKind(("value",), ("header", "prefix"), "value"),
    "oauth2_client_credentials": CredentialKind(
        ("token_url", "client_id", "client_secret"), ("scope", "audience"), "client_secret"
    ),
    "postgres_credential": CredentialKind(
        (), ("dsn", "host", "port", "database", "user", "password", "sslmode"), "dsn"
    ),
    "duckdb_credential": CredentialKind((), (), "value"),
    "s3_credential": CredentialKind(
        ("access_key_id", "secret_access_key"), ("session_token", "region", "endpoint", "bucket"), "secret_access_key"
    ),
    "secret_manager": CredentialKind((), (), "value"),
    "generic": CredentialKind((), (), "value"),
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
    "hostname": "host",
    "pass": "password",
    "passwd": "password",
    "pwd": "password",
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
_EMPTY: Final = (None, "")


def fields_of(kind: str, raw: Any) -> dict[str, Any]:
    """The parts that a source's answer holds: a map, JSON text of one, or a text that is the main part."""
    if isinstance(raw, str) and raw.lstrip().startswith("{"):
        try:
            decoded = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            decoded = raw
        raw = decoded if isinstance(decoded, dict) else raw
    about = CREDENTIAL_KINDS[kind]
    if isinstance(raw, Mapping):
        fields = {str(name): value for name, value in raw.items()}
        lonely = about.main not in fields and len(fields) == 1 and len(about.required) == 1
        return {about.main: next(iter(fields.values()))} if lonely and about.main else fields
    if kind == "basic" and isinstance(raw, str) and ":" in raw:
        username, _, password = raw.partition(":")
        return {"username": username, "password": password}
    return {about.main or "value": raw}


def complete_fields(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same with parts under their own names, and with what follows from others."""
    known = {*CREDENTIAL_KINDS[kind].required, *CREDENTIAL_KINDS[kind].optional}
    made: dict[str, Any] = {}
    for name, value in fields.items():
        also = _ALSO.get(name, name)
        made[also if name not in known and also in known and also not in fields else name] = value
    if kind == "postgres_credential" and isinstance(made.get("dsn"), str):
        made = {
            **{_ALSO.get(name, name): value for name, value in parts_of_address(made["dsn"]).items()},
            **made,
        }
    return made


def find_missing(kind: str, fields: Mapping[str, Any]) -> list[str]:
    """The parts that are not there."""
    lacking = [name for name in CREDENTIAL_KINDS[kind].required if fields.get(name) in _EMPTY]
    # A key alone is a user without a password to some services.
    if kind == "basic" and lacking == ["password"] and fields.get("password") == "":
        return []
    if not CREDENTIAL_KINDS[kind].required and all(value in _EMPTY for value in fields.values()):
        return [CREDENTIAL_KINDS[kind].main or "value"]
    return lacking


def problem_in(kind: str, fields: Mapping[str, Any]) -> str | None:
    """Why these parts cannot be used as such a credential; None: they can. Nothing of what they hold is told."""
    lacking = find_missing(kind, fields)
    if lacking:
        return f"a `{kind}` needs {', '.join(f'`{part}`' for part in lacking)}{_describe_unknown(kind, fields)}"
    dsn = fields.get("dsn")
    if kind == "postgres_credential" and isinstance(dsn, str) and dsn and not is_address(dsn):
        return f"it has an address that is none (`dsn`); {ADDRESS_HINT}"
    return _find_misspelling(kind, fields)


def _find_misspelling(kind: str, fields: Mapping[str, Any]) -> str | None:
    """A part that nobody looks at, beside one of nearly that name that is not there."""
    known = [*CREDENTIAL_KINDS[kind].required, *CREDENTIAL_KINDS[kind].optional]
    absent = [name for name in known if fields.get(name) in _EMPTY]
    for name in fields:
        meant = nearest(name, absent) if name not in known else None
        if meant:
            return f"`{name}` is no part of a `{kind}`: did you mean `{meant}`? Its parts are {', '.join(known)}"
    return None


def form_of(kind: str) -> str:
    """How the value of a credential is written that has several parts."""
    parts = ", ".join(f'"{name}": "…"' for name in CREDENTIAL_KINDS[kind].required)
    return f"{{{parts}}}{', or USER:PASSWORD' if kind == 'basic' else ''}"


def _describe_unknown(kind: str, fields: Mapping[str, Any]) -> str:
    """What was given in place of something that is missing, perhaps."""
    known = (*CREDENTIAL_KINDS[kind].required, *CREDENTIAL_KINDS[kind].optional)
    others = [name for name in fields if name not in known]
    if not others or not known:
        return ""
    guesses = {name: nearest(name, known) for name in others}
    told = [f"`{name}`{f' (did you mean `{meant}`?)' if meant else ''}" for name, meant in guesses.items()]
    return f"; there is no {', '.join(told)} in it, but {', '.join(known)}"


def secrets_in(kind: str, fields: Mapping[str, Any]) -> Iterator[str]:
    """The texts that must not be shown."""
    alone = kind == "basic" and fields.get("password") in _EMPTY
    for name, value in fields.items():
        if name not in _OPEN or (alone and name == "username"):
            yield from _texts(name, value)
    if kind == "basic":
        yield f"{fields.get('username', '')}:{fields.get('password', '')}"
    if kind == "postgres_credential" and isinstance(fields.get("dsn"), str):
        yield from passwords_in_address(fields["dsn"])


def is_open(name: str) -> bool:
    """Whether a part may be shown while it is typed."""
    return name in _OPEN


def _texts(name: str, value: Any) -> Iterator[str]:
    """The texts in a part. What is short or a number may as well be a setting, unless its name says that it is none."""
    surely = _SURELY.search(name) is not None
    if isinstance(value, str):
        yield from (text for text in {value, value.strip()} if text and (surely or len(text) >= SHORTEST_SECRET))
    elif isinstance(value, Mapping):
        for below, part in value.items():
            if below not in _OPEN:
                yield from _texts(str(below), part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(name, part)
    elif surely and isinstance(value, int) and not isinstance(value, bool):
        yield str(value)

"""Addresses of PostgreSQL, taken apart as its own library does it; what to say of one that is none. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from noetl.redaction.addresses import looks_like_address

EXAMPLE: Final = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
ADDRESS_HINT: Final = f"write {EXAMPLE}, where in a name or a password @ / # % are written %40 %2F %23 %25"

_LOGIN = r"(?:[^%@/]|%[0-9A-Fa-f]{2})*"
_HOST = r"(?:\[[^\]@/?#]*\]|[^\[\]:,@/?#]*)(?::\d*)?"
#: a value ends at the next `&`, and there is one way to read it: none is tried again
_QUERY = r"(?:[^=&@]+=[^&=]*(?:&[^=&@]+=[^&=]*)*&?)?"
_ADDRESS: Final = re.compile(
    rf"postgres(?:ql)?://(?:(?P<login>{_LOGIN})@)?(?P<hosts>{_HOST}(?:,{_HOST})*)(?:/(?P<path>[^@?]*))?(?:\?(?P<query>{_QUERY}))?\s*"
)
_HOSTS: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")
_PARAMETERS: Final = frozenset({"user", "password", "sslmode", "sslpassword"})
#: settings that are no address
_SETTING: Final = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*)")
#: passwords in what may be no address at all
_ANY_LOGIN: Final = re.compile(r"://[^:/?#@]*:(.*)@", re.DOTALL)
_ANY_PARAMETER: Final = re.compile(r"[?&][^=&#]*password=([^&#]*)")


def is_address(text: str) -> bool:
    """Whether it may be one: where it is not, a part of its password would be taken for a host, and shown."""
    return _ADDRESS.fullmatch(text) is not None if looks_like_address(text) else "=" in text


def parts_of(text: str) -> dict[str, Any]:
    """The parts of `postgresql://user:password@host:port/database?…`, or of `host=… password=…`, as far as there are any."""
    if not looks_like_address(text):
        return {name: re.sub(r"\\(.)", r"\1", value.strip("'")) for name, value in _SETTING.findall(text)}
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return {}
    user, _, password = (found["login"] or "").partition(":")
    made: dict[str, Any] = {"user": unquote(user), "password": unquote(password)}
    made["database"] = unquote((found["path"] or "").strip())
    if "," not in found["hosts"]:  # several are for that library to go through
        host, digits = _HOSTS.findall(found["hosts"])[0]
        made |= {"host": unquote(host.strip("[]")), "port": int(digits) if digits else None}
    made |= {name: value for name, value in parse_qsl(found["query"] or "") if name in _PARAMETERS}
    return {name: value for name, value in made.items() if value not in (None, "")}


def passwords_in(text: str) -> Iterator[str]:
    """The passwords of an address, decoded and as they stand in it, which may be another spelling."""
    yield from (str(value) for name, value in parts_of(text).items() if "password" in name)
    for found in (one for pattern in (_ANY_LOGIN, _ANY_PARAMETER) for one in pattern.findall(text)):
        yield from (found, unquote(found))

"""Addresses with a secret in them: which part is secret; addresses of PostgreSQL, taken apart as its own library does. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from noetl.redaction.finder import common_prefix_length

#: what is an address as a whole, and not something that has one in it
_ADDRESS: Final = re.compile(r"[a-z][\w+.-]*://(?P<rest>[^\s{}]+)\s*", re.IGNORECASE)
_LIKE_AN_ADDRESS: Final = re.compile(r"\s*[\w+.:-]*://")
#: a password before the host, which may hold an `@` that should have been written `%40`
_LOGIN: Final = re.compile(r"[^:/?#@]+:(.+)@|:(.+)@")
#: instead of a password, where the name before it is the secret
_NO_PASSWORDS: Final = frozenset({"x-oauth-basic"})
_PARAMETER: Final = re.compile(r"[?&][^=&#]*password=([^&#]+)")
_PLACE: Final = re.compile(r"[^/?#]*")
#: settings: `host=… password=…`, and those of them that are open
_SETTINGS: Final = re.compile(r"\s*(?:host|hostaddr|port|dbname|user|password|sslmode)\s*=")
_SETTING: Final = re.compile(r"\b(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*)")
_OPEN: Final = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "sslmode", "sslrootcert", "application_name", "connect_timeout"}
)
#: bits of a character that are another one's in any encoding, at its beginning as well as at its end
_BITS: Final = 0x41


class PrefixIndex:
    """Texts, and how many characters another one shares with the beginning of any of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = sorted(texts)

    def common_length(self, text: str) -> int:
        """The most characters that it shares with one of them."""
        at = bisect_left(self._texts, text)
        return max((common_prefix_length(text, near) for near in self._texts[max(0, at - 1) : at + 1]), default=0)


def looks_like_address(text: str) -> bool:
    """Whether it begins as addresses do, whatever follows."""
    return _LIKE_AN_ADDRESS.match(text) is not None


def replace_secret(secret: str) -> str | None:
    """The same address with something else where its secret stands; None: nothing of it is known to be open."""
    start, end = _settings_secret_span(secret) if _SETTINGS.match(secret) else _address_secret_span(secret)
    if start >= end:
        return None
    return secret[:start] + "".join(chr(ord(letter) ^ _BITS) for letter in secret[start:end]) + secret[end:]


def _settings_secret_span(secret: str) -> tuple[int, int]:
    """From where to where settings are secret: their passwords, and whatever is not known to be open."""
    if _SETTING.sub("", secret).strip():
        return 0, 0
    found = [one.span(2) for one in _SETTING.finditer(secret) if one[1] not in _OPEN]
    return (found[0][0], found[-1][1]) if found else (0, 0)


def _address_secret_span(secret: str) -> tuple[int, int]:
    """From where to where an address is secret: its passwords; of one that is not a database's, all behind them or its host."""
    address = _ADDRESS.fullmatch(secret)
    if address is None:
        return 0, 0
    begin, end = address.span("rest")
    login = _login_span(secret, begin, end)
    if not secret.startswith("postgres"):
        return (login[0] if login else _end_of_host(secret, begin, end)), end
    found = [*([login] if login else []), *(one.span(1) for one in _PARAMETER.finditer(secret, begin, end))]
    if not found:
        return _end_of_host(secret, begin, end), end
    return min(start for start, _ in found), max(end for _, end in found)


def _login_span(secret: str, begin: int, end: int) -> tuple[int, int] | None:
    """A password; where there is none before an `@`, all that stands there: it may be a token."""
    found = _LOGIN.match(secret, begin, end)
    if found and found[found.lastindex or 0] not in _NO_PASSWORDS:
        return found.span(found.lastindex or 0)
    at = secret.rfind("@", begin, end)
    return (begin, at) if at > begin else None


def _end_of_host(secret: str, begin: int, end: int) -> int:
    place = _PLACE.match(secret, begin, end)
    behind = place.end() if place else end
    return behind if secret[behind:end].strip("/") else end


# Addresses of PostgreSQL.


EXAMPLE: Final = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
ADDRESS_HINT: Final = f"write {EXAMPLE}, where in a name or a password @ / # % are written %40 %2F %23 %25"

_POSTGRES_LOGIN = r"(?:[^%@/]|%[0-9A-Fa-f]{2})*"
_HOST = r"(?:\[[^\]@/?#]*\]|[^\[\]:,@/?#]*)(?::\d*)?"
#: a value ends at the next `&`, and there is one way to read it: none is tried again
_QUERY = r"(?:[^=&@]+=[^&=]*(?:&[^=&@]+=[^&=]*)*&?)?"
_POSTGRES_ADDRESS: Final = re.compile(
    rf"postgres(?:ql)?://(?:(?P<login>{_POSTGRES_LOGIN})@)?(?P<hosts>{_HOST}(?:,{_HOST})*)(?:/(?P<path>[^@?]*))?(?:\?(?P<query>{_QUERY}))?\s*"
)
_HOSTS: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")
_PARAMETERS: Final = frozenset({"user", "password", "sslmode", "sslpassword"})
#: settings that are no address
_POSTGRES_SETTING: Final = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*)")
#: passwords in what may be no address at all
_ANY_LOGIN: Final = re.compile(r"://[^:/?#@]*:(.*)@", re.DOTALL)
_ANY_PARAMETER: Final = re.compile(r"[?&][^=&#]*password=([^&#]*)")


def is_address(text: str) -> bool:
    """Whether it may be one: where it is not, a part of its password would be taken for a host, and shown."""
    return _POSTGRES_ADDRESS.fullmatch(text) is not None if looks_like_address(text) else "=" in text


def parts_of_address(text: str) -> dict[str, Any]:
    """The parts of `postgresql://user:password@host:port/database?…`, or of `host=… password=…`, as far as there are any."""
    if not looks_like_address(text):
        return {name: re.sub(r"\\(.)", r"\1", value.strip("'")) for name, value in _POSTGRES_SETTING.findall(text)}
    found = _POSTGRES_ADDRESS.fullmatch(text)
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


def passwords_in_address(text: str) -> Iterator[str]:
    """The passwords of an address, decoded and as they stand in it, which may be another spelling."""
    yield from (str(value) for name, value in parts_of_address(text).items() if "password" in name)
    for found in (one for pattern in (_ANY_LOGIN, _ANY_PARAMETER) for one in pattern.findall(text)):
        yield from (found, unquote(found))

"""How a credential becomes a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.drivers.postgres.postgres_errors import NoAddress
from noetl.redaction import is_address

_PARTS = {
    "host": "host",
    "hostaddr": "hostaddr",
    "port": "port",
    "user": "user",
    "username": "user",
    "password": "password",
    "database": "dbname",
    "dbname": "dbname",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}
_CONNECT_S = 10


def connection_arguments(auth: Mapping[str, Any]) -> dict[str, Any]:
    """What `psycopg.connect` takes, of a credential of any kind that fits: its address, and the parts that are given beside it.

    NoAddress: its address is none, of which the driver would take a part of the password for a host, look for it, and show it.
    """
    named = {ours: auth[theirs] for theirs, ours in _PARTS.items() if auth.get(theirs) not in (None, "")}
    address = {"conninfo": str(auth["dsn"])} if auth.get("dsn") else {}
    if address and not is_address(address["conninfo"]):
        raise NoAddress
    return {"fallback_application_name": "noetl", "connect_timeout": _CONNECT_S, **address, **named}


def hosts(auth: Mapping[str, Any]) -> list[str]:
    """The hosts that a connection may go to, in lower case; one that is not named is the empty text.

    NoAddress, psycopg.Error: its address is none, and what it holds must not be told.
    """
    from psycopg.conninfo import conninfo_to_dict

    given = connection_arguments(auth)
    conninfo = given.pop("conninfo", "")
    parts = conninfo_to_dict(conninfo, **given)
    named = parts.get("hostaddr") or parts.get("host") or ""
    return [host.strip().lower() for host in str(named).split(",")]


def connection_refusal(auth: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    """Why `network` or `allow_hosts` of an effective spec forbid the connection; None: they do not."""
    if spec.get("network") == "off":
        return "`network: off` does not let this task connect to PostgreSQL"
    allowed = spec.get("allow_hosts")
    if allowed is None or "*" in allowed:
        return None
    for host in hosts(auth):
        if not any(_fits(host, str(pattern).lower()) for pattern in allowed):
            return (
                f"`allow_hosts` does not let this task connect to {host or 'a host that its credential does not name'}"
            )
    return None


def _fits(host: str, pattern: str) -> bool:
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))

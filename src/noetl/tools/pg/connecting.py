"""How a credential becomes a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PARTS = {
    "host": "host",
    "port": "port",
    "user": "user",
    "password": "password",
    "database": "dbname",
    "sslmode": "sslmode",
}
_CONNECT_S = 10


def arguments(auth: Mapping[str, Any]) -> dict[str, Any]:
    """What `psycopg.connect` takes, of a `postgres_credential`: its address, or the parts that it is made of."""
    named = {ours: auth[theirs] for theirs, ours in _PARTS.items() if auth.get(theirs) not in (None, "")}
    if auth.get("dsn"):
        named = {"conninfo": str(auth["dsn"])}
    return {"application_name": "noetl", "connect_timeout": _CONNECT_S, **named}

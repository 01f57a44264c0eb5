"""The headers that a credential stands for in an HTTP request."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

AUTHORIZATION = "Authorization"


class NotForHttp(Exception):
    """A credential that says nothing to an HTTP server."""


def header_of(auth: Mapping[str, Any]) -> tuple[str, str]:
    """Name and value of the header: by the credential's kind, else by the parts it has."""
    kind = auth.get("kind")
    if kind == "basic" or (auth.get("username") is not None and auth.get("password") is not None):
        pair = f"{auth.get('username', '')}:{auth.get('password', '')}"
        return AUTHORIZATION, f"Basic {b64encode(pair.encode()).decode()}"
    if kind == "header" or auth.get("header"):
        return str(auth.get("header") or AUTHORIZATION), f"{auth.get('prefix') or ''}{auth.get('value', '')}"
    token = auth.get("token") or auth.get("value")
    if isinstance(token, str) and token:
        return AUTHORIZATION, f"Bearer {token}"
    raise NotForHttp(f"a credential of the kind `{kind}` has neither a token nor a user, so HTTP cannot use it")

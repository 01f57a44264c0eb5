"""Tokens of OAuth2 client credentials: asked for once, shared by all who wait, renewed before they run out."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

import msgspec

from noetl.ports import NoCredential
from noetl.secrets.web import Web

#: a token that says nothing of its end is taken to hold so long, in seconds
_USUAL = 300.0
#: a token is renewed so long before its end, or at nine tenths of its life where that is later
_EARLY = 30.0


class Token(msgspec.Struct, frozen=True):
    """A token, and until when it is used."""

    fields: dict[str, Any]
    renew_at: float


class Tokens:
    """The tokens of one credential."""

    def __init__(self, name: str, credential: Mapping[str, Any], web: Web, clock: Callable[[], float]) -> None:
        self._name = name
        self._credential = credential
        self._web = web
        self._clock = clock
        self._token: Token | None = None
        self._turn = asyncio.Lock()

    @property
    def is_fresh(self) -> bool:
        """Whether there is a token that need not be renewed yet."""
        return self._token is not None and self._clock() < self._token.renew_at

    async def get(self, *, instead_of: str | None = None) -> dict[str, Any]:
        """A token that holds; `instead_of` one that was refused, if nobody has renewed that meanwhile."""
        async with self._turn:
            token = self._token
            if token is None or not self.is_fresh or token.fields["token"] == instead_of:
                token = self._token = await self._ask()
            return token.fields

    async def _ask(self) -> Token:
        given, asked_at = self._credential, self._clock()
        form = {"grant_type": "client_credentials"}
        scope = given.get("scope")
        if scope:
            form["scope"] = " ".join(map(str, scope)) if isinstance(scope, list) else str(scope)
        if given.get("audience"):
            form["audience"] = str(given["audience"])
        way = (given.get("options") or {}).get("client_auth")
        status, answer = await self._post(form, way or "body")
        if status in (400, 401) and way is None and answer.get("error") in ("invalid_client", "invalid_request", None):
            status, answer = await self._post(form, "basic")
        token = answer.get("access_token")
        if status != 200 or not isinstance(token, str) or not token:
            error = answer.get("error")
            why = f"{status} {error}" if isinstance(error, str) else str(status)
            raise NoCredential(f"no token for `{self._name}` from its `token_url`: {why}", retryable=status >= 500)
        life = _seconds(answer.get("expires_in"))
        renew_at = asked_at + max(life - _EARLY, life * 0.9)
        kind = answer.get("token_type")
        return Token({"token": token, "token_type": kind, "expires_at": asked_at + life}, renew_at)

    async def _post(self, form: dict[str, str], way: str) -> tuple[int, dict[str, Any]]:
        """Ask, with the client's secret in the body or in a header: services differ in what they take."""
        client, secret = str(self._credential["client_id"]), str(self._credential["client_secret"])
        headers = {"Accept": "application/json"}
        if way == "basic":
            pair = f"{quote_plus(client)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form = {**form, "client_id": client, "client_secret": secret}
        return await self._web.ask("POST", str(self._credential["token_url"]), headers=headers, form=form)


def _seconds(value: Any) -> float:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return _USUAL

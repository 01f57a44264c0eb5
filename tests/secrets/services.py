"""Stand-ins that speak what the real services speak: Vault's key/value engine, and an OAuth2 token endpoint."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


@asynccontextmanager
async def serving(*routes: web.RouteDef) -> AsyncIterator[str]:
    """A server on loopback; yields its address."""
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class VaultStandIn:
    """`GET /v1/<mount>/data/<path>[?version=n]`, with versions, deletions, policies and a seal."""

    def __init__(self, token: str) -> None:
        self.token = token
        #: mount/path → versions; None: that one was deleted
        self.secrets: dict[str, list[dict[str, Any] | None]] = {}
        self.denied: set[str] = set()
        self.sealed = False
        self.namespaces: list[str | None] = []

    def routes(self) -> tuple[web.RouteDef, ...]:
        return (web.get("/v1/{mount}/data/{path:.*}", self.read), web.get("/v1/{rest:.*}", self.unknown))

    async def unknown(self, _request: web.Request) -> web.Response:
        return web.json_response({"errors": []}, status=404)

    async def read(self, request: web.Request) -> web.Response:
        self.namespaces.append(request.headers.get("X-Vault-Namespace"))
        if self.sealed:
            return web.json_response({"errors": ["Vault is sealed"]}, status=503)
        name = f"{request.match_info['mount']}/{request.match_info['path']}"
        if request.headers.get("X-Vault-Token") != self.token or name in self.denied:
            return web.json_response({"errors": ["1 error occurred:\n\t* permission denied\n\n"]}, status=403)
        versions = self.secrets.get(name)
        if not versions:
            return web.json_response({"errors": []}, status=404)
        number = int(request.query.get("version", len(versions)))
        data = versions[number - 1]
        deleted = "" if data is not None else "2026-01-01T00:00:00Z"
        metadata = {
            "version": number,
            "created_time": "2026-01-01T00:00:00Z",
            "deletion_time": deleted,
            "destroyed": False,
        }
        body = {"request_id": "r", "lease_id": "", "data": {"data": data, "metadata": metadata}, "auth": None}
        return web.json_response(body, status=200 if data is not None else 404)


class TokenStandIn:
    """RFC 6749, 4.4: a token for a client that knows its secret; resources that want the latest one."""

    def __init__(self, client: str, secret: str, *, lives: float = 3600, way: str = "either") -> None:
        self.client, self.secret = client, secret
        self.lives = lives
        self.way = way
        self.issued: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.prefix = "access-"
        self.broken = False

    def routes(self) -> tuple[web.RouteDef, ...]:
        return (web.post("/token", self.token), web.get("/items", self.items))

    async def token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.forms.append(form)
        header = request.headers.get("Authorization", "")
        pair = b64decode(header.removeprefix("Basic ")).decode() if header.startswith("Basic ") else ""
        in_body = (form.get("client_id"), form.get("client_secret")) == (self.client, self.secret)
        in_header = pair == f"{self.client}:{self.secret}"
        good = {"either": in_body or in_header, "basic": in_header, "body": in_body}[self.way]
        if self.broken:
            return web.json_response({"error": "server_error"}, status=500)
        if form.get("grant_type") != "client_credentials" or not good:
            return web.json_response({"error": "invalid_client"}, status=401)
        self.issued.append(f"{self.prefix}{len(self.issued) + 1}-Zq81xvT4")
        answer = {"access_token": self.issued[-1], "token_type": "Bearer", "expires_in": self.lives}
        return web.json_response(answer)

    async def items(self, request: web.Request) -> web.Response:
        if not self.issued or request.headers.get("Authorization") != f"Bearer {self.issued[-1]}":
            return web.json_response({"error": f"not {request.headers.get('Authorization')}"}, status=401)
        return web.json_response({"items": [1, 2, 3]})

    def revoke(self) -> None:
        """The latest token is not taken any more."""
        self.issued.append("revoked")

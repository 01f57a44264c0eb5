"""The routes for tokens and the audit log: for those who manage the server."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.errors import UsageError
from noetl.model.access import ApiToken, AuditEntry, AuditQuery, Role, TokenRequest, format_time
from noetl.server.http.access import add_token, remove_token
from noetl.server.http.bodies import HttpProblem, decode_body, number
from noetl.server.http.routes import ApiContext, Route, json

#: entries of a page, unless asked for otherwise, and at most
_PAGE, _MOST = 100, 1_000


class TokenDescription(msgspec.Struct, frozen=True):
    """What is shown of a token."""

    name: str
    role: Role
    #: its last characters
    hint: str
    created_at: str
    #: until when it is valid, and when it was last used; in seconds since the epoch
    expires: float | None
    last_used: float | None
    #: the playbook paths that it is for; none: all
    paths: tuple[str, ...]
    #: of a worker's: what its workers are called, and its pools; none: all
    worker: str | None
    pools: tuple[str, ...]


class TokenList(msgspec.Struct, frozen=True):
    """The tokens, by name."""

    tokens: list[TokenDescription]


class NewToken(msgspec.Struct, frozen=True):
    """A token that was made; it is shown this once."""

    token: str
    about: TokenDescription


class AuditPage(msgspec.Struct, frozen=True):
    """Some of the audit log, the latest first."""

    entries: list[AuditEntry]
    #: what `cursor` is for the next page; None: this is the last
    cursor: int | None = None


def describe_token(token: ApiToken) -> TokenDescription:
    """Return what is shown of a token."""
    return msgspec.convert(token, TokenDescription, from_attributes=True)


async def list_tokens(context: ApiContext, _request: Request) -> Response:
    """GET /api/tokens."""
    stored = await context.read(context.tokens.store.tokens)
    found = [*stored, *await context.read(context.tokens.file.read)]
    return json(TokenList([describe_token(one) for one in sorted(found, key=lambda one: one.name)]))


async def make_token(context: ApiContext, request: Request) -> Response:
    """POST /api/tokens."""
    wish = await decode_body(request, TokenRequest)
    request.state.object = wish.name
    known = {one.name for one in await context.read(context.tokens.store.tokens)}
    if wish.name in known:
        raise HttpProblem(409, f"there is a token {wish.name!r} already; remove it first")
    tokens = context.tokens
    token, kept = await add_token(tokens.store, tokens.file, wish, context.control_plane.effects.clock)
    return json(NewToken(token, describe_token(kept)), 201, {"Location": f"/api/tokens/{kept.name}"})


async def drop_token(context: ApiContext, request: Request) -> Response:
    """DELETE /api/tokens/{name}."""
    name = request.path_params["name"]
    found = await remove_token(context.tokens.store, context.tokens.file, name)
    if found is None:
        raise HttpProblem(404, f"there is no token {name!r}")
    return json(describe_token(found))


async def list_audit(context: ApiContext, request: Request) -> Response:
    """GET /api/audit."""
    asked = request.query_params
    limit = max(1, number(request, "limit", _PAGE, _MOST))
    before = number(request, "cursor", 0) or None
    query = AuditQuery(
        _time(request, "since"), _time(request, "until"), asked.get("who"), asked.get("action"), before, limit + 1
    )
    found = await context.read(context.tokens.store.audit, query)
    page = found[:limit]
    return json(AuditPage(page, page[-1].number if len(found) > limit else None))


def _time(request: Request, name: str) -> str | None:
    given = request.query_params.get(name)
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
        return format_time((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise UsageError(f"`{name}` is a time such as 2026-01-31T12:00:00Z, not {given[:50]!r}") from None


ROUTES = [
    Route("GET", "/api/tokens", "admin", "whole", list_tokens, "The tokens, by name; never a token itself.", gives=TokenList),
    Route(
        "POST",
        "/api/tokens",
        "admin",
        "whole",
        make_token,
        "Make a token; the answer has it, this once.",
        TokenRequest,
        NewToken,
        201,
        action="token.add",
    ),
    Route(
        "DELETE",
        "/api/tokens/{name}",
        "admin",
        "whole",
        drop_token,
        "Remove a token; no server admits it a second later.",
        gives=TokenDescription,
        action="token.remove",
    ),
    Route(
        "GET",
        "/api/audit",
        "admin",
        "whole",
        list_audit,
        "What was called to change something, and what was refused; the latest first.",
        gives=AuditPage,
        query={
            "since": "only entries from this time on, such as 2026-01-31T12:00:00Z",
            "until": "only entries before this time",
            "who": "only those of this token, or this user",
            "action": "only this action, such as `execution.cancel`",
            "cursor": "the `cursor` of the page before",
            "limit": "how many, at most 1000",
        },
    ),
]  # fmt: skip

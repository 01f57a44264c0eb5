"""Bodies of requests: no larger than their route allows, JSON of no more depth than anybody needs."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.errors import ExecutionStuck, NoetlError, SignalRefused, UsageError
from noetl.ports import Conflict, ResultDamaged, ResultGone, StoreFailed

# Problems: what the API answers when it does not do what was asked (RFC 9457).


#: what an error of ours means to a caller; the first that fits
_STATUS: tuple[tuple[type[NoetlError], int], ...] = (
    (UsageError, 400),
    (SignalRefused, 422),
    (ExecutionStuck, 422),
    (Conflict, 409),
    (ResultGone, 410),
    (ResultDamaged, 500),
    (StoreFailed, 503),
)


class HttpProblem(Exception):
    """A request that is not done: its status, why, and what else a program may want to know."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers or {}, more

    def response(self) -> Response:
        """The answer that tells it."""
        title = HTTPStatus(self.status).phrase
        told = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail, **self.more}
        return Response(msgspec.json.encode(told), self.status, self.headers, "application/problem+json")


def problem_of(error: NoetlError) -> HttpProblem:
    """One of our own errors as an answer. None of their messages holds a secret."""
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return HttpProblem(status, str(error), {"Retry-After": "1"} if status == 503 else None)


def no_execution(execution_id: str) -> HttpProblem:
    """What is asked about is not there."""
    return HttpProblem(404, f"there is no execution {execution_id!r}")


T = TypeVar("T")
#: of a playbook's text, and of what an execution is given
MOST_TEXT = 1_000_000
MOST_PAYLOAD = 256_000
#: of a request that starts an execution: the playbooks that it calls come along
MOST_START = 8_000_000
#: of other requests
MOST = 300_000
DEPTH = 64
#: a body of more than so many times what is allowed is not even read to its end
_PATIENT = 4
#: seconds that a body may take
_BODY_S = 60.0


async def body_of(request: Request, most: int) -> bytes:
    """All of a body; what is too large is not kept.

    Of a body that is a few times too large the rest is taken and dropped: who is still sending does not hear an answer.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HttpProblem(415, "the body is compressed; send it as it is")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > _PATIENT * most:
        raise _too_large(most)
    size, parts = 0, []
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > _PATIENT * most:
                    break
                if size <= most:
                    parts.append(part)
    except TimeoutError:
        raise HttpProblem(408, f"the body did not come within {_BODY_S:g} s", {"Connection": "close"}) from None
    if size > most:
        raise _too_large(most)
    return b"".join(parts)


async def decode_body(request: Request, kind: type[T], most: int = MOST) -> T:
    """A JSON body of a known shape."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        # A page of another site can send forms and plain text without asking, but not this.
        raise HttpProblem(415, "the body has to be JSON: Content-Type: application/json")
    return parse_json(await body_of(request, most), kind)


def parse_json(body: bytes, kind: type[T]) -> T:
    """JSON of a known shape."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise HttpProblem(400, f"the body is not as it should be: {error}") from None
    except RecursionError:
        raise _too_deep() from None


def value_of(raw: bytes, what: str, most: int = MOST_PAYLOAD) -> Any:
    """A value of any shape, out of a body."""
    if len(raw) > most:
        raise HttpProblem(413, f"the {what} has {len(raw):,} bytes; {most:,} are allowed")
    value = parse_json(raw, object)
    level: list[Any] = [value]
    for _ in range(DEPTH):
        level = [one for held in level for one in _walk_nested(held)]
        if not level:
            return value
    raise _too_deep()


def _walk_nested(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [one for one in value.values() if isinstance(one, dict | list)]
    return [one for one in value if isinstance(one, dict | list)] if isinstance(value, list) else []


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(413, f"the body is too large: {most:,} bytes are allowed", {"Connection": "close"})


def _too_deep() -> HttpProblem:
    return HttpProblem(400, f"the JSON is nested too deeply: {DEPTH} levels are allowed")


def number(request: Request, name: str, otherwise: int, most: int | None = None) -> int:
    """A whole number out of the query."""
    given = request.query_params.get(name)
    if given is None:
        return otherwise
    if not given.isdecimal() or len(given) > 15:
        raise HttpProblem(400, f"`{name}` is a whole number, not {given!r}")
    return int(given) if most is None else min(int(given), most)


def flag(request: Request, name: str) -> bool:
    """Yes or no out of the query."""
    given = request.query_params.get(name, "false").lower()
    if given not in ("true", "false", "1", "0", ""):
        raise HttpProblem(400, f"`{name}` is true or false, not {given!r}")
    return given in ("true", "1", "")

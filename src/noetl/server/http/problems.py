"""Problems: what the API answers when it does not do what was asked (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from noetl.errors import NoetlError, UsageError
from noetl.ports import Conflict, ResultDamaged, ResultGone, StoreFailed

#: what an error of ours means to a caller; the first that fits
_STATUS: tuple[tuple[type[NoetlError], int], ...] = (
    (UsageError, 400),
    (Conflict, 409),
    (ResultGone, 410),
    (ResultDamaged, 500),
    (StoreFailed, 503),
)


class Problem(Exception):
    """A request that is not done: its status, why, and what else a program may want to know."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers or {}, more

    def response(self) -> Response:
        """The answer that tells it."""
        title = HTTPStatus(self.status).phrase
        told = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail, **self.more}
        return Response(msgspec.json.encode(told), self.status, self.headers, "application/problem+json")


def problem_of(error: NoetlError) -> Problem:
    """One of our own errors as an answer. None of their messages holds a secret."""
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return Problem(status, str(error), {"Retry-After": "1"} if status == 503 else None)


def no_execution(execution_id: str) -> Problem:
    """What is asked about is not there."""
    return Problem(404, f"there is no execution {execution_id!r}")

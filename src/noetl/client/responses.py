"""Responses of servers, and the errors that they and broken connections are reported as."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from noetl.client.http1 import ResponseHead
from noetl.errors import (
    AccessDenied,
    ClientError,
    NotFound,
    RequestConflict,
    RequestInvalid,
    RequestRefused,
    ServerUnavailable,
    TooManyRequests,
    UnexpectedAnswer,
    describe_os_error,
)
from noetl.model.wire import UNDECODABLE

T = TypeVar("T")
_KINDS: Final[dict[int, type[RequestRefused]]] = {
    400: RequestInvalid,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    409: RequestConflict,
    413: RequestInvalid,
    415: RequestInvalid,
    422: RequestInvalid,
    429: TooManyRequests,
}
#: what a server or a proxy answers when the same request may succeed later
_LATER: Final = (502, 503, 504)
_TOO_MANY: Final = 429


class ServerResponse(NamedTuple):
    """An answer, all of it."""

    head: ResponseHead
    body: bytes

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.head.status


def failure_of(url: str, response: ServerResponse) -> ClientError | None:
    """Return the error that an answer stands for; None: it is a success."""
    status = response.status
    if 200 <= status < 300:
        return None
    if status < 400:
        target = response.head.header("location") or "another address"
        return UnexpectedAnswer(
            f"{url} redirects to {target!r}, which is not followed: your token must not reach another host. "
            f"Use the address of the server itself"
        )
    problem = parse_problem(response.body)
    message = f"the server: {problem.get('detail') or problem.get('title') or status}"
    if status in _LATER:
        return ServerUnavailable(message)
    if status == _TOO_MANY:
        problem = {**problem, "retry_after": _seconds_of(response.head.header("retry-after"))}
    return _KINDS.get(status, RequestRefused)(message, status, problem)


def _seconds_of(header: str | None) -> int | None:
    """What a header `Retry-After` says, in seconds; None: nothing, or a date."""
    return int(header) if header is not None and header.isascii() and header.isdecimal() and len(header) < 10 else None


def _escape_controls(text: str) -> str:
    """Return a server's text without what a terminal would obey, such as escape sequences; lines stay lines."""
    return "".join(one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in text)


def decode_answer(server: str, decode: Callable[[], T]) -> T:
    """Return what the body of an answer decodes to. UnexpectedAnswer: no NoETL server would answer so."""
    try:
        return decode()
    except UNDECODABLE as error:
        raise UnexpectedAnswer(f"{server} did not answer as a NoETL server does: {error}") from None


def parse_problem(body: bytes) -> Mapping[str, Any]:
    """Return what an error's body says; where it is no JSON, the beginning of its text."""
    try:
        found = msgspec.json.decode(body)
    except UNDECODABLE:
        return {"detail": _escape_controls(body[:200].decode("utf-8", "replace"))}
    if not isinstance(found, dict):
        return {"detail": _escape_controls(str(found)[:200])}
    words = {name: _escape_controls(str(found[name])) for name in ("detail", "title") if found.get(name)}
    return found | words


def explain_break(error: Exception | None) -> str:
    """Return why a connection was not made, or broke, and what to do where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}). "
            f"Set SSL_CERT_FILE to the file with the certificate of its issuer"
        )
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS. Write http:// instead of https://, if the network is one that you trust"
    if isinstance(error, socket.gaierror):
        return f"the host is not known ({error.strerror})"
    if isinstance(error, TimeoutError):
        return "there was no answer in time"
    return describe_os_error(error) if error is not None else "no reason is known"

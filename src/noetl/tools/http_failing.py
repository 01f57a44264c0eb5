"""What went wrong between a request and its response, as failures of tasks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp

from noetl.model.output import Failure, failure

#: how many are followed
REDIRECTS = 10


def transport_failure(target: str, error: Exception, spec: Mapping[str, Any]) -> Failure:
    """What went wrong before there was a whole response."""
    if isinstance(error, asyncio.TimeoutError):
        key, what = _TIMEOUTS[isinstance(error, aiohttp.ConnectionTimeoutError)]
        limit = f" (`spec.{key}: {spec[key]:g}`)" if isinstance(spec.get(key), int | float) else ""
        return failure("timeout", f"{target}: waited too long {what}{limit}", retryable=True)
    beneath = getattr(error, "os_error", error)
    for kind, what, retryable in _CAUSES:
        if isinstance(error, kind) or isinstance(beneath, kind):
            cause = _cause(error)
            return failure("http-transport", f"{target}: {what}{': ' + cause if cause else ''}", retryable=retryable)
    return failure("http-transport", f"{target}: {_cause(error) or type(error).__name__}")


_TIMEOUTS = {True: ("timeout.connect", "to connect"), False: ("timeout.read", "for data")}
#: the first that fits; whether trying again may help
_CAUSES: tuple[tuple[type[Exception], str, bool], ...] = (
    (aiohttp.TooManyRedirects, f"more than {REDIRECTS} redirects", False),
    (aiohttp.InvalidURL, "no address to send a request to", False),
    (aiohttp.ClientConnectorDNSError, "the host's name is not known (DNS)", True),
    (aiohttp.ClientConnectorCertificateError, "the server's certificate is not valid (TLS)", False),
    (aiohttp.ClientSSLError, "no secure connection (TLS)", True),
    (ssl.SSLError, "no secure connection (TLS)", True),
    (aiohttp.ServerDisconnectedError, "the server closed the connection without an answer", True),
    (aiohttp.ClientPayloadError, "the response broke off", True),
    (ConnectionRefusedError, "the connection was refused", True),
    (ConnectionResetError, "the connection was reset", True),
    (aiohttp.ClientConnectorError, "no connection", True),
    (OSError, "the connection failed", True),
    (aiohttp.ClientError, "the response is not HTTP", True),
)


def _cause(error: Exception) -> str:
    """The operating system's own word on it, else the library's; never an address with its query."""
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.TooManyRedirects, aiohttp.ServerDisconnectedError)):
        return ""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    cause = getattr(error, "os_error", error)
    return getattr(cause, "strerror", None) or str(cause)

"""The one HTTP client for NoETL servers: `Client` for commands and your programs, an asyncio transport for workers.

How to use it: docs/howto/use-from-python.md.
"""

from typing import TYPE_CHECKING

from noetl.client.api import CalledPlaybook, Client, EventPage, RequestEffect, ResultStream, StartedExecution
from noetl.errors import (
    AccessDenied,
    CallInvalid,
    ClientError,
    NotFound,
    RequestConflict,
    RequestInvalid,
    RequestRefused,
    ServerUnavailable,
    TooManyRequests,
    UnexpectedAnswer,
)
from noetl.lazy import export_lazily
from noetl.model.events import Event
from noetl.ports import Summary

if TYPE_CHECKING:
    from noetl.client.address import choose_tls as choose_tls, parse_address as parse_address
    from noetl.client.asyncio_transport import AsyncTransport as AsyncTransport
    from noetl.client.blocking import BlockingConnection as BlockingConnection
    from noetl.client.http1 import format_request as format_request
    from noetl.client.log import RemoteLog as RemoteLog
    from noetl.client.owner_token import (
        OwnerToken as OwnerToken,
        TokenSource as TokenSource,
        loopback_of as loopback_of,
        make_home_private as make_home_private,
        publish_owner_token as publish_owner_token,
    )
    from noetl.client.responses import decode_answer as decode_answer, failure_of as failure_of
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "address": "choose_tls parse_address",
            "asyncio_transport": "AsyncTransport",
            "http1": "format_request",
            "log": "RemoteLog",
            "owner_token": "OwnerToken TokenSource loopback_of make_home_private publish_owner_token",
            "responses": "decode_answer failure_of",
            "blocking": "BlockingConnection",
        },
    )

__all__ = [
    "AccessDenied",
    "CallInvalid",
    "CalledPlaybook",
    "Client",
    "ClientError",
    "Event",
    "EventPage",
    "NotFound",
    "RequestConflict",
    "RequestEffect",
    "RequestInvalid",
    "RequestRefused",
    "ResultStream",
    "ServerUnavailable",
    "StartedExecution",
    "Summary",
    "TooManyRequests",
    "UnexpectedAnswer",
]

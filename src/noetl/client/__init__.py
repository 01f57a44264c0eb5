"""The one HTTP client for NoETL servers: `Client` for commands and your programs, an asyncio transport for workers.

How to use it: docs/howto/use-from-python.md.
"""

from noetl.client.api import Client
from noetl.client.replies import CalledPlaybook, EventPage, RequestEffect, StartedExecution
from noetl.errors import (
    AccessDenied,
    ClientError,
    NotFound,
    RequestConflict,
    RequestInvalid,
    RequestRefused,
    ServerUnavailable,
    UnexpectedAnswer,
)
from noetl.model.events import Event
from noetl.ports import Summary

__all__ = [
    "AccessDenied",
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
    "ServerUnavailable",
    "StartedExecution",
    "Summary",
    "UnexpectedAnswer",
]

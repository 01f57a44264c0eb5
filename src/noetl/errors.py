"""The exceptions that NoETL raises on purpose, drawn as a tree. A test compares it with the classes.

NoetlError
├── TemplateError           a template failed while it was evaluated (`error.kind: template`)
│   ├── UndefinedValue      an undefined value was used where a value is needed
│   └── TemplateLimit       it ran too long or its result grew too large
├── ClientError             a call to a NoETL server failed
│   ├── ServerUnavailable   no server answered, or the connection broke: try again later
│   ├── CallInvalid         the call was not sent: no address of a server, or a value that is no JSON
│   ├── UnexpectedAnswer    the answer is not that of a NoETL server: malformed, too large, or a redirect
│   └── RequestRefused      a server answered with an error status; `status` and `problem` say which
│       ├── AccessDenied    401, 403: the token is missing or unknown, or its role does not allow the call
│       ├── NotFound        404: there is no such execution, playbook or payload
│       ├── TooManyRequests 429: the token, or the address, makes more calls than the server's limits allow
│       ├── RequestConflict 409: the execution has ended, or the idempotency key was used for another request
│       └── RequestInvalid  400, 413, 415, 422: the server will never accept this request
├── UsageError              the command line, or a file it names, cannot be used
│   └── CallInvalid         see above: the command line, too, may name such an address
├── StoreFailed             the event log cannot be read or written; what was durable still is (`ports.log`)
│   ├── StoreUnreachable    the store does not answer now, and may later
│   └── LogDamaged          the log of one execution cannot be read
├── MachineExhausted        this machine has no more open files, processes or memory (`drivers.exhaustion`)
├── Conflict                another process has appended to the execution's log: load it again (`ports.log`)
├── OwnedElsewhere          another process owns the execution (`server.core.children`)
├── ExecutionStuck          deciding what follows in an execution took too long, or failed (`errors`)
├── KeyReused               an idempotency key comes with another request than before (`server.core.start_keys`)
├── SignalRefused           no wait of the execution takes what was sent (`errors`)
├── ReplayDiverged          a recorded decision differs from the one the engine makes (`engine.decision_replay`)
├── ForkMismatch            the recorded events do not fit the playbook of a rerun (`history.fork`)
├── ResultGone              a payload was removed when its time to live ended (`ports.results`)
├── ResultDamaged           a payload differs from what was stored (`ports.results`)
├── NoCredential            a credential is missing or unusable; the message never holds a value (`ports.tools`)
├── BrokenPlugin            an installed plugin cannot be imported, or is no tool (`tools.registry`)
├── NoDuckDB                the extra `duckdb` is not installed (`rows.duck`)
├── BucketFailed            an object store refused a request or did not answer (`drivers.object_stores`)
│   └── NoObject            there is no object of that name
├── NatsFailed              a NATS server cannot be reached or used (`drivers.nats`)
├── NotStarted              a local server for development did not start (`services.servers`)
├── NotUnderstood           an older text has a construct that its interpreter does not know (`testing.verification`)
└── NoMockOutput            a mock of a test file has no output for a call (`testing.mocks`)

Exceptions that only carry control from the code that raises them to the code that catches them are no `NoetlError`, and
are not in the tree. A problem of a playbook is never an exception: it is a `Diagnostic` (see
`noetl.model.diagnostics`). A failure of a task is an `Output` (see `noetl.model.output`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NoetlError(Exception):
    """The root: catch this to catch everything NoETL raises on purpose."""


class TemplateError(NoetlError):
    """A template failed while it was evaluated."""

    kind = "template"

    def __init__(self, message: str, *, expression: str = "") -> None:
        super().__init__(message)
        self.message = message
        #: the template's source text, as the author wrote it
        self.expression = expression


class UndefinedValue(TemplateError):
    """An undefined reached a value."""


class TemplateLimit(TemplateError):
    """The template ran too long or grew too large."""


class ClientError(NoetlError):
    """A call to a NoETL server failed."""


class SignalRefused(NoetlError):
    """A signal that is awaited, and that no wait takes: nothing of it is recorded."""


class ExecutionStuck(NoetlError):
    """Deciding what follows in an execution took too long, or failed: it was set aside."""


class MachineExhausted(NoetlError):
    """This machine has no more open files, processes or memory: what was tried is tried again later."""


class UsageError(NoetlError):
    """The command line, or a file it names, cannot be used."""


class CallInvalid(ClientError, UsageError):
    """The call was not sent: no server is named, the address is none, or a value cannot be written as JSON."""


class ServerUnavailable(ClientError):
    """No server answered, or the connection broke. The same call may succeed later."""


class UnexpectedAnswer(ClientError):
    """The answer is not that of a NoETL server: malformed, too large, or a redirect."""


class RequestRefused(ClientError):
    """A server answered with an error status."""

    def __init__(self, message: str, status: int, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        #: the body of the answer, see RFC 9457: `detail` says what is wrong; an invalid playbook has `diagnostics`
        self.problem: Mapping[str, Any] = problem or {}

    @property
    def detail(self) -> str:
        """What the server said is wrong."""
        return str(self.problem.get("detail") or self)


class AccessDenied(RequestRefused):
    """The token is missing, unknown or expired, or its role does not allow this."""


class NotFound(RequestRefused):
    """The server has no such execution, playbook or payload."""


class TooManyRequests(RequestRefused):
    """More calls were made than the server's limits allow."""

    @property
    def retry_after_s(self) -> float:
        """Seconds after which the call may be made again."""
        found = self.problem.get("retry_after")
        return min(max(1.0, float(found)), 3600.0) if isinstance(found, int | float) else 1.0


class RequestConflict(RequestRefused):
    """The execution is over, or the idempotency key was used for another request."""


class RequestInvalid(RequestRefused):
    """The server will never accept this request: it is malformed, too large, or the playbook has errors."""


def describe_error(error: BaseException) -> str:
    """What an exception says: one of ours speaks for itself, of another it is told which it is."""
    return str(error) if isinstance(error, NoetlError) else f"{type(error).__name__}: {error}"


def describe_os_error(error: Exception) -> str:
    """An error of the system in words, without its number: `connection refused`, `no such file or directory`."""
    text = getattr(error, "strerror", None) if isinstance(error, OSError) else None
    if not text:
        return str(error) or type(error).__name__
    return f"{text[0].lower()}{text[1:]}"

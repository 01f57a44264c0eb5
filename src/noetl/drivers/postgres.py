"""PostgreSQL for tools, stores and results: connections from credentials, and what its errors mean to a task.

Nothing in an error comes from a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noetl.model.output import Failure, failure
from noetl.redaction import ADDRESS_HINT, is_address

if TYPE_CHECKING:
    import psycopg


NOT_INSTALLED = (
    "PostgreSQL's driver is not installed; it comes with the extra `postgres`: pip install 'noetl[postgres]'"
)
NO_ADDRESS = "has an address that is none"
#: codes of our own choice from the standard's list, where no server has given one
CANNOT_CONNECT, LOST, UNKNOWN_OUTCOME = "08001", "08006", "08007"
#: what may go well the next time: conflicts, locks, a server that goes, comes or is full
_LATER = frozenset(
    (
        "40001",
        "40P01",
        "55P03",
        "57P01",
        "57P02",
        "57P03",
        "57P05",
        "25P03",
        "25P04",
        "53000",
        "53100",
        "53200",
        "53300",
        "58030",
    )
)
#: what is wrong with a credential, and not with the moment: who, which password, which database
_CREDENTIAL = frozenset({"28000", "28P01", "3D000"})
_CANCELED = "57014"
#: what a server says that goes, or somebody in between
_GONE = ("08", "57P")
#: what a session answers that will not do better until it is replaced: it was opened while the database could only be read
#: (25006, and 0A000 on a standby), is stuck in a transaction, has lost its prepared statements, or met a fault of the server
_SPENT = (*_GONE, "0A", "25", "26", "XX")
#: no host has that in its name: a password that holds an `@` ends behind it
_NO_HOST = re.compile(r"""host (name )?['"][^'"]*@""")
#: what a server adds to its message, and under which name a failure has it
_DETAILS = {
    "message_detail": "detail",
    "message_hint": "hint",
    "constraint_name": "constraint",
    "table_name": "table",
    "column_name": "column",
}


class NoAddress(ValueError):
    """The address of a credential is none. Nothing of it is told."""

    def __init__(self) -> None:
        super().__init__(f"the credential {NO_ADDRESS}")


class PostgresFailed(Exception):
    """A failure that a task is to show, with what `output.pg` says of it."""

    def __init__(self, found: Failure, code: str | None = None) -> None:
        super().__init__(found["message"])
        self.failure = found
        self.code = code

    @property
    def pg(self) -> dict[str, Any]:
        """`output.pg` of the failed task."""
        return {"code": self.code, "sqlstate": self.code, "message": self.failure["message"], "rowcount": None}


def task_failure(
    kind: str, message: str, *, code: str | None = None, retryable: bool = False, **more: Any
) -> PostgresFailed:
    """A failure of our own making."""
    said = {"code": code} if code else {}
    return PostgresFailed(failure(kind, message, retryable=retryable, **said, **more), code)


def is_lost(error: psycopg.Error) -> bool:
    """Whether nobody knows what became of what was sent last: the connection went away, with or without a word."""
    import psycopg

    if error.sqlstate is not None:
        return error.sqlstate.startswith(_GONE)
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))


def is_spent_code(code: str | None) -> bool:
    """Whether a session that answers with this SQLSTATE is to be replaced."""
    return code is not None and code.startswith(_SPENT)


def is_spent(connection: psycopg.Connection[Any], error: BaseException) -> bool:
    """Whether a connection is of no use after an error: it is gone, or only a new one can do better."""
    import psycopg

    if connection.closed or connection.broken:
        return True
    return isinstance(error, psycopg.Error) and (is_lost(error) or is_spent_code(error.sqlstate))


def from_statement_error(error: psycopg.Error, **place: Any) -> PostgresFailed:
    """What became of a statement; `place` says where in the query it stands, with `shown` for the message."""
    shown = place.pop("shown", "")
    if error.sqlstate is None and is_lost(error):
        return task_failure(
            "sql", f"the connection to PostgreSQL was lost: {_server_message(error)}", code=LOST, retryable=True
        )
    code = error.sqlstate
    detail = error.diag.message_detail
    message = f"{_server_message(error)}{f' ({detail})' if detail else ''}{shown}"
    more = {name: value for part, name in _DETAILS.items() if (value := getattr(error.diag, part, None))} | place
    if code == _CANCELED and "timeout" in message.lower():
        return task_failure("timeout", message, code=code, retryable=True, **more)
    return task_failure("sql", message, code=code, retryable=is_retryable(code), **more)


def is_no_address(error: Exception) -> bool:
    """Whether there is no connection because the address is none. What the driver says then quotes the address, and the
    address holds the password: it must not be told.
    """
    if isinstance(error, NoAddress):
        return True
    import psycopg

    unread = isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None
    return unread or isinstance(error, UnicodeError) or _NO_HOST.search(str(error)) is not None


def from_connect_error(error: Exception, credential: str) -> PostgresFailed:
    """Why there is no connection: what is wrong with the credential, or who does not answer."""
    if is_no_address(error):
        return task_failure("credential", f"{credential} {NO_ADDRESS} (`dsn`); {ADDRESS_HINT}")
    code = _code_of(error)
    said = f"no connection to PostgreSQL with {credential}: {_server_message(error)}"
    if is_denied(error):
        return task_failure("credential", said, code=code)
    return task_failure("sql", said, code=code or CANNOT_CONNECT, retryable=True)


def is_denied(error: Exception) -> bool:
    """Whether a server will not have somebody, however often that is tried: who, which password, which database."""
    return _code_of(error) in _CREDENTIAL


def is_retryable(code: str | None) -> bool:
    """Whether the same statements may go well later."""
    return code is not None and (code in _LATER or code.startswith("08"))


def _server_message(error: Exception) -> str:
    """The server's own words, or the driver's, in one line."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = (primary or str(error) or type(error).__name__).splitlines()
    return " ".join(line.strip() for line in lines if line.strip())


#: a server that refuses a connection gives a code, but libpq hands on its words alone
_REFUSALS = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("authentication failed", "28000"),
    ("is not permitted to log in", "28000"),
    ("too many connections", "53300"),
    ("too many clients", "53300"),
    ("remaining connection slots", "53300"),
    ("the database system is", "57P03"),
)


def _code_of(error: Exception) -> str | None:
    return getattr(error, "sqlstate", None) or _code_in(str(error))


def _code_in(said: str) -> str | None:
    lowered = said.lower()
    for words, code in _REFUSALS:
        if words in lowered:
            return code
    if "does not exist" in lowered:
        return "3D000" if "database" in lowered else "28000" if "role" in lowered else None
    return None


# How a credential becomes a connection.


_PARTS = {
    "host": "host",
    "hostaddr": "hostaddr",
    "port": "port",
    "user": "user",
    "username": "user",
    "password": "password",
    "database": "dbname",
    "dbname": "dbname",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}
_CONNECT_S = 10


def connection_arguments(auth: Mapping[str, Any]) -> dict[str, Any]:
    """What `psycopg.connect` takes, of a credential of any kind that fits: its address, and the parts that are given beside it.

    NoAddress: its address is none, of which the driver would take a part of the password for a host, look for it, and show it.
    """
    named = {ours: auth[theirs] for theirs, ours in _PARTS.items() if auth.get(theirs) not in (None, "")}
    address = {"conninfo": str(auth["dsn"])} if auth.get("dsn") else {}
    if address and not is_address(address["conninfo"]):
        raise NoAddress
    return {"fallback_application_name": "noetl", "connect_timeout": _CONNECT_S, **address, **named}


def hosts(auth: Mapping[str, Any]) -> list[str]:
    """The hosts that a connection may go to, in lower case; one that is not named is the empty text.

    NoAddress, psycopg.Error: its address is none, and what it holds must not be told.
    """
    from psycopg.conninfo import conninfo_to_dict

    given = connection_arguments(auth)
    conninfo = given.pop("conninfo", "")
    parts = conninfo_to_dict(conninfo, **given)
    named = parts.get("hostaddr") or parts.get("host") or ""
    return [host.strip().lower() for host in str(named).split(",")]


def connection_refusal(auth: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    """Why `network` or `allow_hosts` of an effective spec forbid the connection; None: they do not."""
    if spec.get("network") == "off":
        return "`network: off` does not let this task connect to PostgreSQL"
    allowed = spec.get("allow_hosts")
    if allowed is None or "*" in allowed:
        return None
    for host in hosts(auth):
        if not any(_fits(host, str(pattern).lower()) for pattern in allowed):
            return (
                f"`allow_hosts` does not let this task connect to {host or 'a host that its credential does not name'}"
            )
    return None


def _fits(host: str, pattern: str) -> bool:
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))

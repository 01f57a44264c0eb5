"""Kinds of errors by their names in other engines, and what says the same here."""

from collections.abc import Mapping
from typing import Final

_STATUS = "output.http.status"
#: those of HTTP responses → the condition on the status that they are
STATUS_CONDITIONS: Final[Mapping[str, str]] = {
    "server_error": f"{_STATUS} >= 500",
    "5xx": f"{_STATUS} >= 500",
    "client_error": f"{_STATUS} >= 400 and {_STATUS} < 500",
    "4xx": f"{_STATUS} >= 400 and {_STATUS} < 500",
    "rate_limit": f"{_STATUS} == 429",
    "rate_limited": f"{_STATUS} == 429",
    "auth": f"{_STATUS} in [401, 403]",
    "auth_error": f"{_STATUS} in [401, 403]",
    "authentication": f"{_STATUS} == 401",
    "unauthorized": f"{_STATUS} == 401",
    "forbidden": f"{_STATUS} == 403",
    "authorization": f"{_STATUS} == 403",
    "not_found": f"{_STATUS} == 404",
}
#: those of other errors → the kind of today
FOREIGN_KINDS: Final[Mapping[str, str]] = {
    "connection": "http-transport",
    "connection_error": "http-transport",
    "network": "http-transport",
    "network_error": "http-transport",
    "timeout_error": "timeout",
    "http_error": "http-status",
    "http_status": "http-status",
    "sql_error": "sql",
    "database_error": "sql",
    "db_error": "sql",
    "python_error": "python",
    "shell_error": "shell",
    "playbook_error": "playbook",
}

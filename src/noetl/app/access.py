"""Who is admitted to a server process: the token that it makes for its owner, those of a file, and the limits on calls."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator

from noetl.client import OwnerToken, loopback_of, make_home_private, publish_owner_token
from noetl.config import Settings
from noetl.errors import UsageError
from noetl.server.http import AccessSettings, TokenFile, make_owner_token, new_token


def open_token_file(found: Settings) -> TokenFile:
    """The tokens of a file. UsageError: one is named that is not there."""
    if found.tokens is not None and not found.tokens.is_file():
        raise UsageError(
            f"NOETL_TOKENS names {found.tokens}, which is not there; tokens need no file: `noetl token add` keeps them in the store"
        )
    return TokenFile(found.tokens or found.home / "tokens.json")


@contextlib.contextmanager
def open_access(
    found: Settings, host: str, listening: socket.socket, print_line: Callable[[str], None]
) -> Iterator[AccessSettings]:
    """Who is admitted, as long as this lasts: then the owner's token is no longer valid."""
    file, port = open_token_file(found), listening.getsockname()[1]
    loopback, token = loopback_of(host), new_token()
    with contextlib.ExitStack() as stack:
        if loopback is not None and _can_publish(found, print_line):
            stack.enter_context(publish_owner_token(found.home, OwnerToken(loopback, port, token)))
        yield AccessSettings(
            file,
            make_owner_token(token),
            host,
            found.hosts,
            found.token_rate,
            found.address_rate,
            found.audit_days,
        )


def _can_publish(found: Settings, print_line: Callable[[str], None]) -> bool:
    """Whether the owner's token can lie in the home; a volume whose permissions are managed elsewhere may not be private."""
    try:
        make_home_private(found.home)
    except (UsageError, PermissionError) as error:
        print_line(f"warning: no token is made for the owner of this server: {error}")
        return False
    return True


def warn_root(what: str, print_line: Callable[[str], None]) -> None:
    """Say that a process runs as root."""
    if os.geteuid() == 0:
        print_line(
            f"warning: this {what} runs as root: whatever a playbook runs here may do everything; run it as a user of its own"
        )

"""Where a command acts: on this machine, or on a server that --server or NOETL_SERVER names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.client import Client

_GIVEN, _ASKED = "noetl.server", "noetl.asked"


def note_server(context: click.Context, _option: click.Parameter, given: str | None) -> None:
    """Remember which servers the command line names."""
    if given is not None:
        from noetl.config import parse_servers

        context.meta[_GIVEN] = parse_servers(given, "--server")


server_option = click.Option(
    ["--server"],
    metavar="URL",
    expose_value=False,
    callback=note_server,
    help="Act on the server at this address; several with commas between: the first that answers. Else NOETL_SERVER, "
    "else this machine.",
)


def read_server_names() -> tuple[str, ...]:
    """The servers that the command line names."""
    context = click.get_current_context(silent=True)
    found: tuple[str, ...] = context.meta.get(_GIVEN, ()) if context is not None else ()
    return found


def servers() -> tuple[str, ...]:
    """The servers that are meant; none: this machine."""
    from noetl.config import settings

    return read_server_names() or settings().server


def client() -> Client | None:
    """A client of the servers that are meant; None: this machine is."""
    named = servers()
    if not named:
        return None
    from noetl.client import Client

    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_ASKED] = named
    return Client(named, report=partial(click.echo, err=True))


def find_asked(context: click.Context | None) -> str | None:
    """The server that a command has asked for something; None: it has asked none."""
    from noetl.config import mask_login

    named: tuple[str, ...] = context.meta.get(_ASKED, ()) if context is not None else ()
    return ", ".join(map(mask_login, named)) or None


def refuse_remote(command: str, *, named_here: bool) -> None:
    """Refuse a command that acts on this machine where a server is meant; `named_here`: only by the command line itself."""
    named = read_server_names() if named_here else servers()
    if named:
        raise UsageError(
            f"`noetl {command}` acts on the machine it runs on, not on the server {named[0]}: run it there, "
            f"or without --server and NOETL_SERVER"
        )

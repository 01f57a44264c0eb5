"""noetl token: who may call a server, and as what."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import json_option
from noetl.cli.output.printing import as_json, columns, note, out
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.server.http import ApiTokens

#: as `server.http.api_tokens.ROLES`, which is not imported for the help
_ROLES = ("viewer", "operator", "author", "admin", "worker")
_NONE_LEFT = "a server answers its own machine alone; one that has asked for tokens does so until it is started anew"
_SPAN = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.group()
def command() -> None:
    """Make and remove the tokens that a server asks for.

    Without any, a server answers its own machine alone. What is kept of them lies in `tokens.json` in the home, or where
    NOETL_TOKENS says; a server that runs sees a change at once.
    """


@command.command()
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What whoever has it may do.")
@click.option(
    "--expires", metavar="TIME", help="How long it holds, such as 12h or 30d; by default until it is removed."
)
def add(*, name: str, role: str, expires: str | None) -> None:
    """Make a token, and print it. It is shown this once.

    A viewer may look; an operator also start what was run before, and cancel, pause and signal; an author also run any
    playbook; an admin everything. A worker may do the work, and nothing else.
    """
    from noetl.server.http import ROLES

    tokens = _tokens()
    is_first = not tokens.all()
    made = tokens.add(name, ROLES[_ROLES.index(role)], lasts=_span(expires))
    out(f"{made}\n")
    note(f"the token of {name} is shown only now; clients read it from NOETL_TOKEN")
    if is_first:
        note(
            "this is the first token: from now on servers require one from every client and every worker. "
            "Start workers with the NOETL_TOKEN of a token with the role `worker`"
        )


@command.command(name="list")
@json_option
def list_(*, as_data: bool) -> None:
    """List the tokens: name, role, last characters, how long they hold."""
    from noetl.cli.output.printing import local_time

    found = _tokens().all()
    told = [
        {"name": one.name, "role": one.role, "hint": one.hint, "created_at": one.created_at, "expires": one.expires}
        for one in found
    ]
    if as_data:
        out(as_json(told))
        return
    if not found:
        note(f"there are none: {_NONE_LEFT}")
        return
    rows = [("NAME", "ROLE", "TOKEN", "MADE", "HOLDS")]
    rows += [
        (one.name, one.role, f"…{one.hint}", local_time(one.created_at), _lifetime_text(one.expires)) for one in found
    ]
    out(columns(rows))


@command.command()
@click.argument("name")
def remove(*, name: str) -> None:
    """Remove a token; it holds no longer, at once."""
    tokens = _tokens()
    if tokens.remove(name) is None:
        raise UsageError(f"there is no token {name!r}; `noetl token list` lists them")
    note(f"{name} is removed")
    if not tokens.all():
        note(f"it was the last: {_NONE_LEFT}")


def _tokens() -> ApiTokens:
    from noetl.config import settings
    from noetl.server.http import ApiTokens

    found = settings()
    return ApiTokens(found.tokens or found.home / "tokens.json", time.time)


def _span(text: str | None) -> float | None:
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"--expires {text}: write a number and s, m, h or d, such as 12h or 30d")
    return int(found[1]) * _SECONDS[found[2]]


def _lifetime_text(expires: float | None) -> str:
    from noetl.cli.output.printing import duration

    if expires is None:
        return "until it is removed"
    left = expires - time.time()
    return f"{duration(left)} more" if left > 0 else "no longer"

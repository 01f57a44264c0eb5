"""noetl token: who may call a server, and as what."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import json_option
from noetl.cli.output.printing import as_json, columns, note, out
from noetl.cli.target import client
from noetl.errors import RequestConflict, UsageError

if TYPE_CHECKING:
    from noetl.model.access import ApiToken, TokenRequest
    from noetl.ports import AccessStore
    from noetl.server.http import TokenFile

#: as `model.access.ROLES`, which is not imported for the help
_ROLES = ("viewer", "operator", "author", "admin", "worker")
_SPAN = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.group()
def command() -> None:
    """Make and remove the tokens that servers require.

    Tokens are kept where executions are recorded, by their hashes: all servers of a cluster admit the same ones, and none that
    was removed. For a server of this machine you need none: it makes one for its owner by itself.
    """


@command.command()
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What whoever has it may do.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="PATH",
    help="Only playbooks of this path, or with `crm/*` of all below; may be repeated.",
)
@click.option(
    "--worker", metavar="NAME", help="Of a worker's token: what its workers are called; `gpu*`: how they begin."
)
@click.option(
    "--pool", "pools", multiple=True, metavar="NAME", help="Of a worker's token: a pool that it may serve; `*` is any."
)
@click.option(
    "--expires", metavar="TIME", help="How long it is valid, such as 12h or 30d; by default until it is removed."
)
@json_option
def add(
    *,
    name: str,
    role: str,
    paths: tuple[str, ...],
    worker: str | None,
    pools: tuple[str, ...],
    expires: str | None,
    as_data: bool,
) -> None:
    """Make a token, and print it. It is shown this once.

    A viewer may look; an operator also start what was run before, and cancel, pause and signal; an author also run any
    playbook; an admin everything. A worker may do the work of its pools (`default` unless --pool names others), and nothing else.
    """
    from noetl.model.access import ROLES, TokenRequest

    wish = TokenRequest(name, ROLES[_ROLES.index(role)], paths, worker, pools, _span(expires))
    token = _add(wish)
    if as_data:
        out(as_json({"name": name, "token": token}))
        return
    out(f"{token}\n")
    note(f"the token of {name} is shown only now; commands, programs and workers read it from NOETL_TOKEN")


def _add(wish: TokenRequest) -> str:
    there = client()
    if there is None:
        from noetl.server.http import add_token

        with _open_tokens("token.add", wish.name) as (store, file):
            return asyncio.run(add_token(store, file, wish, time.time))[0]
    with there:
        try:
            return there.add_token(wish)
        except RequestConflict as error:
            raise UsageError(error.detail) from None


@command.command(name="list")
@json_option
def list_(*, as_data: bool) -> None:
    """List the tokens: name, role, last characters, what they are for, how long they are valid."""
    from noetl.cli.output.printing import local_time

    found = sorted(_list(), key=lambda one: one.name)
    told = [_describe(one) for one in found]
    if as_data:
        out(as_json(told))
        return
    if not found:
        note("there are none; the owner of a server of this machine needs none, `noetl token add` makes one for others")
        return
    rows = [("NAME", "ROLE", "TOKEN", "FOR", "MADE", "VALID", "LAST USED")]
    rows += [
        (
            one.name,
            one.role,
            f"…{one.hint}",
            _scope_text(one),
            local_time(one.created_at),
            _lifetime_text(one.expires),
            "" if one.last_used is None else f"{_ago(one.last_used)} ago",
        )
        for one in found
    ]
    out(columns(rows))


def _list() -> list[ApiToken]:
    there = client()
    if there is not None:
        with there:
            return there.tokens()
    with _open_tokens() as (store, file):
        return [*store.tokens(), *file.read()]


@command.command()
@click.argument("name")
@json_option
def remove(*, name: str, as_data: bool) -> None:
    """Remove a token; within a second no server admits it any more."""
    there = client()
    if there is not None:
        with there:
            there.remove_token(name)
    else:
        from noetl.server.http import remove_token

        with _open_tokens("token.remove", name) as (store, file):
            if asyncio.run(remove_token(store, file, name)) is None:
                raise UsageError(f"there is no token {name!r}; `noetl token list` lists them")
    if as_data:
        out(as_json({"removed": name}))
    else:
        note(f"{name} is removed")


@contextmanager
def _open_tokens(*actions: str) -> Iterator[tuple[AccessStore, TokenFile]]:
    """The tokens of this machine; what is done with them is recorded."""
    from noetl.app import open_token_file
    from noetl.cli.local_audit import open_access_store
    from noetl.config import settings

    with open_access_store(actions) as store:
        yield store, open_token_file(settings())


def _describe(one: ApiToken) -> dict[str, Any]:
    return {
        "name": one.name,
        "role": one.role,
        "hint": one.hint,
        "created_at": one.created_at,
        "expires": one.expires,
        "paths": list(one.paths),
        "worker": one.worker,
        "pools": list(one.pools),
        "last_used": one.last_used,
    }


def _scope_text(one: ApiToken) -> str:
    if one.role != "worker":
        return ", ".join(one.paths) or "all playbooks"
    pools = f"pools {', '.join(one.pools)}" if one.pools else "all pools"
    return f"{pools}, workers {one.worker}" if one.worker is not None else pools


def _span(text: str | None) -> float | None:
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found is None or len(found[1]) > 9:
        raise UsageError(f"--expires {text}: write a number and s, m, h or d, such as 12h or 30d")
    return int(found[1]) * _SECONDS[found[2]]


def _lifetime_text(expires: float | None) -> str:
    from noetl.cli.output.printing import duration

    if expires is None:
        return "until it is removed"
    left = expires - time.time()
    return f"{duration(left)} more" if left > 0 else "expired"


def _ago(at: float) -> str:
    from noetl.cli.output.printing import duration

    return duration(max(0.0, time.time() - at))

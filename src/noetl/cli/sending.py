"""Sending a playbook to a server, with those that it calls, and following it there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.cli.attending import checked, ended, follow
from noetl.cli.elsewhere import Elsewhere
from noetl.cli.executions import catalog
from noetl.cli.printing import out
from noetl.client.replies import CalledPlaybook

if TYPE_CHECKING:
    from noetl.client.api import Client
    from noetl.model.net import Net

_ENDINGS = (".yaml", ".yml")


class Sent(NamedTuple):
    """A playbook that is to be run there, and what it is given."""

    name: str
    file: Path
    data: bytes
    payload: dict[str, Any]
    legacy: bool
    #: it was run there before: the server has its text
    known: bool


async def send(client: Client, wish: Sent, *, detach: bool, as_document: bool) -> int:
    """Run a playbook on a server, as `noetl run` does here; the exit code."""
    from noetl.cli.progress import progress

    _, net = checked(
        catalog(), wish.file, wish.data, wish.name, wish.payload, legacy=wish.legacy, as_document=as_document
    )
    execution_id = _started(client, wish, net)
    if detach:
        client.close()
        out(f'{{"execution_id": "{execution_id}"}}\n' if as_document else f"{execution_id}\n")
        return 0
    there = Elsewhere(client)
    try:
        with progress(there.watchers, quiet=as_document) as shown:
            shown.roots.append(there.follow(execution_id, net))
            interrupted = await follow(there, shown)
        return await ended(there, shown.roots, interrupted=interrupted, as_document=as_document)
    finally:
        await there.close()


def _started(client: Client, wish: Sent, net: Net) -> str:
    # Should the answer get lost, the same is asked for again and started once.
    key = str(uuid.uuid4())
    if wish.known:
        return client.start(net.playbook.path, wish.payload, key=key).execution_id
    return client.start(
        payload=wish.payload,
        text=wish.data.decode("utf-8-sig", "replace"),
        file=wish.file,
        calls=called(net, wish.file, legacy=wish.legacy),
        legacy=wish.legacy,
        key=key,
    ).execution_id


def called(net: Net, file: Path, *, legacy: bool) -> list[CalledPlaybook]:
    """The playbooks that one calls, and those that they call: their texts, files and the names they are called by.

    Where the name of one is made by a template, all playbooks of the folder come along.
    """
    names: dict[str, Path] = {}
    seen, waiting = {file.absolute()}, [(net, file.absolute())]
    while waiting:
        caller, where = waiting.pop()
        for name, found in _calls(caller, where):
            if names.setdefault(name, found) != found:
                # The same name means another playbook in another folder.
                names[f"{where.parent}/{name}"] = found
            if found not in seen:
                seen.add(found)
                below = catalog().read(found, legacy=legacy)[1].net
                waiting += [(below, found)] if below is not None else []
    files: dict[Path, list[str]] = {}
    for name, found in names.items():
        files.setdefault(found, []).append(name)
    return [
        CalledPlaybook(found.read_bytes().decode("utf-8-sig", "replace"), str(found), given)
        for found, given in files.items()
    ]


def _calls(net: Net, file: Path) -> Iterator[tuple[str, Path]]:
    """What a playbook calls: the name, and the file that it means."""
    from noetl.lang.checks.subject import all_tasks

    for _, task in all_tasks(net.playbook):
        if task.kind != "playbook":
            continue
        tree = getattr(task.config.get("path"), "tree", task.config.get("path"))
        path = getattr(tree, "source", tree)
        if isinstance(path, str) and "{" not in path:
            found = catalog().find(path, near=file)
            if found is not None:
                yield path, found.absolute()
        else:
            yield from _all_beside(file)


def _all_beside(file: Path) -> Iterator[tuple[str, Path]]:
    """All playbooks of a folder, by every name that one of them can be called by there."""
    from noetl.server.catalog import names_of

    files = [one for one in sorted(file.parent.iterdir()) if one.suffix in _ENDINGS and one.is_file() and one != file]
    taken: set[str] = set()
    for names in ((lambda one: [one.name, one.stem]), names_of):
        for one in files:
            for name in names(one):
                if name not in taken:
                    taken.add(name)
                    yield name, one.absolute()

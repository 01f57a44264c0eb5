"""Folders of playbooks that others call by their path: those of `--catalog`, else of the setting `catalog`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.files import SKIPPED_FOLDERS, looks_like_playbook
from noetl.cli.output.printing import note
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.client import CalledPlaybook
    from noetl.model.net import Net
    from noetl.server.core import Catalog

#: YAML files of all folders together, and how deep they lie
_MOST_FILES, _MOST_DEPTH = 10_000, 16
#: playbooks that come along where the path of a call is a template
_MOST_ANY = 1_000
#: files that are named in a message
_NAMED = 5
_ENDINGS = (".yaml", ".yml")

catalog_option = click.option(
    "--catalog",
    "folders",
    metavar="DIR",
    multiple=True,
    help="Find called playbooks by their path in this folder and below it; may be repeated. Else NOETL_CATALOG.",
)


@cache
def catalog() -> Catalog:
    """One for all executions of a command: most of them ran the same few playbooks."""
    from noetl.server.core import Catalog
    from noetl.tools import ToolKinds

    return Catalog(ToolKinds())


class CatalogFolders:
    """The playbooks in some folders and below them, by their path; read when one is first looked for."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(dict.fromkeys(folder.absolute() for folder in folders))
        for folder in self.folders:
            if not folder.is_dir():
                raise UsageError(f"the catalog {folder} is not a folder")
        self._found: dict[str, list[Path]] | None = None
        #: files that look like playbooks and have no path that can be read
        self.unreadable: list[Path] = []

    def find(self, path: str) -> Path | None:
        """Return the playbook of a path. UsageError: there are two."""
        files = self._playbooks().get(path, [])
        if len(files) > 1:
            raise UsageError(f"two playbooks of the catalog have the path `{path}`: {files[0]} and {files[1]}")
        if not files and (broken := self._broken_file(path)) is not None:
            raise UsageError(f"the playbook `{path}` cannot be read: run `noetl validate {broken}`")
        return files[0] if files else None

    def _broken_file(self, path: str) -> Path | None:
        """The file that a path most likely means, of those whose path cannot be read."""
        named = [one for one in self.unreadable if one.stem == Path(path).name]
        return named[0] if named else None

    def all_playbooks(self) -> Iterator[tuple[str, Path]]:
        """Return all of them, for a call whose path is not known before it runs."""
        paths = self._playbooks()
        if len(paths) > _MOST_ANY:
            raise UsageError(
                f"the catalog has {len(paths):,} playbooks, and a call whose `path` is a template needs all of them: at most "
                f"{_MOST_ANY:,} are allowed; name a smaller folder"
            )
        for path in paths:
            if (file := self.find(path)) is not None:
                yield path, file

    def _playbooks(self) -> dict[str, list[Path]]:
        if self._found is None:
            from noetl.server.core import path_of

            self._found = {}
            for file in dict.fromkeys(self._files()):
                if not looks_like_playbook(file):
                    continue
                if (path := path_of(file)) is not None:
                    self._found.setdefault(path, []).append(file)
                else:
                    self.unreadable.append(file)
        return self._found

    def _files(self) -> Iterator[Path]:
        count = 0
        for folder in self.folders:
            for root, below, files in os.walk(folder):
                below[:] = sorted(name for name in below if not name.startswith(".") and name not in SKIPPED_FOLDERS)
                if below and len(Path(root).relative_to(folder).parts) >= _MOST_DEPTH:
                    raise UsageError(f"the catalog {folder} is more than {_MOST_DEPTH} folders deep, at {root}")
                for name in sorted(files):
                    if name.endswith(_ENDINGS) and not name.endswith((".test.yaml", ".test.yml")):
                        count += 1
                        yield Path(root, name)
                if count > _MOST_FILES:
                    raise UsageError(f"the catalog has more than {_MOST_FILES:,} YAML files: name smaller folders")

    def note_unreadable(self) -> None:
        """Tell which files were left out."""
        if self.unreadable:
            named = ", ".join(map(str, self.unreadable[:_NAMED]))
            more = f" and {len(self.unreadable) - _NAMED} more" if len(self.unreadable) > _NAMED else ""
            note(f"skipped in the catalog, as their path cannot be read: {named}{more}; `noetl validate` says why")


def open_folders(given: Sequence[str]) -> CatalogFolders:
    """Return the folders of the command line, or else those of the settings."""
    from noetl.config import settings

    return CatalogFolders([Path(one) for one in given] or list(settings().catalog))


def collect_called(net: Net, file: Path, folders: CatalogFolders, *, legacy: bool) -> list[CalledPlaybook]:
    """Return the playbooks that one calls, and those that they call: their texts, files and the names they are called by.

    A name means a playbook of the caller's folder before one of the catalog. Where a name is made by a template, all
    playbooks of both come along.
    """
    from noetl.client import CalledPlaybook

    names: dict[str, Path] = {}
    seen, waiting = {file.absolute()}, [(net, file.absolute())]
    while waiting:
        caller, where = waiting.pop()
        for name, found in _calls(caller, where, folders):
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


def called_path(task: Any) -> str | None:
    """Return the path by which a task calls a playbook; None: it is made by a template."""
    return plain_text(task, "path")


def plain_text(task: Any, key: str) -> str | None:
    """Return the text under a key of a task; None where it is a template, or not there."""
    tree = getattr(task.config.get(key), "tree", task.config.get(key))
    text = getattr(tree, "source", tree)
    return text if isinstance(text, str) and "{" not in text else None


def _calls(net: Net, file: Path, folders: CatalogFolders) -> Iterator[tuple[str, Path]]:
    """What a playbook calls: the name, and the file that it means."""
    from noetl.lang import all_tasks

    for _, task in all_tasks(net.playbook):
        if task.kind != "playbook":
            continue
        path = called_path(task)
        if path is None:
            yield from _all_near(file, folders)
        elif (found := catalog().find(path, near=file) or folders.find(path)) is not None:
            yield path, found.absolute()


def _all_near(file: Path, folders: CatalogFolders) -> Iterator[tuple[str, Path]]:
    """All playbooks of a folder, by every name that one of them can be called by there, and those of the catalog."""
    from noetl.server.core import names_of

    files = [one for one in sorted(file.parent.iterdir()) if one.suffix in _ENDINGS and one.is_file() and one != file]
    taken: set[str] = set()
    for names in ((lambda one: [one.name, one.stem]), names_of):
        for one in files:
            for name in names(one):
                if name not in taken:
                    taken.add(name)
                    yield name, one.absolute()
    yield from ((path, found) for path, found in folders.all_playbooks() if path not in taken)

"""noetl init: a starter project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from noetl.cli.command_table import COMMANDS
from noetl.cli.commands.playbooks.schema import schema_text, test_schema_text
from noetl.cli.files import write
from noetl.cli.output.printing import out
from noetl.errors import UsageError

_STARTER = Path(__file__).with_name("starter")


def _starter(name: str) -> Callable[[], str]:
    return lambda: (_STARTER / name).read_text(encoding="utf-8")


#: what is written, and where its text comes from
FILES: dict[str, Callable[[], str]] = {
    "playbooks/hello.yaml": _starter("hello.yaml"),
    "tests/hello.test.yaml": _starter("hello.test.yaml"),
    "noetl.schema.json": schema_text,
    "noetl.tests.schema.json": test_schema_text,
    ".vscode/settings.json": _starter("settings.json"),
    ".vscode/extensions.json": _starter("extensions.json"),
    "README.md": _starter("README.md"),
    ".gitignore": _starter("gitignore"),
}
#: what a folder may well have already; it stays as it is
_KEPT = frozenset({"README.md", ".gitignore"})
#: what to do next, if there is such a command
_NEXT = {
    "validate": "noetl validate playbooks",
    "test": "noetl test",
    "run": "noetl run playbooks/hello.yaml",
    "graph": "noetl graph playbooks/hello.yaml -o hello.svg",
}


@click.command()
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(file_okay=True))
def command(*, folder: str) -> None:
    """Write a starter project into DIR, by default this folder: a playbook, its tests, editor settings, a README.

    Nothing that exists is overwritten: a README and a .gitignore that are there are kept, and where another of the
    files is there, nothing is written.
    """
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise UsageError(f"{folder}: this is a file, not a folder")
    there = [name for name in FILES if (root / name).exists()]
    lost = [name for name in there if name not in _KEPT]
    if lost:
        raise UsageError(f"{folder}: {', '.join(lost)} would be overwritten; choose another folder")
    for name, text in FILES.items():
        if name in there:
            out(f"kept {root / name}\n")
            continue
        write(root / name, text())
        out(f"wrote {root / name}\n")
    out("\nNext:\n\n")
    if folder != ".":
        out(f"    cd {folder}\n")
    for name, line in _NEXT.items():
        if name in COMMANDS:
            out(f"    {line}\n")

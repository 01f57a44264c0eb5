"""noetl migrate: older dialects rewritten to the canonical one, in place."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from noetl.cli.files import InputFile
from noetl.cli.output.printing import in_colour, note
from noetl.cli.playbook_files import FILE, MIGRATE, load_data, pause_gc, playbook_text, rewrite_each

if TYPE_CHECKING:
    from noetl.model.diagnostics import Diagnostic

#: how the fix of an older construct ends; here it is being done
_ADVICE = f"; `{MIGRATE}` rewrites it"


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=FILE)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the result instead of writing it.")
def command(*, files: tuple[str, ...], check: bool, to_stdout: bool) -> int:
    """Rewrite playbooks to the canonical dialect; comments are kept.

    Every rewrite is told with its line. Where the older text can mean more than one thing, a `# TODO noetl:` comment
    is left for a person to decide. FILE may be a folder, or - for stdin, whose result goes to stdout.
    """
    return rewrite_each(files, _migrate, word="rewritten", check=check, to_stdout=to_stdout)


def _migrate(file: InputFile, data: bytes) -> str:
    text = playbook_text(file, data)

    from noetl.lang import migrate
    from noetl.tools import ToolKinds

    with pause_gc():
        migrated = migrate(text, ToolKinds(), name=file.name)
    assert migrated is not None  # it was read a moment ago
    _print_rewrites(file, migrated.diagnostics)
    _print_remaining(file, migrated.text)
    return migrated.text


def _print_rewrites(file: InputFile, diagnostics: Iterable[Diagnostic]) -> None:
    """What was rewritten, line by line; on stderr, so that `--stdout` stays a playbook."""
    colour = in_colour(sys.stderr)
    for found in diagnostics:
        place = f"{file.name}:{found.span.line}" if found.span else file.name
        place = f"\x1b[1m{place}\x1b[0m" if colour else place
        mark = "TODO: " if found.code == "legacy-todo" else ""
        fix = (found.fix or "").removesuffix(_ADVICE).removeprefix("write ")
        note(f"{place}: {mark}{found.message}{f' → {fix}' if fix and not mark else ''}")


def _print_remaining(file: InputFile, text: str) -> None:
    """Whether the rewritten playbook validates."""
    from noetl.model.diagnostics import Severity

    left = sum(found.severity is Severity.ERROR for found in load_data(text.encode(), file.name).diagnostics)
    if left:
        problems = "1 error" if left == 1 else f"{left} errors"
        note(f"{file.name}: {problems} remain that only a person can mend; `noetl validate` tells them")

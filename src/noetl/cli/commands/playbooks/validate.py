"""noetl validate: all problems of playbooks at once, and mending those that can be."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from noetl import __version__
from noetl.cli.catalog_folders import CatalogFolders, catalog_option, open_folders
from noetl.cli.files import InputFile, expand_files, read, replace
from noetl.cli.output.printing import as_json, in_colour, note, out
from noetl.cli.playbook_files import FILE, find_call_problems, load_data
from noetl.errors import UsageError
from noetl.lang import apply_edits

if TYPE_CHECKING:
    from noetl.lang import FileReport, Loaded
    from noetl.model.diagnostics import Diagnostic


# Mending: the edits that diagnostics bring with them, made as long as they help.


#: mending one problem may bring another to light, but not for ever
_ROUNDS = 20


class FixResult(NamedTuple):
    """A text after mending, what is still to be said about it, and how many problems are gone."""

    loaded: Loaded
    repairs: int


def fix_problems(loaded: Loaded, load: Callable[[str], Loaded]) -> FixResult:
    """Make the edits of a text's diagnostics, and those of what then shows itself, until nothing is left to do."""
    count = 0
    for _ in range(_ROUNDS):
        mendable = [found for found in loaded.diagnostics if found.edits]
        after, made = _fix_all(loaded, mendable, load)
        if after is None:
            after, made = _fix_first(loaded, mendable, load)
        if not made:
            break
        loaded, count = after, count + made
    return FixResult(loaded, count)


def _fix_all(
    loaded: Loaded, mendable: Sequence[Diagnostic], load: Callable[[str], Loaded]
) -> tuple[Loaded, int] | tuple[None, int]:
    after = load(apply_edits(loaded.source.text, (edit for found in mendable for edit in found.edits)))
    return (after, len(mendable)) if mendable and _is_better(loaded, after) else (None, 0)


def _fix_first(loaded: Loaded, mendable: Sequence[Diagnostic], load: Callable[[str], Loaded]) -> tuple[Loaded, int]:
    """The first edit that helps by itself; the others are looked at in the next round."""
    for found in mendable:
        after = load(apply_edits(loaded.source.text, found.edits))
        if _is_better(loaded, after):
            return after, 1
    return loaded, 0


def _is_better(before: Loaded, after: Loaded) -> bool:
    """Whether an edit helped: a file that could not be read may show new problems, one with an error new warnings.

    Warnings about the net are found only where no error is left.
    """
    then, now = _codes(before), _codes(after)
    if after.source.text == before.source.text:
        return False
    if then["yaml-syntax"]:
        return now["yaml-syntax"] < then["yaml-syntax"]
    if now["yaml-syntax"] or now["duplicate-key"] > then["duplicate-key"]:
        return False
    return (_errors(after), now.total()) < (_errors(before), then.total())


def _errors(loaded: Loaded) -> int:
    return sum(found.severity == "error" for found in loaded.diagnostics)


def _codes(loaded: Loaded) -> Counter[str]:
    return Counter(found.code for found in loaded.diagnostics)


UNREADABLE = "unreadable-file"
#: files that were skipped, named
_SKIPPED = 5


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=FILE)
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
@catalog_option
@click.option("--fix", is_flag=True, help="Mend what can be mended without a doubt, in place.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="How the problems are printed.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def command(
    *, files: tuple[str, ...], strict: bool, legacy: bool, folders: tuple[str, ...], fix: bool, form: str
) -> int:
    """Tell all problems of playbooks, each with its line and the way to mend it.

    FILE may be a folder, which stands for all playbooks and test files in it and for what nearly looks like one, or - for
    stdin. With --catalog, playbooks that are called by their path are looked for in those folders, too. The exit code is 0 when there is no error and 2 when there is one.
    """
    skipped: list[str] = []
    catalog = open_folders(folders)
    reports = [
        _report(file, catalog, strict=strict, legacy=legacy, fix=fix)
        for file in expand_files(files, skipped, tests=True)
    ]
    catalog.note_unreadable()
    {"text": _print_text, "json": _print_json, "sarif": _print_sarif}[form](reports)
    if fix:
        _note_guesses(reports)
    if skipped:
        more = f", … ({len(skipped)} in all)" if len(skipped) > _SKIPPED else ""
        note(f"skipped, as no playbook: {', '.join(skipped[:_SKIPPED])}{more}")
    return 2 if any(found.severity == "error" for report in reports for found in report.diagnostics) else 0


def _note_guesses(reports: Sequence[FileReport]) -> None:
    """Say why --fix left suggestions alone."""
    guesses = [found for report in reports for found in report.diagnostics if not found.edits]
    number = sum((found.fix or "").startswith("did you mean") for found in guesses)
    if number:
        what = "a suggestion" if number == 1 else f"{number} suggestions"
        note(f"--fix left {what} for you to decide: the name is short, or more than one name is near")


def _report(file: InputFile, catalog: CatalogFolders, *, strict: bool, legacy: bool, fix: bool) -> FileReport:
    """What is to be said about a file; that it cannot be read is one of the things."""
    from noetl.lang import FileReport
    from noetl.model.diagnostics import Diagnostic, Severity, Source

    try:
        data = read(file)
        loaded = _load(data, file.name, legacy=legacy, strict=strict)
        if fix and any(found.edits for found in loaded.diagnostics):
            loaded = _fix_file(file, data, loaded, strict=strict, legacy=legacy)
    except UsageError as error:
        reason = str(error).removeprefix(f"{file.name}: ")
        return FileReport(Source("", file.name), [Diagnostic(UNREADABLE, Severity.ERROR, reason)])
    called = find_call_problems(loaded, file.path, catalog, legacy=legacy, strict=strict)
    return FileReport(loaded.source, [*loaded.diagnostics, *called])


def _load(data: bytes, name: str, *, legacy: bool, strict: bool) -> Loaded:
    """What the language makes of a playbook, or what is to be said about its tests."""
    if not name.endswith((".test.yaml", ".test.yml")):
        return load_data(data, name, legacy=legacy, strict=strict)
    from noetl.testing import check_file

    return check_file(data, Path(name), name)


def _fix_file(file: InputFile, data: bytes, loaded: Loaded, *, strict: bool, legacy: bool) -> Loaded:

    if file.path is None:
        raise click.UsageError("stdin cannot be mended in place; name a file")
    # Not strict: a fix that takes an error away counts, whatever warnings come to light behind it.
    before = _load(data, file.name, legacy=legacy, strict=False)
    mended = fix_problems(before, lambda text: _load(text.encode(), file.name, legacy=legacy, strict=False))
    if mended.repairs:
        replace(file.path, mended.loaded.source.text, before=data)
        note(f"mended {mended.repairs} problem{'s' * (mended.repairs > 1)} in {file.name}")
        return _load(mended.loaded.source.text.encode(), file.name, legacy=legacy, strict=strict)
    return loaded


def _print_text(reports: Sequence[FileReport]) -> None:
    from noetl.lang import render_text, summarize_problems

    colour = in_colour(sys.stdout)
    readable = []
    for report in reports:
        if report.diagnostics and report.diagnostics[0].code == UNREADABLE:
            note(f"noetl: {report.source.name}: {report.diagnostics[0].message}")
            continue
        readable.append(report)
        if report.diagnostics:
            out(render_text(report.source, report.diagnostics, colour=colour) + "\n")
    if readable:
        out(summarize_problems(readable))


def _print_json(reports: Sequence[FileReport]) -> None:
    from noetl.lang.printing import diagnostic_report

    out(as_json(diagnostic_report.as_json(reports)))


def _print_sarif(reports: Sequence[FileReport]) -> None:
    from noetl.lang.printing import diagnostic_report

    out(as_json(diagnostic_report.as_sarif(reports, __version__)))

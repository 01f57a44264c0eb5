"""noetl validate: all problems of playbooks at once, and mending those that can be."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl import __version__
from noetl.cli.calls import missing_playbooks
from noetl.cli.files import Given, given, read, replace
from noetl.cli.loading import FILE, load_data
from noetl.cli.printing import as_json, in_colour, note, out
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.lang import Loaded
    from noetl.lang.report import Reported

UNREADABLE = "unreadable-file"
#: files that were skipped, named
_SKIPPED = 5


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=FILE)
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
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
def command(*, files: tuple[str, ...], strict: bool, legacy: bool, fix: bool, form: str) -> int:
    """Tell all problems of playbooks, each with its line and the way to mend it.

    FILE may be a folder, which stands for all playbooks and test files in it and for what nearly looks like one, or - for
    stdin. The exit code is 0 when there is no error and 2 when there is one.
    """
    skipped: list[str] = []
    reports = [_report(file, strict=strict, legacy=legacy, fix=fix) for file in given(files, skipped, tests=True)]
    {"text": _print_text, "json": _print_json, "sarif": _print_sarif}[form](reports)
    if skipped:
        more = f", … ({len(skipped)} in all)" if len(skipped) > _SKIPPED else ""
        note(f"skipped, as no playbook: {', '.join(skipped[:_SKIPPED])}{more}")
    return 2 if any(found.severity == "error" for report in reports for found in report.diagnostics) else 0


def _report(file: Given, *, strict: bool, legacy: bool, fix: bool) -> Reported:
    """What is to be said about a file; that it cannot be read is one of the things."""
    from noetl.lang.report import Reported
    from noetl.model.diagnostics import Diagnostic, Severity
    from noetl.model.source import Source

    try:
        data = read(file)
        loaded = _load(data, file.name, legacy=legacy, strict=strict)
        if fix and any(found.edits for found in loaded.diagnostics):
            loaded = _mended(file, data, loaded, strict=strict, legacy=legacy)
    except UsageError as error:
        reason = str(error).removeprefix(f"{file.name}: ")
        return Reported(Source("", file.name), [Diagnostic(UNREADABLE, Severity.ERROR, reason)])
    return Reported(loaded.source, [*loaded.diagnostics, *missing_playbooks(loaded, file.path, strict=strict)])


def _load(data: bytes, name: str, *, legacy: bool, strict: bool) -> Loaded:
    """What the language makes of a playbook, or what is to be said about its tests."""
    if not name.endswith((".test.yaml", ".test.yml")):
        return load_data(data, name, legacy=legacy, strict=strict)
    from noetl.trials.session import check_file

    return check_file(data, Path(name), name)


def _mended(file: Given, data: bytes, loaded: Loaded, *, strict: bool, legacy: bool) -> Loaded:
    from noetl.cli.mending import mend

    if file.path is None:
        raise click.UsageError("stdin cannot be mended in place; name a file")
    mended = mend(loaded, lambda text: _load(text.encode(), file.name, legacy=legacy, strict=strict))
    if mended.repairs:
        replace(file.path, mended.loaded.source.text, before=data)
        note(f"mended {mended.repairs} problem{'s' * (mended.repairs > 1)} in {file.name}")
    return mended.loaded


def _print_text(reports: Sequence[Reported]) -> None:
    from noetl.lang.report import as_text, summary

    colour = in_colour(sys.stdout)
    readable = []
    for report in reports:
        if report.diagnostics and report.diagnostics[0].code == UNREADABLE:
            note(f"noetl: {report.source.name}: {report.diagnostics[0].message}")
            continue
        readable.append(report)
        if report.diagnostics:
            out(as_text(report.source, report.diagnostics, colour=colour) + "\n")
    if readable:
        out(summary(readable))


def _print_json(reports: Sequence[Reported]) -> None:
    from noetl.lang import report

    out(as_json(report.as_json(reports)))


def _print_sarif(reports: Sequence[Reported]) -> None:
    from noetl.lang import report

    out(as_json(report.as_sarif(reports, __version__)))

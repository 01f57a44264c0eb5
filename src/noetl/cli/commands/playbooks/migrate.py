"""noetl migrate: older dialects rewritten to the canonical one, in place."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from noetl.cli.files import InputFile, expand_files, read, replace
from noetl.cli.output.printing import as_json, in_colour, note, out
from noetl.cli.playbook_files import FILE, load_data, pause_gc, playbook_text
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.cli.output.migration_report import FileMigration
    from noetl.model.diagnostics import Diagnostic
    from noetl.testing import MigrationProof, MigrationVerifier

DIFFERENT, FAILED = 1, 2


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=FILE)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the result instead of writing it.")
@click.option("--verify", is_flag=True, help="Run both texts on made-up answers; write nothing if they differ.")
@click.option(
    "--report", "form", type=click.Choice(["text", "json"]), default="text", help="How the report is printed."
)
def command(*, files: tuple[str, ...], check: bool, to_stdout: bool, verify: bool, form: str) -> int:
    """Rewrite playbooks to the canonical dialect; comments are kept.

    Each file is reported on stderr: what was rewritten, what was assumed, and what is left to do, with its line. Where the
    older text can mean more than one thing, a `# TODO noetl:` comment is left for you to decide. FILE may be a folder, or -
    for stdin, whose result goes to stdout. A canonical file stays as it is.

    With --verify, the older text is run as older engines ran it, and the migrated text as it is run today, both on the
    same made-up answers of their tools; what each step read and published is compared. Nothing real is called: HTTP, SQL,
    shell and playbooks only get made-up answers, and Python code is run, strictly confined, if it has no effects.

    The exit code is 0 when all went well, 1 when --check found a file that would change or --verify a difference, and 2 when
    a file cannot be migrated. A file that cannot be migrated, or that differs, is not written; the others are.
    """
    if form == "json" and (to_stdout or "-" in files):
        raise click.UsageError(
            "the report and the playbook cannot both go to stdout; name a file, and leave out --stdout"
        )
    with TemporaryDirectory(prefix="noetl-verify-") as home:
        session = _Session(check=check, to_stdout=to_stdout, verifier=_make_verifier(Path(home)) if verify else None)
        done = [session.migrate(file, quiet=form == "json") for file in expand_files(files)]
    if form == "json":
        from noetl.cli.output.migration_report import as_document

        out(as_json(as_document(done)))
    elif len(done) > 1:
        from noetl.cli.output.migration_report import total_line

        note(total_line(done))
    return _exit_code(done, check=check)


def _exit_code(done: Iterable[FileMigration], *, check: bool) -> int:
    done = list(done)
    if any(one.status == "failed" and (one.proof is None or one.proof.is_same) for one in done):
        return FAILED
    differs = any(one.proof is not None and not one.proof.is_same for one in done)
    return DIFFERENT if differs or (check and any(one.status == "pending" for one in done)) else 0


def _make_verifier(home: Path) -> MigrationVerifier:
    from noetl.config import settings
    from noetl.server.core import Catalog
    from noetl.testing import MigrationVerifier
    from noetl.tools import ToolKinds

    return MigrationVerifier(Catalog(ToolKinds()), home, settings().environment)


class _Session:
    """Migrates files one by one; a file that cannot be migrated does not stop the others."""

    def __init__(self, *, check: bool, to_stdout: bool, verifier: MigrationVerifier | None) -> None:
        self.check = check
        self.to_stdout = to_stdout
        self.verifier = verifier

    def migrate(self, file: InputFile, *, quiet: bool) -> FileMigration:
        """Migrate a file and report it; nothing of it is written unless all of it went well."""
        from noetl.cli.output.migration_report import FileMigration

        try:
            data = read(file)
            text = playbook_text(file, data)
            done, result = self._rewrite(file, text, data)
        except UsageError as error:
            note(f"noetl: {error}")
            return FileMigration(file.name, "failed", problem=str(error).removeprefix(f"{file.name}: "))
        except click.exceptions.Exit:
            # What is wrong with it has been printed.
            return FileMigration(file.name, "failed", problem="it cannot be read as a playbook")
        if not quiet:
            _print_report(done)
        prints = self.to_stdout or file.path is None
        if prints and not self.check and done.status != "failed":
            out(result)
        return done

    def _rewrite(self, file: InputFile, text: str, data: bytes) -> tuple[FileMigration, str]:
        from noetl.cli.output.migration_report import FileMigration, collect_entries

        result, found = _migrate_text(file, text)
        after = load_data(result.encode(), file.name).diagnostics
        lists = collect_entries(found, after)
        problem = _find_problem(found, after)
        changed = result.encode() != data.removeprefix(codecs.BOM_UTF8)
        left = sum(one.severity == "error" for one in after)
        if problem is not None:
            return FileMigration(file.name, "failed", problem=problem), text
        proof = self._verify(file, text, result) if changed else None
        if proof is not None and not proof.is_same:
            why = proof.problem or "the migrated text does not do the same"
            return FileMigration(file.name, "failed", lists, errors_left=left, problem=why, proof=proof), text
        status = "canonical"
        if changed:
            status = "pending" if self.check or self.to_stdout or file.path is None else "rewritten"
        if status == "rewritten" and file.path is not None:
            replace(file.path, result, before=data)
        return FileMigration(file.name, status, lists, errors_left=left, proof=proof), result

    def _verify(self, file: InputFile, text: str, result: str) -> MigrationProof | None:
        if self.verifier is None:
            return None
        return self.verifier.verify_migration(text, result, (file.path or Path("playbook.yaml")).absolute())


def _migrate_text(file: InputFile, text: str) -> tuple[str, tuple[Diagnostic, ...]]:
    from noetl.lang import migrate
    from noetl.tools import ToolKinds

    with pause_gc():
        migrated = migrate(text, ToolKinds(), name=file.name)
    assert migrated is not None  # it was read a moment ago
    return migrated.text, migrated.diagnostics


#: what leaves less of a text than its author wrote: such a text is not rewritten
_LOSING = frozenset({"yaml-syntax", "duplicate-key"})


def _find_problem(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> str | None:
    """Why a text cannot be migrated."""
    for found in before:
        if found.code in _LOSING:
            place = f"line {found.span.line}: " if found.span is not None else ""
            return f"{place}{found.message} [{found.code}]"
    if any(found.code in _LOSING for found in after):
        return "what came of it cannot be read; this is a defect of noetl, please report it"
    return None


def _print_report(done: FileMigration) -> None:
    """What was done, line by line; on stderr, so that --stdout stays a playbook."""
    from noetl.cli.output.migration_report import entry_lines, proof_lines, summary_line

    colour = in_colour(sys.stderr)
    lines = [*entry_lines(done), *(proof_lines(done.file, done.proof) if done.proof is not None else ())]
    for place, text in lines:
        note(f"\x1b[1m{place}\x1b[0m: {text}" if colour else f"{place}: {text}")
    note(summary_line(done))

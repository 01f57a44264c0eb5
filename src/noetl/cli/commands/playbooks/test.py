"""noetl test: the tests of playbooks, each case run with mocked tools and skipped time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.files import InputFile, read, write, yaml_files
from noetl.cli.output.printing import as_json, in_colour, note, out
from noetl.cli.playbook_files import FILE
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.testing import CaseResult, SuiteResult, SuiteRunner

FAILED, INVALID = 1, 2


@click.command()
@click.argument("files", metavar="[FILE…]", nargs=-1, type=FILE)
@click.option("-k", "wanted", metavar="WORDS", help="Only cases whose file and name contain all of these words.")
@click.option("-x", "--exitfirst", "at_first", is_flag=True, help="Stop at the first case that does not pass.")
@click.option("--crash-everywhere", "crash", is_flag=True, help="Kill and resume each case at every event.")
@click.option("--record", is_flag=True, help="Run what is not mocked for real, and keep the answers in a cassette.")
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(),
    help="Also write the results as JUnit XML; folders that are missing are made.",
)
@click.option("--json", "as_data", is_flag=True, help="Print one JSON document and nothing else.")
def command(
    *,
    files: tuple[str, ...],
    wanted: str | None,
    at_first: bool,
    crash: bool,
    record: bool,
    junit: str | None,
    as_data: bool,
) -> int:
    """Run the cases of test files: playbooks with mocked tools, where waiting takes no time.

    FILE may be a folder, which stands for all `*.test.yaml` in it; without FILE this folder is meant. Nothing is written
    to NOETL_HOME. The exit code is 0 when all cases pass, 1 when one does not, 2 when a test file or its playbook is
    invalid or there is nothing to run.
    """
    from tempfile import TemporaryDirectory

    from noetl.config import settings
    from noetl.testing import SuiteOptions, SuiteRunner

    if crash and record:
        raise click.UsageError("--record runs real tools, which should not be killed: record first")
    found = list(_expand_tests(files or (".",)))
    if not found:
        raise UsageError(f"there are no test files (*.test.yaml) in {', '.join(files) or 'this folder'}")
    began = time.monotonic()
    with TemporaryDirectory(prefix="noetl-test-") as home:
        session = SuiteRunner(
            SuiteOptions(_chooser(wanted), crash=crash, record=record), Path(home), settings().environment
        )
        ran = list(_all(session, found, at_first=at_first, quiet=as_data))
    for one in ran:
        _keep(one)
    return _report(ran, time.monotonic() - began, junit=junit, as_data=as_data)


def _expand_tests(names: tuple[str, ...]) -> Iterator[InputFile]:
    from noetl.testing import ENDINGS

    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from (InputFile(str(file), file) for file in sorted(yaml_files(path)) if file.name.endswith(ENDINGS))
        elif path.suffix in (".yaml", ".yml") and not path.name.endswith(ENDINGS) and path.exists():
            raise UsageError(f"{name}: this is no test file; its tests belong in {path.stem}.test.yaml")
        else:
            yield InputFile(name, path)


def _chooser(wanted: str | None) -> Callable[[str], bool]:
    words = (wanted or "").lower().split()
    return lambda name: all(word in name.lower() for word in words)


def _all(session: SuiteRunner, files: list[InputFile], *, at_first: bool, quiet: bool) -> Iterator[SuiteResult]:
    from noetl.cli.output.test_reports import case_text

    colour = in_colour(sys.stdout)
    stopped = False

    def on_result(ran: SuiteResult, result: CaseResult) -> None:
        nonlocal stopped
        stopped = stopped or result.status in ("failed", "error")
        if not quiet:
            out(case_text(ran, result, colour=colour))
            sys.stdout.flush()

    for file in files:
        assert file.path is not None
        yield session.run(file.path, read(file), file.name, on_result, until=lambda: at_first and stopped)
        if at_first and stopped:
            return


def _keep(ran: SuiteResult) -> None:
    """Write the cassette of a file, or remove the one that nobody needs any more."""
    if ran.cassette is None:
        return
    path, text = ran.cassette
    if text:
        write(path, text)
        note(f"recorded {path}")
    elif path.exists():
        path.unlink()
        note(f"removed {path}: nothing was recorded")


def _report(ran: list[SuiteResult], seconds: float, *, junit: str | None, as_data: bool) -> int:
    from noetl.cli.output.test_reports import problems_text, summary_line

    results = [result for one in ran for result in one.results]
    if junit is not None:
        from noetl.cli.output.test_reports import junit_xml

        write(Path(junit), junit_xml(ran, seconds))
    if as_data:
        from noetl.cli.output.test_reports import document

        out(as_json(document(ran, seconds)))
    else:
        for one in ran:
            sys.stderr.write(problems_text(one, colour=in_colour(sys.stderr)))
        out(summary_line(results, ran, seconds, colour=in_colour(sys.stdout)))
    if any(one.invalid for one in ran) or not results:
        return INVALID
    return FAILED if any(result.status in ("failed", "error") for result in results) else 0

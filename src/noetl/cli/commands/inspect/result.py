"""noetl result: what a step or an execution yielded, however large, on the screen or in a file."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from noetl.cli.executions import check_step, complete_steps, execution_argument, find, open_command_log
from noetl.cli.output.printing import note
from noetl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noetl.model.output import Output
    from noetl.ports import EventLog

FORMATS = ("json", "ndjson", "csv", "parquet", "raw")


@click.command()
@execution_argument("what", "ID|REF")
@click.argument("step", metavar="[STEP]", required=False, shell_complete=complete_steps)
@click.option("--iteration", metavar="N", help="Of one iteration of the step's loop, such as 3 or 2.0.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="By default what a terminal, or a program, reads best."
)
@click.option("--json", "as_data", is_flag=True, help="The same as `--format json`.")
@click.option("--range", "some", metavar="A:B", help="Of a list only the elements from A up to and without B.")
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write to a file.",
)
def command(
    *,
    what: str,
    step: str | None,
    iteration: str | None,
    form: str | None,
    as_data: bool,
    some: str | None,
    file: str | None,
) -> None:
    """Print or save what a step or an execution yielded.

    `noetl result last` is what the latest execution yielded, `noetl result last fetch` what its step `fetch` did. A
    reference does as well: the JSON of one, or the path in its locator. Nothing is held in memory that need not be.
    """
    from noetl.cli.output.result_text import Payload, show_payload, write

    payload = Payload.of(_output(what, step, iteration), range_of(some))
    if form is None and not as_data and file is None and sys.stdout.isatty():
        show_payload(payload)
        return
    form = "json" if as_data else form or _form_of(file)
    if file is None:
        sys.stdout.flush()
        write(payload, form, sys.stdout.buffer)
        return
    with _target(Path(file)) as target:
        written = write(payload, form, target)
    note(f"{file}: {written:,} bytes")


@contextmanager
def _target(file: Path) -> Iterator[IO[bytes]]:
    """A file that is written beside and takes the place of what was there when all of it is in, and not before."""
    place = file.resolve()
    if place.exists() and not place.is_file():  # a pipe or a device has nothing that could be lost
        with file.open("wb") as target:
            yield target
        return
    draft = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as target:
            yield target
        if place.exists():
            shutil.copymode(place, draft)
        draft.replace(place)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror})") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _form_of(file: str | None) -> str:
    """What the name of a file asks for; JSON where it asks for nothing."""
    ending = Path(file).suffix.lower() if file is not None else ""
    known = {"": "json", ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv"}
    known |= {".parquet": "parquet", ".txt": "raw"}
    if ending not in known:
        raise UsageError(f"the name {file} does not say how to write it: give --format ({', '.join(FORMATS)})")
    return known[ending]


def range_of(text: str | None) -> tuple[int, int | None]:
    """`10:20`, `10:` or `:20`."""
    if text is None:
        return 0, None
    start, colon, stop = text.partition(":")
    if not colon or not all(part == "" or part.isdecimal() for part in (start, stop)):
        raise UsageError(f"--range is two row numbers with a colon between, such as 0:100, not {text!r}")
    return int(start or 0), int(stop) if stop else None


def _output(what: str, step: str | None, iteration: str | None) -> Output:
    """The output that is meant."""
    from noetl.model.output import ok

    if iteration is not None and step is None:
        raise UsageError("--iteration is of a step: `noetl result ID STEP --iteration 3`")
    reference = _reference(what)
    if reference is None:
        return _find_recorded(what, step, iteration)
    if step is not None:
        raise UsageError("a reference has no steps; `noetl result ID STEP` is about an execution")
    return {**ok(), "ref": reference, "external": True}


def _reference(text: str) -> dict[str, Any] | None:
    """A reference in JSON, as an output that has one (`{"ref": …}`), or as the path of its locator; None: no such thing."""
    from noetl.expr import is_reference

    if "/" in text and not text.lstrip().startswith("{"):
        return _by_place(text)
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the reference is not JSON: {error}") from None
    found = found.get("ref", found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not is_reference(found):
        raise UsageError("this is no reference: one has `type`, `locator`, `auth_reference` and `meta`")
    return found


def _by_place(text: str) -> dict[str, Any]:
    """The reference of a payload whose place is named as `noetl gc` does it."""
    kind, locator = "blob", {"path": text}
    scheme, is_address, rest = text.partition("://")
    if is_address:
        bucket, _, key = rest.partition("/")
        in_nats = scheme == "nats"
        kind = "nats" if in_nats else "object_store"
        locator = {"bucket": bucket, "object" if in_nats else "key": key}
    elif text.startswith("noetl_results/"):
        table, _, key = text.partition("/")
        kind, locator = "relational", {"table": table, "key": key}
    return {"type": kind, "locator": locator, "auth_reference": None, "meta": {}}


def _find_recorded(what: str, step: str | None, iteration: str | None) -> Output:
    from noetl.history import output_of, output_of_step

    with open_command_log() as log:
        summary = find(log, what)
        if step is None:
            found = output_of(log, summary.execution_id)
            missing = f"{summary.execution_id} is {summary.status} and has no output; `noetl show` says how it stands"
        else:
            check_step(log, summary, step)
            found = output_of_step(log, summary.execution_id, step, iteration)
            missing = "" if found is not None else _why_none(log, summary.execution_id, step, iteration)
    if found is None:
        raise UsageError(missing)
    return found


def _why_none(log: EventLog, execution_id: str, step: str, iteration: str | None) -> str:
    """Why a step, or an iteration of it, has no output."""
    from noetl.history import state_at

    info = state_at(log, execution_id).steps.get(step)
    if info is None or info.started_at is None:
        return f"step `{step}` of {execution_id} never ran; `noetl why {execution_id} {step}` says why"
    which = f"step `{step}`"
    if iteration is not None:
        which = f"iteration {iteration} of {which}"
        total = info.loop["total"] if info.loop is not None else None
        if info.loop is None and info.status != "running":
            return f"step `{step}` of {execution_id} has no loop, so it has no iterations"
        if total is not None and not (
            iteration.partition(".")[0].isdecimal() and int(iteration.partition(".")[0]) < total
        ):
            there = f"they are counted from 0 to {total - 1}" if total else "there are none"
            return f"there is no {which} of {execution_id}: {there}"
    return f"{which} of {execution_id} has not ended well, so it has no output"

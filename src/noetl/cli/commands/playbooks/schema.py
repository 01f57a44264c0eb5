"""noetl schema: the JSON Schema of playbooks, or of their tests."""

from __future__ import annotations

from pathlib import Path

import click

from noetl.cli.files import write
from noetl.cli.output.printing import as_json, note, out


@click.command()
@click.option("-o", "--output", type=click.Path(), help="Write it to this file instead of stdout.")
@click.option("--tests", is_flag=True, help="The schema of test files, `*.test.yaml`, instead.")
@click.option("--json", "as_data", is_flag=True, hidden=True, help="It is JSON either way.")
def command(*, output: str | None, tests: bool, as_data: bool) -> None:  # noqa: ARG001  whatever prints data takes it
    """Print the JSON Schema (2020-12) of playbooks, with the tool kinds that are installed here.

    Editors complete and check playbooks with it; `noetl init` sets that up.
    """
    text = test_schema_text() if tests else schema_text()
    if output is None:
        out(text)
        return
    write(Path(output), text)
    note(f"wrote {output}")


def schema_text() -> str:
    """The schema as a JSON document."""
    from noetl.lang import playbook_schema
    from noetl.tools import ToolKinds

    kinds, broken = ToolKinds().list_usable()
    for error in broken:
        note(f"left out: {error}")
    return as_json(playbook_schema(kinds))


def test_schema_text() -> str:
    """The schema of test files as a JSON document."""
    from noetl.lang import schema_of
    from noetl.testing import NAMED, TEST_FILE

    return as_json(schema_of(TEST_FILE, NAMED, "NoETL tests of a playbook"))

"""noetl schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.conftest import Noetl


def test_the_schema_is_printed_as_json(noetl: Noetl) -> None:
    printed = noetl("schema").out
    assert json.loads(printed)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert noetl("schema", "--json").out == printed


def test_the_schema_is_written_to_a_file_also_over_an_older_one(noetl: Noetl, folder: Path) -> None:
    (folder / "noetl.schema.json").write_text("old")
    assert noetl("schema", "-o", "noetl.schema.json") == (0, "", "wrote noetl.schema.json\n")
    assert json.loads((folder / "noetl.schema.json").read_text())["title"] == "NoETL playbook"


def test_a_place_that_cannot_be_written_is_told_in_one_line(noetl: Noetl, folder: Path) -> None:
    (folder / "file").write_text("")
    result = noetl("schema", "-o", "file/schema.json")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith("noetl: file/schema.json: cannot be written")

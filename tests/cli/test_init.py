"""noetl init."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from jsonschema import Draft202012Validator

from noetl.lang.node import plain
from noetl.lang.reader import read
from noetl.model.diagnostics import Diagnostics
from noetl.model.source import Source

if TYPE_CHECKING:
    from cli.conftest import Noetl


def test_the_starter_project_is_without_a_flaw(noetl: Noetl, folder: Path) -> None:
    result = noetl("init", "project")
    assert (result.code, result.err) == (0, "")
    assert "wrote project/playbooks/hello.yaml\n" in result.out
    assert "    cd project\n    noetl validate playbooks\n" in result.out
    assert noetl("validate", "--strict", "project").out == "no problems in project/playbooks/hello.yaml\n"


def test_the_editor_finds_the_schema_and_the_playbook_fits_it(noetl: Noetl, folder: Path) -> None:
    noetl("init")
    (schema,) = json.loads((folder / ".vscode" / "settings.json").read_text())["yaml.schemas"]
    hello = (folder / "playbooks" / "hello.yaml").read_text()
    assert hello.startswith("# yaml-language-server: $schema=../noetl.schema.json\n")
    document = plain(read(hello, Diagnostics(Source(hello))))
    Draft202012Validator(json.loads((folder / schema).read_text())).validate(document)


def test_nothing_is_overwritten_and_then_nothing_is_written(noetl: Noetl, folder: Path) -> None:
    (folder / "README.md").write_text("mine")
    result = noetl("init", ".")
    assert result == (2, "", "noetl: .: README.md would be overwritten; choose another folder\n")
    assert [path.name for path in folder.iterdir()] == ["README.md"]


def test_a_file_is_no_folder(noetl: Noetl, folder: Path) -> None:
    (folder / "x").write_text("")
    assert noetl("init", "x") == (2, "", "noetl: x: this is a file, not a folder\n")

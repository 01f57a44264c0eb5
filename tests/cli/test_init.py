"""noetl init."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from noetl.lang.reading.node import plain_value
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source

if TYPE_CHECKING:
    from cli.conftest import Noetl


def test_the_starter_project_is_without_a_flaw(noetl: Noetl, folder: Path) -> None:
    result = noetl("init", "project")
    assert (result.code, result.err) == (0, "")
    assert "wrote project/playbooks/hello.yaml\n" in result.out
    assert "    cd project\n    noetl validate playbooks\n" in result.out
    assert noetl("validate", "--strict", "project").out == "no problems in 2 files\n"


def test_the_editor_finds_the_schema_and_the_playbook_fits_it(noetl: Noetl, folder: Path) -> None:
    noetl("init")
    schemas = list(json.loads((folder / ".vscode" / "settings.json").read_text())["yaml.schemas"])
    for schema, name in zip(schemas, ("playbooks/hello.yaml", "tests/hello.test.yaml"), strict=True):
        hello = (folder / name).read_text()
        assert hello.startswith(f"# yaml-language-server: $schema=.{schema}\n")
        document = plain_value(read_yaml(hello, Diagnostics(Source(hello))))
        Draft202012Validator(json.loads((folder / schema).read_text())).validate(document)


def test_the_tests_of_the_starter_project_pass_however_often_it_dies(noetl: Noetl, folder: Path) -> None:
    noetl("init")
    assert noetl("test").code == 0
    done = noetl("test", "--crash-everywhere")
    assert done.code == 0
    assert "5 passed" in done.out


def test_a_fresh_repository_takes_a_starter_project_and_keeps_its_readme(noetl: Noetl, folder: Path) -> None:
    (folder / ".git").mkdir()
    for name in ("README.md", ".gitignore"):
        (folder / name).write_text("mine")
    result = noetl("init")
    assert (result.code, result.err) == (0, "")
    assert "wrote playbooks/hello.yaml\n" in result.out
    assert "kept README.md\nkept .gitignore\n" in result.out
    assert (folder / "README.md").read_text() == (folder / ".gitignore").read_text() == "mine"


def test_what_would_be_overwritten_is_named_and_then_nothing_is_written(noetl: Noetl, folder: Path) -> None:
    (folder / "noetl.schema.json").write_text("mine")
    result = noetl("init", ".")
    assert result == (2, "", "noetl: .: noetl.schema.json would be overwritten; choose another folder\n")
    assert [path.name for path in folder.iterdir()] == ["noetl.schema.json"]


def test_a_file_is_no_folder(noetl: Noetl, folder: Path) -> None:
    (folder / "x").write_text("")
    assert noetl("init", "x") == (2, "", "noetl: x: this is a file, not a folder\n")


def test_the_starter_playbook_is_in_its_canonical_spelling(noetl: Noetl, folder: Path) -> None:
    noetl("init")
    assert noetl("format", "--check", "playbooks").code == 0


@pytest.mark.usefixtures("home")
def test_a_failure_of_the_starter_playbook_is_not_hidden_behind_another(noetl: Noetl, folder: Path) -> None:
    noetl("init")
    file = folder / "playbooks" / "hello.yaml"
    text = file.read_text().replace("return f", "raise ValueError(greeting)\n            return f")
    file.write_text(text.replace("delay: 0.5", "delay: 0.01"))
    done = noetl("run", str(file), "--json")
    assert done.code == 1
    assert (json.loads(done.out)["error"]["kind"], json.loads(done.out)["error"]["step"]) == ("python", "start")

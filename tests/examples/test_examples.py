"""The examples are what they teach: valid without a warning, in canonical spelling, drawable; the old ones migrate."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from noetl.draw import draw
from noetl.lang.explanation import explain_playbook, explain_step
from noetl.lang.legacy import migrate
from noetl.lang.loader import Loaded, load
from noetl.lang.printing.formatter import format_text
from noetl.tools.registry import BUILT_IN, ToolKinds

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
OLDER = sorted((FOLDER / "legacy").glob("*.yaml"))
#: told by the examples; the others need a machine of their own or stand in the reference only
SHOWN = {"noop", "python", "http", "shell", "postgres", "playbook", "workbook", "transfer", "wait", "duckdb"}


def name(path: Path) -> str:
    return path.stem


def loaded(text: str, path: Path) -> Loaded:
    return load(text, ToolKinds(), name=path.name)


def told(found: Loaded) -> list[str]:
    return [f"{one.code}: {one.message}" for one in found.diagnostics]


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_an_example_is_valid_without_a_warning(path: Path) -> None:
    assert told(loaded(path.read_text(encoding="utf-8"), path)) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_an_example_is_in_canonical_spelling(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert format_text(text) == text


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_an_example_says_what_it_is_and_can_be_found(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    metadata = yaml.safe_load(text)["metadata"]
    assert text.startswith("# ")
    assert metadata["description"]
    assert metadata["path"] == f"examples/{path.relative_to(FOLDER).with_suffix('').as_posix()}"


@pytest.mark.parametrize("form", ["svg", "mermaid", "dot"])
@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_an_example_can_be_drawn_and_explained(path: Path, form: str) -> None:
    net = loaded(path.read_text(encoding="utf-8"), path).net
    assert net is not None
    picture = draw(net, form)
    assert all(step in picture for step in net.steps)
    if form == "svg":
        assert ET.fromstring(picture).tag.endswith("svg")
    assert explain_playbook(net)
    assert all(explain_step(net, step) for step in net.steps.values())


def test_the_examples_show_the_usual_kinds() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in EXAMPLES)
    assert {kind for kind in BUILT_IN if f"kind: {kind}\n" in text} >= SHOWN


@pytest.mark.parametrize("path", OLDER, ids=name)
def test_an_older_file_is_told_apart(path: Path) -> None:
    codes = [one.code for one in loaded(path.read_text(encoding="utf-8"), path).diagnostics]
    assert any(code.startswith("legacy-") for code in codes)


@pytest.mark.parametrize("path", OLDER, ids=name)
def test_an_older_file_migrates_to_a_clean_one_with_its_comments(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    migrated = migrate(text, ToolKinds(), name=path.name)
    assert told(loaded(migrated.text, path)) == []
    comments = [line.strip() for line in text.splitlines() if line.strip().startswith("#")]
    assert [line for line in comments if line not in migrated.text] == []
    assert migrate(migrated.text, ToolKinds(), name=path.name).text == migrated.text

"""noetl graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell


@pytest.mark.parametrize(("form", "sign"), [("svg", "<svg"), ("mermaid", "flowchart"), ("dot", "digraph")])
def test_the_picture_goes_to_stdout_in_the_format_asked_for(noetl: Noetl, files: Path, form: str, sign: str) -> None:
    result = noetl("graph", "good.yaml", "--format", form)
    assert (result.code, result.err) == (0, "")
    assert sign in result.out


def test_svg_is_the_default(noetl: Noetl, files: Path) -> None:
    assert "<svg" in noetl("graph", "good.yaml").out


@pytest.mark.parametrize(("name", "sign"), [("a.svg", "<svg"), ("a.mmd", "flowchart"), ("deep/a.dot", "digraph")])
def test_the_ending_of_the_file_picks_the_format(noetl: Noetl, files: Path, name: str, sign: str) -> None:
    assert noetl("graph", "good.yaml", "-o", name) == (0, "", f"wrote {name}\n")
    assert sign in (files / name).read_text()


def test_an_ending_that_says_nothing_is_asked_about(noetl: Noetl, files: Path) -> None:
    result = noetl("graph", "good.yaml", "-o", "a.png")
    assert (result.code, result.err) == (
        2,
        "noetl: a.png: which format is this? name one with --format svg|mermaid|dot\n",
    )


def test_at_a_terminal_the_picture_is_written_beside_the_file(shell: Shell, files: Path) -> None:
    shown = shell.at_terminal("graph", "good.yaml")
    assert shown == "wrote good.svg\r\n"
    assert "<svg" in (files / "good.svg").read_text()


def test_an_invalid_playbook_has_no_picture(noetl: Noetl, files: Path) -> None:
    result = noetl("graph", "bad.yaml", "-o", "bad.svg")
    assert (result.code, (files / "bad.svg").exists()) == (2, False)
    assert "error[unknown-kind]" in result.err

"""noetl format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl


pytest.importorskip("noetl.lang.printing.formatter", reason="the formatter is not there yet")


def test_a_file_is_written_in_its_canonical_spelling_once(noetl: Noetl, folder: Path, good: str) -> None:
    (folder / "flow.yaml").write_text(good.replace("tool: {kind: noop,", "tool:    {kind:   noop,"))
    assert noetl("format", "--check", "flow.yaml").code == 1
    assert noetl("format", "flow.yaml") == (0, "", "flow.yaml: reformatted\n")
    assert "# where it starts" in (folder / "flow.yaml").read_text()
    assert noetl("format", "--check", "flow.yaml").code == 0
    assert noetl("validate", "--strict", "flow.yaml").code == 0


def test_what_cannot_be_parsed_is_told_and_left_alone(noetl: Noetl, folder: Path) -> None:
    (folder / "flow.yaml").write_text("a: [1\n")
    result = noetl("format", "flow.yaml")
    assert (result.code, "error[yaml-syntax]" in result.err) == (2, True)
    assert (folder / "flow.yaml").read_text() == "a: [1\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"hello\n", "error[wrong-type]"),
        (b"services: {}\n", "noetl: other.yaml: this is not a playbook"),
        (b"apiVersion: v1\nkind: Pod\n", "noetl: other.yaml: this is not a playbook"),
        (b"name: caf\xe9\n", "error[yaml-syntax]"),
    ],
)
def test_what_is_not_a_playbook_is_refused_and_left_alone(noetl: Noetl, folder: Path, data: bytes, said: str) -> None:
    (folder / "other.yaml").write_bytes(data)
    for options in ((), ("--check",), ("--stdout",)):
        result = noetl("format", *options, "other.yaml")
        assert (result.code, result.out) == (2, "")
        assert said in result.err
    assert (folder / "other.yaml").read_bytes() == data

"""noetl migrate."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell


needs_dialects = pytest.mark.skipif(
    not hasattr(import_module("noetl.lang.legacy"), "migrate"), reason="the older dialects are not there yet"
)

OLD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: old}
workload: {n: 3}
workflow:
  - step: start
    args: {n: "{{ workload.n }}"} # kept
    tool: {kind: noop, output: "{{ input.n }}"}
"""


@needs_dialects
def test_a_file_is_rewritten_in_place_and_every_rewrite_is_told(noetl: Noetl, folder: Path) -> None:
    (folder / "old.yaml").write_text(OLD)
    result = noetl("migrate", "old.yaml")
    assert result.code == 0
    assert result.out == ""
    assert result.err.startswith("old.yaml:7: ")
    assert result.err.endswith("old.yaml: rewritten\n")
    assert 'input: {n: "{{ workload.n }}"} # kept' in (folder / "old.yaml").read_text()
    assert noetl("validate", "--strict", "old.yaml").code == 0


@needs_dialects
def test_check_exits_with_1_and_writes_nothing(noetl: Noetl, folder: Path, good: str) -> None:
    (folder / "old.yaml").write_text(OLD)
    (folder / "new.yaml").write_text(good)
    assert noetl("migrate", "--check", "old.yaml").code == 1
    assert noetl("migrate", "--check", "new.yaml").code == 0
    assert (folder / "old.yaml").read_text() == OLD


@needs_dialects
def test_stdout_is_a_playbook_and_nothing_else(noetl: Noetl, shell: Shell, folder: Path) -> None:
    (folder / "old.yaml").write_text(OLD)
    printed = noetl("migrate", "--stdout", "old.yaml").out
    assert printed.startswith("apiVersion: noetl.io/v2\n")
    assert shell("migrate", "-", given=OLD.encode()).out == printed
    assert (folder / "old.yaml").read_text() == OLD


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: [1\n", "error[yaml-syntax]"),
        (b"- 1\n", "error[wrong-type]"),
        (b"", "error[wrong-type]"),
        (b"name: caf\xe9\n", "old.yaml:1:10: error[yaml-syntax]"),
        (b"services: {}\n", "noetl: old.yaml: this is not a playbook"),
        (b"apiVersion: v1\nkind: Pod\n", "noetl: old.yaml: this is not a playbook"),
    ],
)
def test_what_is_no_playbook_at_all_exits_with_2(noetl: Noetl, folder: Path, data: bytes, said: str) -> None:
    (folder / "old.yaml").write_bytes(data)
    result = noetl("migrate", "old.yaml")
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert (folder / "old.yaml").read_bytes() == data

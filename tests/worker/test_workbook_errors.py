"""What goes wrong in the workbook is told by the name of its task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.cli.app import run

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: wb}
workbook:
  clean:
    - {name: first, kind: noop}
    - name: parse
      kind: noop
      output: "{{ input.nothing }}"
  outer: {kind: workbook, task: clean, input: {x: 1}}
workflow:
  - {step: a, tool: {kind: workbook, task: outer}}
"""


def test_an_error_in_the_workbook_names_its_task_and_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    (tmp_path / "wb.yaml").write_text(TEXT)
    assert run(["run", "wb.yaml", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["step"], error["task"], error["workbook"]) == ("a", "a", "clean.parse")
    assert (error["line"], error["key"]) == (9, "output")
    run(["show", "last"])
    said = capsys.readouterr().out
    assert "step a, task a, workbook clean.parse: template: " in said
    assert "at wb.yaml:9, `output`" in said

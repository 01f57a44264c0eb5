"""A plugin that cannot be used is named in one line, and nothing that does without it breaks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli.conftest import Result, Shell

BOOK = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\nworkflow: [{{step: a, tool: {{kind: {kind}}}}}]\n"
)
KIND = (
    'from noetl.plugin import *\nKIND = ToolKind(name="%s", doc="d", keys={}, input=InputRole.CONFIGURES, output="x")\n'
)
RUN = "async def run(call, world): return ok(1)\n"
#: kind → the source of its module, and what is wrong with it
BROKEN = {
    "imports": (
        "import no_such_module\n",
        "it cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "syntax": ("def (\n", "it cannot be imported: SyntaxError: invalid syntax (odd_syntax.py, line 1)"),
    "exits": ("raise SystemExit(3)\n", "it cannot be imported: SystemExit: 3"),
    "nothing": ("x = 1\n", "it has no `KIND`"),
    "number": ("KIND = 42\n" + RUN, "its `KIND` is a int, not a ToolKind"),
    "other": (KIND % "someone_else" + RUN, "its `KIND` is named 'someone_else', not 'other' as its entry point"),
    "keys": ((KIND % "keys").replace("{}", "{'a': 1}") + RUN, "the `keys` of its `KIND` are no map of names to `Key`"),
    "idle": (KIND % "idle", "it has no function `run`"),
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in; the package `oddities` is installed, with these plugins and a good one."""
    package = tmp_path / "site"
    about = package / "oddities-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: oddities\nVersion: 1.0\n")
    names = [*BROKEN, "good"]
    (about / "entry_points.txt").write_text("[noetl.tools]\n" + "".join(f"{name} = odd_{name}\n" for name in names))
    for name, (source, _) in BROKEN.items():
        (package / f"odd_{name}.py").write_text(source)
    (package / "odd_good.py").write_text(KIND % "good" + RUN)
    work = tmp_path / "work"
    work.mkdir()
    for kind in names:
        (work / f"{kind}.yaml").write_text(BOOK.format(kind=kind))
    monkeypatch.chdir(work)
    return package


def call(shell: Shell, installed: Path, *arguments: str) -> Result:
    # A process of its own: a forked one has read already what is installed.
    paths = os.pathsep.join([str(installed), shell.environment["PYTHONPATH"]])
    environment = {**shell.environment, "PYTHONPATH": paths, "NOETL_HOME": str(installed / "home")}
    done = subprocess.run(shell.command(*arguments), env=environment, capture_output=True, text=True, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_plugin_that_cannot_be_used_is_named_in_one_line(shell: Shell, installed: Path, kind: str) -> None:
    for command in ("validate", "run", "explain") if kind == "imports" else ("validate",):
        said = call(shell, installed, command, f"{kind}.yaml")
        why = f"noetl: package `oddities`: the plugin `{kind} = odd_{kind}` cannot be used: {BROKEN[kind][1]}\n"
        assert (said.code, said.out, said.err) == (1, "", why)


def test_what_does_without_a_broken_plugin_works(shell: Shell, installed: Path) -> None:
    assert call(shell, installed, "validate", "good.yaml").code == 0
    assert call(shell, installed, "run", "good.yaml").code == 0
    assert call(shell, installed, "init", "new").code == 0
    unknown = call(shell, installed, "validate", "--strict", str(_unknown(Path.cwd())))
    assert (unknown.code, "did you mean `good`?" in unknown.out + unknown.err) == (2, True)
    schema = call(shell, installed, "schema")
    assert schema.code == 0
    assert "good" in json.dumps(json.loads(schema.out))
    assert sorted(line.partition(" cannot be used")[0] for line in schema.err.splitlines()) == sorted(
        f"left out: package `oddities`: the plugin `{kind} = odd_{kind}`" for kind in BROKEN
    )


def _unknown(folder: Path) -> Path:
    file = folder / "unknown.yaml"
    file.write_text(BOOK.format(kind="goood"))
    return file

"""The example of a plugin, installed as its users would: found by its entry point, validated, run."""

from __future__ import annotations

import ast
import builtins
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from noetl import plugin
from noetl.lang.loader import load
from noetl.model import shape

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "write-a-plugin.md"
PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
SOURCES = Path(__file__).parents[2] / "src"
#: the root of shapes, and those that only the grammar of the document and of `transfer` are written with
NOT_FOR_PLUGINS = {"Record", "Shape", "ShapeRef", "Variant", "When"}
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: counting}
workflow:
  - step: start
    tool: {kind: words, text: "{{ workload.text }}", mots: 3}
workload: {text: a b a}
"""
PROGRAM = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from tool_world import Workshop
from noetl.tools.registry import ToolKinds
assert "words" in list(ToolKinds()), list(ToolKinds())
assert ToolKinds()["words"].doc == "Counts the words of a text."
world = Workshop(Path())
print(asyncio.run(world.run("words", text="a b A", most=1))["data"], world.logged("stdout"), end="")
print(asyncio.run(world.run("words", text=5))["error"]["message"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the plugin is installed."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", target, PLUGIN], check=True)
    return {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{SOURCES}"}


def test_a_plugin_is_found_and_run(installed: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=installed, check=True, capture_output=True, text=True)
    assert done.stdout == "[{'word': 'a', 'count': 2}] 2 different words\n`text` must be text, not int\n"


def test_a_plugins_keys_are_validated_like_any_other(installed: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "counting.yaml"
    file.write_text(PLAYBOOK)
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "validate", file], env=installed, check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "mots" in done.stdout + done.stderr
    assert "most" in done.stdout + done.stderr
    file.write_text(PLAYBOOK.replace("mots", "most"))
    subprocess.run([sys.executable, "-m", "noetl", "validate", file], env=installed, check=True, capture_output=True)


def test_the_example_does_not_leave_anything_beside_its_sources() -> None:
    assert {path.name for path in PLUGIN.iterdir()} - {"__pycache__"} == {
        "README.md",
        "noetl_words.py",
        "pyproject.toml",
    }


def sources() -> dict[str, str]:
    """The code that authors of plugins copy: the example, and the blocks of the how-to page."""
    blocks = re.findall(r"^```python\n(.*?)^```$", HOWTO.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return {"example": (PLUGIN / "noetl_words.py").read_text(encoding="utf-8"), "how-to": "\n".join(blocks)}


def imports(source: str) -> dict[str, set[str]]:
    """The names that a source imports, by module."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update({alias.name: set() for alias in node.names})
    return found


@pytest.mark.parametrize("name", ["example", "how-to"])
def test_a_plugin_imports_nothing_of_noetl_but_its_public_names(name: str) -> None:
    of_noetl = {module: names for module, names in imports(sources()[name]).items() if module.startswith("noetl")}
    assert set(of_noetl) == {"noetl.plugin"}
    assert of_noetl["noetl.plugin"] <= set(plugin.__all__)


@pytest.mark.parametrize("name", ["example", "how-to"])
def test_the_code_that_authors_copy_uses_no_name_that_it_does_not_import(name: str) -> None:
    names = [node for node in ast.walk(ast.parse(sources()[name])) if isinstance(node, ast.Name)]
    known = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {"call", "world"} | set(dir(builtins))
    known |= {imported for names in imports(sources()[name]).values() for imported in names}
    assert {node.id for node in names} - known == set()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("mode: fast, size: 2", []),
        ("mode: '{{ workload.mode }}', size: 2", []),
        ("input: {mode: fast, size: 2}", []),
        ("mode: slow, size: 2", ["`size` has no effect here: it belongs to `mode: fast`"]),
        ("size: 2", ["`size` has no effect here: it belongs to `mode: fast`"]),
    ],
)
def test_a_plugins_key_that_has_no_effect_is_told(given: str, told: list[str]) -> None:
    keys = {
        "mode": plugin.Key(plugin.Word(("fast", "slow"), templated=True), "How."),
        "size": plugin.Key(plugin.Number(), "How much.", beside=plugin.Beside("mode", ("fast",))),
    }
    kind = plugin.ToolKind(name="own", doc="Own.", keys=keys, input=plugin.InputRole.CONFIGURES, output="nothing")
    text = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\nworkload: {{mode: fast}}\nworkflow: [{{step: a, tool: {{kind: own, {given}}}}}]\n"
    assert [one.message for one in load(text, {"own": kind}).diagnostics] == told


def test_the_public_names_are_there_and_cover_every_shape_of_a_key() -> None:
    assert {name for name in plugin.__all__ if not hasattr(plugin, name)} == set()
    shapes = {name for name, one in vars(shape).items() if isinstance(one, type) and one.__module__ == shape.__name__}
    assert shapes - set(plugin.__all__) == NOT_FOR_PLUGINS


def test_the_how_to_page_names_every_public_name() -> None:
    page = HOWTO.read_text(encoding="utf-8")
    assert {name for name in plugin.__all__ if not re.search(rf"\b{name}\b", page)} == set()

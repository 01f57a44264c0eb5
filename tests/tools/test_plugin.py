"""The example of a plugin, installed as its users would: found by its entry point, validated, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
SOURCES = Path(__file__).parents[2] / "src"
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

"""ARCHITECTURE.md is short and true: its paths, names and layers are those of the code."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
TEXT = PAGE.read_text(encoding="utf-8")
MOST_BYTES = 16 * 1024
FENCE = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def test_the_page_is_short() -> None:
    assert len(PAGE.read_bytes()) <= MOST_BYTES


def test_every_path_leads_to_a_file_or_folder() -> None:
    paths = {path for path in re.findall(r"`([\w/-]+(?:\.\w+|/))`", TEXT) if "/" in path}
    assert len(paths) > 40
    assert {path for path in paths if not any((root / path).exists() for root in (ROOT, ROOT / "src/noetl"))} == set()


def test_every_class_that_is_named_exists() -> None:
    defined = {name for path in (ROOT / "src").rglob("*.py") for name in CLASS.findall(path.read_text("utf-8"))}
    named = set(re.findall(r"`([A-Z][a-z]\w+)`", TEXT)) | set(re.findall(r"\b[A-Z][a-z]+[A-Z][a-z]\w+\b", TEXT))
    assert named - defined - {"PostgreSQL", "NoETL", "DuckDB"} == set()


def test_every_name_of_a_package_is_exported_by_it() -> None:
    named = re.findall(r"`(engine|dispatch|pipeline|lazy)\.(\w+)`", TEXT)
    assert named
    assert [(module, name) for module, name in named if not hasattr(import_module(f"noetl.{module}"), name)] == []


def test_the_layers_are_those_that_are_checked() -> None:
    [drawn] = [block for block in FENCE.findall(TEXT) if block.startswith("__main__")]
    shown = [re.split(r"\s{2,}", line)[0] for line in drawn.splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [one for one in settings["tool"]["importlinter"]["contracts"] if one["id"] == "layers"]
    assert shown == layers["layers"]


def test_the_reading_path_takes_about_an_hour() -> None:
    minutes = [int(found) for found in re.findall(r"^\| \d+ \| .* \| (\d+) \|$", TEXT, re.MULTILINE)]
    assert 12 <= len(minutes) <= 16
    assert 50 <= sum(minutes) <= 70

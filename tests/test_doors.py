"""What packages export: lazily at run time, in full for type checkers, and both say the same."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
DOORS = sorted(path for path in SOURCE.rglob("__init__.py") if "export_lazily(" in path.read_text(encoding="utf-8"))


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(SOURCE).parts)


def typed_exports(path: Path) -> dict[str, str]:
    """Name and module of what type checkers see."""
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                found |= {alias.asname or alias.name: line.module or "" for alias in line.names}
    return found


def lazy_exports(path: Path) -> dict[str, str]:
    """Name and module of what is imported on first use."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "export_lazily":
            table: dict[str, str] = ast.literal_eval(node.args[1])
            return {name: f"{package_of(path)}.{module}" for module, names in table.items() for name in names.split()}
    raise AssertionError("no table")


@pytest.mark.parametrize("path", DOORS, ids=package_of)
def test_a_package_exports_the_same_names_to_type_checkers_and_at_run_time(path: Path) -> None:
    assert lazy_exports(path) == typed_exports(path)


@pytest.mark.parametrize("path", DOORS, ids=package_of)
def test_every_exported_name_is_there_and_is_no_module(path: Path) -> None:
    package = import_module(package_of(path))
    for name, module in lazy_exports(path).items():
        # a module of the same name would hide the export as soon as it is imported
        assert not (path.parent / f"{name}.py").exists(), name
        assert getattr(package, name) is getattr(import_module(module), name)


def test_a_name_that_a_package_does_not_export_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr(import_module("noetl.ports"), "no_such_name")  # noqa: B009

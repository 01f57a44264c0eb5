"""The glossary of classes is complete and true: every class that a package exports is in it, where it says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
SOURCE = ROOT / "src"
#: a row of a table: classes, the module that defines them, and a text
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| `([\w.]+)` \| (.+) \|$", re.MULTILINE)


def rows() -> Iterator[tuple[str, str]]:
    """Class and module, as the glossary has them."""
    for names, module, _ in ROW.findall(GLOSSARY.read_text(encoding="utf-8")):
        for name in re.findall(r"\w+", names):
            yield name, f"noetl.{module}"


def door_imports(path: Path) -> Iterator[ast.ImportFrom]:
    """What the `__init__` of a package with lazy exports exports: on first use, and also at once."""
    text = path.read_text(encoding="utf-8")
    if "export_lazily(" not in text:
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from (line for line in node.body if isinstance(line, ast.ImportFrom))


def exported_classes() -> Iterator[tuple[str, str]]:
    """Class and module of what packages export, without exceptions and without the frozen data of `model`."""
    for path in SOURCE.rglob("__init__.py"):
        package = ".".join(path.parent.relative_to(SOURCE).parts)
        for line in door_imports(path):
            for alias in line.names if (line.module or "").startswith(f"{package}.") else ():
                found = getattr(import_module(line.module or ""), alias.name)
                if isinstance(found, type) and is_structural(found):
                    yield found.__name__, found.__module__


def is_structural(found: type) -> bool:
    is_data = issubclass(found, msgspec.Struct) and found.__module__.startswith("noetl.model.")
    return not issubclass(found, BaseException) and not is_data


def test_every_exported_class_is_in_the_glossary() -> None:
    assert sorted(set(exported_classes()) - set(rows())) == []


def test_every_class_of_the_glossary_is_defined_where_it_says() -> None:
    wrong = [
        (name, module)
        for name, module in rows()
        if getattr(getattr(import_module(module), name, None), "__module__", None) != module
    ]
    assert wrong == []


def test_no_class_is_in_the_glossary_twice() -> None:
    assert sorted(rows()) == sorted(set(rows()))


def test_every_line_of_a_table_is_a_row_that_is_checked() -> None:
    lines = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert [line for line in lines if not ROW.fullmatch(line)] == []

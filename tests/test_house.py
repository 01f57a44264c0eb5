"""What no linter knows: sizes, docstrings, what a start imports, what must be documented, what must not be tracked."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.cli.command_table import COMMANDS
from noetl.model.slugs import SLUGS
from noetl.tools.registry import BUILT_IN

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py"))
PACKAGES = sorted(path.parent.name for path in (ROOT / "src" / "noetl").glob("*/__init__.py"))
MOST_LINES = 500
MOST_LINES_IN_A_FUNCTION = 60
MOST_MODULES = 15
#: the bodies of the HTTP API have one name at both ends: the client's are its public interface, the server's name the
#: schemas of openapi.json
SAME_AT_BOTH_ENDS = {"CalledPlaybook", "EventPage", "ExecutionPage", "NumberedLine", "RequestEffect"}
#: slow to import, and not needed to answer `--version` and `--help`
HEAVY = {"jinja2", "yaml", "rich", "jsonschema", "asyncio", "jsonpath", "importlib.metadata"}
#: places of somebody's machine, spelled so that this file does not name one
MACHINE = re.compile(
    r"/(?:home|Users|root|work|mnt|opt)/[A-Za-z0-9_.-]+|[A-Za-z]:\\\\?Users\\|/tmp/[A-Za-z0-9]{2,}"
    r"|https?://[^\s\"'`)>]*(?:py[p]i|python[h]osted|artifactory|nexus|jfrog|dev[p]i)|index-url"
)


def module_id(path: Path) -> str:
    return str(path.relative_to(ROOT / "src"))


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_a_module_says_what_it_is_and_fits_in_the_head(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no docstring"
    assert text.count("\n") <= MOST_LINES
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES_IN_A_FUNCTION} == {}


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_a_module_gives_a_name_one_meaning(path: Path) -> None:
    """A constant that is assigned again, further down, would change for the functions above it as well."""
    counts = Counter(name for node in ast.parse(path.read_text(encoding="utf-8")).body for name in _assigned(node))
    assert {name: count for name, count in counts.items() if count > 1 and name != "_"} == {}


def _assigned(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module gives a value; a declaration alone gives none."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            parts = [part for target in targets for part in getattr(target, "elts", [target])]
            yield from (part.id for part in parts if isinstance(part, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_a_folder_of_tests(package: str) -> None:
    assert list((ROOT / "tests" / package).rglob("test_*.py")) != []


def public_classes(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_a_public_class_name_is_defined_once() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for name in public_classes(path):
            places[name].append(module_id(path))
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in repeated.items() if name not in SAME_AT_BOTH_ENDS} == {}
    assert set(repeated) == SAME_AT_BOTH_ENDS, "an exception that is not needed any more"


def test_a_package_holds_few_modules() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for path in MODULES:
        if path.name != "__init__.py":
            sizes[module_id(path.parent)] += 1
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES} == {}


def test_a_module_name_occurs_once_in_a_top_level_package() -> None:
    places = defaultdict(list)
    for path in MODULES:
        _, package, *rest = path.relative_to(ROOT / "src").parts
        if rest and path.stem not in {"__init__", "__main__"}:
            places[package, path.stem].append(module_id(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def tracked_files() -> Iterator[Path]:
    """What is, or is about to be, in the repository; without git, what is here less what is made here."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        yield from (path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file())
        return
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in {".git", ".venv", "build", "dist"} and "cache" not in name
        ]
        yield from (Path(folder, name) for name in files)


def test_nothing_tracked_names_a_machine_or_a_registry() -> None:
    found = {}
    for path in tracked_files():
        if path == Path(__file__):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if hits := MACHINE.findall(text):
            found[str(path.relative_to(ROOT))] = hits[:3]
    assert found == {}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], []], ids=" ".join)
def test_a_start_imports_nothing_heavy(arguments: list[str]) -> None:
    code = "import sys; from noetl.__main__ import main; main(); sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stderr.split()) == set()


def test_the_version_is_answered_with_no_framework_at_all() -> None:
    code = "import sys; from noetl.__main__ import main; main(); sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True)
    assert {"click", "msgspec"} & set(done.stderr.split()) == set()


def headings(page: str) -> set[str]:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    return {line.lstrip("#").strip().strip("`") for line in text.splitlines() if line.startswith("#")}


def test_every_slug_is_documented() -> None:
    assert set(SLUGS) - headings("diagnostics.md") == set()


def test_every_command_is_documented() -> None:
    assert {f"noetl {name}" for name in COMMANDS} - headings("cli.md") == set()


def test_every_tool_kind_is_documented() -> None:
    assert set(BUILT_IN) - headings("tools.md") == set()

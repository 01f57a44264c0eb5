"""The catalogue of slugs: complete, and its examples are true."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Severity
from noetl.model.slugs import SLUGS, Slug, slug_info
from noetl.tools.registry import ToolKinds

SOURCES = Path(__file__).parents[2] / "src" / "noetl"
SLUG = re.compile(r"[a-z]+(-[a-z]+)+|reserved")
REPORTING = {"error", "warning", "add", "stop", "report", "TemplateProblem", "Diagnostic"}
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example}\n"
WITH_EXAMPLES = [slug for slug in SLUGS.values() if slug.wrong]


def codes_in_source() -> Iterator[tuple[str, str]]:
    """Every code the program can put into a diagnostic, with the file that does it."""
    for path in sorted(SOURCES.rglob("*.py")):
        if "slugs" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            yield from ((code, path.name) for code in _reported(node))


#: codes of the language page that no check reports yet
NOT_REPORTED_YET: set[str] = set()


def _reported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[:1] if called in REPORTING else []
    elif isinstance(node, ast.Tuple) and len(node.elts) > 1 and " " in _text(node.elts[1]):
        first = node.elts[:1]
    else:
        first = []
    yield from (code for one in first if SLUG.fullmatch(code := _text(one)))


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def playbook(fragment: str) -> str:
    """A whole playbook around an example."""
    if fragment.startswith("- step:"):
        return f"{HEAD}workflow:\n{indent(fragment, '  ')}\n"
    head = HEAD.partition("metadata:")[0] if fragment.startswith("metadata:") else HEAD
    return f"{head}{fragment}\n"


def test_every_code_the_program_reports_is_in_the_catalogue() -> None:
    used = set(codes_in_source())
    assert {"unknown-key", "template-syntax", "sql-unbound"} <= {code for code, _ in used}
    assert {(code, where) for code, where in used if slug_info(code) is None} == set()


def test_every_code_of_the_language_page_is_in_the_catalogue() -> None:
    page = Path(__file__).parents[3] / "shared" / "spec" / "LANGUAGE.md"
    if not page.exists():
        pytest.skip("the language page is not part of this repository")
    section = page.read_text().split("## 14. Diagnostics")[1]
    section = re.sub(r"\([^()]*\)", "", section)
    codes = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section))
    assert len(codes) > 30
    assert {code for code in codes if slug_info(code) is None} <= NOT_REPORTED_YET


@pytest.mark.parametrize("slug", WITH_EXAMPLES, ids=lambda slug: slug.code)
def test_the_wrong_example_has_the_problem_and_the_mended_one_has_none(slug: Slug) -> None:
    wrong = load(playbook(slug.wrong), ToolKinds()).diagnostics
    right = load(playbook(slug.right), ToolKinds()).diagnostics
    assert slug.code in {found.code for found in wrong}
    assert [found.message for found in right if found.severity is Severity.ERROR or found.code == slug.code] == []


def test_every_slug_says_what_why_and_how_in_sentences() -> None:
    for slug in SLUGS.values():
        assert slug.title
        assert not slug.title.endswith(".")
        for text in (slug.meaning, slug.why, slug.mend):
            assert text.endswith("."), (slug.code, text)


def test_any_older_word_is_understood_and_an_unknown_code_is_not() -> None:
    info = slug_info("legacy-next-list")
    assert info is not None
    assert "next list" in info.meaning
    assert "noetl migrate" in info.mend
    assert slug_info("no-such-code") is None

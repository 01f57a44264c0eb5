"""noetl run --catalog: called playbooks are found by their path in a tree of folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli import playbooks as texts
from cli.devserver import Dev
from noetl.cli import catalog_folders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Noetl, Running, Shell

    Start = Callable[..., Running]

CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: %s, path: %s}
workload: {n: 1}
workflow:
  - {step: end, tool: {kind: noop, output: "{{ workload.n * %d }}"}}
"""
CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller}
workload: {which: crm/users/double}
workflow:
  - step: end
    tool: {kind: playbook, path: "%s", input: {n: 21}}
"""


@pytest.fixture
def tree(folder: Path, home: Path) -> Path:
    """A tree of playbooks, and beside it one that calls those of the tree."""
    for name, path, factor in (("double", "crm/users/double", 2), ("triple", "shop/triple", 3)):
        file = folder / "books" / path.partition("/")[0] / f"{name}.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(CHILD % (name, path, factor))
    deep = folder / "books" / "deep" / "er"
    deep.mkdir(parents=True)
    (deep / "via.yaml").write_text(CALLER.replace("name: caller", "name: via, path: via") % "shop/triple")
    (folder / "app").mkdir()
    (folder / "app" / "main.yaml").write_text(CALLER % "crm/users/double")
    return folder


def output(noetl: Noetl, *arguments: str) -> object:
    code, out, err = noetl("run", *arguments, "--json")
    assert code == 0, out + err
    return json.loads(out)["output"]


def test_a_child_is_found_by_its_path_in_a_tree_of_folders(noetl: Noetl, tree: Path) -> None:
    assert noetl("run", "app/main.yaml").code == 1
    assert output(noetl, "app/main.yaml", "--catalog", "books") == 42
    (tree / "app" / "main.yaml").write_text(CALLER % "via")
    assert output(noetl, "app/main.yaml", "--catalog", "books") == 63


def test_a_project_file_names_the_folders(noetl: Noetl, tree: Path) -> None:
    (tree / "noetl.toml").write_text('catalog = ["books"]\n')
    assert output(noetl, "app/main.yaml") == 42
    assert noetl("validate", "app", "--strict").code == 0


def test_a_path_that_is_a_template_finds_any_playbook_of_the_tree(noetl: Noetl, tree: Path) -> None:
    (tree / "app" / "main.yaml").write_text(CALLER % "{{ workload.which }}")
    assert output(noetl, "app/main.yaml", "--catalog", "books") == 42
    assert output(noetl, "app/main.yaml", "--catalog", "books", "--set", "which=shop/triple") == 63


def test_the_folder_of_the_caller_goes_before_the_catalog(noetl: Noetl, tree: Path) -> None:
    (tree / "app" / "near.yaml").write_text(CHILD % ("near", "crm/users/double", 100))
    assert output(noetl, "app/main.yaml", "--catalog", "books") == 2100


def test_a_server_is_sent_what_was_found(noetl: Noetl, shell: Shell, tree: Path) -> None:
    with Dev(shell) as dev:
        assert output(noetl, "app/main.yaml", "--catalog", "books", "--server", dev.url) == 42


def test_a_resumed_run_has_the_playbooks_that_it_began_with(noetl: Noetl, start: Start, tree: Path) -> None:
    """Neither the option nor the folder is needed for that."""
    gated = (
        texts.HEAD % "gated" + "  - step: one\n    tool: {kind: wait, signal: go}\n    next: {arcs: [{step: end}]}\n"
    )
    call = "  - {step: end, tool: {kind: playbook, path: crm/users/double, input: {n: 4}}}\n"
    (tree / "app" / "gated.yaml").write_text(gated + call)
    running = start("run", "app/gated.yaml", "--catalog", "books")
    running.wait_for("one started")
    running.kill()
    (tree / "books" / "crm" / "double.yaml").unlink()
    noetl("signal", "last", "go")
    code, out, err = noetl("resume", "last", "--json")
    assert (code, json.loads(out)["output"]) == (0, 8), err


def test_two_playbooks_with_one_path_are_an_error_that_names_both(noetl: Noetl, tree: Path) -> None:
    (tree / "books" / "copy.yaml").write_text(CHILD % ("copy", "crm/users/double", 9))
    code, _, told = noetl("run", "app/main.yaml", "--catalog", "books")
    assert code == 2
    assert "two playbooks of the catalog have the path `crm/users/double`" in told
    assert f"{tree}/books/copy.yaml" in told
    assert f"{tree}/books/crm/double.yaml" in told
    said = noetl("validate", "app/main.yaml", "--catalog", "books", "--strict")
    assert (said.code, "two playbooks of the catalog" in said.out) == (2, True)
    (tree / "app" / "main.yaml").write_text(CALLER % "shop/triple")
    assert output(noetl, "app/main.yaml", "--catalog", "books") == 63


def test_a_broken_file_is_skipped_with_a_note_unless_it_is_asked_for(noetl: Noetl, tree: Path) -> None:
    (tree / "books" / "other.yaml").write_text("apiVersion: noetl.io/v2\nmetadata: {name: [\n")
    (tree / "books" / "compose.yaml").write_text("services: {db: {image: x}}\n")
    (tree / "books" / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: crm/users/double}\n")
    code, _, told = noetl("run", "app/main.yaml", "--catalog", "books")
    assert code == 0
    assert f"skipped in the catalog, as their path cannot be read: {tree}/books/other.yaml;" in told
    (tree / "books" / "crm" / "double.yaml").write_text("apiVersion: noetl.io/v2\nmetadata: {name: [\n")
    code, _, told = noetl("run", "app/main.yaml", "--catalog", "books")
    assert code == 2
    assert f"cannot be read: run `noetl validate {tree}/books/crm/double.yaml`" in told


def test_a_called_playbook_with_errors_is_named_when_it_is_called(noetl: Noetl, tree: Path) -> None:
    (tree / "books" / "crm" / "double.yaml").write_text(CHILD % ("double", "crm/users/double", 2) + "  - {stepp: x}\n")
    code, _, told = noetl("run", "app/main.yaml", "--catalog", "books")
    assert (code, f"{tree}/books/crm/double.yaml" in told) == (1, True)


def test_validate_reports_calls_of_playbooks_that_are_not_there(noetl: Noetl, tree: Path) -> None:
    (tree / "app" / "main.yaml").write_text(CALLER % "crm/users/quadruple")
    code, out, _ = noetl("validate", "app/main.yaml")  # a warning: it may be known to a server
    assert (code, "there is no playbook `crm/users/quadruple` beside this one" in out) == (0, True)
    code, out, _ = noetl("validate", "app/main.yaml", "--catalog", "books", "--strict")
    assert code == 2
    assert "there is no playbook `crm/users/quadruple` in this folder or in the catalog" in out


def test_a_tree_is_bounded(noetl: Noetl, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "app" / "main.yaml").write_text(CALLER % "{{ workload.which }}")
    for name, said in (("_MOST_FILES", "more than 2 YAML files"), ("_MOST_ANY", "at most 2 are allowed")):
        with monkeypatch.context() as patch:
            patch.setattr(catalog_folders, name, 2)
            assert said in noetl("run", "app/main.yaml", "--catalog", "books").err
    monkeypatch.setattr(catalog_folders, "_MOST_DEPTH", 1)
    assert "more than 1 folders deep" in noetl("run", "app/main.yaml", "--catalog", "books").err


def test_a_catalog_that_is_no_folder_is_refused(noetl: Noetl, tree: Path) -> None:
    code, _, told = noetl("run", "app/main.yaml", "--catalog", "bookz")
    assert (code, "the catalog" in told, "is not a folder" in told) == (2, True, True)

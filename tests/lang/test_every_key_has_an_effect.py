"""Every key that the grammar accepts is read by what runs playbooks, or by what shows them.

The grammar is walked key by key. For each map `READERS` says which parts of the program its keys are for, and each key
must occur there, as an attribute or in a text: a key that nothing reads fails here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from noetl.lang.grammar.document_shape import PLAYBOOK, SHAPES, SUGAR_SHAPES, TASK_KEYS
from noetl.lang.grammar.spec_shape import RUNTIME
from noetl.model.shape import ListOf, MapOf, OneOf, Record, Shape, ShapeRef
from noetl.tools.registry import ToolKinds

SOURCES = Path(__file__).parents[2] / "src" / "noetl"

#: map of the grammar → the parts of the program that read its keys
READERS = {
    "a playbook": ("lang/building", "engine", "lang/grammar/invariants.py", "lang/legacy", "dispatch"),
    "`metadata`": ("lang/explanation.py", "lang/building", "engine", "server/core"),
    "`on_failure`": ("server/core/failure_notices.py",),
    "a keychain entry": ("secrets", "drivers"),
    "`from`": ("secrets",),
    "`executor`": ("dispatch", "lang/building", "lang/checks/packages.py"),
    "`requires`": ("lang/checks/packages.py",),
    "the executor's `policy`": ("engine", "worker", "lang/building"),
    "`defaults`": ("lang/building",),
    "`results`": ("engine", "worker"),
    "the executor's `limits`": ("engine", "model/playbook.py"),
    "the executor's `spec`": ("worker", "tools", "drivers", "dispatch", "expr/result_policy.py"),
    "a step's `spec`": ("worker", "tools", "drivers", "dispatch", "expr/result_policy.py"),
    "a loop's `spec`": ("worker", "tools", "drivers", "engine/loops.py", "expr/result_policy.py", "pipeline"),
    "a task's `spec`": ("worker", "tools", "drivers", "pipeline", "expr/result_policy.py"),
    "`timeout`": ("tools/http", "worker/tool_caller.py"),
    "`result`": ("expr/result_policy.py", "worker/payloads.py", "results"),
    "`validate`": ("worker", "expr/result_policy.py"),
    "`limits`": ("tools", "drivers", "worker"),
    "`concurrency`": ("dispatch/limit_keys.py",),
    "`rate`": ("dispatch/limit_keys.py",),
    "`lease`": ("dispatch/placement.py",),
    "a step": ("engine", "lang/explanation.py", "draw", "lang/building"),
    "a step's `policy`": ("engine", "pipeline/machine.py", "lang/building"),
    "`admit`": ("engine/admission.py",),
    "`join`": ("engine/admission.py",),
    "`lifecycle`": ("engine",),
    "`failure`": ("engine/loops.py", "lang/building"),
    "a loop": ("engine", "lang/building"),
    "a loop's `policy`": ("engine/loops.py", "dispatch/placement.py"),
    "`next`": ("engine/routing.py", "lang/building"),
    "`next.spec`": ("engine",),
    "`synthesize`": ("lang/planning.py", "engine"),
    "an arc": ("engine/routing.py", "engine/decision_replay.py"),
    "a rule": ("engine/admission.py", "pipeline/machine.py", "lang/building"),
    "`then`": ("pipeline/machine.py", "engine/admission.py"),
    "`else`": ("lang/building",),
    "a task": ("pipeline", "worker", "lang/explanation.py"),
    "a task's `policy`": ("pipeline/machine.py",),
    "a branch of `choose`": ("lang/building/tasks.py",),
    "`while`": ("lang/building/tasks.py",),
    "`until`": ("lang/building/tasks.py",),
    "a transfer's source": ("tools/transfer", "tools/http/request.py"),
    "a source's pages": ("tools/transfer/paging.py", "tools/transfer/page_reader.py"),
    "a transfer's target": ("tools/transfer", "tools/http/request.py"),
    "a transfer's chunk": ("tools/transfer",),
    "`kind: playbook`": ("tools/playbook.py", "server/core/children.py"),
    "`kind: workbook`": ("worker/tool_caller.py",),
    "`kind: postgres`": ("tools/postgres", "worker/tool_caller.py"),
    "`kind: duckdb`": ("tools/duckdb.py", "worker/tool_caller.py"),
}
#: who reads the keys of other maps
RUNNING = ("engine", "pipeline", "dispatch", "worker", "server")
#: what the model calls a key of the document
FIELDS = {
    ("`synthesize`", "from"): "plan",
    ("`join`", "from"): "places",
    ("a loop", "in"): "items",
    ("a loop", "loop"): "inner",
    ("`lifecycle`", "timeout_s"): "timeout",
    ("`lifecycle`", "deadline_s"): "deadline",
    ("a step", "tool"): "tasks",
    ("a step", "next"): "router",
    ("a step", "step"): "name",
    ("a step's `policy`", "admit"): "admission",
    ("`failure`", "mode"): "failure_mode",
}
#: keys whose whole effect is that the loader checks them: any other value is refused
CHECKED = {("a playbook", "apiVersion"), ("a playbook", "kind"), ("`executor`", "version")}


def all_maps() -> dict[str, list[Record]]:
    """The maps of the grammar, by title; some titles have several."""
    found: dict[str, list[Record]] = {}
    for shape in (PLAYBOOK, Record(title="a task", keys=TASK_KEYS), *SUGAR_SHAPES.values()):
        _collect(shape, found)
    for name, kind in ToolKinds().items():
        _collect(Record(title=f"`kind: {name}`", keys=kind.keys), found)
    return found


def _collect(shape: Shape, found: dict[str, list[Record]]) -> None:
    if isinstance(shape, ShapeRef):
        if shape.name in SHAPES:
            _collect(SHAPES[shape.name], found)
    elif isinstance(shape, OneOf):
        for one in shape.shapes:
            _collect(one, found)
    elif isinstance(shape, ListOf | MapOf):
        _collect(shape.item if isinstance(shape, ListOf) else shape.value, found)
    elif isinstance(shape, Record):
        # Two maps are called `limits`: those of a process, which every spec has, and those of an execution.
        is_execution = shape.title == "`limits`" and "max_steps" in shape.keys
        same = found.setdefault("the executor's `limits`" if is_execution else shape.title, [])
        if not any(one is shape for one in same):
            same.append(shape)
            for key in shape.keys.values():
                _collect(key.shape, found)


def accepted_keys() -> Iterator[tuple[str, str]]:
    for title, records in all_maps().items():
        for name in dict.fromkeys(name for record in records for name, key in record.keys.items() if not key.reserved):
            yield title, name


@cache
def words_in(part: str) -> frozenset[str]:
    """The attributes and the words of texts that a part of the program mentions, the tables of the grammar left out."""
    path = SOURCES / part
    files = [path] if path.suffix else sorted(path.rglob("*.py"))
    assert files, part
    found: set[str] = set()
    for file in files:
        tree = ast.parse(file.read_text())
        declared = {id(inner) for node in ast.walk(tree) if _declares(node) for inner in ast.walk(node)}
        docs = {id(one) for node in ast.walk(tree) if (one := _docstring(node)) is not None}
        for node in ast.walk(tree):
            if id(node) in declared or id(node) in docs:
                continue
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                found.update((node.value, *node.value.split(".")))
    return frozenset(found)


def _declares(node: ast.AST) -> bool:
    """Whether this is a table that says which keys there are: that is no reader."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Record", "ToolKind", "Key", "Variant")


def _docstring(node: ast.AST) -> ast.AST | None:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    return first.value if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None


def readers_of(title: str) -> tuple[str, ...]:
    if title in READERS:
        return READERS[title]
    if not title.startswith("`kind: "):
        return RUNNING
    name = title.removeprefix("`kind: ").rstrip("`")
    return (f"tools/{name}" if (SOURCES / "tools" / name).is_dir() else f"tools/{name}.py",)


@pytest.mark.parametrize(("title", "key"), list(accepted_keys()), ids=lambda one: one.replace("`", ""))
def test_every_key_that_is_accepted_is_read(title: str, key: str) -> None:
    if (title, key) in CHECKED:
        return
    word = FIELDS.get((title, key), key)
    assert any(word in words_in(part) for part in readers_of(title)), f"nothing reads `{key}` of {title}"


def test_the_table_of_readers_has_no_map_that_there_is_not() -> None:
    assert set(READERS) <= set(all_maps())
    assert {title for title, _ in (*FIELDS, *CHECKED)} <= set(all_maps())


def test_a_key_that_nothing_reads_is_found() -> None:
    made_up = "no_such_key_anywhere"
    assert made_up not in RUNTIME
    assert not any(made_up in words_in(part) for part in readers_of("a task's `spec`"))

"""The scan for older constructs: it suspects every document that lowering would change, and few others."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from thorough import up_to

from noetl.lang.legacy import lower, scan
from noetl.lang.loader import load
from noetl.lang.reading.node import MapNode, Node, Scalar
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Key
from noetl.tools.registry import ToolKinds

sys.path.insert(0, str(Path(__file__).parents[1]))
import playbooks

KINDS = ToolKinds()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
#: older words that `playbooks.WORDS` does not have
WORDS = ["arguments", "inputs", "parameters", "policy", "libs", "pool", "verify_ssl", "target", "chunk_size", "sinks",
         "chunk", "timeout", "set_vars", "set_prev", "set_shared", "entry_step", "labels", "title", "pick", "collect",
         "cond", "condition", "user", "scope", "ttl", "map", "env", "select", "uri", "x-note"]  # fmt: skip
#: values that are older ones at some places, or make names of today older ones
VALUES: list[Any] = [
    "{{ args.x }}", "{{ outcome.result }}", "{{ foo }}", "{{ row.x }}", "{{ output.data.body }} {{ row.x }}",
    "{{ output.status == 'success' }}", "{{ output.data.success }}", "{{ event.name == 'call.done' }}",
    "{{ step.start.status }}", "{{ step.start.status() }}", "{{ step.start }} {{ row }}", "{{ iter.x }} {{ row }}",
    "{{ null }}", "{{ vars.x }}", "{{ x", "{% for i in row %}{{ i }}{% endfor %}", "{{ ctx.a }} == 5", "{{ env.X }}",
    "global", "row", "async", "iterator", "save", "bash", "noetl.io/v1", "postgres", "transfer", "workbook", "start",
    {}, [], None, True, 3,
]  # fmt: skip


def said(node: Node) -> Any:
    """What a node says, without where it stands."""
    if isinstance(node, Scalar):
        return (node.value, node.text)
    if isinstance(node, MapNode):
        return [(one.name, said(one.value)) for one in node.entries]
    return [said(item) for item in node.items]


def suspects(text: str) -> bool:
    """Whether the scan suspects a document; what it passes, lowering must leave as it is and not report."""
    problems = Diagnostics(Source(text, "playbook.yaml"))
    root = read_yaml(text, problems)
    if not isinstance(root, MapNode):
        return True
    if scan(root, KINDS):
        return True
    before, told = said(root), problems.collect()
    lower(root, KINDS, problems)
    assert (said(root), problems.collect()) == (before, told), text
    return False


def is_canonical(one: playbooks.Text) -> bool:
    loaded = load(one.text, KINDS)
    return loaded.ok and not any(found.code.startswith("legacy") for found in loaded.diagnostics)


def test_every_canonical_playbook_of_the_corpus_passes_and_is_left_as_it_is() -> None:
    passed = {one.name: not suspects(one.text) for one in playbooks.corpus()}
    assert sum(passed.values()) > 300
    assert [one.name for one in playbooks.corpus() if is_canonical(one) and not passed[one.name]] == []


def maps(data: Any) -> Iterator[dict[str, Any]]:
    """Every map within some data."""
    if isinstance(data, dict):
        yield data
    for item in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from maps(item)


def value(rng: Random, depth: int = 2) -> Any:
    sort = rng.random()
    if depth <= 0 or sort < 0.6:
        return rng.choice(VALUES)
    if sort < 0.8:
        return [value(rng, depth - 1)]
    return {rng.choice([*playbooks.WORDS, *WORDS]): value(rng, depth - 1)}


def altered(rng: Random, data: Any) -> str:
    """A playbook with a few keys and values replaced by older ones."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        block = rng.choice([*maps(data)])
        key = rng.choice([*block, rng.choice([*playbooks.WORDS, *WORDS])])
        sort = rng.random()
        if sort < 0.6 or key not in block:
            block[key] = value(rng)
        elif sort < 0.8:
            block[rng.choice([*playbooks.WORDS, *WORDS])] = block.pop(key)
        else:
            block[key] = [block[key]]
    return json.dumps(data, default=str)


def test_no_alteration_that_lowering_would_see_passes() -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    ones = [yaml.load(one.text, Loader=loader) for one in playbooks.corpus() if is_canonical(one)]
    results = [suspects(altered(Random(seed), Random(seed).choice(ones))) for seed in range(up_to(6000, 1500))]
    assert {True, False} == set(results)


@pytest.mark.parametrize("make", [playbooks.wild, playbooks.nearly], ids=["wild", "nearly"])
def test_no_made_document_that_lowering_would_change_passes(make: Any) -> None:
    for seed in range(up_to(1500, 400)):
        rng = Random(seed)
        suspects(playbooks.written(rng, make(rng)))


@pytest.mark.parametrize(
    "body",
    [
        "workflow: [{step: a, loop: {in: [1], iterator: row}, set: {ctx.a: '{{ output.data.body }} {{ ctx.b }}'}}]",
        "workflow: [{step: a, tool: [{choose: [{when: '{{ ctx.a }}', then: [{x: {kind: noop}}]}], desc: d}]}]",
        "workflow: [{step: a, tool: {kind: python, code: '{{ outcome }}'}}]",
        "workflow: [{step: a, tool: {kind: http, url: x}, set: {step.a: 1}, output: '{{ step.a }}'}]",
        "x-shared: {set_ctx: {a: 1}}\nworkflow: [{step: a}]",
        "workflow: [{step: a, next: {arcs: [{step: b, when: ctx.a > 1}]}}, {step: b}]",
    ],
)
def test_what_only_looks_like_an_older_construct_passes(body: str) -> None:
    assert not suspects(f"{HEAD}{body}\n")


@pytest.mark.parametrize(
    "body",
    [
        "workflow: [{step: a, args: {x: 1}}]",
        "workflow: [{step: a, tool: http, url: x}]",
        "workflow: [{step: a, next: b}, {step: b}]",
        "workflow: [{step: a, next: {arcs: [{step: b, args: {x: 1}}]}}, {step: b}]",
        "workflow: [{step: a, next: {arcs: [{step: b, when: '{{ ctx.a }} == 1'}]}}, {step: b}]",
        "workflow: [{step: a, tool: {kind: noop, output: '{{ outcome.result }}'}}]",
        "workflow: [{step: a, tool: [{select: {kind: noop, output: '{{ outcome.result }}'}}]}]",
        "workflow: [{step: a, loop: {in: [1], iterator: row}, tool: {kind: noop, output: '{{ output.data.body ~ row }}'}}]",
        "workflow: [{step: a, tool: {kind: noop, spec: {policy: {rules: [{else: {do: fail}}]}}}}]",
        "workflow: [{step: a, tool: {kind: noop, spec: {policy: {rules: [{when: a, then: {do: skip}, else: {then: {}}}]}}}}]",
        "keychain: [{name: k, kind: bearer, token: '{{ env.TOKEN }}'}]\nworkflow: [{step: a}]",
    ],
)
def test_an_older_construct_is_suspected(body: str) -> None:
    assert suspects(f"{HEAD}{body}\n")


def test_an_older_key_is_suspected_even_where_a_tool_declares_it() -> None:
    kind = ToolKind("mine", "A tool.", {"args": Key(Anything(), "Arguments.")}, InputRole.ARGUMENTS, "Nothing.")
    text = f"{HEAD}workflow: [{{step: a, tool: {{kind: mine, args: {{x: 1}}}}}}]\n"
    root = read_yaml(text, Diagnostics(Source(text, "playbook.yaml")))
    assert isinstance(root, MapNode)
    assert scan(root, {"mine": kind})
    assert [found.code for found in load(text, {"mine": kind}).diagnostics] == ["legacy-args"]


# --- what a canonical file imports -----------------------------------------------------------------------------------

CANONICAL = HEAD + textwrap.dedent("""\
    workload: {name: world}
    workflow:
    - step: start
      tool: {kind: noop, output: "{{ workload.name }}"}
      set: {ctx.name: "{{ output.data }}"}
      next: {arcs: [{step: end}]}
    - step: end
""")
IMPORTED = "import atexit, sys; atexit.register(lambda: print(*(m for m in sys.modules if '.lang.legacy' in m), file=sys.stderr))\n"
LOADING = "from noetl.lang.loader import load; from noetl.tools.registry import ToolKinds; assert load(open(sys.argv[1]).read(), ToolKinds()).ok"
COMMAND = "from noetl.__main__ import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("code", "arguments"),
    [(LOADING, []), (COMMAND, ["validate"]), (COMMAND, ["run"])],
    ids=["load", "noetl validate", "noetl run"],
)
def test_a_canonical_file_imports_nothing_but_the_scan(code: str, arguments: list[str], tmp_path: Path) -> None:
    assert imported(code, arguments, CANONICAL, tmp_path) == {"noetl.lang.legacy", "noetl.lang.legacy.scanner"}


def test_an_older_file_imports_the_passes(tmp_path: Path) -> None:
    older = CANONICAL.replace("next: {arcs: [{step: end}]}", "next: {arcs: [{step: end, args: {x: 1}}]}")
    assert "noetl.lang.legacy.migration" in imported(COMMAND, ["validate"], older, tmp_path)


def imported(code: str, arguments: list[str], text: str, folder: Path) -> set[str]:
    """The modules of the package for older dialects that a new interpreter imports for a playbook."""
    file = folder / "playbook.yaml"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", IMPORTED + code, *arguments, str(file)]
    environment = {**os.environ, "NOETL_HOME": str(folder / "home")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())

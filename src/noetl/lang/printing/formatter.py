"""The one canonical spelling of a playbook: white space, the order of keys, named tasks, flat `set` targets.

Scalars, comments, anchors and the choice between flow and block style stay the author's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from noetl.lang.printing.printer import print_tree
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, scalar, text_of, walk_nodes
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source
from noetl.model.kinds import ToolKind

Kinds: TypeAlias = Mapping[str, ToolKind]

ROOT_KEYS = ("apiVersion", "kind", "metadata", "keychain", "executor", "workload", "workflow", "workbook")
STEP_KEYS = ("step", "desc", "input", "spec", "loop", "tool", "output", "set", "next")
#: the keys of a task: some come first, some last, all others (`input` and `auth` too) stay between as written
TASK_FIRST, TASK_LAST = ("name", "kind"), ("output", "set", "spec")
#: what an item with one key is when it is not a task under its label
TASK_WORDS = frozenset({*TASK_FIRST, *TASK_LAST, "input", "auth", "choose", "while", "until"})
#: the scopes whose maps under `set` are written flat
SCOPES = ("ctx", "step", "iter")

#: of what the reader reports, what leaves the tree with less than the text says
_LOSING = frozenset({"yaml-syntax", "duplicate-key"})


def format_text(text: str, kinds: Kinds = MappingProxyType({})) -> str | None:
    """The canonical text; None when the text cannot be read. `kinds` tell where a name is more than a name."""
    text = re.sub(r"\r\n?", "\n", text)  # YAML takes all three for the same
    problems = Diagnostics(Source(text))
    root = read_yaml(text, problems)
    if root is None or any(found.code in _LOSING for found in problems.collect()):
        return None
    if isinstance(root, MapNode):
        _playbook(root, kinds)
    return print_tree(root, text, tidy=True)


def _playbook(root: MapNode, kinds: Kinds) -> None:
    _arrange(root, _in_order(root.entries, ROOT_KEYS))
    workflow, workbook = _get(root, "workflow"), _get(root, "workbook")
    for step in _items(workflow):
        if isinstance(step, MapNode) and step.alias is None:
            _step(step, kinds, movable=_movable(workflow))
    for entry in _entries(workbook):
        _tasks(entry.value, kinds, movable=_movable(workbook) and not entry.merged)


def _step(step: MapNode, kinds: Kinds, *, movable: bool) -> None:
    movable = movable and _movable(step)
    _arrange(step, _in_order(step.entries, STEP_KEYS))
    _tasks(_get(step, "tool"), kinds, movable=movable)
    _set(step, movable=movable)
    following = _get(step, "next")
    arcs = _get(following, "arcs")
    for arc in _items(arcs):
        _set(arc, movable=movable and _movable(following, arcs))


def _tasks(node: Node | None, kinds: Kinds, *, movable: bool) -> None:
    """A task, or a list of tasks, of which each may stand under its label."""
    if not isinstance(node, ListNode):
        _task(node, kinds, movable=movable)
        return
    movable = movable and _movable(node)
    for index, item in enumerate(_items(node)):
        named = _name_from_label(item, kinds) if movable else None
        if named is not None:
            node.items[index] = named
            node.changed = True
        _task(named or item, kinds, movable=movable)


def _name_from_label(item: Node, kinds: Kinds) -> MapNode | None:
    """The task of `fetch: {kind: http}` with its label as its name."""
    if not isinstance(item, MapNode) or not _movable(item) or len(item.entries) != 1:
        return None
    (entry,) = item.entries
    key, task = entry.key, entry.value
    if entry.name in TASK_WORDS or entry.name.startswith("x-") or not isinstance(task, MapNode):
        return None
    if not _movable(key, task) or "kind" not in task or "name" in task:
        return None
    kind = kinds.get(text_of(task, "kind"))
    if kind is not None and kind.name_means is not None and kind.name_means not in task:
        return None  # older documents would take the name for what is called
    # The label itself becomes the name, spelt as it is, unless it would then be a number.
    name = key if isinstance(key.value, str) else scalar(key.text, near=key)
    task.put(MapEntry(scalar("name", near=key), name), at=0)
    return task


def _task(task: Node | None, kinds: Kinds, *, movable: bool) -> None:
    if not isinstance(task, MapNode) or task.alias is not None:
        return
    movable = movable and _movable(task)
    for body in _sugar_bodies(task):
        _tasks(body, kinds, movable=movable)
    if "kind" in task:
        _arrange(task, sorted(task.entries, key=_task_rank))
    _set(task, movable=movable)
    for then in _outcomes(task):
        _set(then, movable=movable)


def _task_rank(entry: MapEntry) -> int:
    if entry.name in TASK_FIRST:
        return TASK_FIRST.index(entry.name) - len(TASK_FIRST)
    return TASK_LAST.index(entry.name) + 1 if entry.name in TASK_LAST else 0


def _sugar_bodies(task: MapNode) -> Iterator[Node | None]:
    """The task lists inside of `choose`, `while` and `until`."""
    for branch in _items(_get(task, "choose")):
        yield _get(branch, "then")
        yield _get(branch, "else")
    for word in ("while", "until"):
        yield _get(_get(task, word), "do")


def _outcomes(task: MapNode) -> Iterator[Node]:
    """What follows `then` in the rules of a task, where it stands for itself."""
    spec = _get(task, "spec")
    policy = _get(spec, "policy")
    rules = _get(policy, "rules")
    for rule in _items(rules):
        branch = _get(rule, "else") or rule
        then = _get(branch, "then")
        if then is not None and _movable(spec, policy, rules, rule, branch, then):
            yield then


def _set(holder: Node, *, movable: bool) -> None:
    """`set: {ctx: {a: 1}}` becomes `set: {ctx.a: 1}`."""
    target = _get(holder, "set") if movable and _movable(holder) else None
    if not isinstance(target, MapNode) or not _movable(target):
        return
    flat = [made for entry in target.entries for made in _flat(entry)]
    names = [entry.name for entry in flat]
    if names != [entry.name for entry in target.entries] and len(set(names)) == len(names):
        target.entries = flat
        target.changed = True


def _flat(entry: MapEntry) -> list[MapEntry]:
    """The entries that say the same as one for a whole scope."""
    inner = entry.value
    if (
        entry.name not in SCOPES
        or not isinstance(inner, MapNode)
        or not inner.entries
        or not _movable(entry.key, inner)
    ):
        return [entry]
    if not all(old.name and "." not in old.name for old in inner.entries):
        return [entry]
    flat = []
    for old in inner.entries:
        key = scalar(f"{entry.name}.{old.name}", near=old.key)
        key.style = old.key.style
        flat.append(MapEntry(key, old.value))
    return flat


def _get(node: Node | None, name: str) -> Node | None:
    """The value of that name, if it stands in the map's own text."""
    found = node.entry(name) if isinstance(node, MapNode) and node.alias is None else None
    return found.value if found is not None and not found.merged else None


def _items(node: Node | None) -> list[Node]:
    return node.items if isinstance(node, ListNode) and node.alias is None else []


def _entries(node: Node | None) -> list[MapEntry]:
    return node.entries if isinstance(node, MapNode) and node.alias is None else []


def _movable(*nodes: Node | None) -> bool:
    """Whether nodes stand for themselves: what an anchor or `<<` shares keeps its shape."""
    return not any(node and (node.alias or node.anchor or getattr(node, "merge", None)) for node in nodes)


def _in_order(entries: list[MapEntry], names: tuple[str, ...]) -> list[MapEntry]:
    """The entries of these names in this order; all others stay where they stand."""
    known = iter(sorted((e for e in entries if e.name in names), key=lambda entry: names.index(entry.name)))
    return [next(known) if entry.name in names else entry for entry in entries]


def _arrange(node: MapNode, entries: list[MapEntry]) -> None:
    """Put the entries into another order, unless an alias could come to stand above its anchor."""
    if node.merge is not None or [*map(id, entries)] == [*map(id, node.entries)]:
        return
    linked = [entry for entry in node.entries if _is_linked(entry)]
    if [*map(id, linked)] == [id(entry) for entry in entries if _is_linked(entry)]:
        node.entries = entries


def _is_linked(entry: MapEntry) -> bool:
    return not all(_movable(node) for node in (entry.key, *walk_nodes(entry.value)))

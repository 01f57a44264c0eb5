"""Lowering: an older document while the passes rewrite it: where they report, and how they find and edit its nodes."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping

from noetl.lang.reading.node import (
    ListNode,
    MapEntry,
    MapNode,
    Node,
    NodeBase,
    Scalar,
    entry,
    list_of,
    make,
    map_of,
    plain_value,
    text_of,
)
from noetl.model.diagnostics import Diagnostics, Severity
from noetl.model.kinds import ToolKind

# What an older document said and a migration cannot say for it, quoted where a person is asked to.


def quote_entries(entries: Iterable[MapEntry]) -> str:
    """Keys with their values, in one line."""
    return ", ".join(
        f"`{one.name}: {json.dumps(plain_value(one.value), ensure_ascii=False, default=str)}`" for one in entries
    )


#: before a name in a template: it is the document's own, whatever else goes by that name
MARK = "noetl_own__"
#: grades of older constructs: v10 still runs, with a warning; legacy does not without `--legacy`
V10, LEGACY = "v10", "legacy"


class Lowering:
    """One document being lowered, and what was found on the way."""

    def __init__(
        self,
        root: MapNode,
        kinds: Mapping[str, ToolKind],
        problems: Diagnostics,
        *,
        accepted: bool = False,
        migrating: bool = False,
    ) -> None:
        self.root = root
        self.kinds = kinds
        self.problems = problems
        #: `--legacy`: older constructs are welcome
        self.accepted = accepted
        #: the file itself is being rewritten, so that constructs which run as they are must go too
        self.migrating = migrating
        #: the document is of the dialect of 000, in which a step runs at most once
        self.is_000 = False
        #: names whose values are results of steps or tasks, published in `ctx`
        self.results: set[str] = set()
        #: those that only a tool named: published by its step if another one reads them
        self.tool_results: dict[str, tuple[MapNode, MapNode]] = {}
        #: by credential, the name that its one secret had
        self.secret_fields: dict[str, str] = {}
        #: names that a step's own `vars:` block published
        self.step_vars: set[str] = set()
        #: something older was found: the document is not of today
        self.found_any = False
        #: something of grade legacy was found
        self.found_legacy = False
        #: what is canonical, but in a document of another age may have been meant otherwise
        self.unsure: list[tuple[MapEntry | None, str, NodeBase]] = []
        #: targets that `set` named without a scope, and the scope they got
        self.bare_targets: dict[str, str] = {}
        #: by node, the names in its template that stand for a result in its older shape: `ctx.fetch`, `output.data`
        self.older_reads: dict[int, set[str]] = {}
        #: names that code reads a step's result by, in its older shape
        self.published_steps: set[str] = set()
        #: keys of the root's `vars`, and the keys of the workload that they are now
        self.root_vars: dict[str, str] = {}
        #: steps to which tokens bring `args` of their own
        self.given_args: set[str] = set()
        #: texts with marked names, and what stood there
        self.marked: list[tuple[Scalar, str]] = []

    def report_older(self, slug: str, old: str, new: str, at: NodeBase, *, grade: str = LEGACY) -> None:
        """Report an older construct: what it was called, and what to write today."""
        self.found_any = True
        self.found_legacy = self.found_legacy or grade != V10
        if self.accepted and not self.migrating:
            return
        severity = Severity.WARNING if grade == V10 else Severity.ERROR
        where = at.alias or (at.start, at.end)
        old, new = old.replace(MARK, ""), new.replace(MARK, "")
        fix = f"write {new}; `noetl migrate FILE` rewrites it"
        # A habit was never a spelling, in no document of any age.
        what = "is not part of the language" if slug == "habit" else "is an older spelling"
        self.problems.add(f"legacy-{slug}", severity, f"{old} {what}", where, fix=fix)

    def todo(self, at: MapEntry | None, text: str, near: NodeBase) -> None:
        """Leave a decision to a person: a comment in the migrated file, and a warning."""
        text = text.replace(MARK, "")
        # Where a migrated file asks already, it may by now ask from another place.
        asked = f"# TODO noetl: {' '.join(text.split())}" in self.problems.source.text
        if at is not None and text not in at.todo and not asked:
            at.todo.append(text)
        where = near.alias or (near.start, near.end)
        self.problems.add("legacy-todo", Severity.WARNING, text, where, fix="decide, and remove the comment")

    def note_older_read(self, node: NodeBase, name: str) -> None:
        """Note that a name in a template was a step or a task by its own name: it means the older shape of its result."""
        self.older_reads.setdefault(id(node), set()).add(name)

    def is_asked_about(self, name: str) -> bool:
        """Whether a migration has left a question about a name before."""
        lines = self.problems.source.text.splitlines() if "# TODO noetl:" in self.problems.source.text else []
        return any(f"`{name}`" in line for line in lines if line.lstrip().startswith("# TODO noetl:"))

    def refuse(self, slug: str, holder: MapNode, found: MapEntry, text: str) -> None:
        """What no pass can lower: left to a person in a migrated file, and an error to whoever runs it as it is."""
        if self.migrating:
            self.todo(found, text, found.key)
            return
        holder.take(found.name)
        self.found_any = True
        where = found.key.alias or (found.key.start, found.key.end)
        self.problems.error(
            f"legacy-{slug}", f"`{found.name}` is an older spelling that cannot be lowered", where, fix=text
        )

    def keep(self, block: MapNode, one: MapEntry, where: str) -> None:
        """Move an entry into a map; where the map says something else by that name, a person decides."""
        there = block.entry(one.name)
        if there is None or (isinstance(there.value, Scalar) and there.value.value is None):
            block.put(one)
        elif plain_value(there.value) != plain_value(one.value):
            self.todo(there, f"{where} said `{one.name}: {in_a_line(one.value)}`: decide which holds", one.key)

    # --- looking around ----------------------------------------------------------------------------------------

    def steps(self) -> Iterator[MapNode]:
        """The steps of the workflow."""
        workflow = self.root.get("workflow")
        for item in workflow.items if isinstance(workflow, ListNode) else []:
            if isinstance(item, MapNode):
                yield item

    def first_step(self) -> MapNode | None:
        """The step that runs first."""
        steps = list(self.steps())
        return next((step for step in steps if text_of(step, "step") == "start"), steps[0] if steps else None)

    def bodies(self) -> Iterator[tuple[MapNode, MapEntry | None]]:
        """Whatever has tasks under `tool`: the steps; and the tasks of the workbook, each as if it were a step, with its entry."""
        for step in self.steps():
            yield step, None
        workbook = map_of(self.root, "workbook")
        for one in list(workbook.entries) if workbook is not None else []:
            if workbook is None or isinstance(one.value, Scalar):
                continue
            name = entry("step", make(one.name, near=one.key), near=one.key)
            body = MapNode([name, entry("tool", one.value, near=one.key)], one.value.start, one.value.end)
            yield body, one
            tool = body.get("tool")
            if tool is not None and tool is not one.value:
                one.value = tool
                workbook.changed = True
            if any(other.name not in ("step", "tool") for other in body.entries):
                self.todo(
                    one, "a workbook task publishes nothing: write this with `set` in the step that calls it", one.key
                )

    def name_means(self, task: MapNode) -> str | None:
        """The key that `name` stands for where a task of this kind needs no name."""
        kind = self.kinds.get(text_of(task, "kind"))
        return kind.name_means if kind is not None else None

    def step_names(self) -> set[str]:
        """The names of all steps."""
        return {name for step in self.steps() if (name := text_of(step, "step"))}

    def workload_keys(self) -> set[str]:
        """The keys of the workload."""
        workload = self.root.get("workload")
        return {one.name for one in workload.entries} if isinstance(workload, MapNode) else set()


def ensure_map(node: MapNode, name: str, near: NodeBase) -> MapNode:
    """The map under a key, made if it is not there."""
    found = node.get(name)
    if isinstance(found, MapNode):
        return found
    made = make({}, near=near)
    assert isinstance(made, MapNode)
    node.put(entry(name, made, near=near))
    return made


def task_items(step: MapNode) -> Iterator[tuple[str, MapNode]]:
    """The tasks of a step, by name, whatever the shape of `tool`; tasks inside of sugar included."""
    tool = step.get("tool")
    if isinstance(tool, MapNode):
        yield text_of(tool, "name") or text_of(step, "step"), tool
    elif isinstance(tool, ListNode):
        yield from _items(tool)


def _items(items: ListNode) -> Iterator[tuple[str, MapNode]]:
    for position, item in enumerate(items.items, 1):
        if not isinstance(item, MapNode):
            continue
        only = item.entries[0] if len(item.entries) == 1 else None
        if "kind" in item or only is None:
            yield text_of(item, "name") or f"task_{position}", item
        elif only.name in ("while", "until") and isinstance(only.value, MapNode):
            inner = only.value.get("do")
            yield from _items(inner) if isinstance(inner, ListNode) else ()
        elif only.name == "choose" and isinstance(only.value, ListNode):
            for branch in only.value.items:
                for word in ("then", "else"):
                    body = list_of(branch, word) if isinstance(branch, MapNode) else None
                    yield from _items(body) if body is not None else ()
        elif isinstance(only.value, MapNode):
            yield only.name, only.value


def strings(node: Node, *, skip: frozenset[str] = frozenset(), everywhere: bool = False) -> Iterator[Scalar]:
    """Every string below a node, but not those under the keys of a task, or `everywhere` of any map, that are in `skip`."""
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            yield node
    elif isinstance(node, MapNode):
        for one in node.entries:
            if one.name not in skip or not (everywhere or "kind" in node):
                yield from strings(one.value, skip=skip, everywhere=everywhere)
    else:
        for item in node.items:
            yield from strings(item, skip=skip, everywhere=everywhere)


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with a number where it is taken."""
    made, number = name, 2
    while made in taken:
        made, number = f"{name}_{number}", number + 1
    return made


def in_a_line(node: Node) -> str:
    """What a node says, short enough for a comment."""
    text = json.dumps(plain_value(node), ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:60] + "…"


def writes_of(holder: MapNode, near: NodeBase) -> MapNode | None:
    """A map's `set`, made if it is not there; None if what stands there is no map, and is not ours to replace."""
    block = holder.get("set")
    if isinstance(block, MapNode):
        return block
    if block is not None and not (isinstance(block, Scalar) and block.value is None):
        return None
    holder.take("set")
    made = MapNode([], near.start, near.end)
    made.changed = True
    holder.put(entry("set", made, near=near), at=holder.position("next"))
    return made


def add_set(step: MapNode, target: str, value: str, near: NodeBase) -> None:
    """Add a line to a map's `set`, unless it writes that target already."""
    block = writes_of(step, near)
    if block is None:
        return
    scope, _, rest = target.partition(".")
    nested = map_of(block, scope)
    if target not in block and not (nested is not None and rest in nested):
        block.put(entry(target, make(value, near=near), near=near))

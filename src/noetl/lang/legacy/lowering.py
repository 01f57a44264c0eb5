"""Lowering: what the passes over an older document share: where to report, and how to look into nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.lang.node import Base, Entry, ListNode, MapNode, Node, Scalar, entry, make
from noetl.model.diagnostics import Diagnostics, Severity
from noetl.model.kinds import ToolKind

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
        self.tool_results: dict[str, MapNode] = {}
        #: names that a step's own `vars:` block published
        self.step_vars: set[str] = set()
        #: something older was found: the document is not of today
        self.found_any = False
        #: targets that `set` named without a scope, and the scope they got
        self.bare_targets: dict[str, str] = {}
        #: keys of the root's `vars`, which are workload now
        self.root_vars: set[str] = set()

    def found(self, slug: str, old: str, new: str, at: Base, *, grade: str = LEGACY) -> None:
        """Report an older construct: what it was called, and what to write today."""
        self.found_any = True
        if self.accepted and not self.migrating:
            return
        severity = Severity.WARNING if grade == V10 else Severity.ERROR
        where = at.alias or (at.start, at.end)
        fix = f"write {new}; `noetl migrate FILE` rewrites it"
        self.problems.add(f"legacy-{slug}", severity, f"{old} is an older spelling", where, fix=fix)

    def todo(self, at: Entry | None, text: str, near: Base) -> None:
        """Leave a decision to a person: a comment in the migrated file, and a warning."""
        # Where a migrated file asks already, it may by now ask from another place.
        asked = f"# TODO noetl: {' '.join(text.split())}" in self.problems.source.text
        if at is not None and text not in at.todo and not asked:
            at.todo.append(text)
        where = near.alias or (near.start, near.end)
        self.problems.add("legacy-todo", Severity.WARNING, text, where, fix="decide, and remove the comment")

    # --- looking around ----------------------------------------------------------------------------------------

    def steps(self) -> Iterator[MapNode]:
        """The steps of the workflow."""
        workflow = self.root.get("workflow")
        for item in workflow.items if isinstance(workflow, ListNode) else []:
            if isinstance(item, MapNode):
                yield item

    def step_names(self) -> set[str]:
        """The names of all steps."""
        return {name for step in self.steps() if (name := text_of(step, "step"))}

    def workload_keys(self) -> set[str]:
        """The keys of the workload."""
        workload = self.root.get("workload")
        return {one.name for one in workload.entries} if isinstance(workload, MapNode) else set()


def text_of(node: MapNode | None, name: str) -> str:
    """The text under a key, or an empty one."""
    found = node.get(name) if node is not None else None
    return found.text if isinstance(found, Scalar) and found.value is not None else ""


def map_of(node: MapNode | None, name: str) -> MapNode | None:
    """The map under a key, if there is one."""
    found = node.get(name) if node is not None else None
    return found if isinstance(found, MapNode) else None


def list_of(node: MapNode | None, name: str) -> ListNode | None:
    """The list under a key, if there is one."""
    found = node.get(name) if node is not None else None
    return found if isinstance(found, ListNode) else None


def ensure_map(node: MapNode, name: str, near: Base) -> MapNode:
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


def strings(node: Node, *, skip: frozenset[str] = frozenset()) -> Iterator[Scalar]:
    """Every string below a node, but not those under the keys in `skip`."""
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            yield node
    elif isinstance(node, MapNode):
        for one in node.entries:
            if one.name not in skip:
                yield from strings(one.value, skip=skip)
    else:
        for item in node.items:
            yield from strings(item, skip=skip)


def add_set(step: MapNode, target: str, value: str, near: Base) -> None:
    """Add a line to a map's `set`, unless it writes that target already."""
    if map_of(step, "set") is None:
        step.take("set")
        step.put(entry("set", make({}, near=near), near=near), at=step.position("next"))
    block = ensure_map(step, "set", near)
    scope, _, rest = target.partition(".")
    nested = map_of(block, scope)
    if target not in block and not (nested is not None and rest in nested):
        block.put(entry(target, make(value, near=near), near=near))

"""Cursor loops: a number of slots, each of which claims a row, works on it and claims the next until there is none."""

from __future__ import annotations

from noetl.lang.legacy.lowered_document import Lowering, free_name, quote_entries, task_items
from noetl.lang.legacy.workflow.step_body import as_list
from noetl.lang.reading.node import MapNode, Node, Scalar, entry, make, map_of, text_of, walk_nodes

_KINDS = frozenset({"postgres", "duckdb"})
_CLAIM = ("claim", "query", "command", "sql", "statement")
_SLOTS = ("slots", "max_in_flight", "workers", "concurrency")
#: keys of a cursor that the claiming task has too
_OF_THE_TASK = ("auth", "file", "params")


def lower(doc: Lowering) -> None:
    """Make every cursor loop a loop over slots whose pipeline begins with the claim."""
    for step in doc.steps():
        loop = map_of(step, "loop")
        cursor = map_of(loop, "cursor")
        if loop is not None and cursor is not None:
            _cursor_loop(doc, step, loop, cursor)


def _cursor_loop(doc: Lowering, step: MapNode, loop: MapNode, cursor: MapNode) -> None:
    found = loop.entry("cursor")
    assert found is not None
    kind = text_of(cursor, "kind") or text_of(cursor, "type")
    statement = next((one for word in _CLAIM if (one := cursor.entry(word)) is not None), None)
    if kind not in _KINDS or statement is None or "tool" not in step:
        doc.refuse("habit", loop, found, "write this as a loop of slots whose first task claims a row")
        return
    doc.report_older("habit", "`loop.cursor`", "a loop of slots whose first task claims a row", found.key)
    row = text_of(loop, "iterator") or text_of(cursor, "iterator") or "row"
    names = {name for name, _ in task_items(step)}
    claim, again = free_name("claim", names), free_name("claim_next", names)
    items = as_list(doc, step)
    if items is None:
        return
    _continue_with_next(items, claim)
    items.items.insert(0, _claiming(cursor, statement.value, kind, row, claim))
    rules = {"policy": {"rules": [{"else": {"then": {"do": "jump", "to": claim}}}]}}
    items.items.append(make({"name": again, "kind": "noop", "output": "{{ _prev }}", "spec": rules}, near=found.key))
    items.changed = True
    _make_slots(doc, step, loop, cursor)
    doc.bare_targets.setdefault(row, "iter")
    if any(_writes_iter(item) for item in items.items[1:-1]):
        said = (
            f"`iter.*` of one row is still there for the next: set it again in the task `{claim}`, where that matters"
        )
        doc.todo(step.entry("tool"), said, found.key)


def _claiming(cursor: MapNode, statement: Node, kind: str, row: str, name: str) -> Node:
    """The task that claims a row, and ends the slot where there is none."""
    task: dict[str, object] = {"name": name, "kind": kind, "query": statement}
    task.update({one.name: one.value for one in cursor.entries if one.name in _OF_THE_TASK})
    task["set"] = {f"iter.{row}": "{{ output.data | first | default(none) }}"}
    rules = [{"when": "{{ output.status == 'ok' and not output.data }}", "then": {"do": "break"}}]
    task["spec"] = {"policy": {"on_unmatched": "fail", "rules": rules}}
    return make(task, near=cursor)


def _make_slots(doc: Lowering, step: MapNode, loop: MapNode, cursor: MapNode) -> None:
    spec = map_of(loop, "spec")
    holders = [block for block in (spec, loop, cursor, map_of(cursor, "options")) if block is not None]
    count = next((one.value for block in holders for word in _SLOTS if (one := block.entry(word)) is not None), None)
    left = [
        one for one in cursor.entries if one.name not in (*_CLAIM, *_OF_THE_TASK, *_SLOTS, "kind", "type", "iterator")
    ]
    left += [one for block in (loop, spec) if block is not None for one in block.entries if one.name == "frame"]
    if left:
        doc.todo(step.entry("loop"), f"the cursor also said {quote_entries(left)}", cursor)
    slots: object = count if count is not None else 1
    limit = count.text.strip() if isinstance(count, Scalar) else "1"
    inside = limit[2:-2].strip() if limit.startswith("{{") and limit.endswith("}}") else limit
    made = make(
        {
            "in": f"{{{{ range({inside} | int) | list }}}}" if inside != limit else f"{{{{ range({limit}) | list }}}}",
            "iterator": "slot",
            "spec": {"mode": "parallel", "max_in_flight": slots},
        },
        near=loop,
    )
    assert isinstance(made, MapNode)
    loop.entries, loop.changed = made.entries, True


def _continue_with_next(node: Node, claim: str) -> None:
    """In the body, to be done with a row is to claim the next one."""
    for then in walk_nodes(node):
        do = then.get("do") if isinstance(then, MapNode) else None
        if isinstance(then, MapNode) and isinstance(do, Scalar) and do.text == "break":
            do.rewrite("jump")
            then.put(entry("to", make(claim, near=do), near=do))


def _writes_iter(node: Node) -> bool:
    maps = (one for one in walk_nodes(node) if isinstance(one, MapNode))
    return any(one.name == "set_iter" or one.name.startswith("iter.") for block in maps for one in block.entries)

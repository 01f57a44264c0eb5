"""Words of the documents that mean nothing here: removed, each with a comment that says what stood there."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.lang.legacy.lowered_document import Lowering, quote_entries
from noetl.lang.reading.node import MapEntry, MapNode, Node, list_of, map_of

_STEP_POLICY = ("emit", "quotas", "tracing")
_LOOP_POLICY = ("ordering", "backpressure", "partitioning")
_INSTEAD = {
    "mode": "the first rule that matches decides",
    "emit": "every event of a step is recorded",
    "quotas": "bound tasks with `spec.limits`, and step runs with `spec.concurrency`",
    "tracing": "every step, task and attempt is recorded with its times",
    "resources": "bound processes with `limits` under `executor.spec`, and choose workers with `pool`",
    "wait": "write `timeout` beside `signal`, or `spec.timeout` on the task itself",
    "ordering": "iterations start in index order, and so do their results",
    "backpressure": "write `max_in_flight` under the loop's `spec`",
    "partitioning": "`exec: distributed` lets the server spread the iterations",
    "policy": "`mode` and the arcs' `when` decide",
    "spec": "write conditions as `when` and values as `set`",
}


def lower(doc: Lowering) -> None:
    """Remove every word without a meaning from a file that is rewritten; elsewhere the checks report it."""
    if not doc.migrating:
        return
    _remove(doc, doc.root.entry("executor"), ("spec", "policy", "defaults"), ("resources",))
    _remove(doc, doc.root.entry("executor"), ("spec", "policy", "defaults", "timeouts"), ("wait",))
    for step in doc.steps():
        spec = step.entry("spec")
        _remove(doc, spec, ("policy", "admit"), ("mode",))
        _remove(doc, spec, ("policy",), _STEP_POLICY)
        for loop in _loops(step):
            _remove(doc, loop, ("spec", "policy"), _LOOP_POLICY)
        _remove(doc, step.entry("next"), ("spec",), ("policy",))
        for arc in list_of(map_of(step, "next"), "arcs") or ():
            if isinstance(arc, MapNode):
                _remove(doc, arc.entry("step") or step.entry("next"), (), ("spec",), block=arc)
        for name in ("spec", "loop", "executor"):
            _drop_empty(step, name)
    _drop_empty(doc.root, "executor")


def _loops(step: MapNode) -> Iterator[MapEntry]:
    found = step.entry("loop")
    while found is not None and isinstance(found.value, MapNode):
        yield found
        found = found.value.entry("loop")


def _remove(
    doc: Lowering, holder: MapEntry | None, path: tuple[str, ...], words: tuple[str, ...], block: MapNode | None = None
) -> None:
    """Remove words from the map at a path below an entry, and the maps that are empty without them."""
    if holder is None:
        return
    maps: list[Node | None] = [block if block is not None else holder.value]
    for name in path:
        maps.append(map_of(maps[-1], name) if isinstance(maps[-1], MapNode) else None)
    last = maps[-1]
    if not isinstance(last, MapNode):
        return
    for word in words:
        found = last.take(word) if word in last else None
        if found is not None:
            doc.todo(_place(doc, holder), f"{quote_entries([found])} had no effect: {_INSTEAD[word]}", found.key)
    for outer, name in reversed(list(zip(maps, path, strict=False))):
        _drop_empty(outer, name) if isinstance(outer, MapNode) else None


def _place(doc: Lowering, holder: MapEntry) -> MapEntry:
    """Where the comment stands: at the entry, unless nothing will be left of it."""
    if isinstance(holder.value, MapNode) and not _says_anything(holder.value):
        for step in doc.steps():
            if holder in step.entries:
                return step.entry("step") or holder
        return doc.root.entry("workflow") or holder
    return holder


def _says_anything(node: MapNode) -> bool:
    return any(not isinstance(one.value, MapNode) or _says_anything(one.value) for one in node.entries)


def _drop_empty(holder: MapNode, name: str) -> None:
    found = holder.get(name)
    if isinstance(found, MapNode) and not found.entries and found.changed:
        holder.take(name)

"""Sinks: `sink` and `save` of a tool or a step become tasks that follow it, most of them a `transfer`."""

from __future__ import annotations

from noetl.lang.legacy.behind import keep_helpers
from noetl.lang.legacy.cursors import lower_cursor, lower_transfer
from noetl.lang.legacy.lowering import Lowering, task_items
from noetl.lang.legacy.quoting import quoted
from noetl.lang.legacy.scene import elements_of
from noetl.lang.legacy.steps import as_list
from noetl.lang.legacy.targets import (
    OWN,
    WHOLE,
    Origin,
    args_of,
    data_of,
    is_log,
    listed,
    log_task,
    own_task,
    rows_of,
    target_of,
    writes_itself,
)
from noetl.lang.node import Entry, ListNode, MapNode, Node, Scalar, entry, make, map_of, text_of

_WORDS = ("sink", "save")


def lower(doc: Lowering) -> None:
    """Turn every sink into a task."""
    for step, _called in doc.bodies():
        _save_step(doc, step)
        tasks = list(task_items(step))
        for name, task in tasks:
            if text_of(task, "kind") in (*_WORDS, "transfer") or any(word in task for word in (*_WORDS, "chunk")):
                _task_sinks(doc, step, task, name)
        name, last = tasks[-1] if tasks else (text_of(step, "step"), None)
        for word in _WORDS:
            found = step.take(word)
            if found is not None and map_of(step, "loop") is not None:
                said = "this was saved once, after the loop: move the last task to a step of its own"
                doc.todo(step.entry("tool"), said, found.key)
            _sinks_of(doc, step, last, name, found, behind_all=True)
        for _name, task in task_items(step):
            task.take("result")


def _task_sinks(doc: Lowering, step: MapNode, task: MapNode, name: str) -> None:
    origin = _origin(doc, step, task)
    _save_task(doc, step, task, origin, name)
    lower_transfer(doc, task, origin, name)
    sinks = next((found for word in _WORDS if (found := task.entry(word)) is not None), None)
    if lower_cursor(doc, task, sinks, origin, name) and sinks is not None:
        task.take(sinks.name)
    for word in _WORDS:
        _sinks_of(doc, step, task, name, task.take(word))


def _origin(doc: Lowering, step: MapNode, task: MapNode | None) -> Origin:
    taken = (doc.workload_keys() | doc.step_names()) - OWN | set(elements_of(step))
    looping = text_of(step, "step") if "loop" in step else ""
    return Origin(text_of(task, "kind"), text_of(task, "result"), text_of(task, "code"), frozenset(taken), looping)


def _save_step(doc: Lowering, step: MapNode) -> None:
    """`type: save` on a step that says under `save` what it saves: a tool that says no more."""
    tool = map_of(step, "tool")
    kind = tool.entry("kind") if tool is not None else None
    if tool is None or kind is None or text_of(tool, "kind") not in _WORDS or not any(word in step for word in _WORDS):
        return
    if all(one.name in ("kind", "name") for one in tool.entries):
        doc.found("save", f"`kind: {text_of(tool, 'kind')}`", "nothing", kind.value)
        step.take("tool")


def _save_task(doc: Lowering, step: MapNode, task: MapNode, origin: Origin, name: str) -> None:
    """A step that was nothing but a save."""
    if text_of(task, "kind") not in _WORDS or not task.entries:
        return
    doc.found("save", f"`kind: {text_of(task, 'kind')}`", "`kind: transfer`", task)
    task.take("kind")
    task.take("name")
    origin.kind = ""
    made: MapNode | None
    if is_log(task):
        made = log_task(task, origin, name) or _made({"name": name, "kind": "noop"}, task)
    elif writes_itself(task):
        made = own_task(doc, task, origin, name)
        made.take("output")
    else:
        source = {"kind": "data", "data": data_of(task, origin)}
        target = target_of(doc, task, origin, name)
        made = _made({"name": name, "kind": "transfer", "source": source, "targets": [target]}, task)
    if not isinstance(step.get("tool"), ListNode):
        made.take("name")
    task.entries = made.entries
    task.changed = True
    origin.settle(doc, task.entries[0], task.entries[0].key)


def _made(settings: dict[str, object], near: MapNode | Scalar) -> MapNode:
    made = make(settings, near=near)
    assert isinstance(made, MapNode)
    return made


def _sinks_of(
    doc: Lowering, step: MapNode, task: MapNode | None, name: str, sinks: Entry | None, *, behind_all: bool = False
) -> None:
    """Put the tasks that sinks are behind their tool; those of a step behind all."""
    if sinks is None:
        return
    doc.is_000 = True
    every = list(listed(sinks.value))
    new = "nothing: the log has every output" if all(map(is_log, every)) else "a `transfer` task behind the tool"
    doc.found(sinks.name, f"`{sinks.name}`", new, sinks.key)
    chunk = task.take("chunk") if task is not None else None
    label = _Labels(name, {found for found, _ in task_items(step)})
    origin = _origin(doc, step, task)
    made = [*_tasks(doc, every, sinks, origin, label), *_transfers(doc, every, sinks, origin, label, chunk)]
    if not made:
        origin.settle(doc, step.entry("tool"), sinks.key)
        return
    items = as_list(doc, step)
    if items is None:
        items = ListNode([], sinks.key.start, sinks.key.end)
        step.put(entry("tool", items, near=sinks.key), at=step.position("next"))
    home, start = _place_of(items, task) or (items, len(items.items))
    home = items if behind_all else home
    at = len(items.items) if behind_all else start
    home.items[at:at] = made
    home.changed = True
    end = at + len(made)
    if task is not None:
        keep_helpers(
            doc, step, task, name, home.items[start + 1 : end + 1], last=home is items and end == len(items.items)
        )


class _Labels:
    """Names for the tasks behind a tool that no other task has."""

    def __init__(self, name: str, taken: set[str]) -> None:
        self.name, self.taken = name, taken

    def free(self, suffix: str) -> str:
        """A free name."""
        made, number = f"{self.name}_{suffix}", 2
        while made in self.taken:
            made, number = f"{self.name}_{suffix}_{number}", number + 1
        self.taken.add(made)
        return made


def _tasks(doc: Lowering, every: list[MapNode | Scalar], sinks: Entry, origin: Origin, label: _Labels) -> list[MapNode]:
    """Sinks that are no targets: those with statements or code of their own, and the event log."""
    made: list[MapNode] = []
    for sink in every:
        task = None
        if isinstance(sink, Scalar):
            origin.doubt(f"say how this is saved: {quoted([sinks])}") if not is_log(sink) and sink.text else None
        elif is_log(sink):
            task = log_task(sink, origin, f"{label.name}_log")
            if task is not None:
                task.put(entry("name", make(label.free("log"), near=sinks.key)))
        elif writes_itself(sink):
            task = own_task(doc, sink, origin, label.free("sink"))
        if task is not None:
            origin.settle(doc, task.entry("name"), sinks.key)
            made.append(task)
    return made


def _transfers(
    doc: Lowering, every: list[MapNode | Scalar], sinks: Entry, origin: Origin, label: _Labels, chunk: Entry | None
) -> list[MapNode]:
    """Sinks by the rows they write: those that write the tool's rows share one transfer."""
    groups: list[tuple[Node | str, list[Node], list[str]]] = []
    for sink in every:
        if isinstance(sink, Scalar) or is_log(sink) or writes_itself(sink):
            continue
        data = data_of(sink, origin) if chunk is None else _chunked(sink, origin, chunk)
        target = target_of(doc, sink, origin, label.name)
        same = next((group for group in groups if isinstance(data, str) and group[0] == data), None)
        if same is None:
            same = (data, [], [])
            groups.append(same)
        same[1].append(target)
        same[2].extend(origin.doubts)
        origin.doubts.clear()
    made: list[MapNode] = []
    for data, targets, doubts in groups:
        size = _size(chunk)
        settings: dict[str, object] = {"name": label.free("sink"), "kind": "transfer"}
        settings["source"] = {"kind": "data", "data": data, **_path(chunk)}
        settings.update({"chunk": size} if size else {})
        task = _made({**settings, "targets": targets, "output": "{{ _prev }}"}, sinks.key)
        origin.doubts.extend(doubts)
        origin.settle(doc, task.entry("source"), sinks.key)
        made.append(task)
    return made


def _chunked(sink: MapNode, origin: Origin, chunk: Entry) -> Node | str:
    """What is cut into chunks: what the path finds, else the rows that the sink was given."""
    given = args_of(sink)
    if given is None:
        return WHOLE
    rows: Node | str | None = origin.rename(given.value)
    if isinstance(given.value, MapNode):
        rows = rows_of(given.value, origin)
    if rows is None:
        origin.doubt(f"one row was written for each chunk: {quoted([given])}")
    if isinstance(rows, Scalar):
        rows = rows.text
    return WHOLE if rows is None or _path(chunk) else rows


def _place_of(items: ListNode, task: MapNode | None) -> tuple[ListNode, int] | None:
    """The list that holds a task, which may be one inside of `choose`, `while` or `until`, and the place behind it."""
    for at, item in enumerate(items.items):
        if item is task or (isinstance(item, MapNode) and len(item.entries) == 1 and item.entries[0].value is task):
            return items, at + 1
    for item in items.items:
        found = _deeper(item, task) if isinstance(item, MapNode) and "kind" not in item else None
        if found is not None:
            return found
    return None


def _deeper(node: Node, task: MapNode | None) -> tuple[ListNode, int] | None:
    if isinstance(node, ListNode):
        return _place_of(node, task)
    for one in node.entries if isinstance(node, MapNode) else []:
        found = _deeper(one.value, task)
        if found is not None:
            return found
    return None


def _path(chunk: Entry | None) -> dict[str, str]:
    path = text_of(chunk.value, "path") if chunk is not None and isinstance(chunk.value, MapNode) else ""
    return {"path": path if path.startswith("$") else f"$.{path}"} if path else {}


def _size(chunk: Entry | None) -> dict[str, object]:
    block = chunk.value if chunk is not None else None
    entries = block.entries if isinstance(block, MapNode) else []
    return {one.name: one.value for one in entries if one.name in ("size", "mode")}

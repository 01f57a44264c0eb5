"""Sinks: `sink` and `save` of a tool or a step become tasks that follow it, most of them a `transfer`."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.lang.legacy.chunked_transfers import lower_cursor, lower_transfer
from noetl.lang.legacy.lowered_document import (
    V10,
    Lowering,
    add_set,
    ensure_map,
    quote_entries,
    strings,
    task_items,
)
from noetl.lang.legacy.name_meanings import HTTP, elements_of
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, as_expression, rewrite
from noetl.lang.legacy.sink_targets import (
    OWN,
    WHOLE,
    SinkOrigin,
    args_of,
    data_of,
    is_log,
    iter_sinks,
    log_task,
    own_task,
    rows_of,
    target_of,
    writes_itself,
)
from noetl.lang.legacy.workflow.step_body import as_list
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, make, map_of, text_of

# What stands behind a tool's sinks: `output` is theirs there, and what only the tool's own had is kept for it.


#: parts of `output` that a task has for itself
_HELPERS = frozenset({"http", "pg", "py", "meta"})
#: of a task, what is read when it has ended
_AFTER = frozenset({"output", "set", "spec"})
_OUTPUT = frozenset({"output", "outcome"})
_STATUS = {"ok", "success", "error", "failed"}


def keep_helpers(doc: Lowering, step: MapNode, task: MapNode, name: str, behind: list[Node], *, last: bool) -> None:
    """Let those behind the sinks of a task read what only its own output has, out of `step`."""
    readers: list[tuple[Scalar, bool]] = []
    for item in behind:
        readers += [(node, False) for node in _before_it_runs(item)]
    if last and map_of(step, "loop") is None:
        for word in ("set", "output", "next", "case"):
            found = step.get(word)
            readers += [(node, True) for node in strings(found)] if found is not None else []
    keeper = _Keeper(doc, task, name)
    for node, ended in readers:
        keeper.rename(node, ended=ended)


def _before_it_runs(item: Node) -> Iterator[Scalar]:
    """The templates of a task that see the output before its own."""
    if not isinstance(item, MapNode):
        return
    task = item
    if "kind" not in item and len(item.entries) == 1 and isinstance(item.entries[0].value, MapNode):
        task = item.entries[0].value
    for one in task.entries:
        if one.name not in _AFTER and one.name != "code":
            yield from strings(one.value)


class _Keeper:
    """Publishes parts of a task's output in `step` as they are asked for."""

    def __init__(self, doc: Lowering, task: MapNode, name: str) -> None:
        self.doc, self.task = doc, task
        self.name = name.replace("-", "_")
        self.kind = text_of(task, "kind")

    def rename(self, node: Scalar, *, ended: bool) -> None:
        """Mend one template; where the step has ended, the task may have failed, and its sinks not run."""
        if f"step.{self.name}_" in node.text:
            return  # mended behind another sink
        node.rewrite(rewrite(node.text, lambda chain: self._chain(chain, node, ended=ended)))

    def _chain(self, chain: NameChain, node: Scalar, *, ended: bool) -> ChainRename | None:
        root, parts = chain.parts[0], chain.parts
        after = parts[1] if len(parts) > 1 else ""
        if root in _OUTPUT and after in _HELPERS:
            self._report_root(root, node)
            return ChainRename(2, self._publish_part(after, ended=ended))
        if self.kind != "http":
            return None
        # Who renames the rest sees a transfer here, and not the request.
        if root == "outcome" and after in ("result", "response") and len(parts) > 2:
            if parts[2] in HTTP:
                self._report_root(root, node)
                return ChainRename(3, f"{self._publish_part('http', ended=ended)}.{HTTP[parts[2]]}")
            if parts[2] == "data":
                self._report_root(root, node)
                return ChainRename(3, "output.data")
        if root in ("this", "response") and after in HTTP and not set(chain.compared) & _STATUS:
            self._report_root(root, node)
            return ChainRename(2, f"{self._publish_part('http', ended=ended)}.{HTTP[after]}")
        if root == "result" and after == "data" and ended:
            self._report_root(root, node)
            return ChainRename(2, "output.data")
        return None

    def _report_root(self, root: str, node: Scalar) -> None:
        if root == "outcome":
            self.doc.report_older("outcome", "`outcome`", "`output`", node, grade=V10)
        elif root != "output":
            self.doc.report_older("habit", f"`{root}`", "`output`", node)

    def _publish_part(self, part: str, *, ended: bool) -> str:
        kept = f"step.{self.name}_{part}"
        add_set(self.task, kept, "{{ output." + part + " }}", self.task.entries[0].key)
        return f"({kept} | default(output.{part}))" if ended else kept


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
                _after_loop(doc, step, found)
            else:
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


def _origin(doc: Lowering, step: MapNode, task: MapNode | None) -> SinkOrigin:
    taken = (doc.workload_keys() | doc.step_names()) - OWN | set(elements_of(step))
    looping = text_of(step, "step") if "loop" in step else ""
    url = task.get("url") if task is not None else None
    origin = SinkOrigin(
        text_of(task, "kind"), text_of(task, "result"), text_of(task, "code"), frozenset(taken), looping
    )
    origin.url = f"({as_expression(url)})" if isinstance(url, Scalar) and "{%" not in url.text else ""
    origin.has_parameters = task is not None and "params" in task
    return origin


def _save_step(doc: Lowering, step: MapNode) -> None:
    """`type: save` on a step that says under `save` what it saves: a tool that says no more."""
    tool = map_of(step, "tool")
    kind = tool.entry("kind") if tool is not None else None
    if tool is None or kind is None or text_of(tool, "kind") not in _WORDS or not any(word in step for word in _WORDS):
        return
    if all(one.name in ("kind", "name") for one in tool.entries):
        doc.report_older("save", f"`kind: {text_of(tool, 'kind')}`", "nothing", kind.value)
        step.take("tool")


def _save_task(doc: Lowering, step: MapNode, task: MapNode, origin: SinkOrigin, name: str) -> None:
    """A step that was nothing but a save."""
    if text_of(task, "kind") not in _WORDS or not task.entries:
        return
    doc.report_older("save", f"`kind: {text_of(task, 'kind')}`", "`kind: transfer`", task)
    task.take("kind")
    task.take("name")
    origin.kind = ""
    made: MapNode | None
    if is_log(task):
        made = log_task(task, origin, name) or _make_map({"name": name, "kind": "noop"}, task)
    elif writes_itself(task):
        made = own_task(doc, task, origin, name)
        made.take("output")
    else:
        source = {"kind": "data", "data": data_of(task, origin)}
        target = target_of(doc, task, origin, name)
        made = _make_map({"name": name, "kind": "transfer", "source": source, "targets": [target]}, task)
    if not isinstance(step.get("tool"), ListNode):
        made.take("name")
    task.entries = made.entries
    task.changed = True
    origin.settle(doc, task.entries[0], task.entries[0].key)


def _make_map(settings: dict[str, object], near: MapNode | Scalar) -> MapNode:
    made = make(settings, near=near)
    assert isinstance(made, MapNode)
    return made


def _sinks_of(
    doc: Lowering, step: MapNode, task: MapNode | None, name: str, sinks: MapEntry | None, *, behind_all: bool = False
) -> None:
    """Put the tasks that sinks are behind their tool; those of a step behind all."""
    if sinks is None:
        return
    doc.is_000 = True
    every = list(iter_sinks(sinks.value))
    new = "nothing: the log has every output" if all(map(is_log, every)) else "a `transfer` task behind the tool"
    doc.report_older(sinks.name, f"`{sinks.name}`", new, sinks.key)
    chunk = task.take("chunk") if task is not None else None
    label = _Labels(name, {found for found, _ in task_items(step)})
    origin = _origin(doc, step, task)
    origin.look_at(sinks.value)
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


def _after_loop(doc: Lowering, step: MapNode, sinks: MapEntry) -> None:
    """What was saved once, when a loop had ended: tasks around the body, which see its list."""
    doc.is_000 = True
    doc.report_older(sinks.name, f"`{sinks.name}` of a loop", "tasks under `spec.policy.after`", sinks.key)
    name = text_of(step, "step")
    taken = (doc.workload_keys() | doc.step_names()) - OWN - {name}
    origin = SinkOrigin("loop", text_of(step, "result"), taken=frozenset(taken), ended=name)
    every = list(iter_sinks(sinks.value))
    label = _Labels(name, {found for found, _ in task_items(step)})
    made = [*_tasks(doc, every, sinks, origin, label), *_transfers(doc, every, sinks, origin, label, None)]
    origin.settle(doc, step.entry("tool"), sinks.key)
    if not made:
        return
    for task in made:
        task.take("output")
    policy = ensure_map(ensure_map(step, "spec", sinks.key), "policy", sinks.key)
    policy.put(entry("after", make(made, near=sinks.key), near=sinks.key))


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


def _tasks(
    doc: Lowering, every: list[MapNode | Scalar], sinks: MapEntry, origin: SinkOrigin, label: _Labels
) -> list[MapNode]:
    """Sinks that are no targets: those with statements or code of their own, and the event log."""
    made: list[MapNode] = []
    for sink in every:
        task = None
        if isinstance(sink, Scalar):
            origin.doubt(f"say how this is saved: {quote_entries([sinks])}") if not is_log(sink) and sink.text else None
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
    doc: Lowering,
    every: list[MapNode | Scalar],
    sinks: MapEntry,
    origin: SinkOrigin,
    label: _Labels,
    chunk: MapEntry | None,
) -> list[MapNode]:
    """Sinks by the rows they write: those that write the tool's rows share one transfer."""
    groups: list[tuple[Node | str, list[Node], list[str]]] = []
    for sink in every:
        if isinstance(sink, Scalar) or is_log(sink) or writes_itself(sink):
            continue
        data = data_of(sink, origin) if chunk is None else _rows_to_chunk(sink, origin, chunk)
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
        task = _make_map({**settings, "targets": targets, "output": "{{ _prev }}"}, sinks.key)
        origin.doubts.extend(doubts)
        origin.settle(doc, task.entry("source"), sinks.key)
        made.append(task)
    return made


def _rows_to_chunk(sink: MapNode, origin: SinkOrigin, chunk: MapEntry) -> Node | str:
    """What is cut into chunks: what the path finds, else the rows that the sink was given."""
    given = args_of(sink)
    if given is None:
        return WHOLE
    rows: Node | str | None = origin.rename(given.value)
    if isinstance(given.value, MapNode):
        rows = rows_of(given.value, origin)
    if rows is None:
        origin.doubt(f"one row was written for each chunk: {quote_entries([given])}")
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


def _path(chunk: MapEntry | None) -> dict[str, str]:
    path = text_of(chunk.value, "path") if chunk is not None and isinstance(chunk.value, MapNode) else ""
    return {"path": path if path.startswith("$") else f"$.{path}"} if path else {}


def _size(chunk: MapEntry | None) -> dict[str, object]:
    block = chunk.value if chunk is not None else None
    entries = block.entries if isinstance(block, MapNode) else []
    return {one.name: one.value for one in entries if one.name in ("size", "mode")}

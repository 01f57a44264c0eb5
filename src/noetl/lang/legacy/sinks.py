"""Sinks: `sink`, `save` and `chunk` of a tool become a `transfer` that follows it."""

from __future__ import annotations

from noetl.lang.legacy.lowering import Lowering, ensure_map, strings, task_items
from noetl.lang.legacy.rename import Chain, Renamed, Renamer, rewrite
from noetl.lang.legacy.steps import as_list
from noetl.lang.legacy.tools import lower_task
from noetl.lang.node import Entry, ListNode, MapNode, Node, Scalar, copy, entry, make, map_of, text_of

_TARGET_KINDS = frozenset({"postgres", "duckdb", "s3", "http", "file"})
_TARGET_KEYS = frozenset(
    {"kind", "auth", "table", "mode", "key", "mapping", "file", "path", "bucket", "format", "url", "method", "headers",
     "body", "on_error"}
)  # fmt: skip
_RENAMED = {"endpoint": "url", "payload": "body", "database": "file", "data": "args"}
_BODY = frozenset({"body", "data", "rows", "json", "result"})
#: names of arguments that hold rows rather than a column
_ROWS = frozenset({"rows", "data", "items", "records", "results", "activities"})
_HTTP = {"status": "status", "status_code": "status", "headers": "headers"}


def lower(doc: Lowering) -> None:
    """Turn every sink into a transfer task."""
    for step in doc.bodies():
        for name, task in list(task_items(step)):
            _save_task(doc, step, task, name)
            _cursor(doc, task)
            _transfer(doc, task)
            _sinks_of(doc, step, task, name, task)
        step_sinks = step.entry("sink") or step.entry("save")
        if step_sinks is not None:
            tasks = list(task_items(step))
            name, last = tasks[-1] if tasks else (text_of(step, "step"), None)
            _sinks_of(doc, step, last, name, step)
        for _name, task in list(task_items(step)):
            task.take("result") if "result" in task else None


def _save_task(doc: Lowering, step: MapNode, task: MapNode, name: str) -> None:
    """A step that was nothing but a save."""
    if text_of(task, "kind") not in ("save", "sink"):
        return
    doc.found("save", f"`kind: {text_of(task, 'kind')}`", "`kind: transfer`", task)
    task.take("kind")
    groups = _grouped(doc, Entry(task.entries[0].key, task), "", chunked=False) if task.entries else []
    if not groups:
        return
    data, targets = groups[0]
    made = make({"kind": "transfer", "source": {"kind": "data", "data": data}, "targets": targets}, near=task)
    assert isinstance(made, MapNode)
    if isinstance(step.get("tool"), ListNode):
        made.put(entry("name", make(name, near=task)), at=0)
    task.entries = made.entries
    task.changed = True


# --- chunks at the source --------------------------------------------------------------------------------------


def _cursor(doc: Lowering, task: MapNode) -> None:
    """`chunk` on a database tool: the rows never stand in memory all at once."""
    chunk = task.entry("chunk")
    if chunk is None or text_of(task, "kind") not in ("postgres", "duckdb"):
        return
    doc.found("chunk", "`chunk` of a database tool", "`kind: transfer` with the query as its source", chunk.key)
    kind = task.get("kind")
    source = MapNode([], chunk.key.start, chunk.key.end)
    source.changed = True
    source.put(entry("kind", make(text_of(task, "kind"), near=chunk.key)))
    for name in ("auth", "query", "command", "params", "file"):
        taken = task.take(name)
        if taken is not None:
            source.put(taken)
            source.rename("command", "query") if name == "command" else None
    if isinstance(kind, Scalar):
        kind.rewrite("transfer")
    task.put(entry("source", source, near=chunk.key), at=task.position("kind") + 1)
    sinks = task.take("sink") or task.take("save")
    if sinks is not None:
        _as_targets(doc, task, sinks, text_of(task, "result"), rows=True)


def _transfer(doc: Lowering, task: MapNode) -> None:
    """Older spellings of `kind: transfer` itself."""
    if text_of(task, "kind") != "transfer":
        return
    source = map_of(task, "source")
    for block in (source, map_of(task, "target")):
        if block is not None and "type" in block and "kind" not in block:
            found = block.entry("type")
            doc.found("type", "`type`", "`kind`", found.key) if found else None
            block.rename("type", "kind")
        if block is not None and "endpoint" in block and "url" not in block:
            block.rename("endpoint", "url")
    inner = source.take("chunk") if source is not None else None
    if inner is not None:
        doc.found("chunk", "`chunk` under `source`", "`chunk` beside it", inner.key)
        task.put(inner)
    target = task.entry("target")
    if target is not None and isinstance(target.value, MapNode):
        doc.found("habit", "`target`", "`targets: […]`", target.key)
        _plain_mapping(target.value)
        task.put(entry("targets", make([target.value], near=target.key), near=target.key))
        task.take("target")
    size = task.take("chunk_size")
    if size is not None:
        doc.found("habit", "`chunk_size`", "`chunk: {size}`", size.key)
        ensure_map(task, "chunk", size.key).put(entry("size", size.value, near=size.key))
    sinks = task.take("sink") or task.take("sinks")
    if sinks is not None:
        doc.found("sink", "`sink`", "`targets`", sinks.key)
        _as_targets(doc, task, sinks, text_of(task, "result"), rows=True)


def _plain_mapping(target: MapNode) -> None:
    """`mapping: {column: field}` with plain names."""
    mapping = map_of(target, "mapping")
    for one in mapping.entries if mapping is not None else []:
        if isinstance(one.value, Scalar) and isinstance(one.value.value, str) and "{{" not in one.value.value:
            one.value.rewrite("{{ row." + one.value.text + " }}")


def _as_targets(doc: Lowering, task: MapNode, sinks: Entry, result: str, *, rows: bool) -> None:
    targets = [_target(doc, one, result, rows=rows) for one in _listed(sinks.value)]
    task.put(entry("targets", make([t for t in targets if t is not None], near=sinks.key), near=sinks.key))


# --- sinks behind a tool ---------------------------------------------------------------------------------------


def _sinks_of(doc: Lowering, step: MapNode, task: MapNode | None, name: str, holder: MapNode) -> None:
    sinks = holder.entry("sink") or holder.entry("save")
    if sinks is None:
        return
    doc.found(sinks.name, f"`{sinks.name}`", "a `transfer` task behind the tool", sinks.key)
    doc.is_000 = True
    holder.take(sinks.name)
    result = text_of(task, "result") if task is not None else ""
    chunk = task.take("chunk") if task is not None else None
    if holder is step and map_of(step, "loop") is not None:
        doc.todo(
            step.entry("tool"),
            "this was saved once, after the loop: move the last task to a step of its own",
            sinks.key,
        )
    groups = _grouped(doc, sinks, result, chunked=chunk is not None)
    others = _own_tasks(doc, sinks, result, name)
    if not groups and not others:
        return
    items = as_list(doc, step)
    if items is None:
        items = ListNode([], sinks.key.start, sinks.key.end)
        step.put(entry("tool", items, near=sinks.key), at=step.position("next"))
    at = next((i for i, item in enumerate(items.items) if _holds(item, task)), len(items.items) - 1) + 1
    taken = {found for found, _ in task_items(step)}
    for task_made in others:
        label = _free(text_of(task_made, "name"), taken)
        task_made.put(entry("name", make(label, near=sinks.key)))
        items.items.insert(at, task_made)
        at += 1
    for data, targets in groups:
        label = _free(f"{name}_sink", taken)
        made = make(
            {
                "name": label,
                "kind": "transfer",
                "source": _source(data, chunk, sinks.key),
                **({"chunk": _size(chunk)} if chunk is not None and _size(chunk) else {}),
                "targets": targets,
                "output": "{{ _prev }}",
            },
            near=sinks.key,
        )
        items.items.insert(at, made)
        at += 1
    items.changed = True


#: by kind: the keys that say how to write, in place of where
_STATEMENTS = {"postgres": ("statement", "command", "query", "sql"), "duckdb": ("commands", "command", "query", "statement"),
               "python": ("code",), "shell": ("cmd", "cmds")}  # fmt: skip


def _writes_itself(sink: MapNode) -> bool:
    body = _body_of(sink)
    kind = text_of(body, "kind") or text_of(body, "type") or text_of(body, "storage") or text_of(body, "tool")
    return any(key in body for key in _STATEMENTS.get(kind, ()))


def _own_tasks(doc: Lowering, sinks: Entry, result: str, name: str) -> list[MapNode]:
    """A sink with a statement or code of its own is a task, not a target."""
    made: list[MapNode] = []
    for sink in _listed(sinks.value):
        if not _writes_itself(sink):
            continue
        body = _body_of(sink)
        for word in ("storage", "type", "tool"):
            if "kind" not in body and isinstance(body.get(word), Scalar):
                body.rename(word, "kind")
        given = body.take("args") or body.take("data")
        task = MapNode([entry("name", make(f"{name}_sink", near=body)), *body.entries], body.start, body.end)
        task.changed = True
        if given is not None:
            task.put(entry("input", given.value, near=given.key))
        for one in task.entries:
            for node in strings(one.value) if one.name != "code" else []:
                node.rewrite(rewrite(node.text, _in_output(result)))
                node.rewrite(rewrite(node.text, _params_are_input))
        task.put(entry("output", make("{{ _prev }}", near=body)))
        lower_task(doc, task, f"{name}_sink")
        made.append(task)
    return made


def _params_are_input(chain: Chain) -> Renamed | None:
    return Renamed(1, "input") if chain.parts[0] == "params" and len(chain.parts) > 1 else None


def _holds(item: Node, task: MapNode | None) -> bool:
    return item is task or (isinstance(item, MapNode) and len(item.entries) == 1 and item.entries[0].value is task)


def _free(label: str, taken: set[str]) -> str:
    name, number = label, 2
    while name in taken:
        name, number = f"{label}_{number}", number + 1
    taken.add(name)
    return name


def _source(data: Node | str, chunk: Entry | None, near: Scalar) -> Node:
    source: dict[str, object] = {"kind": "data", "data": data}
    path = text_of(chunk.value, "path") if chunk is not None and isinstance(chunk.value, MapNode) else ""
    if path:
        source["path"] = path if path.startswith("$") else f"$.{path}"
    return make(source, near=near)


def _size(chunk: Entry) -> dict[str, object]:
    block = chunk.value
    return (
        {one.name: one.value for one in block.entries if one.name in ("size", "mode")}
        if isinstance(block, MapNode)
        else {}
    )


def _grouped(doc: Lowering, sinks: Entry, result: str, *, chunked: bool) -> list[tuple[Node | str, list[Node]]]:
    """Sinks by the rows they write: those that write the tool's rows share one transfer."""
    groups: list[tuple[Node | str, list[Node]]] = []
    for one in _listed(sinks.value):
        if _writes_itself(one):
            continue
        row = _one_row(one, result) if not chunked else None
        target = _target(doc, one, result, rows=row is None)
        if target is None:
            continue
        data: Node | str = "{{ output.data }}" if row is None else make([row], near=sinks.key)
        if row is None:
            given = _rows_given(one, result)
            data = given or data
        same = next((group for group in groups if isinstance(data, str) and group[0] == data), None)
        if same is not None:
            same[1].append(target)
        else:
            groups.append((data, [target]))
    return groups


def _listed(node: Node) -> list[MapNode]:
    items = node.items if isinstance(node, ListNode) else [node]
    return [item for item in items if isinstance(item, MapNode)]


def _body_of(sink: MapNode) -> MapNode:
    """`- postgres: {…}` and `storage: {type: postgres, …}` hold the sink one level deeper."""
    if len(sink.entries) == 1 and sink.entries[0].name in _TARGET_KINDS and isinstance(sink.entries[0].value, MapNode):
        inner = sink.entries[0].value
        if "kind" not in inner:
            inner.put(entry("kind", make(sink.entries[0].name, near=inner), near=inner), at=0)
        return inner
    for word in ("storage", "tool"):
        inner_node = sink.get(word)
        if isinstance(inner_node, MapNode):
            for one in sink.entries:
                if one.name != word and one.name not in inner_node:
                    inner_node.put(one)
            return inner_node
    return sink


def _args_of(sink: MapNode) -> MapNode | None:
    body = _body_of(sink)
    found = body.get("args") or body.get("data")
    return found if isinstance(found, MapNode) else None


def _rows_given(sink: MapNode, result: str) -> str | None:
    """`args: {rows: "{{ result.data }}"}`: these are the rows."""
    args = _args_of(sink)
    if args is None or len(args.entries) != 1 or not isinstance(args.entries[0].value, Scalar):
        return None
    if args.entries[0].name not in _ROWS and not _is_whole(args.entries[0].value.text, result):
        return None
    text = args.entries[0].value.text
    renamed = rewrite(text, _in_output(result))
    return renamed if renamed != text or "output.data" in renamed else None


def _is_whole(text: str, result: str) -> bool:
    """Whether a template is the payload itself, and not one field of it."""
    return rewrite(text, _in_output(result)).strip().replace(" ", "") == "{{output.data}}"


def _one_row(sink: MapNode, result: str) -> MapNode | None:
    """`args` with several columns, or one that is no rows: one row."""
    args = _args_of(sink)
    if args is None or not args.entries or "mapping" in _body_of(sink):
        return None
    if len(args.entries) == 1 and _rows_given(sink, result) is not None:
        return None
    row = copy(args)
    assert isinstance(row, MapNode)
    for node in strings(row):
        node.rewrite(_as_json(rewrite(node.text, _in_output(result)), node.text, result))
    return row


def _as_json(text: str, _before: str, _result: str) -> str:
    # A whole payload in one column is written as JSON.
    return "{{ output.data | tojson }}" if text.strip() == "{{ output.data }}" else text


def _target(doc: Lowering, sink: MapNode, result: str, *, rows: bool) -> MapNode | None:
    body = _body_of(sink)
    for word in ("storage", "type", "tool"):
        if "kind" not in body and isinstance(body.get(word), Scalar):
            body.rename(word, "kind")
    kind = text_of(body, "kind")
    if kind in ("event", "event_log"):
        return None  # the log has it anyway
    target = MapNode([], body.start, body.end)
    target.changed = True
    for one in body.entries:
        key = _RENAMED.get(one.name, one.name)
        if key in _TARGET_KEYS:
            target.put(entry(key, one.value, near=one.key))
        elif key not in ("args", "storage", "spec"):
            target.put(one)
    _plain_auth(target)
    for one in target.entries:
        in_row = rows and one.name == "mapping"
        for node in strings(one.value):
            node.rewrite(rewrite(node.text, _in_row(result) if in_row else _in_output(result)))
    if kind not in _TARGET_KINDS:
        doc.todo(target.entry("kind"), f"`{kind}` is no target of a transfer: write it as a task of its own", body)
    return target


def _plain_auth(target: MapNode) -> None:
    """`auth: {pg: {type: postgres, key: name}}` is `auth: name`."""
    auth = target.get("auth")
    if not isinstance(auth, MapNode):
        return
    inner = auth.entries[0].value if len(auth.entries) == 1 else auth
    stored = (text_of(inner, "key") or text_of(inner, "credential")) if isinstance(inner, MapNode) else ""
    if stored:
        target.put(entry("auth", make(stored, near=auth)))


def _names(result: str) -> frozenset[str]:
    return frozenset({"this", "out", "result", "response", "data", "tool_result"} | ({result} if result else set()))


def _in_row(result: str) -> Renamer:
    names = _names(result)

    def rename(chain: Chain) -> Renamed | None:
        return Renamed(1, "row") if chain.parts[0] in names and len(chain.parts) > 1 else None

    return rename


def _in_output(result: str) -> Renamer:
    names = _names(result)

    def rename(chain: Chain) -> Renamed | None:
        if chain.parts[0] not in names:
            return None
        after = chain.parts[1] if len(chain.parts) > 1 else ""
        if after in _BODY:
            return Renamed(2, "output.data")
        if after in _HTTP:
            return Renamed(2, f"output.http.{_HTTP[after]}")
        return Renamed(1, "output.data")

    return rename

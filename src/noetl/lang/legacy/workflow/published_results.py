"""Results that older steps published: `result`, `bind`, step `vars`, `pick`, `collect` become values in `ctx` with `set`."""

from __future__ import annotations

from noetl.expr import has_template
from noetl.lang.legacy.lowered_document import Lowering, add_set, ensure_map, in_a_line, task_items, writes_of
from noetl.lang.legacy.workflow.rules_and_writes import lower_target_list, task_scope
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Scalar, entry, make, map_of, text_of

_RESULT = "{{ output.data }}"


def lower(doc: Lowering) -> None:
    """Publish what older documents named as results."""
    for step, called in doc.bodies():
        lower_target_list(doc, step, "ctx")
        for _name, task in list(task_items(step)):
            lower_target_list(doc, task, task_scope(step))
            _tool_result(doc, step, task, publishes=called is None)
        _step_result(doc, step)
        _bind(doc, step)
        _vars(doc, step)


def _publish(doc: Lowering, step: MapNode, name: str, value: str = _RESULT) -> None:
    doc.results.add(name)
    add_set(step, f"ctx.{name}", value, step.get("step") or step)


def _step_result(doc: Lowering, step: MapNode) -> None:
    found = step.entry("result") or step.entry("return")
    if found is None:
        return
    if isinstance(found.value, Scalar) and found.value.value is not None and not has_template(found.value.text):
        doc.is_000 = True
        doc.report_older("result", "`result` of a step", "`set: {ctx.<name>: …}`", found.key)
        step.take(found.name)
        _publish(doc, step, found.value.text)
    elif isinstance(found.value, MapNode) and _is_binding(found.value):
        doc.is_000 = True
        step.take(found.name)
        _lower_binding(doc, step, None, found)
    else:
        # A map or template on the last step: what the step exposes.
        if "output" in step:
            doc.refuse("result", step, found, "make one `output` of this and of the `output` beside it")
            return
        doc.report_older("result", f"`{found.name}` of a step", "`output`", found.key)
        step.rename(found.name, "output")
        if "tool" not in step:
            step.put(entry("tool", make({"kind": "noop"}, near=found.key), near=found.key), at=step.position("output"))


def _is_binding(block: MapNode) -> bool:
    return any(name in block for name in ("as", "pick", "collect", "sink", "save", "into"))


def _tool_result(doc: Lowering, step: MapNode, task: MapNode, *, publishes: bool) -> None:
    found = task.entry("result")
    if found is None or isinstance(found.value, ListNode):
        return
    task.take("result")
    doc.is_000 = True
    if isinstance(found.value, MapNode):
        _lower_binding(doc, step, task, found)
    elif found.value.value is not None:
        doc.report_older("result", "`result` of a tool", "`output.data` in the next task", found.key)
        # Sinks read it by this name; whoever else does reads it from `ctx`, where a workbook task writes nothing.
        task.put(entry("result", found.value, near=found.key))
        if publishes:
            doc.results.add(found.value.text)
            doc.tool_results[found.value.text] = (step, task)


def _lower_binding(doc: Lowering, step: MapNode, task: MapNode | None, found: MapEntry) -> None:
    """`{as, pick, collect, sink}`."""
    block = found.value
    assert isinstance(block, MapNode)
    doc.report_older("result", "`result` of a tool", "`output` and `set`", found.key)
    pick = block.entry("pick")
    holder = task if task is not None else step
    if pick is not None:
        doc.keep(holder, entry("output", pick.value, near=pick.key), "`pick`")
    name = text_of(block, "as") or text_of(block, "into")
    if name:
        _publish(doc, step, name)
    collect = map_of(block, "collect")
    if collect is not None:
        _collect(doc, step, collect)
    _rest(
        doc, step, found.name, block, ("as", "into", "pick", "sink", "save", "collect" if collect is not None else "")
    )
    for word in ("sink", "save"):
        sink = block.entry(word)
        if sink is not None:
            if name:
                holder.put(entry("result", make(name, near=sink.key), near=sink.key))
            holder.put(sink)


def _rest(doc: Lowering, step: MapNode, word: str, block: MapNode, understood: tuple[str, ...]) -> None:
    """What a block says beyond what is understood is told to a person."""
    for one in block.entries:
        if one.name not in understood:
            said = f"`{word}` said `{one.name}: {in_a_line(one.value)}` here: write it with `output` or `set`"
            doc.todo(step.entry("tool") or step.entry("step"), said, one.key)


def _collect(doc: Lowering, step: MapNode, collect: MapNode) -> None:
    """The loop's output is the list of all iterations' data; merging them is a reducer's work."""
    name = text_of(collect, "into")
    mode = text_of(collect, "mode")
    understood = ("into",) if name else ()
    _rest(doc, step, "collect", collect, (*understood, *(("mode",) if mode in ("merge", "append", "list") else ())))
    if not name:
        return
    doc.report_older("collect", "`collect`", "`set` on the step", collect)
    doc.results.add(name)
    if mode != "merge":
        add_set(step, f"ctx.{name}", _RESULT, collect)
        return
    loop = map_of(step, "loop")
    parallel = loop is not None and text_of(map_of(loop, "spec"), "mode") == "parallel"
    merged = _RESULT
    if loop is not None and not parallel:
        # Reducers are of parallel loops; here each iteration finds what those before it wrote.
        merged = f"{{{{ dict(ctx.{name} | default({{}}), **output.data) }}}}"
        doc.todo(
            step.entry("tool"),
            f"a map inside of `ctx.{name}` is replaced, not merged: see whether that matters",
            collect,
        )
    for _task_name, task in list(task_items(step))[-1:]:
        add_set(task, f"ctx.{name}", merged, collect)
    if loop is not None and parallel:
        policy = ensure_map(ensure_map(loop, "spec", collect), "policy", collect)
        ensure_map(policy, "reduce", collect).put(entry(f"ctx.{name}", make("merge", near=collect), near=collect))


def _bind(doc: Lowering, step: MapNode) -> None:
    found = step.entry("bind")
    if found is None or not isinstance(found.value, MapNode):
        return
    doc.report_older("bind", "`bind`", "`set: {ctx.<name>: …}`", found.key)
    step.take("bind")
    for one in found.value.entries:
        path = text_of(one.value, "path") if isinstance(one.value, MapNode) else ""
        value = _path(path) if path or isinstance(one.value, MapNode) else None
        if value is None and isinstance(one.value, Scalar):
            value = one.value.text if has_template(one.value.text) else _path(one.value.text)
        _publish(doc, step, one.name, value or _RESULT)


def _path(path: str) -> str:
    """`result.data.x` of an older step, as a path of today's output."""
    parts = [part for part in path.removeprefix("$.").split(".") if part]
    while parts and parts[0] in ("result", "data", "this"):
        parts.pop(0)
    return "{{ " + ".".join(["output.data", *parts]) + " }}"


def _vars(doc: Lowering, step: MapNode) -> None:
    """A step's `vars:` block published values for the whole execution."""
    found = step.entry("vars")
    if found is None or not isinstance(found.value, MapNode):
        return
    doc.report_older("vars", "`vars` of a step", "`set: {ctx.…}`", found.key)
    block = writes_of(step, found.key) if found.value.entries else found.value
    if block is None:
        doc.refuse("vars", step, found, "write these as `ctx.*` in the `set` beside them")
        return
    step.take("vars")
    for one in found.value.entries:
        doc.step_vars.add(one.name)
        nested = map_of(block, "ctx")
        if nested is None or one.name not in nested:
            doc.keep(block, entry(f"ctx.{one.name}", one.value, near=one.key), "`vars`")
        else:
            doc.keep(nested, one, "`vars`")

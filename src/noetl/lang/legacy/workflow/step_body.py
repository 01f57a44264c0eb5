"""A step's body: `type`, `tool: <kind>`, `pipe`, `call`, keys one level too high, `iterator` steps and loops."""

from __future__ import annotations

from noetl.lang.grammar.document_shape import SHAPES, TASK_KEYS
from noetl.lang.legacy.lowered_document import V10, Lowering, ensure_map
from noetl.lang.legacy.workflow.task_keys import KEYS
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, list_of, make, map_of, text_of
from noetl.model.shape import Record

_STEP = SHAPES["Step"]
assert isinstance(_STEP, Record)
#: kinds that call something, and what they give to it
_CALLS = {"workbook": ("args",), "playbook": ("args",)}
#: what stays with the step when its other keys become its tool
STEP_KEYS = frozenset(_STEP.keys) | {
    "when", "case", "vars", "result", "bind", "next_mode", "sink", "save", "retry", "args", "loop", "pipe", "description",
}  # fmt: skip
#: step types that run nothing
_ROUTERS = frozenset({"start", "end", "router", "noop_router", "switch"})
#: what shows that a map with a `name` is a step
_OF_A_STEP = ("tool", "type", "next", "pipe", "case", "sink", "save", "call", "result", "return")
#: what is a task's, and no label of one
_OF_A_TASK = frozenset(TASK_KEYS) | {"result", "sink", "save", "retry", "args", "description"}
_DESCRIPTIONS = ("description", "title", "label")


def lower(doc: Lowering) -> None:
    """Give every step a `tool` with a `kind`, or none."""
    for step in list(doc.steps()):
        _step_name(doc, step)
        _description(doc, step)
        _pipe(doc, step)
        _type(doc, step)
        _tool_word(doc, step)
        _iterator(doc, step)
        _step_args(doc, step)
    for body, _called in doc.bodies():
        for item in list_of(body, "tool") or ():
            _beside_label(doc, item)


def _step_name(doc: Lowering, step: MapNode) -> None:
    if "step" not in step and isinstance(step.get("name"), Scalar) and any(word in step for word in _OF_A_STEP):
        found = step.entry("name")
        doc.report_older("habit", "`name` of a step", "`step`", found.key) if found else None
        step.rename("name", "step")


def _description(doc: Lowering, step: MapNode) -> None:
    for word in _DESCRIPTIONS:
        found = step.entry(word)
        if found is not None and "desc" not in step and isinstance(found.value, Scalar):
            doc.report_older("habit", f"`{word}`", "`desc`", found.key)
            step.rename(word, "desc")


def _pipe(doc: Lowering, step: MapNode) -> None:
    tool = map_of(step, "tool")
    if "pipe" in step and "tool" not in step:
        found = step.entry("pipe")
        assert found is not None
        doc.report_older("pipe", "`pipe`", "an ordered `tool` list", found.key)
        step.rename("pipe", "tool")
    elif tool is not None and list_of(tool, "pipe") is not None and len(tool.entries) == 1:
        doc.report_older("pipe", "`pipe`", "an ordered `tool` list", tool.entries[0].key)
        holder = step.entry("tool")
        assert holder is not None
        holder.value = tool.entries[0].value
        step.changed = True


def _beside_label(doc: Lowering, item: Node) -> None:
    """`- fetch: {kind: http}` with more keys beside the label: they are the task's."""
    if not isinstance(item, MapNode) or "kind" in item or "name" in item or len(item.entries) == 1:
        return
    labels = [one for one in item.entries if one.name not in _OF_A_TASK]
    task = labels[0].value if len(labels) == 1 else None
    if not isinstance(task, MapNode) or "kind" not in task:
        return
    for one in item:
        if one is not labels[0]:
            doc.report_older(
                "habit", f"`{one.name}` beside the task `{labels[0].name}`", "it inside of the task", one.key
            )
            item.take(one.name)
            doc.keep(task, one, "beside its name the task")


def _type(doc: Lowering, step: MapNode) -> None:
    """v1: `type: http` with the tool's keys beside it."""
    found = step.entry("type")
    if found is None or not isinstance(found.value, Scalar) or isinstance(step.get("tool"), MapNode | ListNode):
        return
    doc.report_older("type", f"`type: {found.value.text}` of a step", "`tool: {kind: …}`", found.key)
    step.take("type")
    if found.value.text not in _ROUTERS:
        _fold(step, entry("kind", found.value, near=found.key))


def _tool_word(doc: Lowering, step: MapNode) -> None:
    """`tool: http`, with the tool's keys beside it."""
    found = step.entry("tool")
    if found is None or not isinstance(found.value, Scalar) or not isinstance(found.value.value, str):
        return
    doc.report_older("habit", f"`tool: {found.value.text}`", f"`tool: {{kind: {found.value.text}}}`", found.key)
    at = step.position("tool")
    step.take("tool")
    if found.value.text in _ROUTERS:
        return
    _fold(step, entry("kind", found.value, near=found.key), at=at)


def _fold(step: MapNode, kind: MapEntry, *, at: int | None = None) -> None:
    """Make a tool out of a kind and all keys of the step that are not a step's own."""
    # What is called sees nothing of its caller's input: beside such a kind, `args` were the call's own.
    own = _CALLS.get(text_of(MapNode([kind], 0, 0), "kind"), ())
    moved = [one for one in step.entries if one.name not in STEP_KEYS or one.name in own]
    for one in moved:
        step.take(one.name)
    tool = MapNode([kind, *moved], kind.key.start, kind.value.end)
    tool.changed = True
    place = step.position("next") if at is None else min(at, len(step.entries))
    step.put(entry("tool", tool, near=kind.key), at=place)


def _rename_kind(doc: Lowering, task: MapNode) -> None:
    found = task.entry("type")
    if found is not None and "kind" not in task and isinstance(found.value, Scalar):
        doc.report_older("type", "`type`", "`kind`", found.key)
        task.rename("type", "kind")


def _iterator(doc: Lowering, step: MapNode) -> None:
    """`kind: iterator` was a tool that loops; a loop belongs to the step."""
    tool = map_of(step, "tool")
    if tool is None or text_of(tool, "kind") not in ("iterator", "loop") or "loop" in step:
        return
    kind = tool.get("kind")
    assert kind is not None
    doc.report_older("iterator", "`iterator`", "`loop` on the step", kind)
    loop = MapNode([], kind.start, kind.end)
    loop.changed = True
    for name in ("collection", "in", "items", "element", "iterator", "mode", "until", "concurrency", "max_in_flight"):
        taken = tool.take(name)
        if taken is not None:
            loop.put(taken)
    step.put(entry("loop", loop, near=kind), at=step.position("tool"))
    body = tool.get("task") or tool.get("tool") or tool.get("tasks")
    holder = step.entry("tool")
    assert holder is not None
    rest = [one for one in tool.entries if one.name not in ("kind", "task", "tool", "tasks", "name")]
    if isinstance(body, MapNode):
        _lower_loop_task(doc, body)
    if isinstance(body, MapNode | ListNode):
        holder.value = body
        for one in rest:
            step.put(one, at=step.position("next")) if one.name not in step else doc.keep(step, one, "`iterator`")
    step.changed = True


def _lower_loop_task(doc: Lowering, body: MapNode) -> None:
    """The task of an `iterator`, whose kind stood under `type` or `tool`."""
    _rename_kind(doc, body)
    if isinstance(body.get("tool"), Scalar) and "kind" not in body:
        body.rename("tool", "kind")
    nested = map_of(body, "tool")
    if nested is not None and "kind" not in body:
        body.take("tool")
        for one in nested.entries:
            doc.keep(body, one, "`tool`")


def _step_args(doc: Lowering, step: MapNode) -> None:
    found = step.entry("args")
    if found is None:
        return
    doc.report_older("args", "`args`", "`input`", found.key, grade=V10)
    block = step.get("input")
    if isinstance(block, MapNode) and isinstance(found.value, MapNode):
        step.take("args")
        for one in found.value:
            doc.keep(block, one, "`args`")
    elif block is None or (isinstance(block, Scalar) and block.value is None):
        step.take("input")
        step.rename("args", "input")
    elif not isinstance(found.value, Scalar) or found.value.value is not None:
        doc.refuse("args", step, found, "make one `input` of this and of the `input` beside it")


def as_list(doc: Lowering, step: MapNode) -> ListNode | None:
    """`tool` as a list of named tasks, made into one if it is a single task."""
    holder = step.entry("tool")
    if holder is None:
        return None
    if isinstance(holder.value, ListNode):
        return holder.value
    if not isinstance(holder.value, MapNode):
        return None
    task = holder.value
    means = doc.name_means(task)
    named = task.get("name")
    if means is not None and means not in task and named is not None:
        # In the single shape the name was what is called; in a list it is the task's own.
        task.put(entry(means, make(text_of(task, "name"), near=named), near=named))
    if "name" not in task and (means is None or means in task):
        task.put(entry("name", make(text_of(step, "step") or "task_1", near=task), near=task), at=0)
    made = ListNode([task], task.start, task.end)
    made.changed = True
    holder.value = made
    step.changed = True
    return made


def lower_misplaced(doc: Lowering) -> None:
    """Move what stands beside `tool` by mistake."""
    for step in list(doc.steps()):
        _call(doc, step)
        _router(doc, step)
        _beside_tool(doc, step)


def _call(doc: Lowering, step: MapNode) -> None:
    """`call: {task, with}`: a task of the workbook."""
    found = step.entry("call")
    if found is None or "tool" in step or not isinstance(found.value, MapNode):
        return
    doc.report_older("habit", "`call`", "`tool: {kind: workbook}`", found.key)
    found.value.put(entry("kind", make("workbook", near=found.key), near=found.key), at=0)
    step.rename("call", "tool")


def _router(doc: Lowering, step: MapNode) -> None:
    """`tool: {kind: router}`: a step without a body."""
    tool = map_of(step, "tool")
    kind = text_of(tool, "kind")
    if tool is not None and len(tool.entries) == 1 and kind in _ROUTERS and kind not in doc.kinds:
        doc.report_older("habit", f"`kind: {kind}`", "a step without a tool", tool.entries[0].key)
        step.take("tool")


def _beside_tool(doc: Lowering, step: MapNode) -> None:
    """Configuration one level too shallow: beside `tool` in place of inside it."""
    tool = map_of(step, "tool")
    declared = doc.kinds.get(text_of(tool, "kind")) if tool is not None else None
    if tool is None or declared is None:
        return
    known = (set(declared.keys) | set(KEYS.get(declared.name, {})) | {"auth"}) - STEP_KEYS
    for one in step:
        if one.name in known and one.name not in tool:
            doc.report_older("habit", f"`{one.name}` beside `tool`", f"`tool.{one.name}`", one.key)
            step.take(one.name)
            tool.put(one)


# Loops: `collection`/`element`, `mode` and `until` beside them, loops inside of the tool.


_LOOP_KEYS = {
    "collection": "in",
    "items": "in",
    "over": "in",
    "element": "iterator",
    "item": "iterator",
    "as": "iterator",
}
_LOOP_SPEC_KEYS = {
    "until": "until",
    "mode": "mode",
    "max_in_flight": "max_in_flight",
    "concurrency": "max_in_flight",
    "max_concurrency": "max_in_flight",
    "complete_when": "complete_when",
}
_MODES = {"async": "parallel", "concurrent": "parallel", "sync": "sequential", "serial": "sequential"}


def lower_loops(doc: Lowering) -> None:
    """Bring every loop into `{in, iterator, spec}`."""
    for step in doc.steps():
        _out_of_the_tool(doc, step)
        loop = map_of(step, "loop")
        while loop is not None:
            _loop(doc, loop)
            loop = map_of(loop, "loop")


def _out_of_the_tool(doc: Lowering, step: MapNode) -> None:
    tool = map_of(step, "tool")
    for word in ("loop", "iterator"):
        found = tool.entry(word) if tool is not None else None
        if found is not None and tool is not None and isinstance(found.value, MapNode) and "loop" not in step:
            doc.report_older("habit", f"`{word}` inside of `tool`", "`loop` on the step", found.key)
            tool.take(word)
            step.put(entry("loop", found.value, near=found.key), at=step.position("tool"))


def _loop(doc: Lowering, loop: MapNode) -> None:
    for old, new in _LOOP_KEYS.items():
        found = loop.entry(old)
        if found is not None and new not in loop:
            doc.is_000 = doc.is_000 or old == "collection"
            slug = f"loop-{old}" if old in ("collection", "element") else "habit"
            doc.report_older(slug, f"`{old}` of a loop", f"`{new}`", found.key)
            loop.rename(old, new)
    _out_of_place(doc, loop)
    spread = loop.entry("distribution") or loop.entry("distributed")
    if spread is not None and isinstance(spread.value, Scalar) and isinstance(spread.value.value, bool):
        doc.report_older("habit", f"`{spread.name}` of a loop", "`spec.policy.exec`", spread.key)
        loop.take(spread.name)
        if spread.value.value:
            policy = ensure_map(ensure_map(loop, "spec", spread.key), "policy", spread.key)
            policy.put(entry("exec", make("distributed", near=spread.key), near=spread.key))
    _mode(doc, loop)


def _out_of_place(doc: Lowering, loop: MapNode) -> None:
    """What stands beside `in` and belongs under `spec`."""
    mode = text_of(loop, "mode") or text_of(map_of(loop, "spec"), "mode")
    parallel = _MODES.get(mode, mode) == "parallel"
    for old, new in _LOOP_SPEC_KEYS.items():
        found = loop.entry(old)
        if found is None:
            continue
        slug = f"loop-{old.replace('_', '-')}"
        if old == "until" and parallel:
            doc.report_older(slug, "`until` of a parallel loop, where it has no effect,", "nothing", found.key)
            loop.take(old)
            continue
        spec = ensure_map(loop, "spec", found.key)
        if new in spec:
            continue  # said twice: which of them counts is not ours to say
        doc.report_older(slug, f"`{old}` beside `in`", f"`spec.{new}`", found.key)
        loop.take(old)
        spec.put(MapEntry(found.key, found.value))
        spec.rename(old, new) if old != new else None


def _mode(doc: Lowering, loop: MapNode) -> None:
    spec = map_of(loop, "spec")
    mode = spec.get("mode") if spec is not None else None
    if isinstance(mode, Scalar) and mode.text in _MODES:
        doc.report_older("habit", f"`mode: {mode.text}`", f"`mode: {_MODES[mode.text]}`", mode)
        mode.rewrite(_MODES[mode.text])

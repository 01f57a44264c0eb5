"""Habits of playbooks in the wild: keys at the wrong level, names under other names, leftovers of other runtimes."""

from __future__ import annotations

from noetl.expr import has_template
from noetl.lang.grammar.document_shape import API_VERSION
from noetl.lang.legacy.expressions.name_rewrite import ChainRename, NameChain, names_in, rewrite
from noetl.lang.legacy.lowering import Lowering, ensure_map, quote_entries, strings, task_items
from noetl.lang.legacy.workflow.steps import STEP_KEYS
from noetl.lang.legacy.workflow.tools import KEYS
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Scalar, entry, make, map_of, plain_value, text_of

_METADATA = ("name", "path", "version", "description", "labels", "tags")
#: names that only a run knows; in a workload's default they are plain text
_OF_A_RUN = frozenset({"job", "env", "payload", "execution_id", "workload"})


def lower(doc: Lowering) -> None:
    """Mend what stands in the wrong place."""
    _root(doc)
    _workload(doc)
    for step in list(doc.steps()):
        _call(doc, step)
        _beside_tool(doc, step)
    for body, _called in doc.bodies():
        for _name, task in list(task_items(body)):
            _empty(doc, task)
            _libraries(doc, task)
            _pool(doc, task)
            _config_in_input(doc, task)


def _root(doc: Lowering) -> None:
    root = doc.root
    if "workflow" not in root:
        return
    if "apiVersion" not in root and (doc.accepted or doc.migrating) and text_of(root, "kind") == "Playbook":
        near = root.entries[0].key
        root.put(entry("apiVersion", make(API_VERSION, near=near), near=near), at=0)
    _metadata(doc)
    spec = root.entry("spec")
    if spec is not None and "workload" not in root and isinstance(spec.value, MapNode):
        doc.report_older("habit", "`spec` at the root", "`workload`", spec.key)
        root.rename("spec", "workload")
        for step in doc.steps():
            for node in strings(step, skip=frozenset({"code"})):
                node.rewrite(rewrite(node.text, _spec_to_workload))


def _metadata(doc: Lowering) -> None:
    """What the document is called, at its root."""
    root = doc.root
    for name in _METADATA:
        found = root.entry(name)
        if found is not None:
            doc.report_older("habit", f"`{name}` at the root", f"`metadata.{name}`", found.key)
            root.take(name)
            if map_of(root, "metadata") is None:
                root.take("metadata")
                made = make({}, near=found.key)
                root.put(entry("metadata", made, near=found.key), at=root.position("kind") + 1)
            metadata = ensure_map(root, "metadata", found.key)
            if name not in metadata:
                metadata.put(found)
            elif plain_value(metadata.get(name)) != plain_value(found.value):
                doc.todo(root.entry("metadata"), f"beside `metadata` stood {quote_entries([found])}", found.key)


def _spec_to_workload(chain: NameChain) -> ChainRename | None:
    return ChainRename(1, "workload") if chain.parts[0] == "spec" and len(chain.parts) > 1 else None


def _workload(doc: Lowering) -> None:
    """Defaults with templates were rendered once; they are data now."""
    workload = map_of(doc.root, "workload") if doc.migrating else None
    known = _OF_A_RUN | doc.workload_keys()
    for one in workload.entries if workload is not None else []:
        texts = [node.text for node in strings(one.value) if has_template(node.text)]
        if any((roots := names_in(text)) and roots <= known for text in texts):
            doc.todo(
                one,
                "a default is plain data: pass the value in the payload, or make it with `set` in a step",
                one.key,
            )


def _call(doc: Lowering, step: MapNode) -> None:
    """`call: {task, with}`: a task of the workbook."""
    found = step.entry("call")
    if found is None or "tool" in step or not isinstance(found.value, MapNode):
        return
    doc.report_older("habit", "`call`", "`tool: {kind: workbook}`", found.key)
    found.value.put(entry("kind", make("workbook", near=found.key), near=found.key), at=0)
    step.rename("call", "tool")


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


def _empty(doc: Lowering, task: MapNode) -> None:
    """`auth: {}`, `libs: {}`: nothing was said."""
    for word in ("auth", "libs"):
        found = task.entry(word)
        if found is not None and isinstance(found.value, MapNode | ListNode) and not _size(found):
            doc.report_older("habit", f"an empty `{word}`", "nothing", found.key)
            task.take(word)


def _size(found: MapEntry) -> int:
    return len(found.value.entries) if isinstance(found.value, MapNode) else len(getattr(found.value, "items", [1]))


def _libraries(doc: Lowering, task: MapNode) -> None:
    """`libs: {np: numpy}` imported for the code; the code imports for itself now."""
    found = task.entry("libs")
    code = task.get("code")
    if found is None or text_of(task, "kind") != "python":
        return
    if isinstance(found.value, MapNode) and isinstance(code, Scalar):
        lines = []
        for one in found.value.entries:
            module = one.value.text if isinstance(one.value, Scalar) else one.name
            lines.append(f"import {module}" if module == one.name else f"import {module} as {one.name}")
        doc.report_older("habit", "`libs`", "`import` in the code", found.key)
        code.rewrite("\n".join([*lines, code.text]))
        task.take("libs")
    elif isinstance(found.value, ListNode):
        names = ", ".join(item.text for item in found.value.items if isinstance(item, Scalar))
        doc.report_older("habit", "`libs`", "packages installed beside the worker", found.key)
        doc.todo(task.entry("code") or found, f"install these packages where the worker runs: {names}", found.key)
        task.take("libs")


def _pool(doc: Lowering, task: MapNode) -> None:
    found = task.entry("pool")
    if found is None or text_of(task, "kind") not in ("postgres", "http") or not isinstance(found.value, MapNode):
        return
    doc.report_older("habit", "`pool` of a tool", "`spec.pool_size`", found.key)
    size = found.value.take("max_size") or found.value.take("size")
    task.take("pool")
    if size is not None:
        ensure_map(task, "spec", found.key).put(entry("pool_size", size.value, near=found.key))
    if found.value.entries:
        doc.todo(
            task.entry("kind"), f"the pool of connections also said {quote_entries(found.value.entries)}", found.key
        )


def _config_in_input(doc: Lowering, task: MapNode) -> None:
    """`with: {commands: …}`: the tool's own keys among its arguments."""
    declared = doc.kinds.get(text_of(task, "kind"))
    word = "with" if map_of(task, "with") is not None else "args"
    block = map_of(task, word)
    if declared is None or block is None or declared.name not in ("duckdb", "postgres", "shell"):
        return
    known = (set(declared.keys) | set(KEYS.get(declared.name, {}))) - set(task_names(task))
    if not any(group_name in task for group in declared.one_of for group_name in group):
        for one in block:
            if one.name in known and one.name not in ("params", "env", "file"):
                doc.report_older("habit", f"`{one.name}` among the arguments", f"`{one.name}` beside `kind`", one.key)
                block.take(one.name)
                task.put(one)
        if block.changed and not block.entries:
            task.take(word)


def task_names(task: MapNode) -> list[str]:
    """The keys a task has."""
    return [one.name for one in task.entries]

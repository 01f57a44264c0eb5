"""Keys of the document around its steps: apiVersion, root `vars` and `spec`, workbook lists, executor and metadata."""

from __future__ import annotations

from noetl.lang.grammar.document_shape import API_VERSION, PLAYBOOK
from noetl.lang.grammar.foreign_keys import find_foreign
from noetl.lang.legacy.lowered_document import Lowering, ensure_map, quote_entries, strings
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.reading.node import (
    ListNode,
    MapEntry,
    MapNode,
    Node,
    Scalar,
    entry,
    list_of,
    make,
    map_of,
    plain_value,
    text_of,
)
from noetl.model.nearest import nearest
from noetl.model.shape import Record

#: keys of `executor.spec` of other runtimes, which say what is the case here anyway
_SAYS_NOTHING = frozenset({"entry_step", "final_step", "no_next_is_error", "entry"})
_OF_METADATA = ("name", "path", "version", "description", "labels", "tags")


def lower(doc: Lowering) -> None:
    """Bring everything but the steps into today's shape."""
    _version(doc)
    _vars(doc)
    _workbook(doc)
    _executor(doc)
    _metadata(doc)


def _version(doc: Lowering) -> None:
    node = doc.root.get("apiVersion")
    if isinstance(node, Scalar) and node.value in ("noetl.io/v1", "noetl.io/v10"):
        slug = "v1" if node.value == "noetl.io/v1" else "habit"
        doc.report_older(slug, f"`{node.value}`", f"`apiVersion: {API_VERSION}`", node)
        node.rewrite(API_VERSION)


def _vars(doc: Lowering) -> None:
    found = doc.root.entry("vars")
    if found is None or not isinstance(found.value, MapNode):
        return
    doc.report_older("vars", "root `vars`", "them under `workload`", found.key)
    workload = doc.root.get("workload")
    if workload is None or (isinstance(workload, Scalar) and workload.value is None):
        doc.root_vars = {one.name: one.name for one in found.value.entries}
        doc.root.take("workload")
        doc.root.rename("vars", "workload")
    elif isinstance(workload, MapNode):
        doc.root.take("vars")
        for one in found.value:
            doc.root_vars[one.name] = _into_workload(workload, one)


def _into_workload(workload: MapNode, one: MapEntry) -> str:
    """Add a variable to the workload; where that has another value by the same name, both keep a name of their own."""
    name = one.name
    while name in workload and plain_value(workload.get(name)) != plain_value(one.value):
        name = f"vars_{name}"
    if name not in workload:
        workload.put(one if name == one.name else entry(name, one.value, near=one.key))
    return name


def _workbook(doc: Lowering) -> None:
    """A list of `{name, tool}` is a map by name; a task inside `tool:` is the task itself."""
    found = doc.root.entry("workbook")
    if found is None:
        return
    if isinstance(found.value, ListNode):
        items = [(item, text_of(item, "name")) for item in found.value.items if isinstance(item, MapNode)]
        names = {name for _, name in items if name}
        if len(names) < len(found.value.items):
            doc.todo(found, "the workbook is a map by name: give each of its tasks a name of its own", found.key)
            return
        doc.report_older("habit", "a list under `workbook`", "a map by name", found.key)
        entries: list[MapEntry] = []
        for item, name in items:
            named = item.take("name")
            entries.append(entry(name, item, near=named.value if named is not None else item))
        block = MapNode(entries, found.value.start, found.value.end)
        block.changed = True
        found.value = block
        doc.root.changed = True
    if isinstance(found.value, MapNode):
        for one in found.value.entries:
            _unwrap(doc, found.value, one)


def _unwrap(doc: Lowering, workbook: MapNode, one: MapEntry) -> None:
    task = one.value
    if not isinstance(task, MapNode) or "kind" in task:
        return
    tool = task.get("tool")
    if isinstance(tool, Scalar):
        doc.report_older("habit", "`tool: <kind>`", "`kind`", tool)
        task.rename("tool", "kind")
    elif isinstance(tool, MapNode):
        doc.report_older("habit", "`tool` under a workbook task", "the task itself", tool)
        for other in task.entries:
            doc.keep(tool, other, "the workbook task") if other.name != "tool" else None
        one.value = tool
        workbook.changed = True
    elif isinstance(tool, ListNode) and len(task.entries) == 1:
        doc.report_older("habit", "`tool` under a workbook task", "the tasks themselves", tool)
        one.value = tool
        workbook.changed = True


def _executor(doc: Lowering) -> None:
    executor = map_of(doc.root, "executor")
    spec = map_of(executor, "spec")
    for name in sorted(_SAYS_NOTHING):
        found = spec.entry(name) if spec is not None else None
        if found is None or spec is None:
            continue
        otherwise = _otherwise(doc, name, found.value)
        if otherwise:
            doc.todo(found, otherwise, found.key)
            continue
        doc.report_older("habit", f"`executor.spec.{name}`", "nothing", found.key)
        spec.take(name)
    if spec is not None and not spec.entries and executor is not None and spec.changed:
        executor.take("spec")


def _otherwise(doc: Lowering, name: str, value: Node) -> str:
    """Where one of these keys asks for something else than what is the case: what to do; mostly nothing."""
    said = value.text if isinstance(value, Scalar) else ""
    if name in ("entry_step", "entry") and said and not _is_first(doc, said):
        return f"the first step is the one named `start`; rename `{said}`, or put it first"
    if name == "final_step" and said and said != "end" and "end" in _step_names(doc):
        return f"the output is that of the step `end`; rename `{said}` if it is to be its"
    if name == "no_next_is_error" and isinstance(value, Scalar) and value.value is True:
        return "a success that no arc matches ends its branch; add an arc that says `terminate: failed`"
    return ""


def _is_first(doc: Lowering, name: str) -> bool:
    names = _step_names(doc)
    return name == ("start" if "start" in names else names[0] if names else name)


def _step_names(doc: Lowering) -> list[str]:
    return [text_of(step, "step") or text_of(step, "name") for step in doc.steps()]


def _metadata(doc: Lowering) -> None:
    """What metadata does not know is a label."""
    metadata = map_of(doc.root, "metadata")
    shape = PLAYBOOK.keys["metadata"].shape
    if metadata is None or not isinstance(shape, Record):
        return
    labels = list_of(metadata, "labels")
    if labels is not None:
        doc.report_older("habit", "a list of `labels`", "`tags`", labels)
        tags = list_of(metadata, "tags")
        if tags is not None:
            metadata.take("tags")
            said = plain_value(labels)
            labels.items[:0] = [tag for tag in tags.items if plain_value(tag) not in said]
            labels.changed = True
        metadata.rename("labels", "tags") if "tags" not in metadata else None
    for one in metadata:
        if one.name in shape.keys or nearest(one.name, shape.keys) is not None:
            continue  # a misspelt key is for the checks to say
        if not doc.accepted and find_foreign("`metadata`", one.name) is not None:
            continue  # so is a word that asks for more than a label can do
        if one.name in ("title", "desc") and "description" not in metadata:
            doc.report_older("habit", f"`metadata.{one.name}`", "`description`", one.key)
            metadata.rename(one.name, "description")
            continue
        doc.report_older("habit", f"`metadata.{one.name}`", f"`labels: {{{one.name}: …}}`", one.key)
        metadata.take(one.name)
        doc.keep(ensure_map(metadata, "labels", one.key), one, "the metadata")


def lower_misplaced(doc: Lowering) -> None:
    """Move what stands at the root by mistake, once the steps have their shape."""
    _root(doc)


def _root(doc: Lowering) -> None:
    root = doc.root
    if "workflow" not in root:
        return
    if "apiVersion" not in root and (doc.accepted or doc.migrating) and text_of(root, "kind") == "Playbook":
        near = root.entries[0].key
        root.put(entry("apiVersion", make(API_VERSION, near=near), near=near), at=0)
    _root_metadata(doc)
    spec = root.entry("spec")
    if spec is not None and "workload" not in root and isinstance(spec.value, MapNode):
        doc.report_older("habit", "`spec` at the root", "`workload`", spec.key)
        root.rename("spec", "workload")
        for step in doc.steps():
            for node in strings(step, skip=frozenset({"code"})):
                node.rewrite(rewrite(node.text, _spec_to_workload))


def _root_metadata(doc: Lowering) -> None:
    """What the document is called, at its root."""
    root = doc.root
    for name in _OF_METADATA:
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

"""Templates among the workload's defaults: older engines rendered them once, at the start; today they are data.

A default that a payload may replace becomes null, and whoever reads it reads what the template made of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from noetl.expr import has_template
from noetl.lang.legacy.lowered_document import Lowering, strings, task_items
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, as_expression, names_in, rewrite
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, make, map_of, text_of

_CODE = frozenset({"code"})
#: names that only a run knows
_OF_A_RUN = frozenset({"job", "env", "payload", "execution_id", "workload", "context"})
#: functions that give something else at each call
_ONCE = frozenset({"now", "uuid"})
_IDS = frozenset({"uuid", "execution_id", "id"})
_DEEPEST = 5


@dataclass
class _Default:
    """A default with a template."""

    #: the key of the workload, for comments
    holder: MapEntry
    entry: MapEntry
    block: MapNode
    path: tuple[str, ...]
    expression: str


def lower(doc: Lowering) -> None:
    """Let the readers of such a default read what its template says."""
    workload = map_of(doc.root, "workload")
    if workload is None or not (doc.accepted or doc.migrating):
        return
    defaults: dict[tuple[str, ...], _Default] = {}
    for one in workload.entries:
        for found in _find(doc, workload, one, one, (one.name,)):
            defaults[found.path] = found
    if defaults:
        _Readers(doc, defaults).run()


def _find(doc: Lowering, block: MapNode, one: MapEntry, holder: MapEntry, path: tuple[str, ...]) -> Iterator[_Default]:
    if isinstance(one.value, MapNode):
        for inner in one.value.entries:
            yield from _find(doc, one.value, inner, holder, (*path, inner.name))
        return
    texts = [node.text for node in strings(one.value) if has_template(node.text)]
    roots = [names_in(text) for text in texts]
    if not any(found and found <= _OF_A_RUN | _ONCE | doc.workload_keys() for found in roots):
        return  # a text for something else to render
    whole = as_expression(one.value) if isinstance(one.value, Scalar) else None
    if whole is None or isinstance(one.value, ListNode) or roots[0] & _ONCE or not (doc.found_any or doc.accepted):
        _ask(doc, holder)
        return
    yield _Default(holder, one, block, path, whole)


def _ask(doc: Lowering, holder: MapEntry) -> None:
    if doc.migrating:
        said = "a default is plain data: pass the value in the payload, or make it with `set` in a step"
        doc.todo(holder, said, holder.key)


class _Readers:
    def __init__(self, doc: Lowering, defaults: dict[tuple[str, ...], _Default]) -> None:
        self.doc, self.defaults = doc, defaults
        self.keys = doc.workload_keys()
        #: those of which more is read than a path into them
        self.whole: set[tuple[str, ...]] = set()

    def run(self) -> None:
        nodes = [node for name in ("workflow", "workbook", "keychain") for node in self.texts(self.doc.root.get(name))]
        for node in nodes:
            self.look(node.text)
        self.look_into_code()
        for path in self.whole:
            _ask(self.doc, self.defaults.pop(path).holder)
        for node in nodes if self.defaults else ():
            node.rewrite(rewrite(node.text, self.rename))
        for one in self.defaults.values():
            said = f"the default `{'.'.join(one.path)}` with a template"
            self.doc.report_older("habit", said, "its expression where it is read", one.entry.key)
            one.entry.value = make(self.own_default(one), near=one.entry.value)
            one.block.changed = True

    def texts(self, node: Node | None) -> Iterator[Scalar]:
        return (one for one in strings(node, skip=_CODE) if has_template(one.text)) if node is not None else iter(())

    def look(self, text: str) -> None:
        """Note the defaults that a template reads as a part of something larger."""

        def note(chain: NameChain) -> None:
            if chain.parts[0] == "workload":
                path = chain.parts[1:]
                self.whole.update(one for one in self.defaults if len(path) < len(one) and one[: len(path)] == path)

        rewrite(text, note)

    def look_into_code(self) -> None:
        """Code that reads the workload, and not as an input."""
        for step in self.doc.steps():
            for _name, task in task_items(step):
                code = text_of(task, "code") if text_of(task, "kind") == "python" else ""
                if re.search(r"\bcontext\b.*\bworkload\b|\bworkload\b.*\bcontext\b", code) is not None:
                    self.whole.update(path for path in self.defaults if re.search(rf"\b{re.escape(path[0])}\b", code))

    def rename(self, chain: NameChain) -> ChainRename | None:
        if chain.parts[0] != "workload":
            return None
        path = next((one for one in self.defaults if chain.parts[1 : len(one) + 1] == one), None)
        if path is None:
            return None
        return ChainRename(len(path) + 1, f"({self.value(self.defaults[path])})")

    def value(self, one: _Default, depth: int = 0) -> str:
        """What a run makes of a default: what its payload says, else what the template says."""
        name = ".".join(["workload", *one.path])
        inner = self.canonical(one, depth)
        return name if inner in (name, "") else f"{name} if {name} is not none else {inner}"

    def canonical(self, one: _Default, depth: int) -> str:
        """The expression of a default in today's words."""

        def rename(chain: NameChain) -> ChainRename | None:
            root, after = (*chain.parts, "")[:2]
            if root == "job" and after in _IDS:
                return ChainRename(2, "execution_id")
            if root == "context" and after in ("workload", "execution_id"):
                return self.deeper(2, (after, *chain.parts[2:]), one, depth)
            if root == "env" and after:
                said = f"pass `{after}` in the payload; playbooks do not read the environment"
                self.doc.todo(one.holder, said, one.entry.key)
            if root in ("env", "payload", "workload") and after:
                return self.deeper(1, ("workload", *chain.parts[1:]), one, depth)
            return self.deeper(0, ("workload", *chain.parts), one, depth) if root in self.keys else None

        written = rewrite("{{ " + one.expression + " }}", rename)
        return written[3:-3]

    def deeper(self, taken: int, parts: tuple[str, ...], one: _Default, depth: int) -> ChainRename | None:
        """A key of the workload, which may have a template of its own."""
        path = next((other for other in self.defaults if parts[1 : len(other) + 1] == other), None)
        if parts[0] != "workload":
            return ChainRename(taken, parts[0])
        if path is None or path == one.path or depth > _DEEPEST:
            return ChainRename(max(taken, 1), ".".join(parts[: 1 if taken else 2]))
        consumed = len(path) + taken if taken else len(path)
        return ChainRename(consumed, f"({self.value(self.defaults[path], depth + 1)})")

    def own_default(self, one: _Default) -> object:
        """What stands in the workload: the default that `{{ payload.key | default(3) }}` names, or nothing."""
        found = re.fullmatch(
            r"(?:(?:payload|workload)\.)?(?P<key>\w+)\s*\|\s*default\(\s*(?P<value>'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?|true|false)\s*(?:,\s*true\s*)?\)",
            one.expression, re.IGNORECASE)  # fmt: skip
        if found is None or (found["key"],) != one.path:
            return None
        text = found["value"]
        if text[0] in "'\"":
            return text[1:-1]
        return (
            text.lower() == "true" if text.lower() in ("true", "false") else float(text) if "." in text else int(text)
        )

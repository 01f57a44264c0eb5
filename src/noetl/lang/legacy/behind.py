"""What stands behind a tool's sinks: `output` is theirs there, and what only the tool's own had is kept for it."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.lang.legacy.lowering import V10, Lowering, add_set, strings
from noetl.lang.legacy.rename import Chain, Renamed, rewrite
from noetl.lang.legacy.scene import HTTP
from noetl.lang.node import MapNode, Node, Scalar, map_of, text_of

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

    def _chain(self, chain: Chain, node: Scalar, *, ended: bool) -> Renamed | None:
        root, parts = chain.parts[0], chain.parts
        after = parts[1] if len(parts) > 1 else ""
        if root in _OUTPUT and after in _HELPERS:
            self._told(root, node)
            return Renamed(2, self._kept(after, ended=ended))
        if self.kind != "http":
            return None
        # Who renames the rest sees a transfer here, and not the request.
        if root == "outcome" and after in ("result", "response") and len(parts) > 2:
            if parts[2] in HTTP:
                self._told(root, node)
                return Renamed(3, f"{self._kept('http', ended=ended)}.{HTTP[parts[2]]}")
            if parts[2] == "data":
                self._told(root, node)
                return Renamed(3, "output.data")
        if root in ("this", "response") and after in HTTP and not set(chain.compared) & _STATUS:
            self._told(root, node)
            return Renamed(2, f"{self._kept('http', ended=ended)}.{HTTP[after]}")
        if root == "result" and after == "data" and ended:
            self._told(root, node)
            return Renamed(2, "output.data")
        return None

    def _told(self, root: str, node: Scalar) -> None:
        if root == "outcome":
            self.doc.found("outcome", "`outcome`", "`output`", node, grade=V10)
        elif root != "output":
            self.doc.found("habit", f"`{root}`", "`output`", node)

    def _kept(self, part: str, *, ended: bool) -> str:
        kept = f"step.{self.name}_{part}"
        add_set(self.task, kept, "{{ output." + part + " }}", self.task.entries[0].key)
        return f"({kept} | default(output.{part}))" if ended else kept

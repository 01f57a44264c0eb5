"""The scan that every document gets: whether any part of it may be of an older dialect.

The scan may suspect a canonical document but never misses an older one: `lower` neither changes nor reports anything in
a document that passes. It suspects keys that the grammar does not have at their place, canonical keys with older
values, and templates that read names which are not scopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl.expr import PathRead, has_template, template
from noetl.lang.grammar.document_shape import API_VERSION, PLAYBOOK, SHAPES, SUGAR, TASK_KEYS
from noetl.lang.grammar.spec_shape import CREDENTIAL, CREDENTIAL_KINDS
from noetl.lang.reading.node import ListNode, MapNode, Node, NodeBase, Scalar, map_of, text_of
from noetl.model.kinds import ToolKind
from noetl.model.shape import Record, Shape, Word

#: names that templates read today
SCOPES = frozenset(
    {"workload", "keychain", "ctx", "step", "iter", "input", "output", "event", "steps", "execution_id", "_prev", "_task",
     "_attempt", "task_key", "row", "chunk", "now", "uuid", "range", "dict", "namespace", "loop", "true", "false", "none",
     "done", "ok", "fail", "running", "loop_done", "all_done", "any_done", "quiet", "cycler", "joiner", "lipsum"}
)  # fmt: skip
#: keys of a step or task whose text is never a template
LITERAL = frozenset({"code", "desc", "description"})
#: events by older names
EVENTS = {
    "call.done": "step.done",
    "call.error": "step.failed",
    "call.failed": "step.failed",
    "step.error": "step.failed",
}
#: what other runtimes wrap a response in
ENVELOPE = frozenset({"data", "body", "status_code"})
#: values of a credential's `scope` that name a cache of an older runtime
KEPT_FOR = frozenset({"global", "local", "shared", "catalog", "execution"})
#: keys of a credential that are an older name for another key, except in a credential of this kind
OWN_KEYS = {"user": "postgres_credential", "endpoint": "s3_credential"}

#: keys of older tasks that are read as such even if the kind of the task declares them
_OLD_KEYS = frozenset(
    {"description", "args", "with", "arguments", "inputs", "parameters", "retry", "credential", "credentials", "policy",
     "rules", "result", "sink", "save", "eval", "loop", "iterator", "libs", "set_ctx", "set_iter", "set_vars", "set_shared"}
)  # fmt: skip
#: kinds of older tasks that are read as such even if a tool declares them
_OLD_KINDS = frozenset({"iterator", "loop", "sink", "save"})
#: keys of the two ends of an older transfer
_OLD_ENDS = frozenset({"type", "endpoint", "chunk", "credential", "credentials"})


def _keys(shape: Shape, *path: str) -> Mapping[str, Shape]:
    """The keys of a record, or of one further down, with their shapes."""
    for name in path:
        assert isinstance(shape, Record)
        shape = shape.keys[name].shape
    assert isinstance(shape, Record)
    return {name: key.shape for name, key in shape.keys.items()}


_ROOT, _METADATA = _keys(PLAYBOOK), _keys(PLAYBOOK, "metadata")
_EXECUTOR_SPEC = _keys(PLAYBOOK, "executor", "spec")
_CREDENTIAL = _keys(CREDENTIAL)
_STEP, _STEP_SPEC = _keys(SHAPES["Step"]), _keys(SHAPES["Step"], "spec")
_LOOP, _LOOP_SPEC = _keys(SHAPES["Loop"]), _keys(SHAPES["Loop"], "spec")
_NEXT = _keys(SHAPES["Step"], "next")
_ARC = _keys(SHAPES["Arc"]).keys() - {"args"}
_TASK_SPEC = _keys(TASK_KEYS["spec"].shape)
_RULE, _ELSE, _THEN = _keys(SHAPES["Rule"]), _keys(SHAPES["Rule"], "else"), _keys(SHAPES["Then"])
_MODE = _LOOP_SPEC["mode"]
assert isinstance(_MODE, Word)
_MODES = ("", *_MODE.words)


def scan(root: MapNode, kinds: Mapping[str, ToolKind]) -> tuple[NodeBase, ...]:
    """Return the nodes that may be of an older dialect; a canonical document has none."""
    return _Scan(root, kinds).run()


def is_envelope(reads: Iterable[PathRead]) -> bool:
    """Whether a template reads what other runtimes wrap a response in."""
    return any(read.path[:2] == ("output", "data") and read.path[2:3] and read.path[2] in ENVELOPE for read in reads)


class _Scan:
    """One walk over one document."""

    def __init__(self, root: MapNode, kinds: Mapping[str, ToolKind]) -> None:
        self.root = root
        self.kinds = kinds
        self.found: list[NodeBase] = []
        self.steps = [step for step in _items(root.get("workflow")) if isinstance(step, MapNode)]
        self.step_names = {text_of(step, "step") for step in self.steps}
        #: by kind, the keys that its tasks have today
        self.task_keys: dict[str, frozenset[str]] = {}
        #: bare names of older templates: elements of loops and inputs of workbook tasks
        self.local_names: set[str] = set()
        #: templates that are older if they read one of these names, with all names they read
        self.unclear: list[tuple[Scalar, set[str]]] = []

    def run(self) -> tuple[NodeBase, ...]:
        self.document()
        for step in self.steps:
            self.step(step)
        self.found += [node for node, roots in self.unclear if roots & self.local_names]
        return tuple(self.found)

    def keys(self, node: Node | None, known: Iterable[str]) -> None:
        """Suspect the keys of a map that are not known."""
        for one in node.entries if isinstance(node, MapNode) else ():
            if one.name not in known:
                self.found.append(one.key)

    def suspect(self, node: Node | None, *types: type[NodeBase]) -> None:
        """Suspect a node that is of one of these types."""
        if isinstance(node, types):
            self.found.append(node)

    # --- around the steps --------------------------------------------------------------------------------------

    def document(self) -> None:
        root = self.root
        self.found += [one.key for one in root.entries if one.name not in _ROOT and not one.name.startswith("x-")]
        if text_of(root, "apiVersion") != API_VERSION:
            self.found.append(root)
        metadata = map_of(root, "metadata")
        self.keys(metadata, _METADATA)
        self.suspect(metadata.get("labels") if metadata is not None else None, ListNode)
        self.keys(map_of(map_of(root, "executor"), "spec"), _EXECUTOR_SPEC)
        keychain, workbook = root.get("keychain"), root.get("workbook")
        self.suspect(keychain, MapNode)
        self.templates(keychain) if keychain is not None else None
        for item in _items(keychain):
            self.credential(item)
        self.suspect(workbook, ListNode)
        for one in workbook.entries if isinstance(workbook, MapNode) else ():
            self.tool(one.value)

    def credential(self, item: Node) -> None:
        self.keys(item, _CREDENTIAL)
        if not isinstance(item, MapNode):
            return
        kind = text_of(item, "kind")
        elsewhere = any(key in item and kind != own for key, own in OWN_KEYS.items())
        if kind not in CREDENTIAL_KINDS or text_of(item, "scope") in KEPT_FOR or elsewhere:
            self.found.append(item)

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self, step: MapNode) -> None:
        self.keys(step, _STEP)
        for one in step.entries:
            if one.name == "tool":
                self.tool(one.value)
            elif one.name not in LITERAL:
                self.templates(one.value)
        self.keys(step.get("spec"), _STEP_SPEC)
        self.suspect(step.get("set"), ListNode)
        self.loop(step.get("loop"))
        self.routing(step.get("next"))

    def loop(self, loop: Node | None) -> None:
        while isinstance(loop, MapNode):
            self.keys(loop, _LOOP)
            self.local_names.add(text_of(loop, "iterator"))
            if text_of(map_of(loop, "spec"), "mode") not in _MODES:
                self.found.append(loop)
            loop = loop.get("loop")

    def routing(self, router: Node | None) -> None:
        self.suspect(router, ListNode, Scalar)
        self.keys(router, _NEXT)
        for arc in _items(router.get("arcs")) if isinstance(router, MapNode) else ():
            if isinstance(arc, MapNode):
                self.keys(arc, _ARC)
                self.suspect(arc.get("set"), ListNode)
                when = text_of(arc, "when")
                if "{{" in when and not when.rstrip().endswith("}}"):
                    self.found.append(arc)  # a template compared with text

    # --- tasks -------------------------------------------------------------------------------------------------

    def tool(self, node: Node) -> None:
        """Scan one task, or a list of tasks."""
        if isinstance(node, MapNode):
            self.task(node)
        elif isinstance(node, ListNode):
            self.items(node)
        elif node.value is not None:
            self.found.append(node)

    def items(self, node: Node | None) -> None:
        """Scan the tasks of a list, those under labels and inside sugar included."""
        for item in _items(node):
            if not isinstance(item, MapNode):
                continue
            sugar = next((one for one in item.entries if one.name in SUGAR), None)
            if "kind" not in item and sugar is not None:
                self.keys(item, (sugar.name, "name", "desc"))
                self.sugar(sugar.name, sugar.value)
                self.templates(item)
            elif "kind" in item or len(item.entries) != 1:
                self.task(item, listed=True)
            elif isinstance(item.entries[0].value, MapNode):
                self.task(item.entries[0].value, listed=True)
            else:
                self.found.append(item)

    def sugar(self, name: str, node: Node) -> None:
        """Scan the tasks of `choose`, `while` and `until`."""
        if isinstance(node, MapNode) and (name == "choose" or "kind" in node):
            self.found.append(node)  # a task by that name
        for block in (node, *_items(node)):
            if isinstance(block, MapNode):
                for word in ("do", "then", "else"):
                    self.items(block.get(word))

    def task(self, task: MapNode, *, listed: bool = False) -> None:
        name = text_of(task, "kind")
        kind = self.kinds.get(name)
        if kind is None or name in _OLD_KINDS:
            self.found.append(task)
            return
        known = self.task_keys.get(name)
        if known is None:
            known = self.task_keys[name] = frozenset({*TASK_KEYS, *kind.keys}) - _OLD_KEYS
        self.keys(task, known)
        for one in task.entries:
            if one.name not in LITERAL:
                self.templates(one.value)
        self.suspect(task.get("auth"), MapNode, ListNode)
        self.suspect(task.get("set"), ListNode)
        self.rules(map_of(task, "spec"))
        if listed and kind.name_means is not None and "name" in task and kind.name_means not in task:
            self.found.append(task)
        self.of_kind(task, name)

    def of_kind(self, task: MapNode, kind: str) -> None:
        """Scan what is particular to tasks of one kind."""
        if kind in ("postgres", "duckdb"):
            self.suspect(task.get("command"), ListNode)
            self.suspect(task.get("query"), ListNode)
        elif kind == "transfer":
            source = map_of(task, "source")
            self.suspect(source.get("auth") if source is not None else None, MapNode, ListNode)
            self.found += [one.key for one in source.entries if one.name in _OLD_ENDS] if source is not None else []
        elif kind == "workbook":
            given = map_of(task, "input")
            self.local_names.update(one.name for one in given.entries) if given is not None else None

    def rules(self, spec: MapNode | None) -> None:
        """Scan the rules of a task's policy."""
        self.keys(spec, _TASK_SPEC)
        policy = map_of(spec, "policy")
        for rule in _items(policy.get("rules")) if policy is not None else ():
            if not isinstance(rule, MapNode):
                continue
            self.keys(rule, _RULE)
            otherwise = rule.get("else")
            if otherwise is not None and len(rule.entries) > 1:
                self.found.append(rule)
            self.keys(otherwise, _ELSE)
            for holder in (rule, otherwise):
                then = holder.get("then") if isinstance(holder, MapNode) else None
                self.suspect(then, ListNode)
                self.keys(then, _THEN)
                self.suspect(then.get("set") if isinstance(then, MapNode) else None, ListNode)

    # --- templates ---------------------------------------------------------------------------------------------

    def templates(self, node: Node) -> None:
        """Scan the templates of a node and of everything below it."""
        if isinstance(node, Scalar):
            if isinstance(node.value, str) and "{" in node.value and has_template(node.value):
                self.template(node)
        elif isinstance(node, MapNode):
            for one in node.entries:
                if one.name not in LITERAL or "kind" not in node:
                    self.templates(one.value)
        else:
            for item in node.items:
                self.templates(item)

    def template(self, node: Scalar) -> None:
        facts = template(node.text).facts
        roots = {read.path[0] for read in facts.reads} | {call.name for call in facts.calls}
        broken = bool(facts.problems) and any(problem.code == "template-syntax" for problem in facts.problems)
        if broken or roots - SCOPES or self.is_older(node.text, roots, facts.reads):
            self.found.append(node)
        elif "iter" in roots or is_envelope(facts.reads) or "success" in node.text or self.reads_step(facts.reads):
            self.unclear.append((node, roots))

    def is_older(self, text: str, roots: set[str], reads: tuple[PathRead, ...]) -> bool:
        """Whether a template that reads only scopes may still be an older one."""
        if "event" in roots and any(word in text for word in (*EVENTS, "step.exit")):
            return True
        if "success" in text and any(read.path[:2] == ("output", "status") for read in reads):
            return True
        return "status" in text and self.reads_step(reads)

    def reads_step(self, reads: tuple[PathRead, ...]) -> bool:
        """Whether a template reads `step.<name>` with the name of a step."""
        return any(read.path[0] == "step" and read.path[1:2] and read.path[1] in self.step_names for read in reads)


def _items(node: Node | None) -> list[Node]:
    return node.items if isinstance(node, ListNode) else []

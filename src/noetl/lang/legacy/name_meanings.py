"""What a name in a template of an older document stands for: by its place, and by the words of older runtimes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from noetl.lang.legacy.lowered_document import V10, Lowering, task_items
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain
from noetl.lang.legacy.scanner import ENVELOPE, EVENTS
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, map_of, text_of

HTTP = {"status": "status", "status_code": "status", "headers": "headers"}


@dataclass
class NameContext:
    """Where a template stands."""

    step: MapNode | None = None
    step_name: str = ""
    kind: str = ""
    #: names of loop elements, from the inside out
    elements: tuple[str, ...] = ()
    #: earlier tasks of the pipeline by name
    earlier: dict[str, MapNode] = field(default_factory=dict)
    in_loop: bool = False
    #: before the step has an `input`, or after its loop, which has none
    before: bool = False
    #: the step has ended: its own name means its output
    ended: bool = False
    #: inside of a task's rules, `output` or `set`: the task has ended
    after_task: bool = False
    #: names the caller gives a workbook task
    given: frozenset[str] = frozenset()
    #: keys of the `input` that stands beside the template
    inputs: frozenset[str] = frozenset()
    #: in a workbook task that nothing calls: whatever it reads it would be given
    is_uncalled: bool = False
    holder: MapEntry | None = None


def publisher(step: MapNode, task: MapNode) -> MapNode:
    """Who writes the result of a task for later steps: its step, where that has the same output, else the task itself."""
    behind = [one for _, one in task_items(step)]
    while behind and behind[0] is not task:
        behind.pop(0)
    same = all(text_of(one, "output") == "{{ _prev }}" for one in behind[1:])
    return step if same or map_of(step, "loop") is not None else task


def of_output(chain: NameChain, kind: str) -> ChainRename:
    """`this`, `result` and `response` after a task: its output."""
    after = chain.parts[1] if len(chain.parts) > 1 else ""
    if chain.called and len(chain.parts) == 2:
        return ChainRename(1, "output.data")
    if after == "status" and set(chain.compared) & {"error", "ok", "success", "failed"}:
        return ChainRename(2, "output.status", compared={"success": "ok", "failed": "error"})
    if after == "error":
        return ChainRename(2, "output.error")
    if kind == "http" and after in HTTP and chain.parts[0] != "result":
        return ChainRename(2, f"output.http.{HTTP[after]}")
    if chain.parts[0] in ("this", "response") and after in ("data", "body"):
        return ChainRename(2, "output.data")
    if chain.parts[0] == "result" and after == "data" and kind == "http":
        return ChainRename(2, "output.data")
    return ChainRename(1, "output.data")


def elements_of(step: MapNode) -> tuple[str, ...]:
    """The iterators of a step's loops, the innermost first."""
    names: list[str] = []
    loop = map_of(step, "loop")
    while loop is not None:
        names.insert(0, text_of(loop, "iterator"))
        loop = map_of(loop, "loop")
    return tuple(name for name in names if name)


def writes(step: MapNode | None, target: str) -> bool:
    """Whether anything in a step writes a target."""
    scope, _, rest = target.partition(".")
    for block in _blocks(step):
        nested = map_of(block, scope)
        if target in block or (nested is not None and rest in nested):
            return True
    return False


def targets(step: MapNode) -> set[str]:
    """Every target that anything in a step writes; where `set` is nested, those one level down."""
    found: set[str] = set()
    for block in _blocks(step):
        for one in block.entries:
            found.add(one.name)
            inner = one.value.entries if isinstance(one.value, MapNode) else []
            found.update(f"{one.name}.{other.name}" for other in inner)
    return found


def writes_scope(step: MapNode, scope: str) -> bool:
    """Whether anything in a step writes into a scope."""
    return any(one.name.partition(".")[0] == scope for block in _blocks(step) for one in block.entries)


def _blocks(step: MapNode | None) -> Iterator[MapNode]:
    """Every `set` below a step."""
    waiting: list[Node] = [step] if step is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, MapNode):
            block = node.get("set")
            if isinstance(block, MapNode):
                yield block
            waiting.extend(one.value for one in node.entries)
        elif isinstance(node, ListNode):
            waiting.extend(node.items)


def keys_of(node: Node | None) -> frozenset[str]:
    """The keys of a map."""
    return frozenset(one.name for one in node.entries) if isinstance(node, MapNode) else frozenset()


def declares(step: MapNode, name: str) -> bool:
    """Whether a step has an input of that name."""
    block = map_of(step, "input")
    return block is not None and name in block


def caller_inputs(doc: Lowering) -> dict[str, set[str]]:
    """By name of a workbook task, the inputs that its callers give it."""
    names: dict[str, set[str]] = {}
    for step in doc.steps():
        for _name, call in task_items(step):
            block = map_of(call, "input")
            if text_of(call, "kind") == "workbook":
                task = text_of(call, "task") or text_of(call, "name")
                given = names.setdefault(task, set())
                given.update(one.name for one in block.entries) if block is not None else None
    return names


def sugar_conditions(node: Node | None) -> Iterator[Node]:
    """The `when` of every `choose`, `while` and `until` below a `tool`."""
    if isinstance(node, ListNode):
        for item in node.items:
            yield from sugar_conditions(item)
    elif isinstance(node, MapNode) and "kind" not in node:
        when = node.get("when")
        if when is not None:
            yield when
        for one in node.entries:
            if one.name in ("choose", "while", "until", "do", "then", "else"):
                yield from sugar_conditions(one.value)


# Words of older runtimes inside templates: `outcome` and its parts, events by other names, secrets, `null`.


#: what shows that a condition on `step.exit` is about one of its two ends
_SUCCEEDED = re.compile(
    r"\bnot\s+(?:event\.|output\.)?error\b|\berror\s+is\s+(?:not\s+defined|undefined|none)\b|\berror\s*==\s*none\b"
    r"|\b(?:response|result)\b(?!\s+is\s+(?:not\s+defined|undefined|none))|status\s*==\s*'(?:ok|success)'", re.IGNORECASE)  # fmt: skip
#: kinds of steps that have one end only
_NEVER_FAIL = ("", "noop")
_FAILED = re.compile(r"\berror\b", re.IGNORECASE)


def rename_null(doc: Lowering, _chain: NameChain, _scene: NameContext, node: Scalar) -> ChainRename:
    """YAML's word for nothing is not Jinja2's."""
    doc.report_older("habit", "`null` in a template", "`none`", node)
    return ChainRename(1, "none")


def rename_outcome(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename:
    """`outcome` of v10, whose `result` is the data and, for http, the whole response."""
    doc.report_older("outcome", "`outcome`", "`output`", node, grade=V10)
    parts = chain.parts
    after = parts[1] if len(parts) > 1 else ""
    if after in ("result", "response"):
        if scene.kind == "http" and len(parts) > 2 and parts[2] in ("data", *HTTP):
            return ChainRename(3, "output.data" if parts[2] == "data" else f"output.http.{HTTP[parts[2]]}")
        return ChainRename(2, "output.data")
    if after in ("result_ref", "ref"):
        if after == "result_ref":
            doc.report_older("result-ref", "`result_ref`", "`output.ref`", node)
        return ChainRename(2, "output.ref")
    return _success(doc, chain, scene, node) or ChainRename(1, "output")


def _success(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
    """A status that is compared with `'success'`, in whatever way."""
    if chain.parts[1:2] != ("status",) or "success" not in node.text:
        return None
    if "success" in chain.compared:
        doc.report_older("outcome-success", "the status `'success'`", "`'ok'`", node)
        return ChainRename(1, "output", compared={"success": "ok"})
    if not chain.compared:
        doc.unsure.append((scene.holder, "a status is `ok` or `error`, and never `success`", node))
    return None


def rename_event(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
    """Events that other runtimes sent."""
    words = {word: EVENTS[word] for word in chain.compared if word in EVENTS}
    if chain.parts[1:2] not in (("name",), ("type",)):
        return None
    if "step.exit" in chain.compared:
        words["step.exit"] = _exit(doc, scene, node)
    for old, new in words.items():
        doc.report_older("habit", f"the event `{old}`", f"`{new}`", node)
    return ChainRename(2, "event.name", compared=words) if words else None


def _exit(doc: Lowering, scene: NameContext, node: Scalar) -> str:
    """`step.exit` came after success and failure alike; which of them was meant, the rest of the condition says."""
    if _SUCCEEDED.search(node.text):
        return "step.done"
    if _FAILED.search(node.text):
        return "step.failed"
    if scene.kind not in _NEVER_FAIL:
        said = "`step.exit` came after failures too: if they are meant, `event.name in ['step.done', 'step.failed']`"
        doc.todo(scene.holder, said, node)
    return "step.done"


def rename_output(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
    """What can mean the envelope of another runtime, or the body itself."""
    if chain.parts[1:2] == ("status",):
        return _success(doc, chain, scene, node)
    if scene.kind != "http" or chain.parts[1:2] != ("data",) or len(chain.parts) < 3:
        return None
    if chain.parts[2] in ENVELOPE:
        name = ".".join(chain.parts[:3])
        said = f"`{name}`: `output.data` is the body itself, and its status is `output.http.status`"
        doc.unsure.append((scene.holder, said, node))
    return None


def rename_keychain(doc: Lowering, chain: NameChain, _scene: NameContext, node: Scalar) -> ChainRename | None:
    """The one secret of an entry, which `map` had given a name."""
    name, field = (*chain.parts[1:3], "", "")[:2]
    if not field or doc.secret_fields.get(name) != field:
        return None
    doc.report_older("habit", f"`keychain.{name}.{field}`", f"`keychain.{name}.value`", node)
    return ChainRename(3, f"keychain.{name}.value")

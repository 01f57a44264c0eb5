"""Names that the document defines: the one place that decides whether a name in a template is the document's own.

A loop element, an input of a workbook task, a result, a step and a key of the workload go before every habit and every
scope, wherever they are in scope. `mark` runs before the other passes and gives each such name a prefix, so that no
pass takes it for a word of its own; the pass over names resolves them, and `unmark` restores what is left.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from noetl.expr import has_template
from noetl.lang.legacy.lowered_document import MARK, Lowering, strings
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.legacy.scanner import SCOPES
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, map_of, text_of, walk_nodes

#: words that some pass gives a meaning of its own, beside the scopes
_WORDS = frozenset(
    {"job", "env", "payload", "error", "_err", "args", "loop_index", "_loop_index", "this", "result", "response", "out",
     "data", "rows", "tool_result", "outcome", "context", "vars", "spec", "params", "status_code", "null", "token"}
)  # fmt: skip
_CONSTANTS = frozenset({"true", "false", "none"})
RESERVED = (SCOPES | _WORDS) - _CONSTANTS
#: words that a rule has for the output of its own task
_OF_A_RULE = frozenset({"error", "_err", "this", "result", "response", "outcome", "output"})

#: by scope, the keys that the engine itself gives it
_KEYS: Mapping[str, frozenset[str]] = {
    "output": frozenset({"status", "data", "ref", "error", "meta", "http", "pg", "py", "loop"}),
    "event": frozenset({"name", "type", "status", "step", "error", "output"}),
    "iter": frozenset({"index", "parent"}),
    "chunk": frozenset({"index", "size", "first", "last", "data", "total"}),
    "loop": frozenset({"total", "completed", "succeeded", "failed"}),
}
#: scopes that no document ever defines otherwise: whatever is read of them
_ALWAYS = frozenset({"keychain", "execution_id", "_prev", "_task", "_attempt", "task_key"})
#: sections of a step in which its own end is known
_ROUTING, _ADMISSION, _LOOP, _BODY, _RULE, _ROWS = "routing", "admission", "loop", "body", "rule", "rows"
_SECTIONS = {"next": _ROUTING, "case": _ROUTING, "set": _ROUTING, "when": _ADMISSION, "spec": _ADMISSION, "loop": _LOOP}
_EVERY_SECTION = frozenset({_ROUTING, _ADMISSION, _LOOP, _BODY, _RULE, _ROWS})
#: scopes that exist in some sections only
_SECTIONS_OF = {
    "event": frozenset({_ROUTING, _ADMISSION}),
    "output": _EVERY_SECTION - {_ADMISSION},
    "row": frozenset({_ROWS}),
    "chunk": frozenset({_ROWS}),
    "loop": frozenset({_LOOP}),
}
#: scopes that templates also read as a whole
_READ_WHOLE = frozenset({"workload", "output", "input", "row", "chunk"})
#: keys of a task that are read when it has ended
_AFTER = frozenset({"eval", "spec", "rules", "policy", "set", "output", "retry"})
_ROW_KEYS = frozenset({"sink", "sinks", "save", "target", "targets"})
#: what shows that a map is a task, whose `code` is no template
_TASK = ("kind", "type", "tool", "libs", "uri")
_OVER, _ELEMENT = ("in", "collection", "items", "over"), ("iterator", "element", "item", "as")
_WRITES = {"set_ctx": "ctx", "set_shared": "ctx", "set_iter": "iter", "set_vars": "step"}
_INPUTS = ("input", "args", "with", "data")


@dataclass(frozen=True)
class TemplatePlace:
    """Where a template stands in the older document."""

    step: str = ""
    section: str = _BODY
    elements: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()


def mark(doc: Lowering, *, older: bool) -> None:
    """Mark every name that is the document's own; `older` says that the document has older constructs."""
    names = DefinedNames(doc, older=older)
    if names.reserved:
        names.mark()


def unmark(doc: Lowering) -> None:
    """Give the names that no pass has resolved their own spelling back."""
    if not doc.marked:
        return
    for node in strings(doc.root):
        if MARK in node.text:
            node.rewrite(node.text.replace(MARK, ""))
    for node, text in doc.marked:
        node.changed = node.changed and node.text != text


class DefinedNames:
    """What a document defines, and whether a name in one of its templates is that."""

    def __init__(self, doc: Lowering, *, older: bool) -> None:
        self.doc = doc
        self.older = older
        self.steps = {text_of(step, "step") or text_of(step, "name"): step for step in doc.steps()}
        self.workload = self._workload()
        self.results = {name: step for step in doc.steps() for name in _results(step)}
        self._followers: dict[str, set[str]] = {}
        self.reserved = (
            RESERVED & ({*self.steps, *self.workload, *self.results} | _elements(doc.root) | _given(doc.root))
        ) - _ALWAYS

    def _workload(self) -> dict[str, Node]:
        blocks = [map_of(self.doc.root, word) for word in ("vars", "workload")]
        return {one.name: one.value for block in blocks if block is not None for one in block.entries}

    # --- the walk ----------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """Mark the names in all templates."""
        self.written = _targets(self.doc.root)
        for name, step in self.steps.items():
            place = TemplatePlace(name, elements=_elements(step), inputs=_inputs(step))
            for one in step.entries:
                section = _SECTIONS.get(one.name, _BODY)
                outside = section in (_ROUTING, _ADMISSION)
                self._below(one.name, one.value, replace(place, section=section,
                            elements=frozenset() if outside else place.elements), step)  # fmt: skip
        for word in ("workbook", "keychain"):
            block = self.doc.root.get(word)
            if block is not None:
                self._below(
                    word, block, TemplatePlace(given=_given(self.doc.root) if word == "workbook" else frozenset())
                )

    def _below(self, key: str, node: Node, place: TemplatePlace, holder: MapNode | None = None) -> None:
        if isinstance(node, Scalar):
            is_code = key == "code" and holder is not None and any(word in holder for word in _TASK)
            if isinstance(node.value, str) and not is_code and "{" in node.text and has_template(node.text):
                self._template(node, place)
        elif isinstance(node, ListNode):
            for item in node.items:
                self._below(key, item, place, holder)
        else:
            for one in node.entries:
                self._below(one.name, one.value, _narrow(place, one.name, node), node)

    def _template(self, node: Scalar, place: TemplatePlace) -> None:
        before = node.text
        node.rewrite(rewrite(before, lambda chain: self._prefix(chain, place)))
        if node.text != before:
            self.doc.marked.append((node, before))

    def _prefix(self, chain: NameChain, place: TemplatePlace) -> ChainRename | None:
        return ChainRename(1, MARK + chain.parts[0]) if self.is_own(chain, place) else None

    # --- the decision ------------------------------------------------------------------------------------------

    def is_own(self, chain: NameChain, place: TemplatePlace) -> bool:
        """Whether a name is the document's own here."""
        root = chain.parts[0]
        if root not in self.reserved or (chain.called and len(chain.parts) == 1) or not self._in_scope(root, place):
            return False
        attribute = chain.parts[1] if len(chain.parts) > 1 and not (chain.called and len(chain.parts) == 2) else ""
        shows = self._shows(root, attribute, place)
        if root in SCOPES and self._reads_scope(root, attribute, place):
            return self.older and shows is not False
        return shows is not False or isinstance(self.workload.get(root), MapNode)

    def _in_scope(self, root: str, place: TemplatePlace) -> bool:
        if root in place.elements or root in place.given:
            return True
        own_rule = place.section == _RULE and root in _OF_A_RULE
        if root in self.results and not (own_rule and text_of(self.results[root], "step") == place.step):
            return True
        if root in self.steps and self._has_run(root, place):
            return True
        return root in self.workload

    def _has_run(self, name: str, place: TemplatePlace) -> bool:
        """Whether a step can have ended where a template is evaluated."""
        if name == place.step and place.section == _ROUTING:
            return True
        return not place.step or place.step in self._find_followers(name)

    def _shows(self, root: str, attribute: str, place: TemplatePlace) -> bool | None:
        """Whether the document shows that what it defines has a key; None where it does not say."""
        found = self.workload.get(root)
        elsewhere = root in place.elements or root in place.given or root in self.results or root in self.steps
        if found is None or elsewhere or not attribute:
            return None
        if isinstance(found, MapNode):
            return attribute in found
        return None if isinstance(found, Scalar) and found.value is None else False

    def _reads_scope(self, root: str, attribute: str, place: TemplatePlace) -> bool:
        """Whether a name is a scope of the engine here, and has what is read of it."""
        in_sight = place.section in _SECTIONS_OF.get(root, _EVERY_SECTION) and (root != "iter" or bool(place.elements))
        if not in_sight or (not attribute and root not in _READ_WHOLE):
            return False
        return not attribute or root == "row" or attribute in self._keys_of_scope(root, place)

    def _keys_of_scope(self, root: str, place: TemplatePlace) -> Container[str]:
        """The keys that a scope has at a place; a function that is not called has none."""
        known: dict[str, Container[str]] = {
            "workload": self.workload,
            "input": place.inputs,
            "steps": self.steps,
            "ctx": self.written["ctx"],
            "step": self.written["step"] | self.steps.keys(),
            "iter": _KEYS["iter"] | self.written["iter"] | place.elements,
        }
        return known.get(root, _KEYS.get(root, ()))

    def _find_followers(self, name: str) -> set[str]:
        """The steps that can run after a step has ended; looked for once, and only for steps with a reserved name."""
        found = self._followers.get(name)
        if found is None:
            found = self._followers[name] = set()
            waiting = [name]
            while waiting:
                step = self.steps.get(waiting.pop())
                after = {node.text for node in _routes(step)} & self.steps.keys() if step is not None else set()
                waiting += after - found
                found |= after
        return found


def _narrow(place: TemplatePlace, key: str, holder: MapNode) -> TemplatePlace:
    """The place of what stands under a key of a task."""
    if place.section in (_BODY, _RULE) and key in _ROW_KEYS:
        return replace(place, section=_ROWS)
    if place.section == _BODY and key in _AFTER and any(word in holder for word in _TASK):
        return replace(place, section=_RULE)
    return place


# --- what older documents define -------------------------------------------------------------------------------


def _maps(node: Node | None) -> Iterator[MapNode]:
    """A map and every map below it."""
    if node is not None:
        yield from (one for one in walk_nodes(node) if isinstance(one, MapNode))


def _elements(node: MapNode) -> frozenset[str]:
    """The elements of all loops below a node, in whatever spelling."""
    found = (text_of(block, word) for block in _maps(node) if any(word in block for word in _OVER) for word in _ELEMENT)
    return frozenset(filter(None, found))


def _results(step: MapNode) -> Iterator[str]:
    """The names that a step, or a tool of it, gives its result."""
    for block in _maps(step):
        for word in ("result", "return"):
            found = block.get(word)
            if isinstance(found, Scalar) and isinstance(found.value, str) and not has_template(found.text):
                yield found.text
            elif isinstance(found, MapNode):
                yield from _bound(found)
        bound = map_of(block, "bind")
        yield from (one.name for one in bound.entries) if bound is not None else ()
        yield from _bare_targets(block.get("set"))


def _bound(block: MapNode) -> Iterator[str]:
    for name in (text_of(block, "as"), text_of(block, "into"), text_of(map_of(block, "collect"), "into")):
        if name:
            yield name


def _bare_targets(written: Node | None) -> Iterator[str]:
    """Targets of `set` that name no scope."""
    if isinstance(written, MapNode):
        yield from (one.name for one in written.entries if "." not in one.name and one.name not in _SCOPED)


_SCOPED = frozenset({"ctx", "step", "iter", "workload", "output", "input", "keychain", "event"})


def _given(root: MapNode) -> frozenset[str]:
    """The inputs that tasks of the workbook are called with."""
    if "workbook" not in root:
        return frozenset()
    calls = [block for block in _maps(root.get("workflow")) if "workbook" in (text_of(block, "kind"), text_of(block, "type"), text_of(block, "tool"))]  # fmt: skip
    return _keys_of(call.get(word) for call in calls for word in _INPUTS)


def _inputs(step: MapNode) -> frozenset[str]:
    """The keys that a step and its tasks are given."""
    return _keys_of(block.get(word) for block in _maps(step) for word in _INPUTS)


def _keys_of(blocks: Iterable[Node | None]) -> frozenset[str]:
    return frozenset(one.name for block in blocks if isinstance(block, MapNode) for one in block.entries)


def _targets(root: MapNode) -> dict[str, set[str]]:
    """By scope, what anything in the document writes into it."""
    found: dict[str, set[str]] = {"ctx": set(), "step": set(), "iter": set()}
    for block in _maps(root.get("workflow")):
        for one in block.entries:
            scope, _, name = one.name.partition(".")
            if name and scope in found:
                found[scope].add(name.partition(".")[0])
            inner = one.value.entries if isinstance(one.value, MapNode) else []
            scope = _WRITES.get(one.name, one.name)
            if scope in found:
                found[scope].update(other.name for other in inner)
    return found


def _arcs(step: MapNode) -> Iterator[MapNode]:
    for word in ("next", "case"):
        yield from _maps(step.get(word))


def _routes(step: MapNode) -> Iterator[Scalar]:
    """Every text of a step's routing, among which are the steps that it leads to."""
    for word in ("next", "case"):
        found = step.get(word)
        yield from strings(found) if found is not None else ()

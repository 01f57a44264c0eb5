"""The pass that keeps the shape of what was read: readers of an older shape are rewritten, or given that shape.

Two rounds over all readers: the first finds what each needs of the result that it reads, the second writes. In between
stands for every published result whether it is the payload itself or a map of what its readers need.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from noetl.lang.legacy.lowered_document import Lowering, add_set, task_items
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.legacy.shapes.code_fit import element_reads, fit_code
from noetl.lang.legacy.shapes.code_values import ReadTree
from noetl.lang.legacy.shapes.expressions import Resolved, resolve, write_inline, write_map
from noetl.lang.legacy.shapes.older_views import PAYLOAD
from noetl.lang.legacy.shapes.read_points import ReadPoint, templates
from noetl.lang.legacy.shapes.references import Publication, Reference, Writer, facts_of
from noetl.lang.legacy.shapes.results import Result, Results, input_names
from noetl.lang.reading.node import MapEntry, MapNode, Node, Scalar, entry, make, map_of, text_of

Place = tuple[object, ...]
_WHOLE = re.compile(r"\s*\{\{-?\s*([\w.\[\]'\"]+)\s*-?\}\}\s*")
_GET = re.compile(
    r"(?P<base>\b(?:ctx|step|iter|input|output|_prev)(?:\.\w+|\[\d+\]|\['[^']*'\])*?)"
    r"\.get\(\s*(?P<quote>['\"])(?P<key>\w+)(?P=quote)\s*(?:,\s*(?P<default>\[\]|\{\}|none|None|'[^']*'|-?[\d.]+|\w+))?\s*\)"
)
_OUTPUT_KEYS = frozenset({"status", "data", "ref", "error", "meta", "http", "pg", "py", "loop"})
_IS_OK = "output.status == 'ok'"

def lower(doc: Lowering) -> None:
    """Keep the shape of what templates and code read."""
    ShapeLowering(doc).run()


class ShapeLowering:
    """One document whose readers get the shapes they read."""

    def __init__(self, doc: Lowering) -> None:
        self.doc = doc
        self.results = Results(doc)
        self.steps = {text_of(step, "step"): step for step in doc.steps()}
        self.publications: dict[Place, Publication] = {}
        #: by loop, what its elements are published as
        self.elements: dict[int, Publication] = {}
        self.element_tasks: dict[int, MapNode] = {}
        self.is_writing = False
        #: an older construct was found, or the author says that there are some
        self.is_older_document = doc.found_any or doc.accepted or doc.migrating

    def run(self) -> None:
        # A document of today may read a key of `ctx` that goes by the name of a step.
        if self.doc.found_any or self.doc.accepted:
            self.publish_context_reads()
        self.find_publications()
        self.read_templates()
        self.read_codes()
        for _ in range(4):
            for publication in (*self.publications.values(), *self.elements.values()):
                publication.pass_on_demands() if publication.is_certain else None
        self.is_writing = True
        self.read_templates()
        self.write_publications()
        self.write_elements()

    # --- publications ------------------------------------------------------------------------------------------

    def publish_context_reads(self) -> None:
        """`context['fetch']` in code reads `ctx.fetch`, which older engines had of every step."""
        for step in self.doc.steps():
            for _name, task in task_items(step):
                for key in self.code_of(step, task).context:
                    if key in self.steps and not self.is_written(key):
                        self.doc.report_older("habit", f"`context` of the step `{key}`", f"`set: {{ctx.{key}: …}}` there", task)
                        add_set(self.steps[key], f"ctx.{key}", "{{ output.data }}", self.steps[key])
                        self.doc.published_steps.add(f"ctx.{key}")

    def is_written(self, key: str) -> bool:
        return any(f"ctx.{key}" in _target_names(block) for block in _set_blocks(self.doc.root.get("workflow")))

    def code_of(self, step: MapNode, task: MapNode):  # type: ignore[no-untyped-def]
        """What the code of a task shows, with the inputs of its step."""
        return self.results.code(task, input_names(step))

    def find_publications(self) -> None:
        """Every name whose value is a result as a whole; a name may have it from another name."""
        written: Counter[Place] = Counter()
        candidates = list(self.named_values())
        for place, *_ in candidates:
            written[place] += 1
        for _ in range(4):
            known = len(self.publications), sum(len(one.writers) for one in self.publications.values())
            for place, one, block, point in candidates:
                self.publish(place, one, block, point)
            if known == (len(self.publications), sum(len(one.writers) for one in self.publications.values())):
                break
        for place, publication in self.publications.items():
            publication.is_mixed = written[place] != len(publication.writers)

    def named_values(self) -> Iterator[tuple[Place, MapEntry, MapNode, ReadPoint]]:
        """The targets of every `set`, and every input."""
        for step in self.doc.steps():
            ended = self.results.of_step(step)
            previous: Result | None = None
            for word in ("set", "next"):
                for block in _set_blocks(step.get(word), own=word == "set"):
                    yield from self.targets(step, block, ReadPoint(_first(block, step), step, output=ended))
            yield from self.inputs(step, None, step, None)
            for _name, task in task_items(step):
                own = self.results.of_task(task)
                for word in ("set", "spec"):
                    for block in _set_blocks(task.get(word), own=word == "set"):
                        yield from self.targets(step, block, ReadPoint(_first(block, task), step, task, own, previous))
                yield from self.inputs(step, task, task, previous)
                previous = own

    def targets(self, step: MapNode, block: MapNode, point: ReadPoint) -> Iterator[tuple[Place, MapEntry, MapNode, ReadPoint]]:
        for one in block.entries:
            scope, _, name = one.name.partition(".")
            if name and "." not in name and scope in ("ctx", "step", "iter"):
                yield ("ctx", name) if scope == "ctx" else (scope, id(step), name), one, block, point

    def inputs(
        self, step: MapNode, task: MapNode | None, holder: MapNode, previous: Result | None
    ) -> Iterator[tuple[Place, MapEntry, MapNode, ReadPoint]]:
        block = map_of(holder, "input")
        for one in block.entries if block is not None else []:
            assert block is not None
            yield ("input", id(holder), one.name), one, block, ReadPoint(one, step, task, previous, previous)

    def publish(self, place: Place, one: MapEntry, block: MapNode, point: ReadPoint) -> None:
        chain = whole_chain(one.value)
        if chain is None or not isinstance(one.value, Scalar):
            return
        name = ".".join(str(part) for part in (place[0], place[-1]))
        is_raw = chain.parts == ("output",) and point.output is not None
        if is_raw and point.output is not None:
            source: Reference | None = Reference(point.output, "output.data", 1, is_own=True)
        else:
            source = self.reference(chain, point)
            source = source if source is not None and len(chain.parts) == source.length else None
        if source is None or not source.result.kind:
            return
        publication = self.publications.setdefault(place, Publication(name))
        if not any(writer.entry is one for writer in publication.writers):
            publication.writers.append(Writer(one, block, source, is_raw))
            older = is_raw or self.is_older(source, one.value) or name in self.doc.published_steps
            publication.is_older = publication.is_older or older

    # --- references --------------------------------------------------------------------------------------------

    def reference(self, chain: NameChain, point: ReadPoint) -> Reference | None:
        """The result that a chain reads, if it reads one."""
        parts = chain.parts
        root, key = parts[0], parts[1] if len(parts) > 1 else ""
        if (root, key) == ("output", "data"):
            return Reference(point.output, "output.data", 2, is_own=True) if point.output is not None else None
        if root == "_prev":
            return Reference(point.previous, "_prev", 1) if point.previous is not None else None
        if not key:
            return None
        for place in self.places(root, key, point):
            found = self.publications.get(place)
            if found is not None and found.writers:
                return Reference(found.result, f"{root}.{key}", 2, found) if found.is_certain else None
        return self.element(root, key, point)

    def places(self, root: str, key: str, point: ReadPoint) -> Iterator[Place]:
        if root == "ctx":
            yield ("ctx", key)
        elif root in ("step", "iter"):
            yield (root, id(point.step), key)
        elif root == "input":
            yield ("input", id(point.task), key)
            yield ("input", id(point.step), key)

    def element(self, root: str, key: str, point: ReadPoint) -> Reference | None:
        """The element of a loop that goes over another loop's results."""
        loop = map_of(point.step, "loop")
        items = loop.get("in") if loop is not None else None
        if root != "iter" or loop is None or text_of(loop, "iterator") != key or items is None:
            return None
        chain = whole_chain(items)
        source = self.reference(chain, ReadPoint(point.holder, point.step)) if chain is not None else None
        if chain is None or source is None or source.result.kind != "loop" or source.result.element is None:
            return None
        return self.element_of(source.result, f"iter.{key}", 2)

    def element_of(self, loop: Result, name: str, length: int) -> Reference:
        """One element of a loop's list."""
        assert loop.element is not None
        return Reference(loop.element, name, length, self.element_publication(loop))

    def element_publication(self, loop: Result) -> Publication:
        assert loop.element is not None
        found = self.elements.get(id(loop))
        if found is None:
            own = Reference(loop.element, "output.data", 2, is_own=True)
            holder = MapEntry(Scalar("output", "output", "", 0, 0), Scalar(None, "", "", 0, 0))
            found = Publication("output", [Writer(holder, MapNode([], 0, 0), own)], is_older=True)
            self.elements[id(loop)] = found
        return found

    def is_older(self, reference: Reference, node: Node, *, is_after: bool = False) -> bool:
        """Whether a reader means the older shape of a result."""
        if reference.result.is_rows and (is_after or self.is_older_document):
            return True
        if reference.publication is not None and reference.publication.is_older:
            return True
        return reference.name in self.doc.older_reads.get(id(node), ())

    # --- templates ---------------------------------------------------------------------------------------------

    def read_templates(self) -> None:
        for node, point in templates(self.doc, self.results):
            text = self.without_get(node, point)
            node_text = rewrite(text, lambda chain, node=node, point=point: self.rename(chain, node, point))  # type: ignore[misc]
            if self.is_writing and node_text != node.text:
                self.doc.report_older("habit", f"`{_short(node.text)}` reads an older shape", f"`{_short(node_text)}`", node)
                node.rewrite(node_text)

    def without_get(self, node: Scalar, point: ReadPoint) -> str:
        """`x.get('rows', [])` of an older shape is `x.rows | default([])`."""

        def replace(match: re.Match[str]) -> str:
            chain = whole_chain_of(match["base"])
            found = self.reference(chain, point) if chain is not None else None
            if found is None or chain is None or not self.is_older(found, node):
                return match[0]
            path = chain.parts[found.length :]
            if path and found.result.own.shows(path[0]):
                return match[0]
            return f"({match['base']}.{match['key']} | default({match['default'] or 'none'}))"

        return _GET.sub(replace, node.text) if ".get(" in node.text else node.text

    def rename(self, chain: NameChain, node: Scalar, point: ReadPoint) -> ChainRename | None:
        reference = self.reference(chain, point)
        if reference is None or not reference.result.kind:
            return None
        older = self.is_older(reference, node, is_after=point.is_after)
        path = chain.parts[reference.length :]
        path = path[:-1] if chain.called and path else path
        if reference.publication is not None and path:
            reference.publication.first_keys.add(path[0])
        found = resolve(reference, path, self.element_of, is_older=older)
        if found.problem:
            self.doc.todo(point.holder, found.problem, node) if self.is_writing and self.doc.found_any else None
            return None
        if older and not path and not chain.called and self.shows_older_keys(reference.result, chain, node):
            return self.inline(reference)
        self.warn_of_unknown(reference, path, node, point) if older else None
        if self.is_writing and reference.is_own:
            self.publish_tasks(reference.result, iter(found.facts))
        return ChainRename(found.consumed, self.guard(found, reference, point, node))

    def inline(self, reference: Reference) -> ChainRename:
        """The whole older shape, for a template that takes it apart by other means than a path."""
        for fact in facts_of(reference.result.view):
            reference.demand(fact)
        text = write_inline(reference, reference.result.view)
        return ChainRename(reference.length, f"({text} if {reference.expression(PAYLOAD)} is defined)")

    def shows_older_keys(self, result: Result, chain: NameChain, node: Scalar) -> bool:
        """Whether a template takes a result apart by other means than a path: by another name, or with a filter."""
        name = re.escape("".join(chain.texts))
        keys = re.findall(rf"(?<![\w.]){name}\s*\|\s*(?:attr|jsonpath)\(\s*['\"](?:\$\.)?(\w+)", node.text)
        for alias in re.findall(rf"\{{%-?\s*set\s+(\w+)\s*=\s*{name}\s*-?%\}}", node.text):
            keys += re.findall(rf"\b{alias}(?:\.|\[['\"])(\w+)", node.text)
        return any(key in result.view or key in result.wrappers for key in keys)

    def guard(self, found: Resolved, reference: Reference, point: ReadPoint, node: Scalar) -> str:
        """After an error there is no payload: what is made of it is undefined then, as it was."""
        text = found.text
        if not (reference.is_own and point.after_error and text.startswith("output.data |")) or _IS_OK in node.text:
            return text
        return f"({text} if {_IS_OK})"

    def warn_of_unknown(self, reference: Reference, path: tuple[str, ...], node: Scalar, point: ReadPoint) -> None:
        """A wrapping is taken off a result whose own keys are not known, though its code speaks of such a key."""
        result = reference.result.last
        word = path[0] if path else ""
        if self.is_writing and word in reference.result.wrappers and result.task is not None and result.own.is_open:
            if re.search(rf"['\"]{word}['\"]", text_of(result.task, "code")):
                said = f"`{word}` is taken for the result itself; if the code's result has a key `{word}`, read that"
                self.doc.todo(point.holder, said, node)

    # --- code --------------------------------------------------------------------------------------------------

    def read_codes(self) -> None:
        """Find the shape in which code reads its inputs, and `ctx`."""
        for step in self.doc.steps():
            for _name, task in task_items(step):
                self.read_code(step, task)

    def read_code(self, step: MapNode, task: MapNode) -> None:
        code = self.called_code(step, task)
        for holder in (task, step) if text_of(task, "kind") == "python" else (task,):
            block = map_of(holder, "input")
            for one in block.entries if block is not None else []:
                if holder is step and one.name in input_names(task):
                    continue
                tree = code.inputs.get(one.name)
                if tree is not None and block is not None:
                    self.read_input(one, block, tree, step, task, ("input", id(holder), one.name))
        for key, tree in code.context.items():
            publication = self.publications.get(("ctx", key))
            if publication is not None and publication.is_certain:
                self.fit(publication, tree, task.entry("code") or _first(task, task))
        if text_of(task, "kind") == "playbook":
            self.warn_of_child(task)

    def called_code(self, step: MapNode, task: MapNode):  # type: ignore[no-untyped-def]
        if text_of(task, "kind") != "workbook":
            return self.code_of(step, task)
        body = self.results.workbook(text_of(task, "task") or text_of(task, "name"))
        tasks = [one for _, one in task_items(body)] if body is not None else []
        return self.results.code(tasks[0] if tasks else task, input_names(task))

    def read_input(
        self, one: MapEntry, block: MapNode, tree: ReadTree, step: MapNode, task: MapNode, place: Place
    ) -> None:
        publication = self.publications.get(place)
        if publication is not None:
            self.fit(publication, tree, one) if publication.is_certain else None
            return
        if isinstance(one.value, MapNode):
            for inner in one.value.entries:
                child = tree.children.get(inner.name)
                if child is not None:
                    self.read_inner(inner, one.value, child, step, task)
            return
        self.read_part(one, tree, step, task)

    def read_inner(self, one: MapEntry, block: MapNode, tree: ReadTree, step: MapNode, task: MapNode) -> None:
        """A result inside of a map that code is given."""
        place: Place = ("inner", id(one))
        if place not in self.publications:
            self.publish(place, one, block, ReadPoint(one, step, task))
        self.read_input(one, block, tree, step, task, place)

    def read_part(self, one: MapEntry, tree: ReadTree, step: MapNode, task: MapNode) -> None:
        """A part of a result that code is given: the list of a loop has elements of an older shape."""
        chain = whole_chain(one.value)
        found = self.reference(chain, ReadPoint(one, step, task)) if chain is not None else None
        if chain is None or found is None:
            return
        part = resolve(found, chain.parts[found.length :], self.element_of, is_older=self.is_older(found, one.value))
        if part.reference is not None and part.reference.result.kind == "loop":
            self.fit_elements(part.reference.result, tree, one)

    def fit(self, publication: Publication, tree: ReadTree, holder: MapEntry) -> None:
        """Give code the shape that it reads."""
        is_older = publication.is_older or (publication.result.is_rows and self.is_older_document)
        fit = fit_code(publication.result, tree, is_older=is_older)
        for key in fit.missing:
            self.doc.todo(holder, f"the code reads `{key}`, which the result does not have: change the code", holder.key)
        if fit.shape is None:
            publication.is_read_plain |= bool(tree.children or tree.is_list)
        elif publication.is_read_plain:
            said = f"code reads `{publication.name}` in two shapes: give each reader its own"
            self.doc.todo(holder, said, holder.key)
        else:
            publication.shape = _merge(publication.shape or {}, fit.shape)
        if publication.result.kind == "loop":
            self.fit_elements(publication.result, element_tree(publication.result, tree), holder)

    def fit_elements(self, loop: Result, tree: ReadTree, holder: MapEntry) -> None:
        reads = element_reads(loop, tree)
        if loop.element is None or not reads.children:
            return
        self.fit(self.element_publication(loop), reads, holder)

    def warn_of_child(self, task: MapNode) -> None:
        """What a child reads of a result that it is given is not known here."""
        block = map_of(task, "input")
        for one in block.entries if block is not None else []:
            publication = self.publications.get(("input", id(task), one.name))
            if publication is not None and publication.is_older and publication.result.view:
                keys = ", ".join(list(publication.result.view)[:3])
                said = f"the child gets the result itself; older engines gave it `{{{keys} …}}`: see what it reads"
                self.doc.todo(one, said, one.key)

    # --- writing -----------------------------------------------------------------------------------------------

    def write_publications(self) -> None:
        for publication in self.publications.values():
            for writer in publication.writers if publication.is_certain else []:
                self.write(publication, writer)

    def write(self, publication: Publication, writer: Writer) -> None:
        shape = publication.published
        near = writer.entry.value
        if shape is None:
            if writer.is_raw and not self.is_output_meant(publication):
                self.doc.report_older("habit", "`{{ output }}` as the raw result", "`{{ output.data }}`", near)
                near.rewrite("{{ output.data }}") if isinstance(near, Scalar) else None
            return
        is_set = publication.name.partition(".")[0] != "input" and writer.source.is_own
        made, missing = write_map(shape, writer.source.expression, _IS_OK if is_set else "")
        for key in missing:
            self.doc.todo(writer.entry, f"`{key}` of the older result is not at hand here: write it by hand", near)
        self.doc.report_older("habit", f"the older shape of `{publication.name}`", "a map of what is read", near)
        writer.entry.value = make(made, near=near)
        writer.block.changed = True
        self.publish_tasks(writer.source.result, facts_of(shape))

    def is_output_meant(self, publication: Publication) -> bool:
        """Whether all that is read of a raw output are the keys of an output of today."""
        keys = publication.first_keys
        return bool(keys) and keys <= _OUTPUT_KEYS and not any(publication.result.own.shows(key) for key in keys)

    def publish_tasks(self, result: Result, facts: Iterator[str]) -> None:
        """The tasks of a pipeline keep what is read of them later."""
        for fact in facts:
            name = fact.removeprefix("task:")
            task = result.tasks[name].task if name != fact and name in result.tasks else None
            if task is not None:
                add_set(task, f"{result.scope}.{name}", "{{ output.data }}", task)

    def write_elements(self) -> None:
        """Elements in an older shape: the last task of the loop gives them so."""
        for loop_id, publication in self.elements.items():
            shape = publication.published
            if shape is None:
                continue
            result = publication.result
            task = result.last.task
            assert loop_id
            if task is None or "output" in task or _reads_output(task):
                self.doc.todo(task.entry("kind") if task else None, "elements of this loop are read in an older shape: give them with `output`", task or self.doc.root)
                continue
            made, _missing = write_map(shape, publication.writers[0].source.expression)
            task.put(entry("output", make(made, near=task), near=task))
            self.publish_tasks(result, facts_of(shape))


def element_tree(_loop: Result, tree: ReadTree) -> ReadTree:
    """The tree itself: elements are found in it by `element_reads`."""
    return tree


def whole_chain(node: Node) -> NameChain | None:
    """The chain of a value that is nothing but one name with its attributes."""
    match = _WHOLE.fullmatch(node.text) if isinstance(node, Scalar) and isinstance(node.value, str) else None
    return whole_chain_of(match[1]) if match is not None else None


def whole_chain_of(text: str) -> NameChain | None:
    """The chain of an expression that is nothing but one."""
    found: list[NameChain] = []

    def look(chain: NameChain) -> None:
        found.append(chain)

    rewrite("{{ " + text + " }}", look)
    return found[0] if len(found) == 1 and "".join(found[0].texts) == text else None


def _set_blocks(node: Node | None, *, own: bool = False) -> Iterator[MapNode]:
    """Every `set` below a node; with `own`, the node is one itself."""
    if own:
        if isinstance(node, MapNode):
            yield node
        return
    if isinstance(node, MapNode):
        block = node.get("set")
        if isinstance(block, MapNode):
            yield block
        for one in node.entries:
            if one.name not in ("set", "input", "output"):
                yield from _set_blocks(one.value)
    elif node is not None and not isinstance(node, Scalar):
        for item in node.items:
            yield from _set_blocks(item)


def _target_names(block: MapNode) -> set[str]:
    names = {one.name for one in block.entries}
    nested = map_of(block, "ctx")
    return names | ({f"ctx.{one.name}" for one in nested.entries} if nested is not None else set())


def _first(block: MapNode, holder: MapNode) -> MapEntry:
    return (block.entries or holder.entries)[0]


def _reads_output(task: MapNode) -> bool:
    found: list[str] = []
    for word in ("set", "spec"):
        node = task.get(word)
        if node is not None:
            from noetl.lang.legacy.lowered_document import strings

            found += [one.text for one in strings(node) if "output.data" in one.text]
    return bool(found)


def _merge(one: dict, other: dict) -> dict:  # type: ignore[type-arg]
    made = dict(one)
    for key, inner in other.items():
        there = made.get(key)
        made[key] = _merge(there, inner) if isinstance(there, dict) and isinstance(inner, dict) else inner
    return made


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:60] + "…"

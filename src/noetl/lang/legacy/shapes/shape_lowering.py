"""The pass that keeps the shape of what was read: readers of an older shape are rewritten, or given that shape.

Two rounds over all readers: the first finds what each needs of the result that it reads, the second writes. In between
stands for every published result whether it is the payload itself or a map of what its readers need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.lang.legacy.lowered_document import Lowering, add_set, strings, task_items
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.legacy.shapes.code_fit import element_reads, fit_code
from noetl.lang.legacy.shapes.code_reads import CodeShape
from noetl.lang.legacy.shapes.code_values import ANY, CodeValue, ReadTree
from noetl.lang.legacy.shapes.expressions import Resolved, resolve, write_inline, write_map
from noetl.lang.legacy.shapes.older_views import PAYLOAD, without_second_names
from noetl.lang.legacy.shapes.publications import (
    Place,
    Publications,
    chains_in,
    set_blocks,
    target_names,
    whole_chain,
    whole_chain_of,
)
from noetl.lang.legacy.shapes.read_points import ReadPoint, templates
from noetl.lang.legacy.shapes.references import Publication, Published, Reference, Writer, facts_of, merge_shapes
from noetl.lang.legacy.shapes.results import Result, StepResults, input_names
from noetl.lang.reading.node import MapEntry, MapNode, Scalar, entry, make, map_of, text_of

_WHOLE = re.compile(r"\s*\{\{-?\s*([\w.\[\]'\"]+)\s*-?\}\}\s*")
_GET = re.compile(
    r"(?P<base>\b(?:ctx|step|iter|input|output|_prev)(?:\.\w+|\[\d+\]|\['[^']*'\])*?)"
    r"\.get\(\s*(?P<quote>['\"])(?P<key>\w+)(?P=quote)\s*(?:,\s*(?P<default>\[\]|\{\}|none|None|'[^']*'|-?[\d.]+|\w+))?\s*\)"
)
_OUTPUT_KEYS = frozenset({"status", "data", "ref", "error", "meta", "http", "pg", "py", "loop"})
_OF_A_RESPONSE = frozenset({"status_code", "headers", "elapsed", "body"})
_IS_OK = "output.status == 'ok'"


def lower(doc: Lowering) -> None:
    """Keep the shape of what templates and code read."""
    ShapeLowering(doc).run()


class ShapeLowering:
    """One document whose readers get the shapes they read."""

    def __init__(self, doc: Lowering) -> None:
        self.doc = doc
        self.results = StepResults(doc)
        self.steps = {text_of(step, "step"): step for step in doc.steps()}
        self.publications = Publications(doc, self.results)
        self.is_writing = False
        #: values that hand on a shape as they find it
        self.given: set[int] = set()
        #: by task and input, how later readers read what its code hands on
        self.handed_on: dict[tuple[int, str], ReadTree] = {}
        #: by template and name, the shape in which code reads what the template makes of a result
        self.inlined: dict[tuple[int, str], Published] = {}

    def run(self) -> None:
        # A document of today may read a key of `ctx` that goes by the name of a step.
        if self.doc.found_any or self.doc.accepted:
            self.publish_context_reads()
        self.publications.find()
        self.read_templates()
        self.read_codes()
        for _ in range(4):
            for publication in self.publications:
                publication.pass_on_demands() if publication.is_certain else None
        self.name_tasks()
        self.given = {
            id(writer.entry.value)
            for publication in self.publications
            for writer in publication.writers
            if publication.is_certain and publication.published is not None and publication.given is not None
        }
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
                        self.doc.report_older(
                            "habit", f"`context` of the step `{key}`", f"`set: {{ctx.{key}: …}}` there", task
                        )
                        add_set(self.steps[key], f"ctx.{key}", "{{ output.data }}", self.steps[key])
                        self.doc.published_steps.add(f"ctx.{key}")

    def is_written(self, key: str) -> bool:
        return any(f"ctx.{key}" in target_names(block) for block in set_blocks(self.doc.root.get("workflow")))

    def code_of(self, step: MapNode, task: MapNode) -> CodeShape:
        """What the code of a task shows, with the inputs of its step."""
        return self.results.code(task, input_names(step))

    def name_tasks(self) -> None:
        """Where a task publishes more than its payload, the pipeline's results are found inside of that."""
        for step in self.doc.steps():
            body = self.results.of_body(step)
            for name in body.tasks:
                found = self.publications.by_place.get((body.scope, id(step), name))
                if found is not None and found.is_certain and found.published is not None:
                    body.task_names[name] = found.expression(f"{body.scope}.{name}", PAYLOAD)
                    found.facts.add(PAYLOAD)

    # --- templates ---------------------------------------------------------------------------------------------

    def read_templates(self) -> None:
        for node, point in templates(self.doc, self.results):
            text = self.without_get(node, point)
            node_text = rewrite(text, lambda chain, node=node, point=point: self.rename(chain, node, point))  # type: ignore[misc]
            if self.is_writing and node_text != node.text:
                self.doc.report_older(
                    "habit", f"`{_short(node.text)}` reads an older shape", f"`{_short(node_text)}`", node
                )
                node.rewrite(node_text)

    def without_get(self, node: Scalar, point: ReadPoint) -> str:
        """`x.get('rows', [])` of an older shape is `x.rows | default([])`."""

        def replace(match: re.Match[str]) -> str:
            chain = whole_chain_of(match["base"])
            found = self.publications.reference(chain, point) if chain is not None else None
            if found is None or chain is None or not self.publications.is_older(found, node):
                return match[0]
            path = chain.parts[found.length :]
            if path and found.result.own.shows(path[0]):
                return match[0]
            return f"({match['base']}.{match['key']} | default({match['default'] or 'none'}))"

        return _GET.sub(replace, node.text) if ".get(" in node.text else node.text

    def rename(self, chain: NameChain, node: Scalar, point: ReadPoint) -> ChainRename | None:
        reference = self.publications.reference(chain, point)
        if reference is None or not reference.result.kind or id(node) in self.given:
            return None
        older = self.publications.is_older(reference, node, is_after=point.is_after)
        path = chain.parts[reference.length :]
        path = path[:-1] if chain.called and path else path
        if reference.publication is not None and path:
            reference.publication.first_keys.add(path[0])
        self.trace(reference.result, path)
        found = resolve(reference, path, self.publications.element_of, is_older=older)
        if found.problem:
            self.doc.todo(point.holder, found.problem, node) if self.is_writing and self.doc.found_any else None
            return None
        if older and not path and not chain.called:
            shape = self.inlined.get((id(node), reference.name))
            if shape is None and self.shows_older_keys(reference.result, chain, node):
                shape = dict(without_second_names(reference.result.view))  # type: ignore[arg-type]
            if shape is not None:
                return self.inline(reference, shape)
        self.warn_of_unknown(reference, path, node, point, is_older=older)
        if self.is_writing and reference.is_own:
            self.publish_tasks(reference.result, iter(found.facts))
        return ChainRename(found.consumed, self.guard(found, reference, point, node))

    def inline(self, reference: Reference, shape: Published) -> ChainRename:
        """An older shape within a template that does more with it than to follow a path."""
        for fact in facts_of(shape):
            reference.demand(fact)
        text = write_inline(reference, shape)
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
        if " | " in text and re.search(rf"-\s*{re.escape(reference.name)}\b", node.text):
            text = f"({text})"  # a sign binds more tightly than a filter
        if not (reference.is_own and point.after_error and text.startswith("output.data |")) or _IS_OK in node.text:
            return text
        return f"({text} if {_IS_OK})"

    def trace(self, result: Result, path: tuple[str, ...]) -> None:
        """Note how a result is read that code made out of what it was given."""
        if result.task is not None and path and not self.is_writing:
            tree = ReadTree()
            tree.at(ANY if part.isdigit() else part for part in path)
            self.hand_on(result.task, result.own, tree)

    def hand_on(self, task: MapNode, value: CodeValue, tree: ReadTree) -> None:
        for path in value.origins if tree.children else ():
            self.handed_on.setdefault((id(task), path[0]), ReadTree()).at(path[1:]).merge(tree)
        for key, child in tree.children.items():
            inner = value.element if key == ANY else value.keys.get(key)
            if inner is not None:
                self.hand_on(task, inner, child)

    def warn_of_unknown(
        self, reference: Reference, path: tuple[str, ...], node: Scalar, point: ReadPoint, *, is_older: bool
    ) -> None:
        """Say what a reader may have meant otherwise."""
        result, word = reference.result.last, path[0] if path else ""
        if not self.is_writing or not self.doc.found_any:
            return
        if not is_older and result.kind == "http" and reference.publication is not None and word in _OF_A_RESPONSE:
            said = f"`{word}`: `{reference.name}` is the body itself; `output.http` has the status and the headers"
            self.doc.todo(point.holder, said, node)
        hidden = is_older and word in reference.result.wrappers and result.own.is_open and result.task is not None
        if hidden and re.search(rf"['\"]{word}['\"]", text_of(result.task, "code")):
            said = f"`{word}` is taken for the result itself; if the code's result has a key `{word}`, read that"
            self.doc.todo(point.holder, said, node)

    # --- code --------------------------------------------------------------------------------------------------

    def read_codes(self) -> None:
        """Find the shape in which code reads its inputs, and `ctx`."""
        # Readers first: what they read of code that hands its inputs on, that code reads of its inputs.
        for step in reversed(list(self.doc.steps())):
            for _name, task in reversed(list(task_items(step))):
                self.read_code(step, task)

    def read_code(self, step: MapNode, task: MapNode) -> None:
        code = self.called_code(step, task)
        for holder in (task, step) if text_of(task, "kind") == "python" else (task,):
            block = map_of(holder, "input")
            for one in block.entries if block is not None else []:
                if holder is step and one.name in input_names(task):
                    continue
                tree = self.reads_of(code, task, one.name)
                if tree is not None:
                    self.read_input(one, tree, step, task, ("input", id(holder), one.name))
        for key, tree in code.context.items():
            publication = self.publications.by_place.get(("ctx", key))
            if publication is not None and publication.is_certain:
                self.fit(publication, tree, task.entry("code") or task.entries[0])
        if text_of(task, "kind") == "playbook":
            self.warn_of_unseen(task, "the child")
        elif text_of(task, "kind") == "python" and not code.is_known:
            reader = "the module" if "module" in task else "code that cannot be analyzed"
            self.warn_of_unseen(task, reader)
            self.warn_of_unseen(step, reader)

    def reads_of(self, code: CodeShape, task: MapNode, name: str) -> ReadTree | None:
        """How an input is read, by the code itself and by readers of what it hands on."""
        own, later = code.inputs.get(name), self.handed_on.get((id(task), name))
        if own is None or later is None:
            return own
        tree = ReadTree()
        tree.merge(own)
        tree.merge(later)
        tree.is_whole = False  # where it goes is known
        return tree

    def called_code(self, step: MapNode, task: MapNode) -> CodeShape:
        if text_of(task, "kind") != "workbook":
            return self.code_of(step, task)
        body = self.results.workbook(text_of(task, "task") or text_of(task, "name"))
        tasks = [one for _, one in task_items(body)] if body is not None else []
        return self.results.code(tasks[0] if tasks else task, input_names(task))

    def read_input(self, one: MapEntry, tree: ReadTree, step: MapNode, task: MapNode, place: Place) -> None:
        publication = self.publications.by_place.get(place)
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
        if place not in self.publications.by_place:
            self.publications.publish(place, one, block, ReadPoint(one, step, task))
        self.read_input(one, tree, step, task, place)

    def read_part(self, one: MapEntry, tree: ReadTree, step: MapNode, task: MapNode) -> None:
        """A part of a result that code is given: the list of a loop has elements of an older shape."""
        chain = whole_chain(one.value)
        found = self.publications.reference(chain, ReadPoint(one, step, task)) if chain is not None else None
        if chain is None or found is None:
            self.read_within(one, tree, step, task)
            return
        part = resolve(
            found,
            chain.parts[found.length :],
            self.publications.element_of,
            is_older=self.publications.is_older(found, one.value),
        )
        if part.reference is not None and part.reference.result.kind == "loop":
            self.fit_elements(part.reference.result, tree, one)

    def read_within(self, one: MapEntry, tree: ReadTree, step: MapNode, task: MapNode) -> None:
        """A template that hands a result to code in another form: as JSON, or with something in its place."""
        text = one.value.text if isinstance(one.value, Scalar) and isinstance(one.value.value, str) else ""
        for chain in chains_in(text)[:1]:
            found = self.publications.reference(chain, ReadPoint(one, step, task))
            handed = re.match(rf"\s*\{{\{{-?\s*{re.escape(''.join(chain.texts))}\s*(?:\||or\b)", text)
            if found is None or len(chain.parts) != found.length or handed is None:
                continue
            fit = fit_code(found.result, tree, is_older=self.publications.is_older(found, one.value))
            if fit.shape is not None:
                self.inlined[(id(one.value), found.name)] = fit.shape
                for fact in facts_of(fit.shape):
                    found.demand(fact)

    def fit(self, publication: Publication, tree: ReadTree, holder: MapEntry) -> None:
        """Give code the shape that it reads."""
        is_older = publication.is_older or (publication.result.is_rows and self.publications.is_older_document)
        result = publication.result
        if result.task is not None:
            self.hand_on(result.task, result.own, tree)
        fit = fit_code(result, tree, is_older=is_older)
        doubtful = sorted(tree.keys() & _OF_A_RESPONSE) if result.last.kind == "http" and not is_older else []
        if doubtful and self.doc.found_any:
            said = f"the code reads `{doubtful[0]}`, and gets the body itself; `output.http` has the status and the headers"
            self.doc.todo(holder, said, holder.key)
        for key in fit.missing:
            self.doc.todo(
                holder, f"the code reads `{key}`, which the result does not have: change the code", holder.key
            )
        if fit.shape is None:
            publication.is_read_plain |= bool(tree.children or tree.is_list)
        elif publication.is_read_plain:
            said = f"code reads `{publication.name}` in two shapes: give each reader its own"
            self.doc.todo(holder, said, holder.key)
        else:
            publication.shape = merge_shapes(publication.shape or {}, fit.shape)
        if publication.result.kind == "loop":
            self.fit_elements(publication.result, tree, holder)

    def fit_elements(self, loop: Result, tree: ReadTree, holder: MapEntry) -> None:
        reads = element_reads(loop, tree)
        if loop.element is None or not reads.children:
            return
        self.fit(self.publications.element_publication(loop), reads, holder)

    def warn_of_unseen(self, holder: MapNode, reader: str) -> None:
        """What a child, or code that cannot be read, makes of a result that it is given is not known here."""
        block = map_of(holder, "input")
        for one in block.entries if block is not None else []:
            publication = self.publications.by_place.get(("input", id(holder), one.name))
            if publication is not None and publication.is_older and publication.result.view:
                keys = ", ".join(list(publication.result.view)[:3])
                said = f"{reader} gets the result itself; older engines gave it `{{{keys} …}}`: see what it reads"
                self.doc.todo(one, said, one.key)

    # --- writing -----------------------------------------------------------------------------------------------

    def write_publications(self) -> None:
        for publication in self.publications.by_place.values():
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
        if publication.given is not None:
            return  # the name that it is read from has the shape already
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
        for publication in self.publications.elements.values():
            shape = publication.published
            if shape is None:
                continue
            result = publication.result
            task = result.last.task
            if task is None or "output" in task or _reads_output(task):
                said = "elements of this loop are read in an older shape: give them with `output`"
                self.doc.todo(task.entry("kind") if task else None, said, task or self.doc.root)
                continue
            made, _missing = write_map(shape, publication.writers[0].source.expression)
            task.put(entry("output", make(made, near=task), near=task))
            self.publish_tasks(result, facts_of(shape))


def _reads_output(task: MapNode) -> bool:
    found: list[str] = []
    for word in ("set", "spec"):
        node = task.get(word)
        if node is not None:
            found += [one.text for one in strings(node) if "output.data" in one.text]
    return bool(found)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:60] + "…"

"""The names that results have in a document: found in every `set` and `input`, and looked up for a reader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from noetl.lang.legacy.lowered_document import Lowering, task_items
from noetl.lang.legacy.name_rewrite import NameChain, rewrite
from noetl.lang.legacy.shapes.read_points import ReadPoint
from noetl.lang.legacy.shapes.references import Publication, Reference, Writer
from noetl.lang.legacy.shapes.results import Result, StepResults
from noetl.lang.reading.node import MapEntry, MapNode, Node, Scalar, list_of, map_of, text_of

#: a name and where it is known: `("ctx", "x")`, `("step", <a step>, "x")`, `("input", <a step or task>, "x")`
Place = tuple[object, ...]
_WHOLE = re.compile(r"\s*\{\{-?\s*([\w.\[\]'\"]+)\s*-?\}\}\s*")


class Publications:
    """Names of results, by the place where they are known."""

    def __init__(self, doc: Lowering, results: StepResults) -> None:
        self.doc, self.results = doc, results
        self.by_place: dict[Place, Publication] = {}
        #: by loop, what its elements are published as
        self.elements: dict[int, Publication] = {}
        #: an older construct was found, or the author says that there are some
        self.is_older_document = doc.found_any or doc.accepted or doc.migrating

    def __iter__(self) -> Iterator[Publication]:
        return iter((*self.by_place.values(), *self.elements.values()))

    def find(self) -> None:
        """Every name whose value is a result as a whole; a name may have it from another name."""
        written: Counter[Place] = Counter()
        candidates = list(self.named_values())
        for place, *_ in candidates:
            written[place] += 1
        for _ in range(4):
            known = len(self.by_place), sum(len(one.writers) for one in self.by_place.values())
            for place, one, block, point in candidates:
                self.publish(place, one, block, point)
            if known == (len(self.by_place), sum(len(one.writers) for one in self.by_place.values())):
                break
        for place, publication in self.by_place.items():
            publication.is_mixed = written[place] != len(publication.writers)

    def named_values(self) -> Iterator[tuple[Place, MapEntry, MapNode, ReadPoint]]:
        """The targets of every `set`, and every input."""
        for step in self.doc.steps():
            ended = self.results.of_step(step)
            previous: Result | None = None
            for word in ("set", "next"):
                for block in set_blocks(step.get(word), own=word == "set"):
                    yield from self.targets(step, block, ReadPoint(_first(block, step), step, output=ended))
            yield from self.arguments(step, ended)
            yield from self.inputs(step, None, step, None)
            for _name, task in task_items(step):
                own = self.results.of_task(task)
                for word in ("set", "spec"):
                    for block in set_blocks(task.get(word), own=word == "set"):
                        yield from self.targets(step, block, ReadPoint(_first(block, task), step, task, own, previous))
                yield from self.inputs(step, task, task, previous)
                previous = own

    def targets(
        self, step: MapNode, block: MapNode, point: ReadPoint
    ) -> Iterator[tuple[Place, MapEntry, MapNode, ReadPoint]]:
        for one in block.entries:
            scope, _, name = one.name.partition(".")
            if name and "." not in name and scope in ("ctx", "step", "iter"):
                yield ("ctx", name) if scope == "ctx" else (scope, id(step), name), one, block, point

    def arguments(self, step: MapNode, ended: Result) -> Iterator[tuple[Place, MapEntry, MapNode, ReadPoint]]:
        """What arcs bring to the next step."""
        arcs = list_of(map_of(step, "next"), "arcs")
        for arc in [one for one in arcs.items if isinstance(one, MapNode)] if arcs is not None else []:
            block = map_of(arc, "args") or MapNode([], arc.start, arc.end)
            for one in block.entries:
                yield ("args", text_of(arc, "step"), one.name), one, block, ReadPoint(one, step, output=ended)

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
        publication = self.by_place.setdefault(place, Publication(name))
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
            found = self.by_place.get(place)
            if found is not None and found.writers:
                return Reference(found.result, f"{root}.{key}", 2, found) if found.is_certain else None
        return self.element(root, key, point)

    def places(self, root: str, key: str, point: ReadPoint) -> Iterator[Place]:
        if root == "ctx":
            yield ("ctx", key)
        elif root in ("step", "iter"):
            yield (root, id(point.step), key)
        elif root == "args":
            yield (root, text_of(point.step, "step"), key)
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
        if chain is not None and chain.parts[:2] == (root, key):
            return None  # a loop over its own element
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


def whole_chain(node: Node) -> NameChain | None:
    """The chain of a value that is nothing but one name with its attributes."""
    match = _WHOLE.fullmatch(node.text) if isinstance(node, Scalar) and isinstance(node.value, str) else None
    return whole_chain_of(match[1]) if match is not None else None


def whole_chain_of(text: str) -> NameChain | None:
    """The chain of an expression that is nothing but one."""
    found = chains_in("{{ " + text + " }}")
    return found[0] if len(found) == 1 and "".join(found[0].texts) == text else None


def chains_in(text: str) -> list[NameChain]:
    """Every chain of a template."""
    found: list[NameChain] = []

    def look(chain: NameChain) -> None:
        found.append(chain)

    rewrite(text, look)
    return found


def set_blocks(node: Node | None, *, own: bool = False) -> Iterator[MapNode]:
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
                yield from set_blocks(one.value)
    elif node is not None and not isinstance(node, Scalar):
        for item in node.items:
            yield from set_blocks(item)


def target_names(block: MapNode) -> set[str]:
    """The targets of a `set`, those of a nested `ctx` included."""
    names = {one.name for one in block.entries}
    nested = map_of(block, "ctx")
    return names | ({f"ctx.{one.name}" for one in nested.entries} if nested is not None else set())


def _first(block: MapNode, holder: MapNode) -> MapEntry:
    return (block.entries or holder.entries)[0]

"""Values that code made for the text of a statement: statements bind them now, so what was made for the text is undone.

Code doubled the quotes of a value (`name.replace("'", "''")`) that a statement then put between quotes; bound, the value
would be stored with both. Or it put the quotes around the value itself; such text is a part of the statement still.
"""

from __future__ import annotations

import re

from noetl.lang.legacy.lowered_document import Lowering, task_items
from noetl.lang.legacy.name_rewrite import NameChain
from noetl.lang.legacy.shapes.code_values import ANY, SQL_DOUBLED, SQL_PART, UNKNOWN, CodeValue, join_values
from noetl.lang.legacy.shapes.publications import Place, Publications, chains_in, whole_chain
from noetl.lang.legacy.shapes.read_points import ReadPoint
from noetl.lang.legacy.shapes.results import Result, StepResults
from noetl.lang.legacy.sql_texts import SqlHole, SqlStatementText, cut, statements_of
from noetl.lang.reading.node import MapEntry, MapNode, Scalar, map_of, text_of

#: names that hand a value on from each other
_DEEPEST = 8
_SINGLED = """replace("''", "'")"""
_SPLICED = re.compile(r"\|\s*sql\s*$")


def lower(doc: Lowering, results: StepResults, publications: Publications) -> None:
    """Undo in every statement what code did to its values for the sake of the text."""
    if doc.accepted or (doc.migrating and doc.found_any):
        _SqlQuotes(doc, results, publications).run()


class _SqlQuotes:
    def __init__(self, doc: Lowering, results: StepResults, publications: Publications) -> None:
        self.doc, self.results, self.publications = doc, results, publications
        #: by name, what writes it
        self.named: dict[Place, list[tuple[MapEntry, ReadPoint]]] = {}
        #: tasks whose code doubles quotes in what it gives back
        self.doubling: dict[int, MapNode] = {}

    def run(self) -> None:
        tasks = [(step, name, task) for step in self.doc.steps() for name, task in task_items(step)]
        statements = [(step, task, node) for step, _, task in tasks for node in statements_of(task)]
        self.doubling = {id(task): task for _, _, task in tasks if _makes_text(self.results.of_kind(task).own)}
        if not statements or not self.doubling:
            return
        for place, one, _block, point in self.publications.named_values():
            self.named.setdefault(place, []).append((one, point))
        unknown = [not self.statement(step, task, node) for step, task, node in statements]
        for task in self.doubling.values() if any(unknown) else ():
            said = "this doubles quotes for the text of a statement: values are bound now, so leave that out"
            self.doc.todo(task.entry("code"), said, task)

    def statement(self, step: MapNode, task: MapNode, node: Scalar) -> bool:
        """Rewrite one statement; whether all values between its quotes are known."""
        text = cut(node.text)
        if text is None:
            return False
        point = ReadPoint(task.entries[0], step, task, None, self.previous(step, task))
        known = [self.hole(text, hole, point) for hole in text.holes]
        made = "".join(text.pieces)
        if made != node.text:
            self.doc.report_older("habit", "a value that code made for the text of a statement", "it as it was", node)
            node.rewrite(made)
        return all(known)

    def previous(self, step: MapNode, task: MapNode) -> Result | None:
        before = None
        for _name, one in task_items(step):
            if one is task:
                break
            before = self.results.of_task(one)
        return before

    def hole(self, text: SqlStatementText, hole: SqlHole, point: ReadPoint) -> bool:
        expression = text.expression(hole).strip()
        chains = chains_in("{{ " + expression + " }}")
        values = [self.value_of(chain, point) for chain in chains]
        made = frozenset().union(*(value.sql for value in values if value is not None))
        if SQL_DOUBLED.sql <= made and hole.quote == "'" and _SINGLED not in expression:
            whole = len(chains) == 1 and "".join(chains[0].texts) == expression
            value = expression if whole else f"({expression})"
            text.replace(hole, f" {value} | {_SINGLED} ")
        elif SQL_PART.sql <= made and not hole.quote and _SPLICED.search(expression) is None:
            value = expression if re.fullmatch(r"[\w.\[\]'\"]+", expression) else f"({expression})"
            text.replace(hole, f" {value} | sql ")
        return hole.quote != "'" or all(value is not None for value in values)

    def value_of(self, chain: NameChain, point: ReadPoint, depth: int = 0) -> CodeValue | None:
        """What a chain reads, as far as code shows it; None where nothing tells."""
        root, key = (*chain.parts, "")[:2]
        if root in ("workload", "execution_id", "keychain"):
            return UNKNOWN
        if depth > _DEEPEST:
            return None
        found = self.publications.reference(chain, point)
        if found is not None:
            return _follow(found.result.own, chain.parts[found.length :])
        loop = map_of(point.step, "loop")
        if root == "iter" and loop is not None and text_of(loop, "iterator") == key:
            return self.element(loop, chain.parts[2:], point, depth)
        values: list[CodeValue | None] = []
        for place in self.publications.places(root, key, point) if key else ():
            for one, at in self.named.get(place, ()):
                source = whole_chain(one.value)
                inner = self.value_of(source, at, depth + 1) if source is not None else UNKNOWN
                values.append(_follow(inner, chain.parts[2:]) if inner is not None else None)
        return join_values(value for value in values if value is not None) if values and None not in values else None

    def element(self, loop: MapNode, path: tuple[str, ...], point: ReadPoint, depth: int) -> CodeValue | None:
        items = loop.get("in")
        source = whole_chain(items) if items is not None else None
        if source is None:
            return UNKNOWN if items is not None and not isinstance(items, Scalar) else None
        inner = self.value_of(source, ReadPoint(point.holder, point.step), depth + 1)
        return _follow(inner, (ANY, *path)) if inner is not None else None


def _follow(value: CodeValue, path: tuple[str, ...]) -> CodeValue:
    """What stands at a path below a value."""
    for part in path:
        below = [value.keys[name] for name in (part, ANY) if name in value.keys]
        if part == ANY or part.isdigit():
            below += [value.element] if value.element is not None else []
        value = join_values(below) if below else UNKNOWN
    return value


def _makes_text(value: CodeValue, depth: int = 0) -> bool:
    """Whether code gives back a value with its quotes doubled."""
    inner = [*value.keys.values(), *([value.element] if value.element is not None else [])]
    return bool(value.sql) or (depth < _DEEPEST and any(_makes_text(one, depth + 1) for one in inner))

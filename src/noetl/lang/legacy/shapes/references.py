"""Where results are read from: `output.data` after a task, `_prev`, and the names that a `set` or an `input` gives them.

A *publication* is a name that holds results, with every `set` that writes it. It holds the payload itself, or a map of
what readers of the older shape need and the payload alone does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from noetl.lang.legacy.shapes.older_views import PAYLOAD, Leaf, View, without_second_names
from noetl.lang.legacy.shapes.results import Result
from noetl.lang.reading.node import MapEntry, MapNode

#: kinds whose older shape repeats nothing of its size: where more than the payload is read, all of it is published
_PUBLISHED_WHOLE = frozenset({"http", "loop", "playbook"})
#: by key of the published map, a leaf or a map of such
Published = dict[str, "Leaf | Published"]


@dataclass(eq=False)
class Writer:
    """One `set` or `input` that gives a result a name."""

    entry: MapEntry
    block: MapNode
    #: the result, as the written value reads it
    source: Reference
    #: `{{ output }}`: all of the output, which older engines took for the raw result
    is_raw: bool = False


@dataclass(eq=False)
class Publication:
    """A name that results have, and the shape that its readers need."""

    name: str
    writers: list[Writer] = field(default_factory=list)
    #: facts beside the payload that templates read
    facts: set[str] = field(default_factory=set)
    #: the shape that code reads it in
    shape: Published | None = None
    #: code reads it as it is today
    is_read_plain: bool = False
    #: something that is written under this name is no result as a whole
    is_mixed: bool = False
    #: a reader knows this name by its older meaning
    is_older: bool = False
    #: of a raw output, the first keys that are read
    first_keys: set[str] = field(default_factory=set)

    @property
    def result(self) -> Result:
        """The result, of which all writers give the same kind."""
        return self.writers[0].source.result

    @property
    def is_certain(self) -> bool:
        """Whether everything that is written under this name has one shape."""
        return not self.is_mixed and len({writer.source.result.kind for writer in self.writers}) == 1

    @property
    def published(self) -> Published | None:
        """The map that readers find; None if they find the payload itself."""
        if self.shape is None and not self.facts - {PAYLOAD}:
            return None
        given = self.given
        if given is not None:
            return given
        made: Published = dict(self.shape or {})
        if self.result.kind in _PUBLISHED_WHOLE and self.is_first:
            made = merge_shapes(self._whole(), made)
        needed = self.facts if self.shape is not None else {*self.facts, PAYLOAD}
        paths = {fact: find_fact(self.result.view, fact) or ("data",) for fact in needed}
        order = [*dict.fromkeys(facts_of(self.result.view)), PAYLOAD]
        for fact in sorted(paths, key=order.index):
            if find_fact(made, fact) is None:
                put_leaf(made, paths[fact], fact)
        return made

    @property
    def is_first(self) -> bool:
        """Whether the name is written where the result is made, and not read from another name."""
        return all(writer.source.is_own for writer in self.writers)

    @property
    def given(self) -> Published | None:
        """What another name holds that this one is read from, where that is all that readers need."""
        source = self.writers[0].source.publication if len(self.writers) == 1 else None
        found = source.published if source is not None and not self.writers[0].is_raw else None
        if found is None or not _holds(found, self.shape or {}):
            return None
        return found if all(find_fact(found, fact) is not None for fact in self.facts) else None

    def _whole(self) -> Published:
        """Everything that older engines published and that is known of the result."""
        source = self.writers[0].source
        return _known(without_second_names(self.result.view), source)

    def expression(self, name: str, fact: str) -> str:
        """A fact as readers of this name find it."""
        made = self.published
        path = find_fact(made, fact) if made is not None else ()
        return ".".join([name, *(path or ())])

    def pass_on_demands(self) -> None:
        """Tell where the result comes from what the readers of this name need."""
        shape = self.published
        for fact in facts_of(shape) if shape is not None else (PAYLOAD,):
            for writer in self.writers:
                writer.source.demand(fact)


def _known(view: View, source: Reference) -> Published:
    made: Published = {}
    for key, inner in view.items():
        if not isinstance(inner, Leaf):
            made[key] = _known(inner, source)
        elif inner.fact is None or source.expression(inner.fact) is not None:
            made[key] = inner
    return made


def _holds(found: Mapping[str, Leaf | Published], shape: Mapping[str, Leaf | Published]) -> bool:
    """Whether a map has all that a shape has."""
    for key, inner in shape.items():
        there = found.get(key)
        if isinstance(inner, Leaf) or isinstance(there, Leaf) or there is None:
            if there != inner:
                return False
        elif not _holds(there, inner):
            return False
    return True


def merge_shapes(one: Published, other: Published) -> Published:
    """A map that has what both have."""
    made = dict(one)
    for key, inner in other.items():
        there = made.get(key)
        made[key] = merge_shapes(there, inner) if isinstance(there, dict) and isinstance(inner, dict) else inner
    return made


def find_fact(view: View | Published, fact: str) -> tuple[str, ...] | None:
    """The path to a fact, as it is, in a map."""
    for key, inner in view.items():
        if isinstance(inner, Leaf):
            if inner.fact == fact and inner.is_plain:
                return (key,)
        elif (below := find_fact(inner, fact)) is not None:
            return (key, *below)
    return None


def put_leaf(made: Published, path: tuple[str, ...], fact: str) -> None:
    """Add a fact to a map, at a path."""
    holder = made
    for key in path[:-1]:
        below = holder.setdefault(key, {})
        assert isinstance(below, dict)
        holder = below
    holder[path[-1]] = Leaf(fact)


@dataclass(frozen=True, eq=False)
class Reference:
    """A result as one template finds it."""

    result: Result
    #: the name that stands for it: `output.data`, `ctx.fetch`, `input.rows`, `_prev`
    name: str
    #: how many parts of a chain the name takes
    length: int
    publication: Publication | None = None
    #: just ended: every fact is at hand
    is_own: bool = False

    def expression(self, fact: str) -> str | None:
        """An expression for a fact; None where nothing here knows it."""
        if self.publication is not None:
            return self.publication.expression(self.name, fact)
        if self.is_own:
            return self.result.own_fact(fact)
        return self.name if fact == PAYLOAD else None

    def demand(self, fact: str) -> None:
        """Say that a reader needs this fact."""
        if self.publication is not None:
            self.publication.facts.add(fact)


def facts_of(shape: Mapping[str, Leaf | View]) -> Iterator[str]:
    """Every fact in a map of leaves."""
    for inner in shape.values():
        if isinstance(inner, Leaf):
            if inner.fact is not None:
                yield inner.fact
        else:
            yield from facts_of(inner)

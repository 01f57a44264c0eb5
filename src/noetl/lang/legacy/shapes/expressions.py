"""Chains in templates that read an older shape, and the expressions that say the same today."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from noetl.lang.legacy.shapes.older_views import PAYLOAD, Leaf, View, without_second_names
from noetl.lang.legacy.shapes.references import Published, Reference, facts_of
from noetl.lang.legacy.shapes.results import Result


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a chain becomes: its first parts are replaced by a text; or why nothing can say it."""

    consumed: int
    text: str
    problem: str = ""
    #: the reference that the text stands for, if it is a result or an element as a whole
    reference: Reference | None = None
    #: what the text reads, of which result
    facts: tuple[str, ...] = ()


#: a key of a result if it has one by that name, else the result itself
OF_ITSELF = "{}.KEY | default({})"
#: gives the elements of a loop's list, where they are read from
ElementOf = Callable[[Result, str, int], Reference]


def resolve(reference: Reference, path: tuple[str, ...], element_of: ElementOf, *, is_older: bool) -> Resolved:
    """Find what a chain reads of a result; `path` is what follows the result's name."""
    result = reference.result
    if not is_older or (path and result.own.shows(path[0])):
        return _payload(reference, path, 0, element_of, is_older=is_older)
    taken = _unwrap(result, path)
    view: Leaf | View = result.view
    at = taken
    while at < len(path) and not isinstance(view, Leaf) and path[at] in view:
        view = view[path[at]]
        at += 1
    if at == taken:
        return _payload(reference, path, taken, element_of, is_older=is_older)
    if isinstance(view, Leaf):
        return _leaf(reference, view, path, at, element_of)
    if at < len(path):
        return Resolved(0, "", f"`{'.'.join(path[: at + 1])}` is not known of this result")
    view = without_second_names(view)
    facts = tuple(facts_of(view))
    for fact in facts:
        reference.demand(fact)
    return Resolved(reference.length + at, write_inline(reference, view), facts=facts)


def _unwrap(result: Result, path: tuple[str, ...]) -> int:
    """How many parts of a path say no more than "the result"."""
    taken = 0
    while taken < len(path) and path[taken] in result.wrappers and (result.is_rows or taken == 0):
        taken += 1
    return taken


def _payload(
    reference: Reference, path: tuple[str, ...], taken: int, element_of: ElementOf, *, is_older: bool
) -> Resolved:
    """What follows is a part of the payload itself."""
    result = reference.result
    rest = path[taken:]
    reference.demand(PAYLOAD)
    text = reference.expression(PAYLOAD)
    if text is None:
        return Resolved(0, "", "the result is not at hand here")
    if is_older and rest and result.is_rows and not rest[0].isdigit():
        return Resolved(0, "", _explain(result, rest[0]))
    if result.kind == "loop" and rest and rest[0].isdigit():
        return _element(reference, f"{text}[{rest[0]}]", path, taken + 1, element_of)
    for word in path[:taken]:
        if result.may_have(word):
            text = f"({OF_ITSELF.replace('KEY', word).replace('{}', text)})"
    return Resolved(reference.length + taken, text, reference=reference if not rest else None)


def _leaf(reference: Reference, leaf: Leaf, path: tuple[str, ...], at: int, element_of: ElementOf) -> Resolved:
    reference.demand(leaf.fact or PAYLOAD)
    found = reference.expression(leaf.fact) if leaf.fact is not None else ""
    if found is None:
        return Resolved(0, "", f"`{path[at - 1]}` is not at hand here: publish it with `set` where the result is made")
    result = reference.result
    if leaf.fact == PAYLOAD and result.kind == "loop" and path[at : at + 1] and path[at].isdigit():
        return _element(reference, f"{found}[{path[at]}]", path, at + 1, element_of)
    name = path[at - 1]
    if result.kind == "pipeline" and at >= 2 and name in result.tasks and path[at:]:
        inner = Reference(result.tasks[name], found, reference.length + at)
        deeper = resolve(inner, path[at:], element_of, is_older=True)
        return replace(deeper, facts=(leaf.fact or PAYLOAD,))
    text = leaf.fill(found)
    if not leaf.is_plain and path[at:]:
        text = f"({text})"
    whole = reference if leaf.fact == PAYLOAD and leaf.is_plain and not path[at:] else None
    return Resolved(reference.length + at, text, reference=whole, facts=(leaf.fact or PAYLOAD,))


def _element(reference: Reference, text: str, path: tuple[str, ...], at: int, element_of: ElementOf) -> Resolved:
    inner = element_of(reference.result, text, reference.length + at)
    return resolve(inner, path[at:], element_of, is_older=True)


def _explain(result: Result, key: str) -> str:
    if result.kind == "loop":
        return f"`{key}`: the output of a loop is the list of what its iterations gave"
    return f"`{key}`: the output is the rows of the last statement: `[0].column` reads the first row"


def write_inline(reference: Reference, view: View | Published) -> str:
    """A view as one expression."""
    return _inline(view, reference)


def _inline(view: Mapping[str, Leaf | View], reference: Reference) -> str:
    parts = []
    for key, inner in view.items():
        if isinstance(inner, Leaf):
            fact = reference.expression(inner.fact) if inner.fact is not None else ""
            if fact is not None:
                parts.append(f"'{key}': {inner.fill(fact)}")
        else:
            parts.append(f"'{key}': {_inline(inner, reference)}")
    return "{" + ", ".join(parts) + "}"


_LITERAL_TEXT = re.compile(r"'[^'\\]*'")


def write_map(
    shape: Published, expression: Callable[[str], str | None], guard: str = ""
) -> tuple[dict[str, object], list[str]]:
    """A shape as plain data whose values are templates, and the keys that nothing gives."""
    made: dict[str, object] = {}
    missing: list[str] = []
    for key, inner in shape.items():
        if isinstance(inner, Leaf):
            fact = expression(inner.fact) if inner.fact is not None else ""
            if fact is None:
                missing.append(key)
            else:
                made[key] = _template(inner, fact, guard)
        else:
            made[key], below = write_map(inner, expression, guard)
            missing += below
    return made, missing


def _template(leaf: Leaf, fact: str, guard: str) -> str:
    text = leaf.fill(fact)
    if _LITERAL_TEXT.fullmatch(text):
        return text[1:-1]
    if leaf.is_plain and text.startswith("("):
        text = text[1:-1]  # in an expression of its own it needs no parentheses
    if guard and leaf.fact == PAYLOAD and not leaf.is_plain:
        text = f"({text} if {guard})"
    return "{{ " + text + " }}"

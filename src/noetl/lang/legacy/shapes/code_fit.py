"""The shape that code needs of a result: none beside today's, or a map of just those older keys that it reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from noetl.lang.legacy.shapes.code_values import ANY, ReadTree
from noetl.lang.legacy.shapes.older_views import PAYLOAD, Leaf, View, is_second_name
from noetl.lang.legacy.shapes.references import Published
from noetl.lang.legacy.shapes.results import Result

_COMMAND = re.compile(r"command_\d+|row_count")


@dataclass
class CodeFit:
    """What a reader needs."""

    #: the map that it reads; None if today's payload fits
    shape: Published | None = None
    #: what it reads and nothing can give
    missing: list[str] = field(default_factory=list)


def fit_code(result: Result, tree: ReadTree, *, is_older: bool) -> CodeFit:
    """Find the shape that code needs which reads a result in this way."""
    keys = tree.keys()
    fit = CodeFit()
    evidence = {key for key in keys if key in result.view or key in result.wrappers} if is_older else set()
    evidence = {key for key in evidence if not result.own.shows(key)}
    lost = sorted(key for key in keys if _COMMAND.fullmatch(key) and key not in result.view)
    if result.is_rows and not evidence and not tree.is_list and not tree.is_listed_map:
        lost = sorted(keys)
    fit.missing = [key for key in lost if result.is_rows]
    # A list has no keys to be listed: code that does so means the wrapping.
    dynamic = ANY in tree.children and not tree.is_list
    everything = tree.is_listed_map or dynamic or (bool(evidence) and (tree.is_whole or tree.is_list))
    if not (evidence or (is_older and result.is_rows and everything)) or _reads_own_keys(result, tree, evidence):
        return fit
    made: Published = {}
    for key, inner in result.view.items():
        if key in evidence or (everything and not is_second_name(inner)):
            made[key] = _restrict(inner, tree.children.get(key), fit, key)
    for key in sorted(evidence - set(result.view)):
        below = fit_code(result, tree.child(key), is_older=True)
        made[key] = below.shape if below.shape is not None else Leaf(PAYLOAD)
        fit.missing += below.missing
    for key in sorted(keys - evidence):
        if result.own.shows(key):
            made[key] = Leaf(PAYLOAD, f"{{}}.{key}")
    fit.shape = made
    return fit


def _reads_own_keys(result: Result, tree: ReadTree, evidence: set[str]) -> bool:
    """Whether code looks for a wrapping, and falls back to keys that the result itself has."""
    optional = bool(evidence) and not any(tree.children[key].is_required for key in evidence)
    return optional and any(result.own.shows(key) for key in tree.children)


def _restrict(inner: Leaf | View, tree: ReadTree | None, fit: CodeFit, name: str) -> Leaf | Published:
    """Of a part of a view, all that costs nothing; of the tasks of a pipeline, what code reads."""
    if isinstance(inner, Leaf):
        return inner
    read = tree.keys() if tree is not None else set()
    fit.missing += [f"{name}.{key}" for key in sorted(read) if key not in inner]
    everything = name != "results" or not read or (tree is not None and (tree.is_whole or tree.is_listed_map))
    return {
        key: _restrict(one, tree.children.get(key) if tree is not None else None, fit, f"{name}.{key}")
        for key, one in inner.items()
        if key in read or (everything and not is_second_name(one))
    }


def element_reads(result: Result, tree: ReadTree) -> ReadTree:
    """How code reads the elements of a loop's list, whether it finds the list under `results` or as it is."""
    found = ReadTree()
    for holder in (tree, tree.children.get("results")):
        if holder is not None and ANY in holder.children and result.kind == "loop":
            found.merge(holder.children[ANY])
    return found

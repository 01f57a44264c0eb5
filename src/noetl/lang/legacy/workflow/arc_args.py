"""Arcs that carry `args`: what a token brought is written by the arc's `set`, and read in the next step's `input`.

They run as they are; only a migrated file says it otherwise. `ctx` is one for all tokens, so that it says the same only
where every token brings the same keys, one token at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.lang.legacy.lowered_document import V10, Lowering, strings
from noetl.lang.legacy.name_meanings import targets
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.reading.node import MapNode, Node, Scalar, entry, list_of, make, map_of, text_of

_CODE = frozenset({"code"})
#: parts of a step that are judged outside of its run, where there is no `input`, or that make the input
_WITHOUT_INPUT = ("input", "spec", "loop", "next")


def lower(doc: Lowering) -> None:
    """Report every arc with `args`, and rewrite them where that says the same."""
    for _router, arc in _arcs(doc):
        found = arc.entry("args")
        if found is not None:
            doc.report_older("arc-args", "`args` of an arc", "the arc's `set` into `ctx.*`, read in the next step's `input`", found.key,
                      grade=V10)  # fmt: skip
    if not doc.migrating:
        return
    first = doc.first_step()
    by_target: dict[str, list[tuple[MapNode, MapNode]]] = {}
    for router, arc in _arcs(doc):
        by_target.setdefault(text_of(arc, "step"), []).append((router, arc))
    written = set().union(*map(targets, doc.steps())) if by_target else set()
    for step in doc.steps():
        coming = by_target.get(text_of(step, "step"), [])
        arcs = [arc for _, arc in coming if "args" in arc]
        if not arcs:
            continue
        doubt = _check_registration(written, step, coming, starts=step is first)
        if not doubt:
            _rewrite(doc, step, arcs)
            written.update(*map(targets, arcs))
        for arc in arcs if doubt else []:
            doc.todo(arc.entry("args"), doubt, arc)


def _arcs(doc: Lowering) -> Iterator[tuple[MapNode, MapNode]]:
    for step in doc.steps():
        router = map_of(step, "next")
        arcs = list_of(router, "arcs")
        for arc in arcs.items if arcs is not None else []:
            if router is not None and isinstance(arc, MapNode):
                yield router, arc


def _in_ctx(step: MapNode, key: str) -> str:
    return "ctx." + re.sub(r"\W", "_", f"{text_of(step, 'step')}_{key}")


def _check_registration(
    written: set[str], step: MapNode, coming: list[tuple[MapNode, MapNode]], *, starts: bool
) -> str:
    """Why `ctx` would not hold what each token brought; an empty text if it does."""
    name = text_of(step, "step")
    brought = [block.entries if (block := map_of(arc, "args")) else [] for _, arc in coming]
    keys = {one.name for entries in brought for one in entries}
    if not all(isinstance(arc.get("args"), MapNode | None) for _, arc in coming):
        return f"say with `set` what `{name}` is to read: these `args` are no map"
    for key in sorted(keys):
        if starts or not all(key in [one.name for one in entries] for entries in brought):
            return f"not every token that comes to `{name}` brings `{key}`: write it with `set`, and say what holds without"
        if _in_ctx(step, key) in written:
            return f"`{_in_ctx(step, key)}` is written already: write `{key}` by another name with `set`"
    if _reads_whole(step, keys):
        return f"`{name}` reads `args` as a whole: write what it needs with `set`, one by one"
    routers = [router for router, arc in coming if text_of(map_of(router, "spec"), "mode") == "inclusive"]
    if len({id(router) for router in routers}) < len(routers):
        return f"several tokens go to `{name}` at once, each with its own `args`: `ctx` holds one of them"
    if not all(isinstance(arc.get("set"), MapNode | None) for _, arc in coming):
        return "add these `args` to the `set` beside them"
    return ""


def _reads_whole(step: MapNode, keys: set[str]) -> bool:
    own = map_of(step, "input")
    known = keys | ({one.name for one in own.entries} if own is not None else set())
    found: list[NameChain] = []

    def look(chain: NameChain) -> None:
        if chain.parts[0] == "args" and (len(chain.parts) < 2 or chain.parts[1] not in known):
            found.append(chain)

    for node in strings(step, skip=_CODE):
        rewrite(node.text, look)
    return bool(found)


def _rewrite(doc: Lowering, step: MapNode, arcs: list[MapNode]) -> None:
    keys: dict[str, None] = {}
    for arc in arcs:
        found = arc.entry("args")
        assert found is not None
        assert isinstance(found.value, MapNode)
        for one in found.value.entries:
            keys[one.name] = None
            key = make(_in_ctx(step, one.name), near=one.key)
            assert isinstance(key, Scalar)
            one.key = key
        found.value.changed = True
        block = map_of(arc, "set")
        if block is None:
            arc.rename("args", "set")
            continue
        arc.take("args")
        for one in found.value:
            doc.keep(block, one, "`args`")
    inputs = _receive(doc, step, list(keys))
    for one in step.entries:
        reads = set() if one.name in _WITHOUT_INPUT else inputs
        for node in strings(one.value, skip=_CODE):
            node.rewrite(rewrite(node.text, lambda chain, reads=reads: _rename_chain(step, chain, reads, keys)))  # type: ignore[misc]


def _rename_chain(step: MapNode, chain: NameChain, inputs: set[str], keys: dict[str, None]) -> ChainRename | None:
    key = chain.parts[1] if len(chain.parts) > 1 else ""
    if chain.parts[0] != "args" or key not in keys:
        return None
    return ChainRename(1, "input") if key in inputs else ChainRename(2, _in_ctx(step, key))


def _receive(doc: Lowering, step: MapNode, keys: list[str]) -> set[str]:
    """Let a step's `input` read from `ctx` what arcs used to carry; the keys that it has now by the same name."""
    near = step.get("step") or step
    found = step.entry("input")
    if found is None or _is_null(found.value):
        step.take("input")
        block = MapNode([], near.start, near.end)
        block.changed = True
        found = step.put(entry("input", block, near=near), at=step.position("step") + 1)
    if not isinstance(found.value, MapNode):
        said = ", ".join(f"`{key}` as `{_in_ctx(step, key)}`" for key in keys)
        doc.todo(found, f"arcs bring {said}: add to this what the tool needs of them", found.key)
        return set()
    received = set()
    for key in keys:
        old = found.value.entry(key)
        if old is None or _is_null(old.value):
            found.value.put(entry(key, make(f"{{{{ {_in_ctx(step, key)} }}}}", near=near), near=near))
        elif not _is_argument(old.value, key):
            if not _reads_argument(old.value, key):
                said = f"arcs bring `{key}` too, as `{_in_ctx(step, key)}`: decide which of them is meant"
                doc.todo(old, said, old.key)
            continue
        received.add(key)
    return received


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _is_argument(node: Node, key: str) -> bool:
    """Whether an input is what the token brought by that name, as it is."""
    whole = re.compile(rf"\{{\{{\s*args\.{re.escape(key)}\s*\}}\}}")
    return isinstance(node, Scalar) and whole.fullmatch(node.text.strip()) is not None


def _reads_argument(node: Node, key: str) -> bool:
    """Whether an input is made out of what the token brought by that name."""
    return any(f"args.{key}" in one.text for one in strings(node))

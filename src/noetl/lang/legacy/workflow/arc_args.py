"""Arcs that carry `args`: what a token brought is written by the arc's `set`, and read in the next step's `input`.

They run as they are; only a migrated file says it otherwise. `ctx` is one for all tokens. What an arc writes there is the
token's own until the step is scheduled, which happens in the same decision: `input` keeps it from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.lang.legacy.lowered_document import V10, Lowering, strings
from noetl.lang.legacy.name_meanings import targets
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.reading.node import MapEntry, MapNode, Node, Scalar, entry, list_of, make, map_of, text_of

_CODE = frozenset({"code"})
#: parts of a step that are evaluated before it has an `input`, or that make the input
_BEFORE = frozenset({"input", "spec", "loop"})
#: parts that are evaluated at its end, where a loop has no `input`: each iteration has its own
_AT_THE_END = frozenset({"next", "set", "output"})
#: a value that is a reference
_REFERENCE = re.compile(r"\{\{[^{}]*(?:\boutput\.ref|_ref)\s*\}\}")


def lower(doc: Lowering) -> None:
    """Report every arc with `args`, and rewrite them where that says the same."""
    for _router, arc in _arcs(doc):
        found = arc.entry("args")
        if found is not None:
            doc.given_args.add(text_of(arc, "step"))
            doc.report_older("arc-args", "`args` of an arc", "the arc's `set` into `ctx.*`, read in the next step's `input`", found.key,
                      grade=V10)  # fmt: skip
    if not doc.migrating:
        return
    tokens = _Tokens(doc)
    written = set().union(*map(targets, doc.steps())) if tokens.coming else set()
    for step in doc.steps():
        arcs = [arc for _, arc in tokens.coming.get(text_of(step, "step"), [])]
        carrying = [arc for arc in arcs if "args" in arc]
        if not carrying:
            continue
        doubt = _find_doubt(written, step, tokens)
        if doubt:
            doc.todo(carrying[0].entry("args"), doubt, carrying[0])
            continue
        _bring_nothing(arcs)
        _rewrite(doc, step, arcs)
        written.update(*map(targets, arcs))


class _Tokens:
    """Which arcs bring tokens to which step, and how many tokens there can be."""

    def __init__(self, doc: Lowering) -> None:
        self.steps = {text_of(step, "step"): step for step in doc.steps()}
        self.first = doc.first_step()
        self.coming: dict[str, list[tuple[MapNode, MapNode]]] = {}
        for step, arc in _arcs(doc):
            self.coming.setdefault(text_of(arc, "step"), []).append((step, arc))
        #: no step sends out more than one token: there is one in all
        self.is_single = not any(_fans_out(step) for step in doc.steps())

    def come_one_by_one(self, step: MapNode, seen: tuple[MapNode, ...] = ()) -> bool:
        """Whether a token has left a step for good before another comes to it."""
        if self.is_single:
            return True
        coming = self.coming.get(text_of(step, "step"), [])
        sources = {text_of(source, "step"): source for source, _ in coming}
        if step in seen or len(sources) + (step is self.first) > 1:
            return False
        if any(_fans_out(source) for source in sources.values()) and len(coming) > 1:
            return False
        return all(self.come_one_by_one(source, (*seen, step)) for source in sources.values())


def _fans_out(step: MapNode) -> bool:
    router = map_of(step, "next")
    arcs = list_of(router, "arcs")
    several = arcs is not None and len(arcs.items) > 1
    return (several and text_of(map_of(router, "spec"), "mode") == "inclusive") or "synthesize" in (
        map_of(router, "spec") or ()
    )


def _arcs(doc: Lowering) -> Iterator[tuple[MapNode, MapNode]]:
    """Every arc with the step that it leaves."""
    for step in doc.steps():
        arcs = list_of(map_of(step, "next"), "arcs")
        for arc in arcs.items if arcs is not None else []:
            if isinstance(arc, MapNode):
                yield step, arc


def _in_ctx(step: MapNode, key: str) -> str:
    return "ctx." + re.sub(r"\W", "_", f"{text_of(step, 'step')}_{key}")


def _is_reference(one: MapEntry) -> bool:
    return isinstance(one.value, Scalar) and _REFERENCE.fullmatch(one.value.text.strip()) is not None


def _find_doubt(written: set[str], step: MapNode, tokens: _Tokens) -> str:
    """Why `ctx` would not hold what each token brought; an empty text if it does."""
    name = text_of(step, "step")
    coming = tokens.coming[name]
    brought = [block.entries if (block := map_of(arc, "args")) else [] for _, arc in coming]
    keys = {one.name for entries in brought for one in entries}
    if not all(isinstance(arc.get("args"), MapNode | None) for _, arc in coming):
        return f"say with `set` what `{name}` is to read: these `args` are no map"
    for key in sorted(keys):
        values = [one for entries in brought for one in entries if one.name == key]
        if step is tokens.first or (len(values) < len(brought) and _tells_missing(step, key)):
            return f"not every token that comes to `{name}` brings `{key}`: write it with `set`, and say what holds without"
        if _in_ctx(step, key) in written:
            return f"`{_in_ctx(step, key)}` is written already: write `{key}` by another name with `set`"
        if sum(_in_ctx(step, other) == _in_ctx(step, key) for other in keys) > 1:
            return f"`{_in_ctx(step, key)}` would be written for two keys: write `{key}` by another name with `set`"
        if any(_is_reference(one) != key.endswith("_ref") for one in values):
            return f"`{key}`: a name that ends in `_ref` holds a reference, and no other does: write it with `set` accordingly"
    if _reads_other(step, keys):
        return f"`{name}` reads `args` as a whole: write what it needs with `set`, one by one"
    if not all(isinstance(arc.get("set"), MapNode | None) for _, arc in coming):
        return "add these `args` to the `set` beside them"
    return _find_rival(step, tokens)


def _tells_missing(step: MapNode, key: str) -> bool:
    """Whether a step does something else where a token brings no such key than where it brings null."""
    name = re.escape(key)
    reads = rf"\bargs(?:\.{name}\b|\[(['\"]){name}\1\])"
    told = re.compile(rf"{reads}\s*(?:is\s|\|\s*d(?:efault)?\((?!\s*none\s*\)))")
    return any(told.search(one.text) for one in strings(step, skip=_CODE))


def _bring_nothing(arcs: list[MapNode]) -> None:
    """Let every arc bring every key: the one of an earlier token must not be taken for this one's."""
    keys = {one.name: one for arc in arcs for one in (map_of(arc, "args") or MapNode([], 0, 0)).entries}
    for arc in arcs:
        block = map_of(arc, "args")
        missing = [one for key, one in keys.items() if block is None or key not in block]
        if not missing:
            continue
        if block is None:
            block = MapNode([], arc.start, arc.end)
            arc.take("args")
            arc.put(entry("args", block, near=arc))
        for one in missing:
            block.put(entry(one.name, make(None, near=arc), near=arc))


def _find_rival(step: MapNode, tokens: _Tokens) -> str:
    """Whether one token can overwrite in `ctx` what another brought, before that was read."""
    name = text_of(step, "step")
    sources = [source for source, _ in tokens.coming[name] if _fans_out(source)]
    if len({id(source) for source in sources}) < len(sources):
        return f"several tokens go to `{name}` at once, each with its own `args`: `ctx` holds one of them"
    if tokens.come_one_by_one(step):
        return ""
    if "admit" in (map_of(map_of(step, "spec"), "policy") or ()):
        return f"several tokens can wait at `{name}`, each with its own `args`: `ctx` holds those of the last"
    at_the_end = set().union(*(_keys_read(one.value) for one in step.entries if one.name in _AT_THE_END))
    own = map_of(step, "input")
    hidden = {one.name for one in own.entries if not _is_argument(one.value, one.name)} if own is not None else set()
    if at_the_end and ("loop" in step or at_the_end & hidden):
        return (
            f"`{name}` reads `args` when it has ended, and another token may have come by then: keep them in `step.*`"
        )
    return ""


def _keys_read(node: Node) -> set[str]:
    """The keys of `args` that the templates below a node read."""
    found: set[str] = set()

    def look(chain: NameChain) -> None:
        if chain.parts[0] == "args" and len(chain.parts) > 1:
            found.add(chain.parts[1])

    for one in strings(node, skip=_CODE):
        rewrite(one.text, look)
    return found


def _reads_other(step: MapNode, keys: set[str]) -> bool:
    """Whether a step reads `args` as a whole, or before it starts a key of them that no token brings."""
    own = map_of(step, "input")
    known = keys | ({one.name for one in own.entries} if own is not None else set())
    found: list[NameChain] = []

    def look(chain: NameChain) -> None:
        if chain.parts[0] == "args" and (len(chain.parts) < 2 or (chain.parts[1] not in known and before)):
            found.append(chain)

    for one in step.entries:
        before = one.name in _BEFORE or ("loop" in step and one.name in _AT_THE_END)
        for node in strings(one.value, skip=_CODE):
            rewrite(node.text, look)
    return bool(found)


def _rewrite(doc: Lowering, step: MapNode, arcs: list[MapNode]) -> None:
    keys: dict[str, None] = {}
    for arc in arcs:
        found = arc.entry("args")
        if found is None or not isinstance(found.value, MapNode):
            continue
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
    inputs = _receive(doc, step, [key for key in keys if key in _keys_of_run(step)])
    for one in step.entries:
        has_input = one.name not in _BEFORE and not ("loop" in step and one.name in _AT_THE_END)
        reads = inputs if has_input else set()
        for node in strings(one.value, skip=_CODE):
            node.rewrite(rewrite(node.text, lambda chain, reads=reads: _rename_chain(step, chain, reads, keys)))  # type: ignore[misc]


def _keys_of_run(step: MapNode) -> set[str]:
    """The keys that a step reads once it has an `input`."""
    return set().union(*(_keys_read(one.value) for one in step.entries if one.name not in ("spec", "loop")))


def _rename_chain(step: MapNode, chain: NameChain, inputs: set[str], keys: dict[str, None]) -> ChainRename | None:
    key = chain.parts[1] if len(chain.parts) > 1 else ""
    if chain.parts[0] != "args" or key not in keys:
        return None
    return ChainRename(1, "input") if key in inputs else ChainRename(2, _in_ctx(step, key))


def _receive(doc: Lowering, step: MapNode, keys: list[str]) -> set[str]:
    """Let a step's `input` read from `ctx` what arcs used to carry; the keys that it has now by the same name."""
    near = step.get("step") or step
    found = step.entry("input")
    if not keys:
        return set()
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
    name = re.escape(key)
    whole = re.compile(rf"\{{\{{\s*args(?:\.{name}|\[(['\"]){name}\1\])\s*\}}\}}")
    return isinstance(node, Scalar) and whole.fullmatch(node.text.strip()) is not None


def _reads_argument(node: Node, key: str) -> bool:
    """Whether an input is made out of what the token brought by that name."""
    return key in _keys_read(node)

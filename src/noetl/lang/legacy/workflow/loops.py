"""Loops: `collection`/`element`, `mode` and `until` beside them, loops inside of the tool."""

from __future__ import annotations

from noetl.lang.legacy.lowering import Lowering, ensure_map
from noetl.lang.reading.node import MapEntry, MapNode, Scalar, entry, make, map_of, text_of

_KEYS = {"collection": "in", "items": "in", "over": "in", "element": "iterator", "item": "iterator", "as": "iterator"}
_SPEC_KEYS = {
    "until": "until",
    "mode": "mode",
    "max_in_flight": "max_in_flight",
    "concurrency": "max_in_flight",
    "max_concurrency": "max_in_flight",
    "complete_when": "complete_when",
}
_MODES = {"async": "parallel", "concurrent": "parallel", "sync": "sequential", "serial": "sequential"}


def lower(doc: Lowering) -> None:
    """Bring every loop into `{in, iterator, spec}`."""
    for step in doc.steps():
        _out_of_the_tool(doc, step)
        loop = map_of(step, "loop")
        while loop is not None:
            _loop(doc, loop)
            loop = map_of(loop, "loop")


def _out_of_the_tool(doc: Lowering, step: MapNode) -> None:
    tool = map_of(step, "tool")
    for word in ("loop", "iterator"):
        found = tool.entry(word) if tool is not None else None
        if found is not None and tool is not None and isinstance(found.value, MapNode) and "loop" not in step:
            doc.report_older("habit", f"`{word}` inside of `tool`", "`loop` on the step", found.key)
            tool.take(word)
            step.put(entry("loop", found.value, near=found.key), at=step.position("tool"))


def _loop(doc: Lowering, loop: MapNode) -> None:
    for old, new in _KEYS.items():
        found = loop.entry(old)
        if found is not None and new not in loop:
            doc.is_000 = doc.is_000 or old == "collection"
            slug = f"loop-{old}" if old in ("collection", "element") else "habit"
            doc.report_older(slug, f"`{old}` of a loop", f"`{new}`", found.key)
            loop.rename(old, new)
    _out_of_place(doc, loop)
    spread = loop.entry("distribution") or loop.entry("distributed")
    if spread is not None and isinstance(spread.value, Scalar) and isinstance(spread.value.value, bool):
        doc.report_older("habit", f"`{spread.name}` of a loop", "`spec.policy.exec`", spread.key)
        loop.take(spread.name)
        if spread.value.value:
            policy = ensure_map(ensure_map(loop, "spec", spread.key), "policy", spread.key)
            policy.put(entry("exec", make("distributed", near=spread.key), near=spread.key))
    _mode(doc, loop)


def _out_of_place(doc: Lowering, loop: MapNode) -> None:
    """What stands beside `in` and belongs under `spec`."""
    mode = text_of(loop, "mode") or text_of(map_of(loop, "spec"), "mode")
    parallel = _MODES.get(mode, mode) == "parallel"
    for old, new in _SPEC_KEYS.items():
        found = loop.entry(old)
        if found is None:
            continue
        slug = f"loop-{old.replace('_', '-')}"
        if old == "until" and parallel:
            doc.report_older(slug, "`until` of a parallel loop, where it has no effect,", "nothing", found.key)
            loop.take(old)
            continue
        spec = ensure_map(loop, "spec", found.key)
        if new in spec:
            continue  # said twice: which of them counts is not ours to say
        doc.report_older(slug, f"`{old}` beside `in`", f"`spec.{new}`", found.key)
        loop.take(old)
        spec.put(MapEntry(found.key, found.value))
        spec.rename(old, new) if old != new else None


def _mode(doc: Lowering, loop: MapNode) -> None:
    spec = map_of(loop, "spec")
    mode = spec.get("mode") if spec is not None else None
    if isinstance(mode, Scalar) and mode.text in _MODES:
        doc.report_older("habit", f"`mode: {mode.text}`", f"`mode: {_MODES[mode.text]}`", mode)
        mode.rewrite(_MODES[mode.text])

"""Chunked reads of a database tool, and older spellings of `kind: transfer` itself."""

from __future__ import annotations

from noetl.expr import has_template
from noetl.lang.legacy.keychain import lower_auth
from noetl.lang.legacy.lowered_document import Lowering, ensure_map, quote_entries, strings
from noetl.lang.legacy.name_rewrite import names_in
from noetl.lang.legacy.sink_targets import (
    SQL,
    SinkOrigin,
    args_of,
    is_log,
    iter_sinks,
    rows_of,
    target_of,
    writes_itself,
)
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, make, map_of, text_of

#: what a path could say of rows that are nothing but rows
_ALL_ROWS = frozenset({"rows", "data", "$", "$.rows", "$.data", "result", "$[*]"})


def lower_cursor(doc: Lowering, task: MapNode, sinks: MapEntry | None, origin: SinkOrigin, name: str) -> bool:
    """`chunk` on a database tool: the rows never stand in memory all at once. Whether its sinks are targets now."""
    chunk = task.entry("chunk")
    if chunk is None or text_of(task, "kind") not in SQL:
        return False
    if sinks is None:
        doc.report_older("chunk", "`chunk` without a sink", "nothing", chunk.key)
        task.take("chunk")
        return False
    if not all(
        isinstance(one, MapNode) and not writes_itself(one) and not is_log(one) for one in iter_sinks(sinks.value)
    ):
        return False
    doc.report_older("chunk", "`chunk` of a database tool", "`kind: transfer` with the query as its source", chunk.key)
    source = MapNode([], chunk.key.start, chunk.key.end)
    source.changed = True
    source.put(entry("kind", make(text_of(task, "kind"), near=chunk.key)))
    for word in ("auth", "query", "command", "params", "file"):
        taken = task.take(word)
        if taken is not None:
            source.put(taken)
            source.rename("command", "query") if word == "command" else None
    _parameters(task, source, origin)
    _no_path(doc, chunk, origin)
    kind = task.get("kind")
    assert isinstance(kind, Scalar)
    kind.rewrite("transfer")
    task.put(entry("source", source, near=chunk.key), at=task.position("kind") + 1)
    add_targets(doc, task, sinks, origin, name)
    return True


def _parameters(task: MapNode, source: MapNode, origin: SinkOrigin) -> None:
    """The input of a query is its parameters; that of a transfer would configure it."""
    given = task.entry("input")
    if given is None or not isinstance(given.value, MapNode):
        return
    query = source.get("query")
    if isinstance(query, Scalar) and "input" in names_in(query.text):
        origin.doubt(f"the query reads {quote_entries([given])}: write the values themselves")
    params = source.get("params")
    names = {one.name for one in params.entries} if isinstance(params, MapNode) else set()
    if params is not None and (not isinstance(params, MapNode) or names & {one.name for one in given.value.entries}):
        return  # said twice: left where it is, for the checks to tell
    task.take("input")
    block = ensure_map(source, "params", given.key)
    for one in given.value.entries:
        block.put(one)


def _no_path(doc: Lowering, chunk: MapEntry, origin: SinkOrigin) -> None:
    """Rows of a database are the rows; there is no path to them."""
    path = chunk.value.entry("path") if isinstance(chunk.value, MapNode) else None
    if path is None or not isinstance(chunk.value, MapNode):
        return
    chunk.value.take("path")
    doc.report_older("chunk", "`chunk.path` of a database tool", "nothing", path.key)
    if not isinstance(path.value, Scalar) or path.value.text not in _ALL_ROWS:
        origin.doubt(f"the rows of the query are written as they are; `chunk` also said {quote_entries([path])}")


def add_targets(doc: Lowering, task: MapNode, sinks: MapEntry, origin: SinkOrigin, name: str) -> None:
    """Make the sinks of a transfer its targets."""
    targets: list[Node] = []
    for one in iter_sinks(sinks.value):
        if isinstance(one, Scalar) or is_log(one):
            origin.doubt(f"the sink said {quote_entries([sinks])}") if not is_log(one) else None
            continue
        given = args_of(one)
        if given is not None and not (isinstance(given.value, MapNode) and rows_of(given.value, origin) is not None):
            origin.doubt(f"the rows are written as they are; the sink said {quote_entries([given])}")
        target = target_of(doc, one, origin, name)
        if any("output" in names_in(node.text) for node in strings(target)):
            origin.doubt("while rows are written there is no `output` of them: say it with `row` or `chunk`")
        targets.append(target)
    there = task.entry("targets")
    if there is not None and isinstance(there.value, ListNode):
        there.value.items.extend(targets)
        there.value.changed = True
    else:
        there = task.put(entry("targets", make(targets, near=sinks.key), near=sinks.key))
    origin.settle(doc, there, sinks.key)


def lower_transfer(doc: Lowering, task: MapNode, origin: SinkOrigin, name: str) -> None:
    """Older spellings of `kind: transfer` itself."""
    if text_of(task, "kind") != "transfer":
        return
    source = map_of(task, "source")
    for block in (source, map_of(task, "target")):
        for old, new in (("type", "kind"), ("endpoint", "url")):
            found = block.entry(old) if block is not None else None
            if found is not None and block is not None and new not in block:
                doc.report_older(old, f"`{old}`", f"`{new}`", found.key)
                block.rename(old, new)
        lower_auth(doc, block, name) if block is not None else None
    inner = source.entry("chunk") if source is not None else None
    if inner is not None and source is not None and "chunk" not in task:
        doc.report_older("chunk", "`chunk` under `source`", "`chunk` beside it", inner.key)
        source.take("chunk")
        task.put(inner)
    target = task.entry("target")
    if target is not None and isinstance(target.value, MapNode) and "targets" not in task:
        doc.report_older("habit", "`target`", "`targets: […]`", target.key)
        _plain_mapping(target.value)
        task.put(entry("targets", make([target.value], near=target.key), near=target.key))
        task.take("target")
    size = task.entry("chunk_size")
    if size is not None and "size" not in (map_of(task, "chunk") or MapNode([], 0, 0)):
        doc.report_older("habit", "`chunk_size`", "`chunk: {size}`", size.key)
        task.take("chunk_size")
        ensure_map(task, "chunk", size.key).put(entry("size", size.value, near=size.key))
    for word in ("sink", "sinks", "save"):
        sinks = task.take(word)
        if sinks is not None:
            doc.report_older("sink", f"`{word}`", "`targets`", sinks.key)
            add_targets(doc, task, sinks, origin, name)


def _plain_mapping(target: MapNode) -> None:
    """`mapping: {column: field}` with plain names."""
    mapping = map_of(target, "mapping")
    for one in mapping.entries if mapping is not None else []:
        if isinstance(one.value, Scalar) and isinstance(one.value.value, str) and not has_template(one.value.value):
            one.value.rewrite("{{ row." + one.value.text + " }}")

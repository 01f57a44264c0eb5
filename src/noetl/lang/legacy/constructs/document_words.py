"""Words around the tasks: names of steps, settings of results, `schedule`, `timeout_s`, `on_no_match`, `token(…)`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.expr import has_template
from noetl.lang.grammar.document_shape import NAME_PATTERN
from noetl.lang.legacy.keychain import keychain_entry
from noetl.lang.legacy.lowered_document import (
    Lowering,
    ensure_map,
    free_name,
    in_a_line,
    quote_entries,
    strings,
    task_items,
)
from noetl.lang.reading.node import MapEntry, MapNode, Node, Scalar, entry, list_of, make, map_of, text_of

_CODE = frozenset({"code"})


def lower(doc: Lowering) -> None:
    """Lower what stands around the tasks, once steps and tasks have their shape."""
    if doc.accepted or doc.migrating:
        _rename_steps(doc)  # otherwise this is `bad-name`, which says the same
    _default_timeout(doc)
    for step in doc.steps():
        _result_settings(doc, step, step)
        for _name, task in task_items(step):
            _result_settings(doc, step, task)
        _no_match(doc, step)
    _tokens(doc)


def lower_schedule(doc: Lowering) -> None:
    """`metadata.schedule`: nothing here starts playbooks by the clock, so that it is no label either."""
    if not (doc.accepted or doc.migrating):
        return  # a key that the grammar does not know, and it says what to do instead
    metadata = map_of(doc.root, "metadata")
    found = next((one for one in metadata.entries if one.name in ("schedule", "cron")), None) if metadata else None
    if found is None or metadata is None:
        return
    doc.report_older("habit", f"`metadata.{found.name}`", "a scheduler that calls `noetl run FILE`", found.key)
    metadata.take(found.name)
    said = f"{quote_entries([found])}: nothing starts playbooks by the clock yet; let your scheduler call `noetl run`"
    doc.todo(doc.root.entry("metadata"), said, found.key)


# --- names of steps --------------------------------------------------------------------------------------------


def _rename_steps(doc: Lowering) -> None:
    """A step whose name has other characters gets one that templates and arcs can use."""
    taken = doc.step_names()
    renamed: dict[str, str] = {}
    for step in doc.steps():
        node = step.get("step")
        name = text_of(step, "step")
        if not name or not isinstance(node, Scalar) or re.fullmatch(NAME_PATTERN, name):
            continue
        made = free_name(_spell_name(name), taken)
        doc.report_older("habit", f"the step's name `{name}`", f"`{made}`", node)
        renamed[name] = made
        taken.add(made)
        node.rewrite(made)
    for node, is_route in _mentions(doc) if renamed else ():
        if is_route and node.text in renamed:
            node.rewrite(renamed[node.text])
        elif has_template(node.text):
            node.rewrite(_rename_quoted(node.text, renamed))


def _spell_name(name: str) -> str:
    """A name with the characters that a step's name may have."""
    made = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "step"
    return made if re.match(r"[A-Za-z_]", made) else f"step_{made}"


_ROUTES = ("next", "case", "spec")
#: blocks within routing whose values are data
_DATA = frozenset({"set", "set_ctx", "args", "message"})


def _mentions(doc: Lowering) -> Iterator[tuple[Scalar, bool]]:
    """Texts in which the name of a step may stand; and whether one that is nothing else is that name."""
    for step in doc.steps():
        for one in step.entries:
            if one.name in _ROUTES:
                yield from ((node, True) for node in strings(one.value, skip=_DATA, everywhere=True))
            if one.name != "step":
                yield from ((node, False) for node in strings(one.value, skip=_CODE))


#: a quoted text, and what it is compared with, if that stands before it or is no `….step` after it
_QUOTED = re.compile(
    r"(?P<compared>[\w.]*\s*[=!]=\s*)?(?P<quote>['\"])(?P<name>[^'\"]*)(?P=quote)(?P<data>\s*[=!]=(?!\s*[\w.]*\.step\b))?"
)


def _rename_quoted(text: str, renamed: dict[str, str]) -> str:
    """Rename steps in a template: in calls, lists and subscripts, and where `….step` is compared with them."""

    def rename(found: re.Match[str]) -> str:
        compared = found["compared"] or ""
        is_data = found["data"] or (compared and not compared.rstrip(" =!").endswith(".step"))
        name = found["name"] if is_data else renamed.get(found["name"], found["name"])
        return f"{compared}{found['quote']}{name}{found['quote']}{found['data'] or ''}"

    return _QUOTED.sub(rename, text)


# --- settings --------------------------------------------------------------------------------------------------


_STORES = {"auto", "blob", "object_store", "relational", "nats"}
_OTHER_STORES = {
    "s3": "object_store",
    "gcs": "object_store",
    "postgres": "relational",
}
#: stores that older engines brought along
_OF_THE_ENGINE = frozenset({"kv", "object", "memory", "disk", "eventlog", "nats_kv", "nats_object"})
_SETTINGS = frozenset({"output_select", "store", "ttl", "inline_max_bytes"})


def _result_settings(doc: Lowering, step: MapNode, holder: MapNode) -> None:
    """`output: {output_select, store}` said how a result is kept, and never what it is."""
    found = holder.entry("output")
    block = map_of(holder, "output")
    if found is None or block is None or not block.entries or not all(one.name in _SETTINGS for one in block.entries):
        return
    if "output_select" not in block and not isinstance(block.get("store"), MapNode):
        return
    doc.report_older("habit", "`output` with settings", "`spec.result`", found.key)
    holder.take("output")
    for one in block.entries:
        if one.name in ("ttl", "inline_max_bytes"):
            _put_result(doc, holder, one)
        elif one.name == "store":
            _put_store(doc, step, holder, one)


def _put_result(doc: Lowering, holder: MapNode, one: MapEntry) -> None:
    doc.keep(ensure_map(ensure_map(holder, "spec", one.key), "result", one.key), one, "`output`")


def _put_store(doc: Lowering, step: MapNode, holder: MapNode, one: MapEntry) -> None:
    kind = text_of(one.value, "kind") or text_of(one.value, "type") if isinstance(one.value, MapNode) else ""
    kind = kind or (one.value.text if isinstance(one.value, Scalar) else "")
    word = _OTHER_STORES.get(kind, kind)
    left = (
        [other for other in one.value.entries if other.name not in ("kind", "type")]
        if isinstance(one.value, MapNode)
        else []
    )
    if kind in _OF_THE_ENGINE:
        return  # where an older engine kept its results: that is for the one that runs this
    if word in _STORES and word != "auto":
        _put_result(doc, holder, entry("store", make(word, near=one.key), near=one.key))
    if left or word not in _STORES:
        doc.todo(step.entry("step"), f"the result was kept as {quote_entries([one])}: see `spec.result`", one.key)


def _default_timeout(doc: Lowering) -> None:
    """`defaults.timeout_s` of the executor: the time limit of every task."""
    spec = map_of(map_of(doc.root, "executor"), "spec")
    policy = map_of(spec, "policy")
    for holder in (policy, spec):
        defaults = map_of(holder, "defaults")
        found = defaults.entry("timeout_s") or defaults.entry("timeout") if defaults is not None else None
        if found is None or defaults is None or holder is None or spec is None:
            continue
        doc.report_older("habit", f"`defaults.{found.name}`", "`executor.spec.timeout`", found.key)
        defaults.take(found.name)
        if not defaults.entries:
            holder.take("defaults")
        if policy is not None and not policy.entries and policy.changed:
            spec.take("policy")
        doc.keep(spec, entry("timeout", found.value, near=found.key), "`defaults`")


_NO_MATCH = {"error": "fail", "fail": "fail", "failed": "fail", "end": "end", "stop": "end", "complete": "end",
             "completed": "end", "ignore": "end", "continue": "end", "none": "end"}  # fmt: skip


def _no_match(doc: Lowering, step: MapNode) -> None:
    """`on_no_match` beside the arcs, or in words of its own."""
    router = map_of(step, "next")
    found = router.entry("on_no_match") if router is not None else None
    if router is not None and found is not None:
        doc.report_older("habit", "`on_no_match` beside `arcs`", "`next.spec.on_no_match`", found.key)
        router.take("on_no_match")
        doc.keep(ensure_map(router, "spec", found.key), found, "`next`")
    spec = map_of(router, "spec")
    value = spec.get("on_no_match") if spec is not None else None
    if not isinstance(value, Scalar) or value.text in ("end", "fail") or not (doc.accepted or doc.migrating):
        return  # of a document of today, the grammar says which words there are
    if value.text in _NO_MATCH:
        new = _NO_MATCH[value.text]
        doc.report_older("habit", f"`on_no_match: {value.text}`", f"`on_no_match: {new}`", value)
        value.rewrite(new)
    elif spec is not None and doc.migrating:
        taken = spec.take("on_no_match")
        assert taken is not None
        doc.todo(step.entry("next"), f"`next` said {quote_entries([taken])}: write `end` or `fail`", value)


# --- tokens ----------------------------------------------------------------------------------------------------


_TOKEN = re.compile(r"\btoken\(\s*(?:name\s*=\s*)?(['\"])([\w-]+)\1\s*\)")
_ANY_TOKEN = re.compile(r"\{\{[^{}]*\btoken\(")


def _tokens(doc: Lowering) -> None:
    """`token('name')` in a template: the token of a keychain entry."""
    for body, called in doc.bodies():
        for node in strings(body, skip=_CODE):
            if "token(" not in node.text or not has_template(node.text):
                continue
            names = [found[2] for found in _TOKEN.finditer(node.text)]
            for name in names:
                doc.report_older("habit", f"`token('{name}')`", f"`keychain.{name}.token`", node)
                _declare(doc, name, node)
            node.rewrite(_TOKEN.sub(lambda found: f"keychain['{found[2]}'].token" if "-" in found[2] else f"keychain.{found[2]}.token", node.text))  # fmt: skip
            if _ANY_TOKEN.search(node.text):
                doc.todo(called or body.entry("tool"), f"name the credential in {in_a_line(node)}", node)


def _declare(doc: Lowering, name: str, near: Node) -> None:
    keychain = list_of(doc.root, "keychain")
    known = {text_of(item, "name") for item in keychain or () if isinstance(item, MapNode)}
    if name not in known:
        keychain_entry(doc, name, "bearer", {}, near)
        said = f"`{name}` is taken for a bearer token of the credential store: say otherwise if it is not"
        doc.todo(doc.root.entry("keychain"), said, near)

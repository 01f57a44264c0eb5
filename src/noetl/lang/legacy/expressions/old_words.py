"""Words of older runtimes inside templates: `outcome` and its parts, events by other names, secrets, `null`."""

from __future__ import annotations

import re

from noetl.lang.legacy.expressions.name_rewrite import ChainRename, NameChain
from noetl.lang.legacy.expressions.scene import HTTP, NameContext
from noetl.lang.legacy.lowering import V10, Lowering
from noetl.lang.legacy.scanner import ENVELOPE, EVENTS
from noetl.lang.reading.node import Scalar

#: what shows that a condition on `step.exit` is about one of its two ends
_SUCCEEDED = re.compile(
    r"\bnot\s+(?:event\.|output\.)?error\b|\berror\s+is\s+(?:not\s+defined|undefined|none)\b|\berror\s*==\s*none\b"
    r"|\b(?:response|result)\b(?!\s+is\s+(?:not\s+defined|undefined|none))|status\s*==\s*'(?:ok|success)'", re.IGNORECASE)  # fmt: skip
#: kinds of steps that have one end only
_NEVER_FAIL = ("", "noop")
_FAILED = re.compile(r"\berror\b", re.IGNORECASE)


def null(doc: Lowering, _chain: NameChain, _scene: NameContext, node: Scalar) -> ChainRename:
    """YAML's word for nothing is not Jinja2's."""
    doc.report_older("habit", "`null` in a template", "`none`", node)
    return ChainRename(1, "none")


def outcome(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename:
    """`outcome` of v10, whose `result` is the data and, for http, the whole response."""
    doc.report_older("outcome", "`outcome`", "`output`", node, grade=V10)
    parts = chain.parts
    after = parts[1] if len(parts) > 1 else ""
    if after in ("result", "response"):
        if scene.kind == "http" and len(parts) > 2 and parts[2] in ("data", *HTTP):
            return ChainRename(3, "output.data" if parts[2] == "data" else f"output.http.{HTTP[parts[2]]}")
        return ChainRename(2, "output.data")
    if after in ("result_ref", "ref"):
        if after == "result_ref":
            doc.report_older("result-ref", "`result_ref`", "`output.ref`", node)
        return ChainRename(2, "output.ref")
    return _success(doc, chain, scene, node) or ChainRename(1, "output")


def _success(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
    """A status that is compared with `'success'`, in whatever way."""
    if chain.parts[1:2] != ("status",) or "success" not in node.text:
        return None
    if "success" in chain.compared:
        doc.report_older("outcome-success", "the status `'success'`", "`'ok'`", node)
        return ChainRename(1, "output", compared={"success": "ok"})
    if not chain.compared:
        doc.unsure.append((scene.holder, "a status is `ok` or `error`, and never `success`", node))
    return None


def event(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
    """Events that other runtimes sent."""
    words = {word: EVENTS[word] for word in chain.compared if word in EVENTS}
    if chain.parts[1:2] not in (("name",), ("type",)):
        return None
    if "step.exit" in chain.compared:
        words["step.exit"] = _exit(doc, scene, node)
    for old, new in words.items():
        doc.report_older("habit", f"the event `{old}`", f"`{new}`", node)
    return ChainRename(2, "event.name", compared=words) if words else None


def _exit(doc: Lowering, scene: NameContext, node: Scalar) -> str:
    """`step.exit` came after success and failure alike; which of them was meant, the rest of the condition says."""
    if _SUCCEEDED.search(node.text):
        return "step.done"
    if _FAILED.search(node.text):
        return "step.failed"
    if scene.kind not in _NEVER_FAIL:
        said = "`step.exit` came after failures too: if they are meant, `event.name in ['step.done', 'step.failed']`"
        doc.todo(scene.holder, said, node)
    return "step.done"


def output(doc: Lowering, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
    """What can mean the envelope of another runtime, or the body itself."""
    if chain.parts[1:2] == ("status",):
        return _success(doc, chain, scene, node)
    if scene.kind != "http" or chain.parts[1:2] != ("data",) or len(chain.parts) < 3:
        return None
    if chain.parts[2] in ENVELOPE:
        name = ".".join(chain.parts[:3])
        said = f"`{name}`: `output.data` is the body itself, and its status is `output.http.status`"
        doc.unsure.append((scene.holder, said, node))
    return None


def keychain(doc: Lowering, chain: NameChain, _scene: NameContext, node: Scalar) -> ChainRename | None:
    """The one secret of an entry, which `map` had given a name."""
    name, field = (*chain.parts[1:3], "", "")[:2]
    if not field or doc.secret_fields.get(name) != field:
        return None
    doc.report_older("habit", f"`keychain.{name}.{field}`", f"`keychain.{name}.value`", node)
    return ChainRename(3, f"keychain.{name}.value")

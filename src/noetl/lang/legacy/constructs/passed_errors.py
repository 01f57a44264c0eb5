"""What a task writes with `set` when it failed and its rules go on: older engines wrote null, today nothing is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.lang.legacy.lowered_document import Lowering, strings, task_items
from noetl.lang.reading.node import MapNode, list_of, map_of, text_of

_CODE = frozenset({"code"})
_LEAVING = frozenset({"fail", "retry", "break"})
_ON_ERROR = re.compile(r"\berror\b")
_IS_OK = re.compile(r"status\s*==\s*'(?:ok|success)'|status\s*!=\s*'error'")


def lower(doc: Lowering) -> None:
    """Let what follows a task whose errors are passed over find null where it found null."""
    if not (doc.accepted or (doc.migrating and doc.found_any)):
        return
    for step in doc.steps():
        missing: set[str] = set()
        for _name, task in task_items(step):
            for node in strings(task, skip=_CODE) if missing else ():
                for name in missing:
                    whole = rf"\{{\{{-?\s*({re.escape(name)}(?:\.\w+)*)\s*-?\}}\}}"
                    node.rewrite(re.sub(whole, r"{{ \1 | default(none) }}", node.text))
            missing |= set(_unwritten(task))


def _unwritten(task: MapNode) -> Iterator[str]:
    """The targets that a task does not write when it fails and its pipeline goes on."""
    block = map_of(task, "set")
    if block is None or not _goes_on(task):
        return
    yield from (one.name for one in block.entries if one.name.partition(".")[0] in ("step", "iter"))


def _goes_on(task: MapNode) -> bool:
    """Whether the rules of a task continue after an error."""
    policy = map_of(map_of(task, "spec"), "policy")
    rules = list_of(policy, "rules")
    for rule in rules.items if rules is not None else []:
        if not isinstance(rule, MapNode):
            continue
        body = map_of(rule, "else") or rule
        when = text_of(rule, "when")
        if _IS_OK.search(when):
            continue
        leaves = text_of(map_of(body, "then"), "do") in _LEAVING
        if "else" in rule or re.fullmatch(r"\s*\{\{\s*output\.status\s*==\s*'error'\s*\}\}\s*", when):
            return not leaves  # whatever the error is, this rule has it
        if _ON_ERROR.search(when) and not leaves:
            return True
    return rules is not None and text_of(policy, "on_unmatched") != "fail"

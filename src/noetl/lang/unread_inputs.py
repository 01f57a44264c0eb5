"""Inputs that a playbook does not read: what somebody gives it under such a name has no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from noetl.expr import has_template
from noetl.lang.reading.node import ListNode, MapNode, Node, map_of, plain_value
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source

#: the workload as a whole: nobody can tell what is read of it
_WHOLE = re.compile(r"""\bworkload\b(?!\s*(?:\.(?!items\b|keys\b|values\b|get\(\s*[^'"\s])|\[\s*['"]))""")
#: blocks whose templates and code may read the workload
_READERS = ("metadata", "keychain", "executor", "workflow", "workbook")


class UnreadInput(NamedTuple):
    """A path into the workload that nothing declares or reads, and the names that are known beside its last part."""

    path: tuple[str, ...]
    known: tuple[str, ...]


def find_unread_inputs(text: str, paths: Sequence[tuple[str, ...]]) -> list[UnreadInput]:
    """Those of some paths into the workload that neither `workload` nor the schema has, and no template or code mentions."""
    root = read_yaml(text, Diagnostics(Source(text)))
    if not isinstance(root, MapNode):
        return []
    workload = plain_value(root.get("workload"))
    metadata = map_of(root, "metadata")
    schema = plain_value(metadata.get("schema")) if metadata is not None else None
    missing = [one for path in paths if (one := _find_missing(path, workload or {}, schema)) is not None]
    if not missing:
        return []
    readers = [one for name in _READERS if (block := root.get(name)) is not None for one in _readers(block)]
    if any(_WHOLE.search(one) for one in readers):
        return []
    return [one for one in missing if not _is_mentioned(one.path[-1], readers)]


def _find_missing(path: tuple[str, ...], workload: Any, schema: Any) -> UnreadInput | None:
    """The first part of a path that neither the workload's defaults nor the schema knows; None: all are known."""
    for at, name in enumerate(path):
        declared = _declared(schema)
        defaults = workload if isinstance(workload, Mapping) else {}
        if name not in defaults and name not in declared:
            is_open = isinstance(schema, Mapping) and bool(
                {"additionalProperties", "patternProperties"} & schema.keys()
            )
            # Below the top, a value that is no map or an empty one says nothing of its keys.
            if is_open or (at and not defaults and not declared):
                return None
            return UnreadInput(path[: at + 1], tuple(dict.fromkeys([*defaults, *declared])))
        workload, schema = defaults.get(name), declared.get(name)
    return None


def _declared(schema: Any) -> dict[str, Any]:
    """The names that a schema speaks of, each with its own schema if there is one."""
    if not isinstance(schema, Mapping):
        return {}
    required, properties = schema.get("required"), schema.get("properties")
    names = {str(name): None for name in required} if isinstance(required, list) else {}
    return {**names, **(properties if isinstance(properties, Mapping) else {})}


def _readers(node: Node, key: str = "") -> Iterator[str]:
    """The texts that may read an input: templates, code, and the names of modules, of whose code nothing is known."""
    if isinstance(node, MapNode):
        for entry in node.entries:
            yield from _readers(entry.value, entry.name)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _readers(item, key)
    elif isinstance(node.value, str) and (key == "code" or has_template(node.value)):
        yield node.value
    elif key == "module":
        yield "workload"


def _is_mentioned(name: str, readers: list[str]) -> bool:
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return any(word.search(one) for one in readers)

"""Inputs that a playbook does not read: what somebody gives it under such a name has no effect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
    """A name that the workload does not have and nothing reads, and the names that it has."""

    name: str
    known: tuple[str, ...]


def find_unread_inputs(text: str, names: Iterable[str]) -> list[UnreadInput]:
    """Those of some names that neither `workload` nor its schema has, and no template or code mentions.

    What stands below a name is data: a map may have other keys than in its default.
    """
    root = read_yaml(text, Diagnostics(Source(text)))
    if not isinstance(root, MapNode):
        return []
    workload = plain_value(root.get("workload"))
    metadata = map_of(root, "metadata")
    schema = plain_value(metadata.get("schema")) if metadata is not None else None
    schema = schema if isinstance(schema, Mapping) else {}
    known = dict.fromkeys([*(workload if isinstance(workload, Mapping) else ()), *_declared(schema)])
    missing = [name for name in names if name not in known]
    if not missing or {"additionalProperties", "patternProperties"} & schema.keys():
        return []
    readers = [one for name in _READERS if (block := root.get(name)) is not None for one in _readers(block)]
    if any(_WHOLE.search(one) for one in readers):
        return []
    return [UnreadInput(name, tuple(known)) for name in missing if not _is_mentioned(name, readers)]


def _declared(schema: Mapping[str, Any]) -> list[str]:
    """The names that a schema speaks of."""
    required, properties = schema.get("required"), schema.get("properties")
    names = [
        *(properties if isinstance(properties, Mapping) else ()),
        *(required if isinstance(required, list) else ()),
    ]
    return [str(name) for name in names]


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

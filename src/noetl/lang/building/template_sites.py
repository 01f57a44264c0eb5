"""Template sites: every template of a playbook with its place and the names it may use.

Building the typed playbook collects them; the checks of names, secrets and references go through the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.expr import EvaluationPoint, Guard, Template, guard, template, value
from noetl.lang.grammar.value_types import is_template
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, plain_value


class SitePlace(msgspec.Struct, frozen=True, gc=False):
    """Where in the workflow a template stands."""

    boundary: EvaluationPoint
    step: str | None = None
    task: str | None = None
    in_loop: bool = False
    #: inside of the workbook: a call boundary that sees nothing of its caller
    workbook: bool = False


class Site(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A template, the node that holds it and its place."""

    template: Template | Guard
    node: Scalar
    place: SitePlace
    is_when: bool = False


class Sites:
    """Compiles the values of a document and remembers every template among them."""

    def __init__(self) -> None:
        self.all: list[Site] = []

    def value(self, node: Node | None, place: SitePlace) -> Any:
        """A node as a compiled value, or None where there is no node."""
        return None if node is None else value(self._tree(node, place))

    def values(self, node: Node | None, place: SitePlace) -> Any:
        """A map as a dict of compiled values by key; a whole-map template as one value."""
        if isinstance(node, MapNode):
            return {entry.name: self.value(entry.value, place) for entry in node.entries}
        return self.value(node, place) if _says_something(node) else None

    def _tree(self, node: Node, place: SitePlace) -> Any:
        if isinstance(node, MapNode):
            return {entry.key.text: self._tree(entry.value, place) for entry in node.entries}
        if isinstance(node, ListNode):
            return [self._tree(item, place) for item in node.items]
        return self.text(node, place) if is_template(node.value) else node.value

    def text(self, node: Scalar, place: SitePlace) -> Template:
        """A scalar as a template."""
        made = template(node.value)
        self.all.append(Site(made, node, place))
        return made

    def number(self, node: Node | None, place: SitePlace, default: Any = None) -> Any:
        """A number as it is, or a compiled template that yields one."""
        if not isinstance(node, Scalar) or node.value is None:
            return default
        return self.value(node, place) if is_template(node.value) else node.value

    def condition(self, node: Node | None, place: SitePlace) -> Guard | None:
        """A `when`, or None where there is none."""
        if not isinstance(node, Scalar):
            return None
        made = guard(node.value if isinstance(node.value, bool) else node.text)
        self.all.append(Site(made, node, place, is_when=True))
        return made

    def reads(self, name: str) -> bool:
        """Whether any template reads a name."""
        return any(read.path[0] == name for site in self.all for read in site.template.reads)


def literal(node: Node | None) -> Mapping[str, Any]:
    """A map as plain data; empty where there is none."""
    found = plain_value(node)
    return found if isinstance(found, dict) else {}


def _says_something(node: Node | None) -> bool:
    return node is not None and not (isinstance(node, Scalar) and node.value is None)

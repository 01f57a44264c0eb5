"""A value of the playbook with templates anywhere inside it, made ready to be rendered many times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from noetl.expr.facts import TemplateFacts, join_facts
from noetl.expr.sandbox.evaluation import Budget
from noetl.expr.templates import Template

_Render = Callable[[Mapping[str, Any], Budget | None], Any]


class TemplateValue:
    """A tree of maps and lists whose leaves may be templates. Templates in keys are not looked at."""

    __slots__ = ("_render", "_templates", "tree")

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self._templates: tuple[Template, ...] | None = None
        self._render: _Render | None = None

    def with_tree(self, tree: Any) -> TemplateValue:
        """The same kind of value, of another tree."""
        return TemplateValue(tree)

    @property
    def templates(self) -> tuple[Template, ...]:
        """Every template inside, in order; looked for at the first question."""
        if self._templates is None:
            self._templates = tuple(_templates(self.tree))
        return self._templates

    @property
    def constant(self) -> bool:
        """Whether it yields the same whatever the scopes are."""
        return all(found.is_constant for found in self.templates)

    @property
    def facts(self) -> TemplateFacts:
        """Problems, reads, calls and filters of all templates inside; offsets are those in each template."""
        return join_facts(found.facts for found in self.templates)

    def evaluate(self, scopes: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """The rendered tree. Its maps and lists are new ones each time, down to what templates yield."""
        if self._render is None:
            self._render = _renderer(self.tree)
        return self._render(scopes, budget)


#: what only a tool that goes through rows can give a meaning to
_OF_ROWS: Final = frozenset({"row", "chunk"})


class LateValue(TemplateValue):
    """A value that is evaluated as far as it can be before there is a row.

    Templates that speak of `row` or `chunk` stay templates, and so does what stands under the keys of `kept`.
    """

    __slots__ = ("_kept",)

    def __init__(self, tree: Any, kept: frozenset[str]) -> None:
        super().__init__(tree)
        self._kept = kept

    def with_tree(self, tree: Any) -> LateValue:
        """The same with another tree."""
        return LateValue(tree, self._kept)

    def evaluate(self, scopes: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """The rendered tree, with the templates in it that have to wait."""
        return self._evaluate_tree(self.tree, scopes, budget)

    def _evaluate_tree(self, tree: Any, scopes: Mapping[str, Any], budget: Budget | None) -> Any:
        if isinstance(tree, Template):
            return tree if reads_rows(tree) else tree.evaluate(scopes, budget)
        if isinstance(tree, Mapping):
            return {
                key: part if key in self._kept else self._evaluate_tree(part, scopes, budget)
                for key, part in tree.items()
            }
        if isinstance(tree, (list, tuple)):
            return [self._evaluate_tree(part, scopes, budget) for part in tree]
        return tree


def reads_rows(found: Template) -> bool:
    """Whether a template reads `row` or `chunk`."""
    return any(read.path[0] in _OF_ROWS for read in found.facts.reads)


def value(tree: Any) -> TemplateValue:
    """The value of a tree whose leaves may be `Template` objects."""
    return TemplateValue(tree)


def _templates(tree: Any) -> Iterator[Template]:
    if isinstance(tree, Template):
        yield tree
    elif isinstance(tree, Mapping):
        for part in tree.values():
            yield from _templates(part)
    elif isinstance(tree, (list, tuple)):
        for part in tree:
            yield from _templates(part)


def _renderer(tree: Any) -> _Render:
    if isinstance(tree, Template):
        return tree.evaluate
    if isinstance(tree, Mapping):
        pairs = [(key, _renderer(part)) for key, part in tree.items()]
        return lambda scopes, budget: {key: render(scopes, budget) for key, render in pairs}
    if isinstance(tree, (list, tuple)):
        parts = [_renderer(part) for part in tree]
        return lambda scopes, budget: [render(scopes, budget) for render in parts]
    return lambda _scopes, _budget: tree

"""Values of a playbook with templates inside: compiled, rendered, and written by blocks of `set`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.member_access import is_reference
from noetl.expr.sandbox.evaluation import Budget
from noetl.expr.syntax.facts import TemplateFacts, join_facts
from noetl.expr.templates import Template
from noetl.model.output import Failure, failure
from noetl.model.playbook import MAX_PAYLOAD, Assignment
from noetl.model.scope import Patch

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


# Values of a playbook, evaluated: maps of them, and blocks of `set`.


#: a longer template is not repeated in each of its errors
_LONGEST = 2_000
_encoder = msgspec.json.Encoder()
#: how deep, and at how many members, one looks for a long list before a value is written to see its size
_LEVELS, _FEW = 3, 16
_LISTS_AND_MAPS: Final = frozenset({dict, list, tuple})
_DIGITS_PER_BIT: Final = math.log10(2)


def render(value: Any, scopes: Mapping[str, Any]) -> Any:
    """A compiled value, a map of them, or a plain one."""
    if isinstance(value, Mapping):
        return {key: part.evaluate(scopes) for key, part in value.items()}
    evaluate = getattr(value, "evaluate", None)
    return value if evaluate is None else evaluate(scopes)


def values_in(value: Any) -> tuple[Any, ...]:
    """The compiled values of a map of them, or the one that is no map."""
    return tuple(value.values()) if isinstance(value, Mapping) else (value,)


def patch_of(
    assignments: Iterable[Assignment], scopes: Mapping[str, Any], *, lenient: bool = False, most: int = MAX_PAYLOAD
) -> Patch:
    """What a `set` writes: all of its values before any is written; to `ctx` at most so many bytes.

    The scopes must hold what is there before it. Lenient: undefined values are left out.
    """
    patch: Patch = {}
    for one in assignments:
        target = ".".join((one.scope, *one.path))
        try:
            value = one.value.evaluate(scopes)
        except UndefinedValue:
            if lenient:
                continue
            raise
        check_suffix(target, value)
        check_path(one.scope, one.path, scopes.get(one.scope, {}))
        if one.scope == "ctx" and is_larger(value, most):
            raise too_large_error(f"what `set` writes to `{target}`", most)
        patch[target] = value
    return patch


def is_larger(value: Any, most: int) -> bool:
    """Whether a value has more than so many bytes as compact JSON."""
    kind = type(value)
    if kind is int:
        return bool(value.bit_length() * _DIGITS_PER_BIT > most)
    if kind is str:
        # A character has at most six bytes, so that most texts need not be counted.
        return len(value) > most or (len(value) * 6 + 2 > most and len(_encoder.encode(value)) > most)
    if not value or kind is float or (kind not in _LISTS_AND_MAPS and not isinstance(value, Mapping | list | tuple)):
        return False
    return _has_more_members(value, most, _LEVELS) or len(_encoder.encode(value)) > most


def _has_more_members(value: Any, most: int, levels: int) -> bool:
    """Whether that many bytes are sure without writing anything: each member has two at the least."""
    if len(value) * 2 > most:
        return True
    if not levels or len(value) > _FEW:
        return False
    below = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(one, dict | list) and _has_more_members(one, most, levels - 1) for one in below)


def too_large_error(what: str, most: int) -> TemplateError:
    """The error of something that may not travel through the server."""
    error = TemplateError(
        f"{what} has more than {most:,} bytes (`limits.max_payload_bytes`): hand on `output.ref` and fetch the payload "
        "with `kind: resolve` where it is needed, or lift single fields with `spec.result.select`"
    )
    error.kind = "payload-too-large"
    return error


def check_suffix(target: str, value: Any) -> None:
    """What is named a reference must be one, and nothing else may be."""
    named, found = target.endswith("_ref"), is_reference(value)
    if named == found:
        return
    said = (
        f"`{target}` is named a reference and must receive one, such as `output.ref`"
        if named
        else f"`{target}` received a reference: give the target a name that ends in `_ref`"
    )
    error = TemplateError(said)
    error.kind = "ref-suffix"
    raise error


_NOT_MAPS: Final = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}


def check_path(scope: str, path: tuple[str, ...], there: Any) -> None:
    """A target leads through maps, and null counts as not there; any other value is never replaced by a map."""
    value = there
    for depth, part in enumerate(path[:-1], 1):
        value = value.get(part)
        if value is None:
            return
        if not isinstance(value, Mapping) or is_reference(value):
            raise _barred_error((scope, *path[:depth]), (scope, *path), value)


def _barred_error(at: tuple[str, ...], target: tuple[str, ...], value: Any) -> TemplateError:
    """The error of a target that leads through a value that is no map."""
    found = "a reference" if is_reference(value) else _NOT_MAPS.get(type(value), type(value).__name__)
    barrier = ".".join(at)
    error = TemplateError(
        f"`{'.'.join(target)}` cannot be set: `{barrier}` is {found}, not a map; "
        f"set `{barrier}` to a map or to null first, or choose another target"
    )
    error.kind = "type"
    return error


_FOUND: Final = {
    str: "text", int: "a number", float: "a number", bool: "true or false", dict: "a map", type(None): "nothing"
}  # fmt: skip


def loop_items(value: Any, scopes: Mapping[str, Any]) -> list[Any] | dict[str, Any]:
    """What a loop goes over: a list, or a reference to rows. TemplateError: it is neither."""
    items = render(value, scopes)
    if isinstance(items, list):
        return items
    if isinstance(items, tuple | range):
        return list(items)
    found = type(items).__name__
    said = f"`loop.in` must yield a list, not {_FOUND.get(type(items), found)} ({found})"
    if is_reference(items):
        if isinstance((items.get("meta") or {}).get("rows"), int):
            return dict(items)
        said = "`loop.in` is a reference, but not to a list: its `meta.rows` is not known"
    elif isinstance(items, str):
        said += "; `| from_json` reads a list from text, `.split(',')` cuts text up"
    error = TemplateError(said, expression=getattr(getattr(value, "tree", None), "source", ""))
    error.kind = "type"
    raise error


def failure_of(error: TemplateError) -> Failure:
    """A template's error as data; its text tells where in the playbook it stands."""
    more: dict[str, Any] = {"expression": error.expression} if 0 < len(error.expression) <= _LONGEST else {}
    return failure(error.kind, error.message, **more)

"""Nodes checked against the grammar: types, known keys, required keys, words.

Everything found here is about one value and the shape it should have. What takes knowledge of the rest of the
document (names, scopes, writes) is checked later, on the typed playbook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from noetl.expr import problem_of
from noetl.lang.grammar.document_shape import (
    CHOOSE_BRANCH,
    NAME_PATTERN,
    PLAYBOOK,
    RESERVED_KINDS,
    SHAPES,
    SUGAR,
    SUGAR_SHAPES,
    TASK_KEYS,
    task_shape,
)
from noetl.lang.grammar.invariants import INVARIANTS, check_rules, span
from noetl.lang.grammar.shape_errors import ShapeReporter
from noetl.lang.grammar.value_types import describe, fits, is_labelled, is_nothing, is_template, nearest_word
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar
from noetl.model.diagnostics import Diagnostics
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import (
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Record,
    Shape,
    ShapeRef,
    Text,
    Variant,
    When,
    Word,
)

# Maps whose `kind` says which other keys they need and take, such as a transfer's source.


#: what says what is in a file, in place of its name
_TELLING = ("format", "body")


class VariantCheck:
    """One map, held against what its kind asks for."""

    def __init__(self, complaints: ShapeReporter, node: MapNode, shape: Record) -> None:
        self._reporter, self._problems = complaints, complaints.problems
        self._node, self._shape = node, shape

    def check(self, meant: set[str]) -> None:
        """Report all that does not hold; `meant` are keys that misspelt ones were meant to be."""
        kind = self._text("kind")
        variant = self._shape.variants.get(kind) if kind is not None else None
        if variant is not None and kind is not None:
            title = f"{self._shape.title} of kind `{kind}`"
            self._check_needs(variant, kind, meant)
            self._check_surplus(variant, title)
            self._check_words(variant, title)
            self._check_paths(variant)
            self._check_name(variant, meant)
        for key, word, needed in self._shape.implied:
            told = self._text(key) == word and (variant is None or word in variant.words.get(key, (word,)))
            if told and needed not in self._node and needed not in meant:
                self._reporter.report_missing(
                    self._node, needed, f"{self._shape.title} with `{key}: {word}`", self._doc(needed)
                )

    def _check_needs(self, variant: Variant, kind: str, meant: set[str]) -> None:
        title = f"{self._shape.title} of kind `{kind}`"
        for group in variant.needs:
            if not any(key in self._node or key in meant for key in group):
                words = " or ".join(f"`{key}`" for key in group)
                doc = self._doc(group[0], kind) if len(group) == 1 else ""
                self._reporter.report_missing(self._node, words, title, doc)

        for key in variant.wants:
            if key not in self._node and key not in meant:
                self._reporter.report_missing(self._node, key, title, self._doc(key, kind), warn=True)

    def _check_surplus(self, variant: Variant, title: str) -> None:
        of_others = frozenset().union(*(one.knows for one in self._shape.variants.values())) - variant.knows
        for entry in self._node.entries:
            if entry.name in of_others:
                message = f"`{entry.name}` means nothing to {title}"
                # Everything takes `auth`; older documents name one for what needs none.
                tell = self._problems.warning if entry.name == "auth" else self._problems.error
                tell("unknown-key", message, span(entry.key), fix="remove it")

    def _check_words(self, variant: Variant, title: str) -> None:
        for key, words in variant.words.items():
            node, known = self._node.get(key), self._shape.keys[key].shape
            value = self._text(key)
            if node is not None and value not in words and value in getattr(known, "words", ()):
                message, choice = f"{title} knows no `{key}: {value}`", ", ".join(words)
                self._problems.error("wrong-value", message, span(node), fix=f"write one of: {choice}")

    def _check_paths(self, variant: Variant) -> None:
        for key in variant.finds:
            node, value = self._node.get(key), self._text(key)
            problem = problem_of(value) if value is not None else None
            if node is not None and problem is not None:
                message = f"`{key}` is no JSONPath: {problem}"
                self._problems.error("wrong-value", message, span(node), fix="write one such as `$.items`")

    def _check_name(self, variant: Variant, meant: set[str]) -> None:
        node, path = self._node.get("path"), self._text("path")
        if not variant.endings or not path or any(key in self._node or key in meant for key in _TELLING):
            return
        parts = path.rpartition("/")[2].lower().split(".")[1:]  # none: older documents write a folder
        if node is not None and parts and not any(f".{part}" in variant.endings for part in parts):
            message, endings = f"the format of `{path}` cannot be told by its name", ", ".join(variant.endings)
            self._problems.error("wrong-value", message, span(node), fix=f"add `format`, or let it end in {endings}")

    def _doc(self, key: str, kind: str = "") -> str:
        """What a key is to a kind; a sentence that is not for all kinds begins with those that it is for."""
        parts = [part.rpartition(": ") for part in self._shape.keys[key].doc.split("; ")]
        return next((said for kinds, _, said in parts if kind in kinds.split(", ")), parts[0][2])

    def _text(self, key: str) -> str | None:
        """The text under a key, unless it is only known when it is evaluated."""
        node = self._node.get(key)
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or is_template(node.value):
            return None
        return node.value


_NAME = re.compile(NAME_PATTERN)
_RULES = (ShapeRef("Rule"), ShapeRef("AdmitRule"), CHOOSE_BRANCH)


def check_document(root: Node, kinds: Mapping[str, ToolKind], problems: Diagnostics) -> None:
    """Report everything in the document that does not have the shape the grammar gives it."""
    _ShapeCheck(kinds, problems).check(root, PLAYBOOK, "the playbook")


def check_shape(root: Node, shape: Record, named: Mapping[str, Shape], problems: Diagnostics) -> None:
    """The same for a document of another grammar; `named` holds the shapes that it refers to by name."""
    _ShapeCheck({}, problems, root=shape, named=named).check(root, shape, shape.title)


class _ShapeCheck(ShapeReporter):
    def __init__(
        self,
        kinds: Mapping[str, ToolKind],
        problems: Diagnostics,
        *,
        root: Record = PLAYBOOK,
        named: Mapping[str, Shape] = SHAPES,
    ) -> None:
        super().__init__(problems, kinds, root)
        self.named = named
        self.task_shapes: dict[str, Record] = {}
        self.task_shape_ids: set[int] = set()
        #: of each table of keys met, those that have an effect only beside others
        self.dependent: dict[int, tuple[str, ...]] = {}
        #: of each shape met, the keys it cannot do without
        self.required: dict[int, tuple[str, ...]] = {}
        #: keys that misspelt ones of the map checked last were meant to be
        self.meant: set[str] = set()
        self.by_type = {
            Record: self.check_record,
            ListOf: self.check_list,
            MapOf: self.check_map,
            OneOf: self.check_one_of,
            ShapeRef: self.check_use,
            Text: self.check_text,
            Number: self.check_number,
            Flag: self.check_flag,
            Word: self.check_word,
            When: self.check_condition,
        }

    def check(self, node: Node, shape: Shape, name: str) -> None:
        """Hold one node against one shape; `name` is how messages call it."""
        method = self.by_type.get(type(shape))
        if method is not None:
            method(node, shape, name)  # type: ignore[operator]

    # --- collections -------------------------------------------------------------------------------------------

    def check_record(self, node: Node, shape: Record, name: str) -> None:
        if not isinstance(node, MapNode):
            if not is_nothing(node) or any(key.required for key in shape.keys.values()):
                self.report_wrong_type(node, name, "a map")
            return
        meant: set[str] = set()
        for entry in node.entries:
            key = shape.keys.get(entry.name)
            if key is None:
                meant.add(self.report_unknown_key(entry, node, shape))
                continue
            if key.reserved:
                self.report_reserved(entry, key.reserved)
                continue
            if type(entry.value) is Scalar and entry.value.value is None and self.report_if_empty(entry, node, shape):
                meant.add(entry.name)
                continue
            self.check(entry.value, key.shape, f"`{entry.name}`")
        required = self.required.get(id(shape))
        for wanted in self.find_required(shape) if required is None else required:
            # A misspelt key is one mistake, not also a missing one.
            if wanted not in node and wanted not in meant:
                self.report_missing(node, wanted, shape.title, shape.keys[wanted].doc)
        self.meant = meant
        self.check_between(node, shape, meant)

    def check_between(self, node: MapNode, shape: Record, meant: set[str]) -> None:
        """What must hold between the keys of a map."""
        if shape.variants:
            VariantCheck(self, node, shape).check(meant)
        if id(shape) not in self.task_shape_ids and self.find_dependent(shape.keys):
            # Of a task's keys, some may stand under `input`: they are looked at with those.
            self.check_beside({entry.name: entry for entry in node.entries}, shape.keys, meant)
        invariant = INVARIANTS.get(shape.title)
        if invariant is not None:
            invariant(node, self.problems, meant)

    def find_dependent(self, keys: Mapping[str, Key]) -> tuple[str, ...]:
        """The keys that have an effect only beside others."""
        found = self.dependent.get(id(keys))
        if found is None:
            found = self.dependent[id(keys)] = tuple(name for name, key in keys.items() if key.beside is not None)
        return found

    def check_beside(self, given: Mapping[str, MapEntry], keys: Mapping[str, Key], meant: set[str]) -> None:
        """Report keys that have no effect, because what they belong to is not there."""
        for name in self.find_dependent(keys):
            entry, needed = given.get(name), keys[name].beside
            if entry is None or needed is None or needed.key in meant:
                continue
            other = given.get(needed.key)
            value = other.value if other is not None else None
            said = value.text if isinstance(value, Scalar) else keys[needed.key].default
            if (said in needed.words or is_template(said)) if needed.words else other is not None:
                continue
            wanted = f"`{needed.key}: {needed.words[0]}`" if needed.words else f"`{needed.key}`"
            self.problems.error(
                "no-effect",
                f"`{name}` has no effect here: it belongs to {wanted}",
                span(entry.key),
                fix=f"write {wanted} beside it, or remove it",
            )

    def find_required(self, shape: Record) -> tuple[str, ...]:
        found = self.required[id(shape)] = tuple(name for name, key in shape.keys.items() if key.required)
        return found

    def check_list(self, node: Node, shape: ListOf, name: str) -> None:
        if not isinstance(node, ListNode):
            if not is_nothing(node) or shape.at_least:
                self.report_wrong_type(node, name, "a list")
            return
        if len(node.items) < shape.at_least:
            message = f"{name} must have at least {shape.at_least} item"
            self.problems.error("wrong-value", message, span(node), fix="add one")
        for item in node.items:
            self.check(item, shape.item, f"an item of {name}")
        if shape.item in _RULES:
            check_rules(node, self.problems)

    def check_map(self, node: Node, shape: MapOf, name: str) -> None:
        if not isinstance(node, MapNode):
            if not is_nothing(node):
                self.report_wrong_type(node, name, "a map")
            return
        for entry in node.entries:
            if entry.name in shape.reserved:
                self.report_reserved(entry, shape.reserved[entry.name])
            elif not shape.of_kinds or self.kind_of(entry.key) is not None:
                self.check(entry.value, shape.value, f"`{entry.name}`")

    def check_one_of(self, node: Node, shape: OneOf, name: str) -> None:
        fitting = next((option for option in shape.shapes if fits(node, option)), None)
        if isinstance(fitting, Word) and isinstance(node, Scalar) and node.text not in fitting.words:
            either = " or ".join(describe(option) for option in shape.shapes)
            self.problems.error(
                "wrong-value", f"{name} is `{node.text}`, not {either}", span(node), fix=f"write {either}"
            )
        elif fitting is not None:
            self.check(node, fitting, name)
        elif not is_nothing(node):
            self.report_wrong_type(node, name, " or ".join(describe(option) for option in shape.shapes))

    def check_use(self, node: Node, shape: ShapeRef, name: str) -> None:
        if shape.name == "Task":
            self.check_task(node, name)
        elif shape.name == "TaskItem":
            self.check_task_item(node, name)
        else:
            self.check(node, self.named[shape.name], name)

    # --- tasks -------------------------------------------------------------------------------------------------

    def check_task_item(self, node: Node, name: str) -> None:
        if not isinstance(node, MapNode):
            self.report_wrong_type(node, name, "a task (a map with `kind`)")
            return
        sugar = next((entry for entry in node.entries if entry.name in SUGAR), None)
        if sugar is not None and "kind" not in node:
            self.check_sugar(node, sugar)
        elif is_labelled(node):
            only = node.entries[0]
            self.check_name(only.key, "a task's name")
            self.check_task(only.value, f"task `{only.name}`", single=False)
        else:
            self.check_task(node, name, single=False)

    def check_sugar(self, node: MapNode, sugar: MapEntry) -> None:
        for entry in node.entries:
            if entry is not sugar and entry.name not in ("name", "desc"):
                message = f"`{entry.name}` cannot stand beside `{sugar.name}`"
                self.problems.error(
                    "unknown-key", message, span(entry.key), fix="move it to a task inside, or remove it"
                )
        self.check(sugar.value, SUGAR_SHAPES[sugar.name], f"`{sugar.name}`")

    def check_task(self, node: Node, name: str, *, single: bool = True) -> None:
        if not isinstance(node, MapNode):
            self.report_wrong_type(node, name, "a task (a map with `kind`) or a list of tasks")
            return
        kind_node = node.get("kind")
        kind = self.kind_of(kind_node) if kind_node is not None else None
        if kind_node is None and not self.report_glued(node, "kind"):
            self.report_missing(node, "kind", "a task", "the tool that runs it, such as http or python")
        if kind is None:
            # Without its kind only the keys that every task has can be checked.
            for entry in node.entries:
                if entry.name in TASK_KEYS:
                    self.check(entry.value, TASK_KEYS[entry.name].shape, f"`{entry.name}`")
            return
        shape = self.task_shapes.get(kind.name)
        if shape is None:
            shape = self.task_shapes[kind.name] = task_shape(kind)
            self.task_shape_ids.add(id(shape))
        self.check_record(node, shape, name)
        self.check_keys_of_kind(node, kind, single=single)

    def kind_of(self, node: Node) -> ToolKind | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.report_wrong_type(node, "`kind`", "text")
            return None
        try:
            return self.kinds[node.value]
        except KeyError:
            if node.value in RESERVED_KINDS:
                message = f"`kind: {node.value}` has no meaning yet"
                self.problems.error("reserved", message, span(node), fix=RESERVED_KINDS[node.value])
                return None
            meant = self.hints.nearest(node.value, list(self.kinds))
            self.problems.error(
                "unknown-kind",
                f"there is no tool kind `{node.value}`",
                span(node),
                fix=f"did you mean `{meant}`?" if meant else f"kinds: {', '.join(self.kinds)}",
                edits=self.replacement_edits(node, meant),
            )
            return None

    def check_keys_of_kind(self, node: MapNode, kind: ToolKind, *, single: bool) -> None:
        given = {entry.name: entry for entry in node.entries if not _is_left_empty(entry, kind)}
        if single and kind.name_means and "name" in given:
            given.setdefault(kind.name_means, given["name"])
        block = node.get("input")
        inner = block if isinstance(block, MapNode) and kind.input is InputRole.CONFIGURES else None
        if inner is not None:
            self.check_configuring_input(inner, kind, given)
        opaque = isinstance(block, Scalar) and kind.input is InputRole.CONFIGURES and is_template(block.value)
        if not opaque:
            self.check_beside(given, kind.keys, self.meant)
        for group in kind.one_of if not opaque else ():
            if not any(name in given or name in self.meant for name in group):
                words = " or ".join(f"`{name}`" for name in group)
                self.report_missing(node, words.strip("`") if len(group) == 1 else words, f"`kind: {kind.name}`", "")
        for group in (*kind.one_of, *kind.at_most_one):
            both = [name for name in group if name in given]
            if len(both) > 1:
                words = " and ".join(f"`{name}`" for name in both)
                at = span(given[both[1]].key)
                self.problems.error("wrong-value", f"{words} exclude each other", at, fix="keep one of them")

    def check_configuring_input(self, node: MapNode, kind: ToolKind, given: dict[str, MapEntry]) -> None:
        """Check keys of the kind that stand under `input`, and add them to those given beside `kind`."""
        for entry in node.entries:
            key = kind.keys.get(entry.name)
            if key is None:
                continue
            if key.reserved:
                self.report_reserved(entry, key.reserved)
                continue
            self.check(entry.value, key.shape, f"`{entry.name}`")
            if entry.name in given:
                self.problems.error(
                    "input-conflict",
                    f"`{entry.name}` stands beside `kind` and under `input`",
                    span(entry.key),
                    fix="keep one of the two",
                )
            given.setdefault(entry.name, entry)

    # --- scalars -----------------------------------------------------------------------------------------------

    def check_text(self, node: Node, shape: Text, name: str) -> None:
        if shape.name:
            self.check_name(node, name)
        elif not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.report_wrong_type(node, name, "text")

    def check_name(self, node: Node, name: str) -> None:
        if not isinstance(node, Scalar) or node.value is None:
            self.report_wrong_type(node, name, "text")
        elif not _NAME.fullmatch(node.text):
            made = re.sub(r"[^A-Za-z0-9_-]+", "_", node.text).strip("_") or "name"
            made = made if _NAME.fullmatch(made) else f"_{made}"
            self.problems.error(
                "bad-name",
                f"{name} is `{node.text}`: a name is made of letters, digits, `_` and `-`, and starts with a letter or `_`",
                span(node),
                fix=f"write `{made}`",
            )
        elif not isinstance(node.value, str):
            self.report_wrong_type(node, name, "text")

    def check_number(self, node: Node, shape: Number, name: str) -> None:
        value = node.value if isinstance(node, Scalar) else None
        if shape.templated and is_template(value):
            return
        what = "a whole number" if shape.integer else "a number"
        if isinstance(value, bool) or not isinstance(value, int if shape.integer else int | float):
            self.report_wrong_type(node, name, what)
        elif shape.minimum is not None and value < shape.minimum:
            message, fix = f"{name} must be at least {shape.minimum:g}", f"write {shape.minimum:g} or more"
            self.problems.error("wrong-value", message, span(node), fix=fix)
        elif shape.maximum is not None and not value <= shape.maximum:
            message, fix = f"{name} must be at most {shape.maximum:,g}", f"write {shape.maximum:g} or less"
            self.problems.error("wrong-value", message, span(node), fix=fix)

    def check_flag(self, node: Node, shape: Flag, name: str) -> None:
        if isinstance(node, Scalar) and (isinstance(node.value, bool) or (shape.templated and is_template(node.value))):
            return
        self.report_wrong_type(node, name, "true or false")

    def check_word(self, node: Node, shape: Word, name: str) -> None:
        value = node.text if isinstance(node, Scalar) else None
        if value in shape.words or (shape.templated and is_template(value)):
            return
        if value is None:
            self.report_wrong_type(node, name, "text")
            return
        if value in shape.reserved:
            message = f"`{value}` has no meaning yet"
            self.problems.error("reserved", message, span(node), fix=shape.reserved[value])
            return
        instead = shape.instead.get(value.lower())
        meant = shape.words[0] if len(shape.words) == 1 else nearest_word(value, shape.words, self.hints)
        meant = None if instead else meant
        known = ", ".join(shape.words)
        self.problems.error(
            "wrong-value",
            f"{name} is `{value}`, which is not one of: {known}"
            if len(shape.words) > 1
            else f"{name} must be `{known}`",
            span(node),
            fix=instead or (f"write `{meant}`" if meant else f"write one of: {known}"),
            edits=self.replacement_edits(node, meant) if len(shape.words) > 1 or value.lower() == known.lower() else (),
        )

    def check_condition(self, node: Node, _shape: When, name: str) -> None:
        if not isinstance(node, Scalar):
            self.report_wrong_type(node, name, "an expression")


def _is_left_empty(entry: MapEntry, kind: ToolKind) -> bool:
    """Whether a key of the kind says nothing and nobody has complained about that yet."""
    key = kind.keys.get(entry.name)
    return key is not None and is_nothing(entry.value) and isinstance(key.shape, OneOf)

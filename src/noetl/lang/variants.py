"""Maps whose `kind` says which other keys they need and take, such as a transfer's source."""

from __future__ import annotations

from noetl.expr.sandbox.jsonpath import problem_of
from noetl.lang.complaints import Complaints
from noetl.lang.invariants import span
from noetl.lang.node import MapNode, Scalar
from noetl.lang.sorts import is_template
from noetl.model.shape import Record, Variant

#: what says what is in a file, in place of its name
_TELLING = ("format", "body")


class VariantCheck:
    """One map, held against what its kind asks for."""

    def __init__(self, complaints: Complaints, node: MapNode, shape: Record) -> None:
        self._complaints, self._problems = complaints, complaints.problems
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
                self._complaints.missing(
                    self._node, needed, f"{self._shape.title} with `{key}: {word}`", self._doc(needed)
                )

    def _check_needs(self, variant: Variant, kind: str, meant: set[str]) -> None:
        title = f"{self._shape.title} of kind `{kind}`"
        for group in variant.needs:
            if not any(key in self._node or key in meant for key in group):
                words = " or ".join(f"`{key}`" for key in group)
                doc = self._doc(group[0], kind) if len(group) == 1 else ""
                self._complaints.missing(self._node, words, title, doc)

        for key in variant.wants:
            if key not in self._node and key not in meant:
                self._complaints.missing(self._node, key, title, self._doc(key, kind), warn=True)

    def _check_surplus(self, variant: Variant, title: str) -> None:
        of_others = frozenset().union(*(one.knows for one in self._shape.variants.values())) - variant.knows
        for entry in self._node.entries:
            if entry.name in of_others:
                message = f"`{entry.name}` means nothing to {title}"
                self._problems.warning("unknown-key", message, span(entry.key), fix="remove it")

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

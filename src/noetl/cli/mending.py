"""Mending: the edits that diagnostics bring with them, made as long as they help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from noetl.lang.report import apply_edits

if TYPE_CHECKING:
    from noetl.lang import Loaded
    from noetl.model.diagnostics import Diagnostic

#: mending one problem may bring another to light, but not for ever
_ROUNDS = 20


class Mended(NamedTuple):
    """A text after mending, what is still to be said about it, and how many problems are gone."""

    loaded: Loaded
    repairs: int


def mend(loaded: Loaded, load: Callable[[str], Loaded]) -> Mended:
    """Make the edits of a text's diagnostics, and those of what then shows itself, until nothing is left to do."""
    count = 0
    for _ in range(_ROUNDS):
        mendable = [found for found in loaded.diagnostics if found.edits]
        after, made = _all_at_once(loaded, mendable, load)
        if after is None:
            after, made = _one_by_one(loaded, mendable, load)
        if not made:
            break
        loaded, count = after, count + made
    return Mended(loaded, count)


def _all_at_once(
    loaded: Loaded, mendable: Sequence[Diagnostic], load: Callable[[str], Loaded]
) -> tuple[Loaded, int] | tuple[None, int]:
    after = load(apply_edits(loaded.source.text, (edit for found in mendable for edit in found.edits)))
    return (after, len(mendable)) if mendable and _is_better(loaded, after) else (None, 0)


def _one_by_one(loaded: Loaded, mendable: Sequence[Diagnostic], load: Callable[[str], Loaded]) -> tuple[Loaded, int]:
    """The first edit that helps by itself; the others are looked at in the next round."""
    for found in mendable:
        after = load(apply_edits(loaded.source.text, found.edits))
        if _is_better(loaded, after):
            return after, 1
    return loaded, 0


def _is_better(before: Loaded, after: Loaded) -> bool:
    """Whether an edit helped: a file that could not be read may show new problems, any other may not."""
    then, now = _codes(before), _codes(after)
    if after.source.text == before.source.text:
        return False
    if then["yaml-syntax"]:
        return now["yaml-syntax"] < then["yaml-syntax"]
    return now.total() < then.total() and not now["yaml-syntax"] and now["duplicate-key"] <= then["duplicate-key"]


def _codes(loaded: Loaded) -> Counter[str]:
    return Counter(found.code for found in loaded.diagnostics)

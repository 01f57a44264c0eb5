"""compare_runs: where two traces differ, step by step; the first difference of a step is the one that is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.testing.verification.older_names import SECRET, to_plain
from noetl.testing.verification.older_results import OlderResult
from noetl.testing.verification.run_trace import CallKey, RunTrace, TracedCall

#: parts of a result that differ from run to run
_VOLATILE = frozenset({"elapsed", "execution_id"})
#: how a task that is not run shows the secrets that it would get
_MASK = "‹secret"
_MASKED = re.compile("‹secret[^›]*›")


class RunDifference(msgspec.Struct, frozen=True):
    """A place at which the two runs do not agree."""

    step: str
    #: what of the step: `input.n of task fetch`, `ctx.total`, `the number of its runs`
    what: str
    older: Any
    migrated: Any


def compare_runs(older: RunTrace, migrated: RunTrace) -> dict[str, RunDifference]:
    """By step, the first difference."""
    found: dict[str, RunDifference] = {}
    for one in _differences(older, migrated):
        found.setdefault(one.step, one)
    return found


def _differences(older: RunTrace, migrated: RunTrace) -> Iterator[RunDifference]:
    for key in sorted(older.calls, key=lambda one: (one[0], one[2], one[3])):
        yield from _compare_call(key, older.calls[key], migrated.calls.get(key))
    if not older.stopped:
        for key in migrated.calls.keys() - older.calls.keys():
            what = f"call {key[3] + 1} of task `{key[1]}`{_place(key)}"
            yield RunDifference(key[0], what, "not called", dict(migrated.calls[key].read))
    called = {key[0] for key in (*older.calls, *migrated.calls)}
    for step in dict.fromkeys((*older.steps, *(migrated.steps if not older.stopped else ()))):
        before, after = older.steps.get(step, []), migrated.steps.get(step, [])
        if step not in called:  # how often a step runs that calls nothing makes no difference
            before, after = list(dict.fromkeys(before)), list(dict.fromkeys(after))
        if before != (after[: len(before)] if older.stopped else after):
            yield RunDifference(step, "how its runs ended", before, after)
    if not older.stopped and (older.status == "completed") != (migrated.status == "completed"):
        yield RunDifference("", "how the run ended", older.status, migrated.status)


def compare_published(
    older: Mapping[str, Any], migrated: Mapping[str, Any], shown: Mapping[str, str]
) -> Iterator[RunDifference]:
    """Values that both texts publish by one name in `ctx`; `shown` says which step writes it."""
    for name in older.keys() & migrated.keys() & shown.keys():
        if not _is_same(older[name], migrated[name], lenient=True):
            yield RunDifference(shown[name], f"ctx.{name}", to_plain(older[name]), migrated[name])


def _compare_call(key: CallKey, older: TracedCall, migrated: TracedCall | None) -> Iterator[RunDifference]:
    step, task, _, number = key
    where = f"task `{task}`{_place(key)}" + (f", call {number + 1}" if number else "")
    if migrated is None:
        yield RunDifference(step, where, dict(to_plain(older.read)), "not called")
        return
    if older.kind != migrated.kind:
        yield RunDifference(step, f"the kind of {where}", older.kind, migrated.kind)
        return
    for name, value in older.read.items():
        yield from _compare_value(step, f"`{name}` of {where}", value, migrated.read.get(name), older.kind)
    # Code that fails must fail in the same way: with another shape it would, too, but with another error.
    if (older.status, older.message, _norm(older.data)) != (migrated.status, migrated.message, _norm(migrated.data)):
        before = older.data if older.status == "ok" else older.message
        after = migrated.data if migrated.status == "ok" else migrated.message
        yield RunDifference(step, f"what {where} yields", before, after)


def _compare_value(step: str, what: str, older: Any, migrated: Any, kind: str) -> Iterator[RunDifference]:
    if what.startswith("`input`") and isinstance(older, Mapping) and isinstance(migrated, Mapping):
        # What the migrated text gives beyond that no older code has asked for.
        for key, value in older.items():
            if not _is_same(value, migrated.get(key, _MISSING), lenient=kind == "python"):
                after = migrated.get(key, "nothing")
                yield RunDifference(step, f"`input.{key}`{what.removeprefix('`input`')}", to_plain(value), after)
    elif not _is_same(older, migrated, lenient=False):
        yield RunDifference(step, what, to_plain(older), migrated)


_MISSING = object()


def _is_same(older: Any, migrated: Any, *, lenient: bool) -> bool:
    """Whether both are the same, or the data of the same result.

    `lenient`: code reads it, so that what the code yields tells whether its shape fits. A part of the shape is enough.
    """
    if isinstance(migrated, str) and (_MASK in migrated or SECRET in str(older)):
        return True
    if isinstance(older, OlderResult):
        if _is_same(older.payload, migrated, lenient=lenient) or _norm(to_plain(older)) == _norm(migrated):
            return True
        return lenient and isinstance(migrated, dict) and bool(migrated) and _is_part(older.shape, migrated)
    if isinstance(older, dict) and isinstance(migrated, dict):
        same = older.keys() == migrated.keys()
        return same and all(_is_same(older[key], migrated[key], lenient=lenient) for key in older)
    if isinstance(older, list) and isinstance(migrated, list) and len(older) == len(migrated):
        return all(_is_same(one, other, lenient=lenient) for one, other in zip(older, migrated, strict=True))
    return bool(_norm(older) == _norm(migrated))


def _is_part(older: Any, migrated: Any) -> bool:
    """Whether a map has nothing that the older shape does not have, or has otherwise."""
    if isinstance(older, dict) and isinstance(migrated, dict):
        return all(key in _VOLATILE or (key in older and _is_part(older[key], migrated[key])) for key in migrated)
    return _is_same(older, migrated, lenient=True)


def _norm(value: Any) -> Any:
    """A value without what differs from run to run; tuples are lists, and true is not 1."""
    if isinstance(value, Mapping):
        return {str(key): _norm(part) for key, part in value.items() if key not in _VOLATILE}
    if isinstance(value, list | tuple):
        return [_norm(part) for part in value]
    if isinstance(value, str) and _MASK in value:
        return _MASKED.sub(SECRET, value)
    return ("bool", value) if isinstance(value, bool) else value


def _place(key: CallKey) -> str:
    return f" in iteration {key[2]}" if key[2] else ""

"""Scopes as maps that are never changed in place: a write makes new maps along its path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: `ctx.a.b` → value
Patch = dict[str, Any]


def set_path(scope: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The scope with a value written at a path; what is no map on the way is replaced by one.

    Writers check the path first, see `expr.check_path`. A recorded write always takes effect: of two, the later one wins.
    """
    head, *rest = path
    made = dict(scope)
    if not rest:
        made[head] = value
    else:
        below = scope.get(head)
        made[head] = set_path(below if isinstance(below, dict) else {}, tuple(rest), value)
    return made


def set_paths(scope: dict[str, Any], writes: Iterable[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    """The scope with several values written, one after the other; each map on their paths is copied once."""
    made: dict[str, Any] = {"": scope}
    own = {id(made): made}
    for path, value in writes:
        at = made
        for part in ("", *path[:-1]):
            below = at.get(part)
            if id(below) not in own:
                below = dict(below) if isinstance(below, dict) else {}
                own[id(below)] = below
            at[part] = below
            at = below  # type: ignore[assignment]  # a map of its own
        at[path[-1]] = value
    return made[""]  # type: ignore[no-any-return]


def combine_patches(patch: Patch, later: Patch) -> Patch:
    """Two patches as one, whose writes come in the order in which they were made."""
    return {**{target: value for target, value in patch.items() if target not in later}, **later}


def writes_of(patch: Patch) -> Iterable[tuple[str, tuple[str, ...], Any]]:
    """The writes of a patch, in order: scope, path and value."""
    for target, value in patch.items():
        scope, *path = target.split(".")
        yield scope, tuple(path), value


def scope_writes(patch: Patch, name: str) -> Iterable[tuple[tuple[str, ...], Any]]:
    """The writes of a patch that go to one scope: path and value."""
    return ((path, value) for scope, path, value in writes_of(patch) if scope == name)


def merge_maps(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two maps laid over each other, deeply; lists are replaced."""
    made = dict(base)
    for key, value in over.items():
        below = made.get(key)
        made[key] = merge_maps(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return made


def map_difference(base: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be laid over a map, as `merged` does it, to make the whole."""
    made = {}
    for key, value in whole.items():
        below = base.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = map_difference(below, value)  # noqa: PLW2901  the part of it that counts
            if value:
                made[key] = value
        elif key not in base or below != value:
            made[key] = value
    return made

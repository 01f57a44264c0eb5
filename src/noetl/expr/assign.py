"""Values of a playbook, evaluated: maps of them, and blocks of `set`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.paths import is_reference
from noetl.model.output import Failure, failure
from noetl.model.playbook import MAX_PAYLOAD, Assignment
from noetl.model.scope import Patch

#: a longer template is not repeated in each of its errors
_LONGEST = 2_000
_encoder = msgspec.json.Encoder()
#: how deep, and at how many members, one looks for a long list before a value is written to see its size
_LEVELS, _FEW = 3, 16


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

    Lenient: undefined ones are left out.
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
        if one.scope == "ctx" and is_larger(value, most):
            raise too_large_error(f"what `set` writes to `{target}`", most)
        patch[target] = value
    return patch


def is_larger(value: Any, most: int) -> bool:
    """Whether a value has more than so many bytes as compact JSON."""
    if isinstance(value, str):
        # A character has at most six bytes, so that most texts need not be counted.
        return len(value) > most or (len(value) * 6 + 2 > most and len(_encoder.encode(value)) > most)
    if not isinstance(value, Mapping | list | tuple) or not value:
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


def failure_of(error: TemplateError) -> Failure:
    """A template's error as data; its text tells where in the playbook it stands."""
    more: dict[str, Any] = {"expression": error.expression} if 0 < len(error.expression) <= _LONGEST else {}
    return failure(error.kind, error.message, **more)

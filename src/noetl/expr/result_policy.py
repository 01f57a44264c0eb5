"""How results are kept, by an effective spec: what its `result` keys say, for whoever has to know."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.errors import TemplateError
from noetl.expr.assign import failure_of, render
from noetl.model.output import Failure, failure
from noetl.model.playbook import LayeredValue

#: the default of `spec.result.inline_max_bytes`
INLINE = 65_536
_TTL_KEY, _SELECT = "result.ttl", "result.select."
_TTL = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw]?)", re.ASCII)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
#: a hundred years: whoever says more means for ever, which is to say nothing
_LONGEST_TTL = 100 * 365.25 * 86_400


class ResultRules(msgspec.Struct, frozen=True):
    """How results are kept."""

    #: a payload of more bytes is not written to the log
    inline: int = INLINE
    #: for how many seconds; None: for ever
    ttl: float | None = None
    #: name → JSONPath of what the server is shown, in place of what its templates read
    select: Mapping[str, str] = {}
    #: hash of the schema that the data was checked against
    schema: str | None = None
    #: which of the stores that are there
    store: str = "auto"
    #: why nothing can be kept so
    problem: Failure | None = None


_USUAL = ResultRules()


def rules_of(spec: Mapping[str, LayeredValue], scopes: Mapping[str, Any]) -> ResultRules:
    """What a spec says; what it says wrongly is a problem, and the default stands in its place."""
    if not any(key.startswith(("result.", "validate.")) for key in spec):
        return _USUAL
    select = {key[len(_SELECT) :]: str(one.value) for key, one in spec.items() if key.startswith(_SELECT)}
    schema = hash_of(spec["validate.output"].value) if "validate.output" in spec else None
    ttl, problem = None, None
    try:
        if _TTL_KEY in spec:
            ttl = _seconds_of(render(spec[_TTL_KEY].value, scopes))
    except TemplateError as error:
        problem = failure_of(error)
    except _InvalidSetting as wrong:
        problem = failure("type", str(wrong))
    return ResultRules(inline_of(spec), ttl, select, schema, problem=problem)


def inline_of(spec: Mapping[str, LayeredValue]) -> int:
    """A payload of more bytes is not written to the log."""
    said = spec.get("result.inline_max_bytes")
    return INLINE if said is None else int(said.value)


def selects(spec: Mapping[str, LayeredValue]) -> bool:
    """Whether it names the fields that the server is shown."""
    return any(key.startswith(_SELECT) for key in spec)


def hash_of(schema: Any) -> str:
    """The identity of a JSON Schema."""
    return hashlib.sha256(msgspec.json.encode(schema, order="deterministic")).hexdigest()


class _InvalidSetting(Exception):
    """What is said of a value that cannot be meant."""


def _seconds_of(said: Any) -> float | None:
    if said is None:
        return None
    found = math.nan
    if isinstance(said, str) and (match := _TTL.fullmatch(said.strip())):
        found = float(match[1]) * _UNITS[match[2]]
    elif isinstance(said, int | float) and not isinstance(said, bool):
        found = float(min(said, 2 * _LONGEST_TTL))
    if not 0 <= found <= _LONGEST_TTL:
        raise _InvalidSetting(
            f"`spec.result.ttl` is seconds, or a text such as 24h, not {_describe(said)}; at most 100 years"
        )
    return found


def _describe(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 60 else f"a {type(value).__name__}"

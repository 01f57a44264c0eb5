"""Values held against the JSON Schemas of `spec.validate`, and why they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.model.output import Failure, failure
from noetl.model.playbook import LayeredValue

#: characters of what is said: it may quote the whole value
_MOST = 300
#: validators by the identity of their schemas, which they keep alive; making one takes longer than using it
_made: dict[int, tuple[object, Any]] = {}
_MOST_MADE = 1_000


def schema_errors(value: Any, schema: Any) -> list[Any]:
    """The errors of jsonschema, in the order of their places. Nothing is fetched; ValueError: a reference leads away."""
    from referencing.exceptions import Unresolvable

    try:
        return sorted(_validator(schema).iter_errors(value), key=lambda one: str(one.absolute_path))
    except Unresolvable as error:
        raise ValueError(f"its schema refers to `{error.ref}`, which is not in it") from None
    except RecursionError:
        raise ValueError("its schema is nested too deeply") from None


def shorten_message(message: str) -> str:
    """What is said, when it quotes too much."""
    return message if len(message) <= _MOST else f"{message[: _MOST // 2]} … {message[-_MOST // 2 :]}"


def schema_failure(spec: Mapping[str, LayeredValue], side: str, value: Any, whose: str) -> Failure | None:
    """Why a value does not fit `validate.input` or `validate.output` of an effective spec; None: it does."""
    found = spec.get(f"validate.{side}")
    if found is None:
        return None
    name = "input" if side == "input" else "output.data"
    try:
        problems = schema_errors(value, found.value)
    except ValueError as error:
        return failure("schema", f"the {side} of {whose} cannot be checked: {error}")
    if not problems:
        return None
    told = [{"path": _path(name, one.absolute_path), "message": shorten_message(one.message)} for one in problems[:10]]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"the {side} of {whose} does not fit its schema: `{told[0]['path']}`: {told[0]['message']}{more}"
    return failure("schema", message, problems=told)


def _path(name: str, parts: Any) -> str:
    return name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _validator(schema: Any) -> Any:
    known = _made.get(id(schema))
    if known is None:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from referencing import Registry

        if len(_made) >= _MOST_MADE:
            _made.clear()
        made = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
        known = _made[id(schema)] = (schema, made)
    return known[1]

"""What a run is given: a payload from the command line, held against the playbook's schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.lang import Loaded
from noetl.model.diagnostics import Diagnostic, Severity
from noetl.model.net import Net
from noetl.model.scope import merged, written
from noetl.model.source import Source


def payload_of(given: str | None, settings: tuple[str, ...]) -> dict[str, Any]:
    """The payload that `--payload` and `--set` describe."""
    payload = _parsed(given) if given is not None else {}
    for one in settings:
        name, equals, text = one.partition("=")
        if not equals or not all(name.split(".")):
            raise UsageError(f"--set {one}: write it as name=value, such as --set limit=10 or --set db.host=local")
        payload = written(payload, tuple(name.split(".")), _value(text))
    return payload


def _parsed(given: str) -> dict[str, Any]:
    text, name = given, "--payload"
    if given.startswith("@"):
        name = given[1:]
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--payload: {name} cannot be read ({error})") from None
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"{name}: this is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise UsageError(f"{name}: a payload is a map, such as '{{\"limit\": 10}}'")
    return found


def _value(text: str) -> Any:
    """A value as JSON where it is JSON, else as text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def check_payload(net: Net, source: Source, payload: dict[str, Any]) -> Loaded | None:
    """What is wrong with a payload by the playbook's own schema; None: nothing."""
    schema = net.playbook.metadata.get("schema")
    if not isinstance(schema, dict):
        return None
    from jsonschema import Draft202012Validator

    workload = merged(net.playbook.workload, payload)
    found = [
        Diagnostic(
            "payload-schema",
            Severity.ERROR,
            f"{'.'.join(['workload', *map(str, wrong.absolute_path)])}: {wrong.message}",
            fix="give another payload with --payload or --set",
        )
        for wrong in sorted(Draft202012Validator(schema).iter_errors(workload), key=lambda one: str(one.absolute_path))
    ]
    return Loaded(None, tuple(found), source) if found else None

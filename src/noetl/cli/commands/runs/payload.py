"""The payload of a run, from the command line, checked against the playbook's schema."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from noetl.cli.files import is_unicode
from noetl.errors import UsageError, describe_os_error
from noetl.lang import Loaded
from noetl.model.diagnostics import Diagnostic, Severity
from noetl.model.nearest import nearest
from noetl.model.scope import merge_maps, set_path

if TYPE_CHECKING:
    from noetl.lang import WorkloadViolation

CODE = "payload-schema"
#: how many inputs a message lists
_SHOWN = 12


def payload_of(given: str | None, settings: tuple[str, ...]) -> dict[str, Any]:
    """The payload that `--payload` and `--set` describe."""
    payload = _parse(given) if given is not None else {}
    for one in settings:
        if not is_unicode(one):
            raise UsageError(f"--set {one!a}: this is not UTF-8")
        name, equals, text = one.partition("=")
        if not equals or not all(name.split(".")):
            raise UsageError(f"--set {one}: write it as name=value, such as --set limit=10 or --set db.host=local")
        payload = set_path(payload, tuple(name.split(".")), _value(text))
    return payload


def check_settings(data: bytes, settings: tuple[str, ...]) -> None:
    """Refuse a `--set` that can have no effect: the playbook does not have, read or mention its name."""
    from noetl.lang import find_unread_inputs

    if not settings:
        return
    names = [one.partition("=")[0].partition(".")[0] for one in settings]
    for name, known in find_unread_inputs(data.decode("utf-8-sig", "replace"), names):
        meant, listed = nearest(name, known), ", ".join(known[:_SHOWN])
        fix = f"did you mean `{meant}`?" if meant else f"it takes: {listed}" if listed else "it takes no inputs"
        raise UsageError(f"--set {name}=…: the playbook has no input `{name}`, and nothing in it reads one; {fix}")


def _parse(given: str) -> dict[str, Any]:
    text, name = given, "--payload"
    if given.startswith("@"):
        name = given[1:]
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--payload: {name} cannot be read: {describe_os_error(error)}") from None
    try:
        found = from_json(text)
    except ValueError as error:
        raise UsageError(f"{name}: this is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise UsageError(f"{name}: a payload is a map, such as '{{\"limit\": 10}}'")
    return found


def _value(text: str) -> Any:
    """A value as JSON where it is JSON, else as text."""
    try:
        return from_json(text)
    except ValueError:
        return text


def from_json(text: str) -> Any:
    """The value of a JSON text; ValueError: it is none."""
    if not is_unicode(text):
        raise ValueError("it is not UTF-8")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_payload(loaded: Loaded, payload: dict[str, Any]) -> Loaded | None:
    """What is wrong with the merged workload by the playbook's own schema, and whose fault it is; None: nothing."""
    assert loaded.net is not None
    schema = loaded.net.playbook.metadata.get("schema")
    if schema is None:
        return None
    from noetl.lang import workload_violations

    wrong = workload_violations(merge_maps(loaded.net.playbook.workload, payload), schema)
    found = [_diagnose(one, payload, loaded.diagnostics) for one in wrong]
    return Loaded(None, tuple(found), loaded.source) if found else None


def _diagnose(wrong: WorkloadViolation, payload: dict[str, Any], diagnostics: tuple[Diagnostic, ...]) -> Diagnostic:
    option = f"--set {'.'.join(map(str, wrong.path))}=…" if wrong.path else "--set or --payload"
    if wrong.final and not _mentions(payload, wrong.path):
        # What the playbook itself has wrong was found when it was read, and has a place there.
        for one in diagnostics:
            if one.code == CODE and one.message.startswith(f"{wrong.name} "):
                return replace(one, fix=f"{one.fix}; or give another value with {option}")
        message = f"{wrong.name}: {wrong.said}; the playbook's default is at fault"
        return Diagnostic(CODE, Severity.ERROR, message, fix=f"correct it, or give another value with {option}")
    if not wrong.final:
        return Diagnostic(
            CODE, Severity.ERROR, f"{wrong.name}: {wrong.said}", fix=f"give it with {_suggest_option(wrong)}"
        )
    message = f"{wrong.name}: {wrong.said}; the payload is at fault"
    return Diagnostic(CODE, Severity.ERROR, message, fix=f"give another value with {option}")


def _suggest_option(wrong: WorkloadViolation) -> str:
    """The option that gives what is not there, as far as its name can be told."""
    if wrong.lacks is None:
        return "--set or --payload"
    return f"--set {'.'.join(map(str, (*wrong.path, wrong.lacks)))}=…, or as a default in `workload`"


def _mentions(payload: Any, path: tuple[str | int, ...]) -> bool:
    """Whether a payload has its part in the value at a path."""
    for part in path:
        if not isinstance(payload, dict):
            return True  # it has replaced all of it
        if part not in payload:
            return False
        payload = payload[part]
    return True


def find_unknown_keys(workload: Mapping[str, Any], payload: dict[str, Any]) -> list[str]:
    """What is to be said of keys that the workload does not have, and which are nearly ones that it has."""
    found = []
    for name in payload.keys() - workload.keys():
        meant = nearest(name, workload.keys() - payload.keys())
        if meant is not None:
            found.append(f"the workload has no `{name}`; did you mean `{meant}`?")
    return sorted(found)

"""OlderNames: what names in templates of an older text stand for, and the values that templates yield there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.errors import TemplateError
from noetl.expr import guard, has_template, template
from noetl.testing.verification.older_document import NotUnderstood, OlderDocument
from noetl.testing.verification.older_results import OlderResult

EXECUTION = "trial"
#: stands for a secret
SECRET = "‹secret›"  # noqa: S105  it says that there is one
#: roots whose values are those of today: all of them is the data, whatever parts they have
_OF_TODAY = frozenset({"output", "outcome", "_prev", "this", "result", "response"})
#: scopes that a name of the document does not hide
_FIXED = frozenset({"workload", "ctx", "context", "iter"})
_DEEPEST = 4
_SUCCESS = ("step.done", "call.done", "step.exit", "loop.done")
_FAILURE = ("step.failed", "call.error", "step.exit")


class OlderNames:
    """The names of one run: what the document defines goes before the words of the engine."""

    def __init__(self, document: OlderDocument, payload: Mapping[str, Any]) -> None:
        self.document = document
        self.workload = {**document.workload, **document.variables, **payload}
        self.ctx: dict[str, Any] = {}
        #: by step, the result of its last run
        self.results: dict[str, Any] = {}
        #: names of steps and of their results whose last run failed and left nothing
        self.failed: set[str] = set()
        self._render_defaults(payload)
        not_yet = {"done": False, "ok": False, "running": False, "error": None}
        self.states: dict[str, dict[str, Any]] = {name: {"status": not_yet} for name in document.steps}

    def _render_defaults(self, payload: Mapping[str, Any]) -> None:
        """Templates among the defaults are rendered once, at the start; one that needs another comes after it."""
        ids = {"uuid": EXECUTION, "execution_id": EXECUTION, "id": EXECUTION}
        for _ in range(_DEEPEST):
            given = {"payload": dict(payload), "env": self.workload, "job": ids, "execution_id": EXECUTION}
            names = {**self.workload, **given, "workload": self.workload}
            self.workload = {key: _try_render(value, names) for key, value in self.workload.items()}

    def scope(self, **local: Any) -> dict[str, Any]:
        """What a template sees; `local` is what holds only at its place."""
        variables = {**self.document.variables, **self.ctx, **local.pop("step", {})}
        names: dict[str, Any] = {
            "execution_id": EXECUTION,
            "job": {"uuid": EXECUTION, "execution_id": EXECUTION, "id": EXECUTION},
            "payload": self.workload,
            "spec": self.workload,
            "env": self.workload,
            "vars": variables,
            "steps": self.states,
            "keychain": _Secrets(),
            "none": None,
            "null": None,
            **{key: part for key, part in local.items() if key not in ("iter", "names")},
        }
        iteration = local.get("iter", {})
        defaults = {name: self.workload[name] for name in self.document.workload}
        defined = {**defaults, **self.results, **self.ctx, **local.get("names", {})}
        names.update((name, value) for name, value in defined.items() if name not in _FIXED)
        names["step"] = {**variables, **{name: {"status": state["status"]} for name, state in self.states.items()}}
        names["workload"] = self.workload
        names["ctx"] = {**self.ctx}
        names["context"] = {**self.results, **self.ctx, "workload": self.workload, "execution_id": EXECUTION}
        names["iter"] = iteration
        return names

    def check_known(self, value: Any) -> None:
        """NotUnderstood: a value is what a failed step left. No document says what that is; today it is null."""
        for part in (value.values() if isinstance(value, dict) else value) if isinstance(value, dict | list) else ():
            self.check_known(part)
        one = template(value) if isinstance(value, str) and has_template(value) else None
        path = one.expression.path if one is not None and one.expression is not None else None
        name = path[-1] if path is not None and (len(path) == 1 or path[:-1] in (("context",), ("ctx",))) else ""
        if name in self.failed:
            raise NotUnderstood(f"what is read of `{name}` after its failure")


class OlderOutput(dict[str, Any]):
    """`output` after a task: its parts are those of today, all of it is the result."""

    result: Any = None


class _Secrets(Mapping[str, Any]):
    """`keychain.NAME.FIELD`: of secrets only that they are read is known."""

    def __init__(self, *, is_entry: bool = False) -> None:
        self._is_entry = is_entry

    def get(self, _key: Any, _default: Any = None) -> Any:
        """Every name is there."""
        return SECRET if self._is_entry else _Secrets(is_entry=True)

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def render_value(value: Any, names: Mapping[str, Any]) -> Any:
    """A value with its templates evaluated; a result that is taken as a whole stays an `OlderResult`."""
    if isinstance(value, str):
        return _render_text(value, names) if has_template(value) else value
    if isinstance(value, dict):
        return {key: render_value(part, names) for key, part in value.items()}
    return [render_value(part, names) for part in value] if isinstance(value, list) else value


def _try_render(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _try_render(part, names) for key, part in value.items()}
    if not isinstance(value, str) or not has_template(value):
        return value
    try:
        return template(value).evaluate(names)
    except TemplateError:
        return None if "payload." in value else value


def _render_text(text: str, names: Mapping[str, Any]) -> Any:
    one = template(text)
    path = one.expression.path if one.expression is not None else None
    if path == ("output",) and isinstance(whole := names.get("output"), OlderOutput):
        return whole.result  # all of it is the raw result
    found = _walk(path, names) if path is not None else None
    if not isinstance(found, OlderResult):
        return one.evaluate(names)
    of_today = path is not None and path[0] in _OF_TODAY
    return to_plain(found.payload) if of_today else found


def _walk(path: tuple[str, ...], names: Mapping[str, Any]) -> Any:
    value: Any = names
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def to_plain(value: Any) -> Any:
    """Data without results that stay whole: each is its shape."""
    if isinstance(value, OlderResult):
        return to_plain(value.shape)
    if isinstance(value, Mapping):
        return {key: to_plain(part) for key, part in value.items()}
    return [to_plain(part) for part in value] if isinstance(value, list | tuple) else value


def take_results(value: Any, code: str) -> Any:
    """Data as code gets them: a result whose shape the code reads is that shape, any other is the data themselves."""
    if isinstance(value, OlderResult):
        if not any(_names(code, name) for name in value.shape):
            return take_results(value.payload, code)
        shape = to_plain(value)
        # Some engines had the rows of a query, or the list of a loop, one level deeper.
        wrapped = value.rows is not None and "data" not in shape and _names(code, "data")
        return {**shape, "data": shape} if wrapped else shape
    if isinstance(value, Mapping):
        return {key: take_results(part, code) for key, part in value.items()}
    return [take_results(part, code) for part in value] if isinstance(value, list | tuple) else value


def _names(code: str, key: str) -> bool:
    return f"'{key}'" in code or f'"{key}"' in code


def holds(condition: Any, names: Mapping[str, Any]) -> bool:
    """Whether a condition holds."""
    if condition is None:
        return True
    if not isinstance(condition, str | bool):
        raise NotUnderstood("a condition that is no text")
    found = guard(condition)
    if not found.form_ok:
        return _holds_as_text(str(condition), names)
    return found.evaluate(names)


def _holds_as_text(condition: str, names: Mapping[str, Any]) -> bool:
    """`{{ a }} == text`: what the template yields is compared as text, or as a number."""
    parts = re.fullmatch(r"\s*(\{\{[^{}]+\}\})\s*(==|!=|<=|>=|<|>)\s*([^{}]+?)\s*", condition)
    if parts is None:
        raise NotUnderstood(f"the condition `{condition}`")
    left, right = template(parts[1]).evaluate(names), parts[3].strip("'\"")
    numbers = re.fullmatch(r"-?\d+(\.\d+)?", right) is not None
    one, other = (float(left or 0), float(right)) if numbers else (str(left), right)
    if right.lower() in ("true", "false"):
        one, other = str(one).lower(), right.lower()
    known = {"==": one == other, "!=": one != other}
    if parts[2] in known:
        return known[parts[2]]
    assert isinstance(one, float)
    assert isinstance(other, float)
    return {"<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other}[parts[2]]


def holds_after(condition: Any, names: Mapping[str, Any], *, failed: bool) -> bool:
    """Whether the condition of an arc holds after a step, for any of the events that older engines sent then.

    Without a condition an arc is for success only.
    """
    if condition is None:
        return not failed
    events = _FAILURE if failed else _SUCCESS
    status = "error" if failed else "success"
    if not isinstance(condition, str) or "event" not in condition:
        return holds(condition, names)
    known = names.get("event")
    if not isinstance(known, Mapping) or "step" not in known:
        return holds(condition, names)  # a name of the document
    return any(
        holds(condition, {**names, "event": {**known, "name": name, "type": name, "status": status}}) for name in events
    )

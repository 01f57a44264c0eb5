"""OlderDocument: the steps of an older text as the interpreter runs them; what it does not understand is named, not guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.lang import ListNode, MapNode, Node, plain_value, read_yaml
from noetl.model.diagnostics import Diagnostics, Source
from noetl.testing.verification.older_spellings import spell_alike, spell_arcs


class NotUnderstood(NoetlError):
    """A construct of an older text that the interpreter does not know; the message names it."""


class OlderRule(msgspec.Struct, frozen=True):
    """What to do after a task; no condition: always."""

    when: Any
    do: str
    writes: tuple[tuple[str, str, Any], ...] = ()
    to: str = ""
    attempts: int = 3
    #: `set_prev`: what the next task gets, in a list, since null is a value
    prev: tuple[Any, ...] = ()


class OlderTask(msgspec.Struct, frozen=True):
    """One call of a tool."""

    name: str
    kind: str
    config: Mapping[str, Any]
    input: Mapping[str, Any]
    rules: tuple[OlderRule, ...] = ()
    #: whether an error that no rule matches fails the task
    strict: bool = True
    #: what becomes of its result: `output`, `result.pick`
    picks: tuple[Any, ...] = ()
    writes: tuple[tuple[str, str, Any], ...] = ()
    #: the name that `result` gives it
    result: str = ""


class OlderArc(msgspec.Struct, frozen=True):
    """A way to another step."""

    step: str
    when: Any = None
    args: Mapping[str, Any] = {}
    writes: tuple[tuple[str, str, Any], ...] = ()
    #: arcs of one branch are taken together
    branch: int | None = None


class OlderLoop(msgspec.Struct, frozen=True):
    """What a step is repeated for."""

    items: Any
    element: str
    until: Any = None
    #: how many iterations run at a time
    at_a_time: int = 1


class OlderStep(msgspec.Struct, frozen=True):
    """A step; `unknown` says why it cannot be run here."""

    name: str
    line: int
    tasks: tuple[OlderTask, ...] = ()
    is_pipeline: bool = False
    loop: OlderLoop | None = None
    input: Mapping[str, Any] = {}
    when: Any = None
    writes: tuple[tuple[str, str, Any], ...] = ()
    #: names under which the result is published
    results: tuple[str, ...] = ()
    output: tuple[Any, ...] = ()
    arcs: tuple[OlderArc, ...] = ()
    inclusive: bool = False
    best_effort: bool = False
    unknown: str = ""


class OlderDocument(msgspec.Struct, frozen=True):
    """A playbook of an older dialect."""

    workload: Mapping[str, Any]
    variables: Mapping[str, Any]
    steps: Mapping[str, OlderStep]
    first: str
    #: the text of all templates and of all code, one below the other
    read: str = ""

    @property
    def reads_bodies(self) -> bool:
        """Whether what a response holds is its `body` here."""
        return re.search(r"""[\'"]body[\'"]\s*[\],)]|\.body\b""", self.read) is not None


_STEP_KEYS = frozenset(
    {"step", "desc", "description", "tool", "args", "input", "with", "loop", "next", "result", "bind", "vars", "set",
     "set_ctx", "when", "spec", "output", "pipe"}
)  # fmt: skip
_CONFIG = frozenset(
    {"code", "method", "url", "endpoint", "params", "headers", "json", "payload", "data", "body", "query", "command",
     "commands", "sql", "cmd", "cmds", "path", "auth", "database", "file", "verify_ssl", "parameters"}
)  # fmt: skip
_TASK_KEYS = _CONFIG | {
    "kind", "name", "desc", "args", "input", "with", "eval", "spec", "result", "output", "set", "set_ctx", "retry",
    "timeout", "timeout_seconds",
}  # fmt: skip
_KINDS = frozenset({"python", "http", "postgres", "duckdb", "shell", "playbook", "noop"})
_RULE_KEYS = frozenset(
    {"expr", "when", "do", "to", "attempts", "delay", "backoff", "max_delay", "jitter", "set", "set_ctx", "set_iter",
     "set_vars", "set_prev"}
)  # fmt: skip
_SCOPES = ("ctx", "step", "iter")


def read_document(text: str) -> OlderDocument:
    """Read a text; NotUnderstood: none of it can be run here."""
    problems = Diagnostics(source := Source(text))
    root = read_yaml(text, problems)
    workflow = root.get("workflow") if isinstance(root, MapNode) else None
    if not isinstance(root, MapNode) or not isinstance(workflow, ListNode) or not workflow.items:
        raise NotUnderstood("the text has no `workflow` with steps")
    plain = plain_value(root)
    steps: dict[str, OlderStep] = {}
    for node in workflow.items:
        step = _read_step(node, source)
        if step.name in steps:
            raise NotUnderstood(f"two steps are called `{step.name}`")
        steps[step.name] = step
    workload = plain.get("workload", plain.get("spec"))
    return OlderDocument(
        workload if isinstance(workload, dict) else {},
        plain["vars"] if isinstance(plain.get("vars"), dict) else {},
        steps,
        "start" if "start" in steps else next(iter(steps)),
        "\n".join(_find_read(plain)),
    )


def _find_read(said: Any, key: str = "") -> Iterator[str]:
    if isinstance(said, str):
        yield from (said,) if key == "code" or "{{" in said or "{%" in said else ()
    elif isinstance(said, dict):
        for name, part in said.items():
            yield from _find_read(part, str(name))
    elif isinstance(said, list):
        for part in said:
            yield from _find_read(part, key)


def _read_step(node: Node, source: Source) -> OlderStep:
    line, _ = source.place(node.start)
    said = plain_value(node)
    if not isinstance(said, dict) or not isinstance(said.get("step"), str):
        raise NotUnderstood(f"line {line} is no step with a name")
    said = spell_alike(said)
    try:
        return _make_step(said, line)
    except NotUnderstood as error:
        arcs, inclusive = _try_arcs(said)
        return OlderStep(said["step"], line, arcs=arcs, inclusive=inclusive, unknown=str(error))


def _make_step(said: dict[str, Any], line: int) -> OlderStep:
    _refuse_unknown("step", said, _STEP_KEYS)
    spec = _map(said.get("spec"), "spec")
    policy = _map(spec.get("policy"), "spec.policy")
    _refuse_unknown("spec", spec, {"next_mode", "policy"})
    _refuse_unknown("spec.policy", policy, {"failure"})
    tasks, is_pipeline = _read_tasks(said)
    arcs, inclusive = _read_arcs(said.get("next"), spec.get("next_mode"))
    name, picked = _read_result(said.get("result"))
    if isinstance(said.get("output"), dict) and said["output"].keys() & {"output_select", "store"}:
        said = {key: part for key, part in said.items() if key != "output"}
    return OlderStep(
        said["step"], line, tasks, is_pipeline,
        loop=_read_loop(said.get("loop")),
        input=_arguments(said),
        when=said.get("when"),
        writes=(*_writes(said.get("set"), "ctx"), *_writes(said.get("set_ctx"), "ctx", fixed=True),
                *_writes(said.get("vars"), "ctx", fixed=True), *_bindings(said.get("bind"))),
        results=(name,) if name else (),
        output=(*picked, *((said["output"],) if "output" in said else ())),
        arcs=arcs, inclusive=inclusive,
        best_effort=_map(policy.get("failure"), "failure").get("mode") == "best_effort",
    )  # fmt: skip


# --- tasks -----------------------------------------------------------------------------------------------------------


def _read_tasks(said: dict[str, Any]) -> tuple[tuple[OlderTask, ...], bool]:
    tool = said.get("tool", said.get("pipe"))
    if tool is None:
        return (), False
    if isinstance(tool, dict):
        return (_read_task(tool, tool.get("name") or said["step"]),), False
    if not isinstance(tool, list):
        raise NotUnderstood("`tool` is neither a task nor a list of tasks")
    return tuple(_named_task(item, place) for place, item in enumerate(tool, 1)), True


def _named_task(item: Any, place: int) -> OlderTask:
    if isinstance(item, dict) and "kind" not in item and len(item) == 1:
        name, body = next(iter(item.items()))
        if isinstance(body, dict) and name not in ("choose", "while", "until"):
            return _read_task(body, str(name))
    if not isinstance(item, dict) or "kind" not in item:
        raise NotUnderstood(f"item {place} of `tool` is no task")
    return _read_task(item, str(item.get("name") or f"task_{place}"))


def _read_task(said: dict[str, Any], name: str) -> OlderTask:
    kind = str(said.get("kind"))
    if kind not in _KINDS:
        raise NotUnderstood(f"`kind: {kind}` is not run in a verification")
    _refuse_unknown("tool", said, _TASK_KEYS)
    spec = _map(said.get("spec"), "spec")
    policy = _map(spec.get("policy"), "spec.policy")
    deep = {key: part for key, part in spec.items() if key in _CONFIG}
    _refuse_unknown("spec", spec, {"policy", "timeout", *deep})
    _refuse_unknown("spec.policy", policy, {"rules", "on_unmatched"})
    config = {**deep, **{key: said[key] for key in said if key in _CONFIG}}
    if kind != "http" and isinstance(config.get("data"), dict):
        raise NotUnderstood("`data` of a tool")
    evaluated = said.get("eval")
    rules = [*_read_rules(evaluated), *_read_rules(policy.get("rules"))]
    if rules and said.get("retry") is not None:
        raise NotUnderstood("`retry` beside rules")
    rules += _read_retry(said.get("retry"))
    result, picked = _read_result(said.get("result"))
    strict = evaluated is not None or not policy.get("rules") or policy.get("on_unmatched") == "fail"
    picks = (*picked, *((said["output"],) if "output" in said else ()))
    writes = (*_writes(said.get("set"), ""), *_writes(said.get("set_ctx"), "ctx", fixed=True))
    return OlderTask(name, kind, config, _arguments(said), tuple(rules), strict, picks, writes, result)


def _read_rules(said: Any) -> Iterator[OlderRule]:
    if said is not None and not isinstance(said, list):
        raise NotUnderstood("rules that are no list")
    for rule in said or ():
        if not isinstance(rule, dict):
            raise NotUnderstood("a rule that is no map")
        body = rule["else"] if "else" in rule and len(rule) == 1 else rule
        then = body.get("then") if isinstance(body, dict) else None
        whole = (
            {**{key: part for key, part in body.items() if key != "then"}, **then} if isinstance(then, dict) else body
        )
        if not isinstance(whole, dict) or "else" in whole:
            raise NotUnderstood("a rule of another form")
        _refuse_unknown("rule", whole, _RULE_KEYS)
        when = None if body is not rule else whole.get("expr", whole.get("when"))
        yield OlderRule(
            when, str(whole.get("do", "continue")), tuple(_rule_writes(whole)), str(whole.get("to", "")),
            _number(whole.get("attempts", 3)), (whole["set_prev"],) if "set_prev" in whole else (),
        )  # fmt: skip


def _rule_writes(said: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    yield from _writes(said.get("set"), "")
    for word, scope in (("set_ctx", "ctx"), ("set_iter", "iter"), ("set_vars", "step")):
        yield from _writes(said.get(word), scope, fixed=True)


def _read_retry(said: Any) -> Iterator[OlderRule]:
    if said is None:
        return
    if not isinstance(said, dict):
        raise NotUnderstood("`retry` that is no map")
    known = {
        "max_attempts",
        "attempts",
        "initial_delay",
        "delay",
        "max_delay",
        "backoff",
        "backoff_multiplier",
        "jitter",
    }
    _refuse_unknown("retry", said, known)
    yield OlderRule(
        "{{ output.status == 'error' }}", "retry", attempts=_number(said.get("max_attempts", said.get("attempts", 3)))
    )


def _number(said: Any) -> int:
    if not isinstance(said, int):
        raise NotUnderstood("a template where a number stands")
    return said


def _read_result(said: Any) -> tuple[str, tuple[Any, ...]]:
    """The name under which a result is published, and what is picked out of it."""
    if said is None:
        return "", ()
    if isinstance(said, str) and "{" not in said:
        return said, ()
    if isinstance(said, dict) and said.keys() <= {"as", "pick"}:
        return str(said.get("as", "")), (said["pick"],) if "pick" in said else ()
    raise NotUnderstood("`result` of this form")


# --- loops, arcs, writes ---------------------------------------------------------------------------------------------


def _read_loop(said: Any) -> OlderLoop | None:
    if said is None:
        return None
    loop = _map(said, "loop")
    _refuse_unknown("loop", loop, {"collection", "in", "element", "iterator", "mode", "until", "spec", "distribution"})
    spec = _map(loop.get("spec"), "loop.spec")
    _refuse_unknown("loop.spec", spec, {"mode", "max_in_flight"})
    parallel = (loop.get("mode") or spec.get("mode")) in ("parallel", "async")
    if "until" in loop and parallel:
        raise NotUnderstood("`until` of a parallel loop")
    element = loop.get("element", loop.get("iterator"))
    if not isinstance(element, str):
        raise NotUnderstood("a loop without a name for its element")
    at_a_time = _number(spec.get("max_in_flight", 16)) if parallel else 1
    return OlderLoop(loop.get("collection", loop.get("in")), element, loop.get("until"), at_a_time)


def _try_arcs(said: dict[str, Any]) -> tuple[tuple[OlderArc, ...], bool]:
    try:
        return _read_arcs(said.get("next"), None)
    except NotUnderstood:
        return (), False


def _read_arcs(said: Any, mode: Any) -> tuple[tuple[OlderArc, ...], bool]:
    listed = isinstance(said, list)
    said = spell_arcs(said)
    if isinstance(said, dict):
        _refuse_unknown("next", said, {"arcs", "spec"})
        mode = mode or _map(said.get("spec"), "next.spec").get("mode")
        said = said.get("arcs")
    if said is None:
        return (), False
    if not isinstance(said, list):
        raise NotUnderstood("`next` of this form")
    arcs = tuple(_read_arc(item) for item in said)
    # In a list of the oldest dialect without any condition, all ways are taken.
    fans_out = listed and mode is None and all(arc.when is None for arc in arcs)
    return arcs, mode == "inclusive" or fans_out


def _read_arc(said: Any) -> OlderArc:
    if isinstance(said, str):
        return OlderArc(said)
    arc = _map(said, "next")
    args = [arc[word] for word in ("args", "with", "data") if arc.get(word) is not None]
    _refuse_unknown("next", arc, {"step", "when", "args", "with", "data", "set", "set_ctx", "branch"})
    if not isinstance(arc.get("step"), str):
        raise NotUnderstood("an arc without a step")
    writes = (*_writes(arc.get("set"), "ctx"), *_writes(arc.get("set_ctx"), "ctx", fixed=True))
    return OlderArc(arc["step"], arc.get("when"), _map(args[0], "args") if args else {}, writes, arc.get("branch"))


def _writes(said: Any, scope: str, *, fixed: bool = False) -> Iterator[tuple[str, str, Any]]:
    """Scope, name and value of each target; `fixed`: the block itself says the scope."""
    for target, value in _map(said, "set").items():
        head, _, rest = str(target).partition(".")
        if fixed or head not in _SCOPES or not rest:
            if "." in str(target):
                raise NotUnderstood(f"the target `{target}`")
            yield scope, str(target), value
        elif "." in rest:
            raise NotUnderstood(f"the target `{target}`")
        else:
            yield head, rest, value


def _bindings(said: Any) -> Iterator[tuple[str, str, Any]]:
    """Names for parts of a result, given by a path or by a template."""
    for name, value in _map(said, "bind").items():
        path = value.get("path") if isinstance(value, dict) else value
        if not isinstance(path, str) or (isinstance(value, dict) and value.keys() - {"path"}):
            raise NotUnderstood("`bind` of this form")
        parts = [part for part in path.removeprefix("$.").split(".") if part not in ("result", "data")]
        yield "ctx", name, path if "{{" in path else "{{ " + ".".join(["output.data", *parts]) + " }}"


def _arguments(said: dict[str, Any]) -> Mapping[str, Any]:
    given = [said[word] for word in ("args", "input", "with") if said.get(word) is not None]
    if len(given) > 1 or not all(isinstance(one, dict) for one in given):
        raise NotUnderstood("arguments of this form")
    return given[0] if given else {}


def _map(said: Any, word: str) -> dict[str, Any]:
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise NotUnderstood(f"`{word}` of this form")
    return said


def _refuse_unknown(where: str, said: Mapping[str, Any], known: Any) -> None:
    for key in said:
        if key not in known:
            raise NotUnderstood(f"`{key}` of a {where}" if where in ("step", "tool", "rule") else f"`{where}.{key}`")

"""The dry run of a playbook: what a run would do, without running anything (`noetl run --plan`).

Every step that may run stands in order, with its inputs as far as they are known, and every arc with its condition and
whether it would be taken. Steps are taken to end well, unless only a failure leads on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from noetl.lang.explanation import to_source
from noetl.lang.known_values import (
    KnownValues,
    config_of,
    ctx_writers,
    evaluate_partially,
    holds,
    is_known,
    step_writers,
)
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.net import Net
from noetl.model.playbook import Admission, Arc, Loop, Step, Task

YES, PERHAPS, ON_FAILURE, NO = "yes", "perhaps", "on failure", "no"
#: the surer one first
_ORDER = (YES, PERHAPS, ON_FAILURE, NO)


class _Way(NamedTuple):
    arc: Arc
    taken: str


def dry_run(net: Net, workload: Mapping[str, Any], kinds: Mapping[str, ToolKind]) -> dict[str, Any]:
    """What would run with this workload."""
    playbook = net.playbook
    sight = KnownValues({"workload": workload, "ctx": {}}, frozenset({"ctx"}), {}, ctx_writers(playbook))
    ways = {name: _ways(step, sight) for name, step in net.steps.items()}
    sure = _step_certainty(
        net, ways, {name: _admission_certainty(step.admission, sight) for name, step in net.steps.items()}
    )
    last = playbook.final_step
    if last is not None:
        ended = replace(sight.with_scopes(event={}), partial=sight.partial | {"event"})
        sights = {last: replace(ended, origins={**sight.origins, "event": "the end of the execution"})}
        sure[last] = YES
    else:
        sights = {}
    return {
        "name": playbook.name,
        "path": playbook.path,
        "keychain": [{"name": one.name, "kind": one.kind} for one in playbook.keychain],
        "steps": [
            _step(net.steps[name], sights.get(name, sight), kinds, runs, ways[name]) for name, runs in sure.items()
        ],
        "not_run": [name for name in net.steps if name not in sure],
    }


def _step_certainty(net: Net, ways: Mapping[str, list[_Way]], admitted: Mapping[str, str]) -> dict[str, str]:
    """The steps that may run, the nearest first, and how sure that is."""
    sure = {net.start: admitted[net.start]} if admitted[net.start] != NO else {}
    waiting = list(sure)
    while waiting:
        name = waiting.pop(0)
        for arc, taken in ways[name]:
            if arc.step is None or NO in (taken, admitted[arc.step]):
                continue
            runs = max(sure[name], taken, admitted[arc.step], key=_ORDER.index)
            if arc.step not in sure or _ORDER.index(runs) < _ORDER.index(sure[arc.step]):
                sure[arc.step] = runs
                waiting.append(arc.step)
    return sure


def _admission_certainty(admission: Admission, sight: KnownValues) -> str:
    """Whether tokens are let in, as the first rule that holds says; nobody else is."""
    for rule in admission.rules if admission.rules is not None else ():
        held = holds(rule.when, sight, by_default=True)  # type: ignore[arg-type]  # a Guard is a Condition
        if held is None:
            return PERHAPS
        if held:
            return YES if rule.allow else NO
    return YES if admission.rules is None else NO


# --- arcs ------------------------------------------------------------------------------------------------------------


def _ways(step: Step, sight: KnownValues) -> list[_Way]:
    """Which arcs would be taken."""
    well = _values_at_end(step, sight, "loop.done" if step.loop is not None else "step.done")
    badly = _values_at_end(step, sight, "step.failed")
    exclusive = step.router.mode == "exclusive"
    ways: list[_Way] = []
    closed = False
    for arc in step.router.arcs:
        verdict = NO if closed else _arc_certainty(arc, well)
        if verdict == NO and step.loop is not None and not closed:
            verdict = _arc_certainty(arc, _values_at_end(step, sight, "step.done"))
        if exclusive and verdict == YES:
            closed = True
            # One before it may be taken in its place.
            verdict = PERHAPS if any(way.taken == PERHAPS for way in ways) else YES
        if verdict == NO and _arc_certainty(arc, badly, failing=True) != NO:
            verdict = ON_FAILURE
        # A plan that holds steps takes the place of all arcs.
        ways.append(_Way(arc, PERHAPS if verdict == YES and step.router.synthesize is not None else verdict))
    return ways


def _values_at_end(step: Step, sight: KnownValues, name: str) -> KnownValues:
    """What arcs see of the end of a step, as far as that is known."""
    failed = name == "step.failed"
    event: dict[str, Any] = {"name": name, "status": "error" if failed else "success", "step": step.name}
    output: dict[str, Any] = {"status": "error" if failed else "ok"}
    if not failed:
        event["error"] = output["error"] = None
    origins = dict.fromkeys(("output", "event", "step", "input"), f"step {step.name}")
    return replace(
        sight.with_scopes(event=event, output=output),
        partial=sight.partial | {"event", "output"},
        origins={**sight.origins, **origins},
    )


def _arc_certainty(arc: Arc, sight: KnownValues, *, failing: bool = False) -> str:
    held = holds(arc.when, sight, by_default=not failing)  # type: ignore[arg-type]  # a Guard is a Condition
    return PERHAPS if held is None else YES if held else NO


# --- steps -----------------------------------------------------------------------------------------------------------


def _step(
    step: Step, sight: KnownValues, kinds: Mapping[str, ToolKind], runs: str, ways: list[_Way]
) -> dict[str, Any]:  # fmt: skip
    made: dict[str, Any] = {"name": step.name, "line": step.at.line, "runs": runs}
    if step.desc:
        made["desc"] = step.desc
    inside = replace(sight, writers={**sight.writers, **step_writers(step)}, partial=sight.partial | {"step"})
    inside = inside.with_scopes(step={})
    if step.admission.rules is not None:
        made["admitted"] = [to_source(rule.when) if rule.when is not None else "else" for rule in step.admission.rules]
    if step.admission.join is not None:
        made["joins"] = list(step.admission.join.places)
    if step.loop is not None:
        made["loop"], inside = _loop(step.loop, inside)
    if step.input is not None:
        made["input"] = evaluate_partially(step.input, inside)
        inside = _with_input(step.input, inside)
    else:
        inside = inside.with_scopes(input={})
    made["tasks"] = _tasks(step.pipeline, inside, kinds)
    ends = {ON_FAILURE: "step.failed"}
    if step.router.synthesize is not None:
        made["plans"] = evaluate_partially(step.router.synthesize.plan, _values_at_end(step, sight, "step.done"))
    made["next"] = [_arc(way, _values_at_end(step, sight, ends.get(way.taken, "step.done"))) for way in ways]
    return made


def _with_input(given: Any, sight: KnownValues) -> KnownValues:
    """`input` as far as it is known, key by key."""
    if isinstance(given, Mapping):
        known = {key: evaluate_partially(value, sight) for key, value in given.items() if is_known(value, sight)}
        return replace(sight.with_scopes(input=known), partial=sight.partial | {"input"})
    return sight.with_scopes(input=evaluate_partially(given, sight)) if is_known(given, sight) else sight


def _loop(loop: Loop, sight: KnownValues) -> tuple[dict[str, Any], KnownValues]:
    """A loop with its count, and what its first iteration sees."""
    made: dict[str, Any] = {"in": evaluate_partially(loop.items, sight), "iterator": loop.iterator, "mode": loop.mode}
    items = made["in"] if is_known(loop.items, sight) else None
    made["count"] = len(items) if isinstance(items, list) else None
    scope: dict[str, Any] = {"index": 0}
    if isinstance(items, list) and items:
        scope[loop.iterator] = items[0]
    if "iter" in sight.scopes:
        scope["parent"] = sight.scopes["iter"]
    sight = replace(sight.with_scopes(iter=scope), partial=sight.partial | {"iter"})
    if loop.inner is not None:
        made["loop"], sight = _loop(loop.inner, sight)
    return made, sight


def _tasks(tasks: tuple[Task, ...], sight: KnownValues, kinds: Mapping[str, ToolKind]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    before: str | None = None
    for task in tasks:
        if not task.silent:  # what sugar has put in does nothing
            origins: dict[str, str] = {} if before is None else dict.fromkeys(("output", "_prev"), f"task {before}")
            made.append(_task(task, replace(sight, origins={**sight.origins, **origins}), kinds))
            before = task.name
    return made


def _task(task: Task, sight: KnownValues, kinds: Mapping[str, ToolKind]) -> dict[str, Any]:
    kind = kinds.get(task.kind)
    given = evaluate_partially(task.input, sight) if task.input is not None else None
    own = _with_input(task.input, sight).scopes.get("input") if task.input is not None else None
    if isinstance(own, Mapping):
        sight = sight.with_scopes(input={**(sight.scopes.get("input") or {}), **own})
        sight = replace(sight, partial=sight.partial | {"input"})
    config = config_of(kind, task.config, sight)
    if kind is not None and kind.input is InputRole.CONFIGURES and isinstance(given, dict):
        config, given = {**config, **given}, None
    made: dict[str, Any] = {"name": task.name, "kind": task.kind, "line": task.at.line, "with": config}
    if given is not None:
        made["input"] = given
    if task.output is not None:
        made["output"] = evaluate_partially(task.output, _values_for_output(task, sight))
    if task.auth is not None:
        made["auth"] = evaluate_partially(task.auth, sight)
    return made


def _values_for_output(task: Task, sight: KnownValues) -> KnownValues:
    """What a task's `output` sees: what it yields is known when it has run."""
    origins = {**sight.origins, "output": f"task {task.name}"}
    return replace(sight, scopes={k: v for k, v in sight.scopes.items() if k != "output"}, origins=origins)


def _arc(way: _Way, sight: KnownValues) -> dict[str, Any]:
    arc, taken = way
    made: dict[str, Any] = {"to": arc.step or f"({arc.terminate})", "taken": taken}
    if arc.when is not None:
        made["when"] = to_source(arc.when)
        if taken == PERHAPS and not sight.knows(arc.when.facts):  # type: ignore[attr-defined]  # a Guard has facts
            source = str(arc.when.source).strip().removeprefix("{{").removesuffix("}}").strip()
            made["depends"] = sight.mark(source, arc.when.facts)  # type: ignore[attr-defined]  # a Guard has facts
    if arc.set:
        made["set"] = {".".join((one.scope, *one.path)): evaluate_partially(one.value, sight) for one in arc.set}
    if arc.cancel:
        made["cancel"] = list(arc.cancel)
    return made

"""The scopes that templates see: of a step that starts or has ended, of a pipeline, of an iteration; and the helpers over `steps`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from noetl.engine.decision import DecisionBuilder
from noetl.errors import TemplateError
from noetl.expr import follow_path, render
from noetl.model.orders import LoopRow
from noetl.model.playbook import Condition, Step
from noetl.model.state import LoopRun, Path, PipelineRun, StepBoundary, StepInfo, StepRun

#: of a condition, what is written to the log: letters of its text, and values that it read, or steps that it asked about
_MOST_CHARACTERS, _MOST_SEEN = 500, 20


def base_scopes(builder: DecisionBuilder, args: Any = None) -> dict[str, Any]:
    """What is in sight everywhere, and what the token at hand carries (v10)."""
    state = builder.state
    scopes = {
        "workload": state.workload,
        "ctx": state.ctx,
        "execution_id": state.execution_id,
        "now": lambda: datetime.fromtimestamp(builder.now, UTC).isoformat(),
        "uuid": builder.new_id,
    }
    return _with_args(builder, scopes, args)


def _with_args(builder: DecisionBuilder, scopes: dict[str, Any], args: Any) -> dict[str, Any]:
    """Add `args`, empty for a token that carries none, where the playbook reads them."""
    if args is not None or builder.net_index.reads_args:
        scopes["args"] = args if args is not None else {}
    return scopes


def with_steps(
    builder: DecisionBuilder, scopes: dict[str, Any], *values: Any, starting: str | None = None
) -> dict[str, Any]:
    """Add `steps` and the helpers over it, where one of the values asks; `starting` is a step about to be scheduled."""
    names: set[str] | None = set()
    helpers = False
    for value in values:
        facts = getattr(value, "facts", None)
        if facts is None:
            continue
        helpers = helpers or bool(facts.calls)
        for read in facts.reads:
            if read.path[0] == "steps" and names is not None:
                names = names | {read.path[1]} if len(read.path) > 1 else None
    if helpers:
        scopes |= step_helpers(builder, starting)
    if names is None or names:
        scopes["steps"] = steps_scope(builder, names)
    return scopes


def steps_scope(builder: DecisionBuilder, names: Collection[str] | None = None) -> dict[str, Any]:
    """`steps` as templates see it: of the steps named, or of all."""
    known = builder.net_index.steps
    return {name: {"status": _status(info_of(builder, name))} for name in (known if names is None else names)}


def info_of(builder: DecisionBuilder, name: str) -> StepInfo:
    """How a step stands. Steps end one at a time: until the arcs of one are judged, it runs for everybody else."""
    state = builder.state
    info = state.steps.get(name)
    if info is None:
        return StepInfo(status="")
    if state.boundaries and info.run_id != builder.routing and info.run_id in builder.gates.unrouted:
        return StepInfo(info.runs, "running", info.run_id, started_at=info.started_at)
    return info


def _status(info: StepInfo) -> dict[str, Any]:
    loop = info.loop or {}
    return {
        "done": info.status in ("done", "failed"),
        "ok": info.status == "done",
        "running": info.status in ("scheduled", "running"),
        "started_at": info.started_at,
        "finished_at": info.finished_at,
        "error": info.error["message"] if info.error is not None else None,
        "failure": info.error,
        **{key: loop.get(key) for key in ("total", "completed", "succeeded", "failed")},
    }


def step_helpers(builder: DecisionBuilder, starting: str | None = None) -> dict[str, Callable[..., bool]]:
    """done(), ok() and their kin."""

    def status(name: str) -> str:
        return "scheduled" if name == starting else info_of(builder, name).status

    def done(name: str) -> bool:
        return status(name) in ("done", "failed")

    def loop_done(name: str) -> bool:
        return done(name) and info_of(builder, name).loop is not None

    return {
        "done": done,
        "ok": lambda name: status(name) == "done",
        "fail": lambda name: status(name) == "failed",
        "running": lambda name: status(name) in ("scheduled", "running"),
        "loop_done": loop_done,
        "all_done": lambda names: all(done(name) for name in names),
        "any_done": lambda names: any(done(name) for name in names),
    }


def run_scopes(builder: DecisionBuilder, run: StepRun) -> dict[str, Any]:
    """Of a step that is about to start."""
    scopes = base_scopes(builder, run.args)
    scopes |= {"ctx": run.ctx, "step": run.step_vars}
    if run.event is not None:
        scopes["event"] = run.event
    return scopes


def iteration_scopes(builder: DecisionBuilder, run: StepRun, loop: LoopRun, path: Path) -> dict[str, Any]:
    """Of an iteration that is about to start."""
    scopes = run_scopes(builder, run)
    scopes |= {"ctx": loop.ctx, "step": loop.step, "iter": iter_scope(builder, run, path)}
    return scopes


def iter_scope(builder: DecisionBuilder, run: StepRun, path: Path) -> dict[str, Any]:
    """`iter` as the engine fills it."""
    declared = builder.net_index.steps[run.step].loop
    loop: Any = run.loop
    scope: dict[str, Any] = {}
    for index in path:
        assert declared is not None
        inner: dict[str, Any] = {"index": index}
        if isinstance(loop.items, list):  # else only the worker reads it
            inner[declared.iterator] = loop.items[index]
        scope = {**inner, "parent": scope} if scope else inner
        declared, loop = declared.inner, loop.running.get(index)
    return scope


def rows_of(builder: DecisionBuilder, run: StepRun, path: Path) -> tuple[LoopRow, ...]:
    """The elements that the worker has to read before an iteration."""
    declared = builder.net_index.steps[run.step].loop
    loop: Any = run.loop
    rows: list[LoopRow] = []
    for depth, index in enumerate(path):
        assert declared is not None
        if not isinstance(loop.items, list):
            rows.append(LoopRow(len(path) - 1 - depth, declared.iterator, loop.items, index))
        declared, loop = declared.inner, loop.running.get(index)
    return tuple(rows)


def boundary_scopes(builder: DecisionBuilder, ended: StepBoundary) -> dict[str, Any]:
    """Of a step that has ended."""
    scopes = base_scopes(builder, ended.args)
    scopes |= {"step": ended.step_vars, "output": ended.output}
    if ended.input is not None:
        scopes["input"] = ended.input
    return scopes


def source_of(condition: Condition) -> str:
    """The text of a condition, short enough for the log."""
    text = condition.source
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def observe_reads(
    builder: DecisionBuilder, value: Any, scopes: Mapping[str, Any], gate: str | None = None
) -> dict[str, Any]:
    """The values that an expression read, short enough for the log; of the steps it asks about, how they stand.

    `gate`: whose rule it is, if the steps of its lists have been counted.
    """
    found: dict[str, Any] = {}
    for read in value.reads[:_MOST_SEEN]:
        found[".".join(read.path)] = _abbreviate(follow_path(scopes, read.path))
    for call in value.calls[:_MOST_SEEN]:
        if len(call.args) > _MOST_SEEN:
            found |= _observe_list(builder, call.name, call.args, gate)
            continue
        for name in call.args:
            found[f"{call.name}: {name}"] = _standing(builder, name)
    return found


def _observe_list(
    builder: DecisionBuilder, helper: str, names: tuple[str | None, ...], gate: str | None
) -> dict[str, Any]:
    """Of a long list of steps how many are done, and where they have not been counted, the first of those that count."""
    done = builder.gates.count_done(gate, names) if gate is not None else None
    if done is not None:
        return {helper: f"{done:,} of {len(names):,} done"}
    is_done = step_helpers(builder)["done"]
    counted = [name for name in names if is_done(name)]
    decisive = counted if helper == "any_done" else [name for name in names if not is_done(name)]
    found: dict[str, Any] = {helper: f"{len(counted):,} of {len(names):,} done"}
    return found | {f"{helper}: {name}": _standing(builder, name) for name in decisive[:_MOST_SEEN]}


def _standing(builder: DecisionBuilder, name: str | None) -> str:
    return info_of(builder, name or "").status or "never ran"


def _abbreviate(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 100:
        return value[:99] + "…"
    if isinstance(value, Mapping):
        return f"a map of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}" if len(value) > 5 or any(isinstance(v, list | dict) for v in value) else value
    return "a function" if callable(value) else value


def pipeline_scopes(
    builder: DecisionBuilder, step: Step, run: StepRun, loop: LoopRun | None = None, path: Path = ()
) -> dict[str, Any]:
    """What the templates of a pipeline may read; functions are the worker's own."""
    sight = {
        "workload": builder.state.workload,
        "ctx": loop.ctx if loop is not None else run.ctx,
        "step": loop.step if loop is not None else run.step_vars,
        "execution_id": builder.state.execution_id,
    }
    if loop is not None:
        sight["iter"] = iter_scope(builder, run, path)
    if run.event is not None:
        sight["event"] = run.event
    _with_args(builder, sight, run.args)
    source: StepRun | PipelineRun = run
    if loop is not None and isinstance(pipe := loop.running.get(path[-1]), PipelineRun):
        source = pipe
    sight["input"] = source.input if source.input is not None else {}
    return _with_steps_read(builder, step, sight)


def _with_steps_read(builder: DecisionBuilder, step: Step, sight: dict[str, Any]) -> dict[str, Any]:
    """Add `steps`, as far as the templates of a pipeline read it: an order must not grow with the net."""
    names = builder.net_index.steps_read(step)
    if names is None or names:
        sight["steps"] = steps_scope(builder, names)
    return sight


def undo_scopes(builder: DecisionBuilder, step: Step) -> dict[str, Any]:
    """What the server knows of a run that is undone; the rest is in the log, with the end of that run."""
    sight = {"workload": builder.state.workload, "execution_id": builder.state.execution_id, "input": {}}
    return _with_steps_read(builder, step, sight)


def input_of(step: Step, sight: dict[str, Any]) -> dict[str, Any]:
    """What a step receives; a TemplateError says why it cannot be told."""
    found = render(step.input, sight)
    if found is None:
        return {}
    if not isinstance(found, dict):
        error = TemplateError(f"the `input` of step `{step.name}` must be a map, not {type(found).__name__}")
        error.kind = "type"
        raise error
    return found

"""react(): something happened; what follows from it, to the last consequence, as one decision.

    facts of workers, requests from outside ──► DecisionBuilder ──► Decision(events, orders)

A fact about a pipeline that is not under way, or about an attempt that has been answered already, is stale: nothing
follows from it, and it is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from noetl.engine import execution_lifecycle, loops, requests, routing, step_end
from noetl.engine.decision import Decision, DecisionBuilder
from noetl.engine.execution_lifecycle import open_execution
from noetl.engine.fold_step_events import find_unconsumed_signal
from noetl.engine.net_index import NetIndex
from noetl.engine.pipeline_order import order_pipeline, resume_pipeline
from noetl.model.events import Fact
from noetl.model.orders import AwaitChild, RunPipeline, StartChild, WakeAt
from noetl.model.requests import Cancel, OpenExecution, Pause, Request, Resume
from noetl.model.state import Execution, Path, PipelineRun, find_pipeline, parse_label, pipeline_runs

NewId = Callable[[], str]


def start_execution(
    net_index: NetIndex, request: OpenExecution, now: float, new_id: NewId
) -> tuple[Execution, Decision]:
    """Start an execution."""
    builder = DecisionBuilder(net_index, Execution(request.execution_id), now, new_id)
    open_execution(builder, request)
    route_and_end(builder)
    return builder.state, builder.decision


def react(
    net_index: NetIndex, state: Execution, happened: Iterable[Fact | Request], now: float, new_id: NewId
) -> Decision:
    """What follows from what happened. The state is brought up to date on the way."""
    builder = DecisionBuilder(net_index, state, now, new_id)
    for one in happened:
        if state.over:
            break
        apply_input(builder, one)
    return builder.decision


def apply_input(builder: DecisionBuilder, one: Fact | Request) -> None:
    """Let one thing happen, to its last consequence."""
    if builder.state.stuck is not None and not isinstance(one, Cancel | Pause | Resume):
        return  # whatever it is, deciding it could take as long as before
    if isinstance(one, Fact):
        _on_fact(builder, one)
    else:
        requests.handle(builder, one)
    route_and_end(builder)


def route_and_end(builder: DecisionBuilder) -> None:
    """Route what has ended, and end the execution when nothing moves any more."""
    state = builder.state
    if state.runs and not state.boundaries and state.terminated is None:
        return  # as it is most of the time: something is under way, and nothing of it has ended
    while True:
        while state.boundaries and state.terminated is None and not state.paused and not state.over:
            routing.route(builder, state.boundaries[0])
        if routing.open_mutual_gate(builder):
            continue
        if not execution_lifecycle.end_if_over(builder):
            return


# --- facts -----------------------------------------------------------------------------------------------------------


def _on_fact(builder: DecisionBuilder, fact: Fact) -> None:
    run = builder.state.runs.get(fact.step_run_id)
    if run is None or fact.closing is not (run.closing is not None):
        return
    pipe = find_pipeline(builder.state, run.id, parse_label(fact.iteration))
    if fact.name == "step.started":
        # A step's pipeline is in the state from this event on, so one that is there has been started already.
        if pipe is None and run.loop is None:
            builder.accept(fact, run, run.seq)
    elif pipe is not None:
        FACTS[fact.name](builder, fact, pipe)


def _on_task_started(builder: DecisionBuilder, fact: Fact, pipe: PipelineRun) -> None:
    if pipe.is_open or fact.number != pipe.number + 1:
        return
    asked = fact.payload.get("wait")
    if asked is not None and asked.get("signal") is not None:
        payload = {key: value for key, value in fact.payload.items() if key not in ("takes", "dropped")}
        fact = replace(fact, payload=payload | requests.judge_kept_signals(builder.state, asked))
    builder.accept(fact, builder.state.runs[fact.step_run_id], pipe.seq)
    wait = pipe.wait
    if wait is None:
        return
    if wait.until is not None:
        builder.orders.append(WakeAt(wait.until))
    if wait.child is not None:
        builder.orders.append(StartChild(wait.task_run_id, wait.child))
    if wait.answer is not None:
        resume_pipeline(builder, fact.step_run_id, parse_label(fact.iteration))


def _on_task_progress(builder: DecisionBuilder, fact: Fact, pipe: PipelineRun) -> None:
    if pipe.is_open and fact.number == pipe.number:
        builder.accept(fact, builder.state.runs[fact.step_run_id], pipe.seq)


def _on_task_done(builder: DecisionBuilder, fact: Fact, pipe: PipelineRun) -> None:
    if not pipe.is_open or fact.number != pipe.number:
        return
    before = builder.state.ctx
    fact, heir = _pass_signal_on(builder.state, fact, pipe)
    builder.accept(fact, builder.state.runs[fact.step_run_id], pipe.seq)
    if heir is not None:
        resume_pipeline(builder, *heir)
    if builder.state.ctx is not before:
        routing.reconsider_parked(builder)
    if "ends" in fact.payload:  # the last `before` task of a loop
        run = builder.state.runs[fact.step_run_id]
        loops.begin(builder, builder.net_index.steps[run.step], run)


def _pass_signal_on(state: Execution, fact: Fact, pipe: PipelineRun) -> tuple[Fact, tuple[str, Path] | None]:
    """Should a task have given up on a signal that has come after all, the next wait that takes it goes on with it."""
    unheard = find_unconsumed_signal(pipe.wait, fact.payload) if pipe.wait is not None else None
    if unheard is None:
        return fact, None
    taker, refused = requests.find_taker(state, *unheard)
    if taker is None:
        return (replace(fact, payload={**fact.payload, "taker": -1}) if refused else fact), None
    heir = state.listeners[unheard[0]][taker]
    return (replace(fact, payload={**fact.payload, "taker": taker}) if taker else fact), heir


def _on_step_ended(builder: DecisionBuilder, fact: Fact, pipe: PipelineRun) -> None:
    if pipe.is_open:
        return
    run = builder.state.runs[fact.step_run_id]
    step_end.end(builder, run, fact.payload["output"], fact=fact)


def _on_iteration_ended(builder: DecisionBuilder, fact: Fact, pipe: PipelineRun) -> None:
    if pipe.is_open:
        return
    run = builder.state.runs[fact.step_run_id]
    builder.accept(fact, run, pipe.seq)
    loops.advance_loops(builder, builder.net_index.steps[run.step], run)


def _on_loop_started(builder: DecisionBuilder, fact: Fact, pipe: PipelineRun) -> None:
    if not pipe.unfolds:
        return
    run = builder.state.runs[fact.step_run_id]
    builder.accept(fact, run, pipe.seq)
    loops.advance_loops(builder, builder.net_index.steps[run.step], run)


FACTS: dict[str, Callable[[DecisionBuilder, Fact, PipelineRun], None]] = {
    "task.started": _on_task_started,
    "task.progress": _on_task_progress,
    "task.done": _on_task_done,
    "step.done": _on_step_ended,
    "step.failed": _on_step_ended,
    "loop.started": _on_loop_started,
    "loop.iteration.done": _on_iteration_ended,
    "loop.iteration.failed": _on_iteration_ended,
}


# --- taking over -----------------------------------------------------------------------------------------------------


def find_pending_orders(net_index: NetIndex, state: Execution, now: float, new_id: NewId) -> Decision:
    """The orders under way, as the state has them: for whoever goes on with an execution. Records nothing."""
    builder = DecisionBuilder(net_index, state, now, new_id)
    for run in state.runs.values():
        if run.due is not None:
            builder.orders.append(WakeAt(run.due))
        for path, pipe in pipeline_runs(run):
            wait = pipe.wait if pipe is not None else None
            if wait is None or wait.answer is not None:
                order_pipeline(builder, run, path, pipe)
                continue
            if wait.until is not None:
                builder.orders.append(WakeAt(wait.until))
            if wait.child is not None:
                builder.orders.append(StartChild(wait.task_run_id, wait.child))
    builder.orders.extend(AwaitChild(child) for child in state.stopped_children)
    return builder.decision


def reissue_order(net_index: NetIndex, state: Execution, order: RunPipeline, now: float) -> RunPipeline | None:
    """An order that somebody has left undone, as it is to be given now; None: it is no longer wanted. Records nothing."""
    run = state.runs.get(order.step_run_id)
    if run is None or state.over:
        return None
    path = parse_label(order.iteration)
    pipe = find_pipeline(state, run.id, path)
    if path and pipe is None:
        return None
    if pipe is not None and pipe.wait is not None and pipe.wait.answer is None:
        return order if order.answer is not None else None  # what it waits for is not in the log
    builder = DecisionBuilder(net_index, state, now, str)
    order_pipeline(builder, run, path, pipe)
    found = builder.orders[0]
    assert isinstance(found, RunPipeline)
    return found


def set_aside(net_index: NetIndex, state: Execution, reason: str, now: float) -> Decision:
    """Decide nothing more for an execution until it is resumed or cancelled."""
    builder = DecisionBuilder(net_index, state, now, str)
    builder.emit("execution.stuck", state.path, {"reason": reason}, parent=builder.last, status="error")
    return builder.decision


def check_idle(state: Execution) -> tuple[bool, float | None]:
    """Whether an execution waits for nothing but times and words from outside; and the first of the times."""
    if state.stuck is not None:
        return True, None
    if state.over or state.boundaries or state.stopped_children:
        return False, None
    times: list[float] = []
    for run in state.runs.values():
        if run.due is not None:
            times.append(run.due)
        for _, pipe in pipeline_runs(run):
            wait = pipe.wait if pipe is not None else None
            if wait is None or wait.answer is not None or wait.child is not None:
                return False, None
            if wait.until is not None:
                times.append(wait.until)
    return True, min(times, default=None)

"""react(): something happened; what follows from it, to the last consequence, as one decision.

    facts of workers, requests from outside ──► Turn ──► Decision(events, orders)

A fact about a pipeline that is not under way, or about an attempt that has been answered already, is stale: nothing
follows from it, and it is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from noetl.engine import control, ending, loops, routing, runs
from noetl.engine.find import find_pipe, pipes
from noetl.engine.opening import open_execution
from noetl.engine.outlook import Outlook
from noetl.engine.turn import Decision, Turn
from noetl.model.events import Fact
from noetl.model.orders import RunPipeline, StartChild, WakeAt
from noetl.model.requests import Open, Request
from noetl.model.state import Execution, Pipe, parse_label

NewId = Callable[[], str]


def open(outlook: Outlook, request: Open, now: float, new_id: NewId) -> tuple[Execution, Decision]:  # noqa: A001
    """Start an execution."""
    turn = Turn(outlook, Execution(request.execution_id), now, new_id)
    open_execution(turn, request)
    settle(turn)
    return turn.state, turn.decision


def react(
    outlook: Outlook, state: Execution, happened: Iterable[Fact | Request], now: float, new_id: NewId
) -> Decision:
    """What follows from what happened. The state is brought up to date on the way."""
    turn = Turn(outlook, state, now, new_id)
    for one in happened:
        if state.over:
            break
        happen(turn, one)
    return turn.decision


def happen(turn: Turn, one: Fact | Request) -> None:
    """Let one thing happen, to its last consequence."""
    if isinstance(one, Fact):
        _fact(turn, one)
    else:
        control.handle(turn, one)
    settle(turn)


def settle(turn: Turn) -> None:
    """Route what has ended, and end the execution when nothing is left."""
    state = turn.state
    if state.runs and not state.boundaries and state.terminated is None:
        return  # as it is most of the time: something is under way, and nothing of it has ended
    while state.boundaries and not state.paused and not state.over:
        if state.terminated is not None:
            break
        routing.route(turn, state.boundaries[0])
    ending.end_if_over(turn)


# --- facts -----------------------------------------------------------------------------------------------------------


def _fact(turn: Turn, fact: Fact) -> None:
    run = turn.state.runs.get(fact.step_run_id)
    if run is None:
        return
    pipe = find_pipe(turn.state, run.id, parse_label(fact.iteration))
    if fact.name == "step.started":
        if pipe is None and run.loop is None:
            turn.accept(fact, run, run.seq)
    elif pipe is not None:
        FACTS[fact.name](turn, fact, pipe)


def _task_started(turn: Turn, fact: Fact, pipe: Pipe) -> None:
    if pipe.is_open or fact.number != pipe.number + 1:
        return
    turn.accept(fact, turn.state.runs[fact.step_run_id], pipe.seq)
    wait = pipe.wait
    if wait is None:
        return
    if wait.until is not None:
        turn.orders.append(WakeAt(wait.until))
    if wait.child is not None:
        turn.orders.append(StartChild(wait.task_run_id, wait.child))
    if wait.answer is not None:
        control.go_on(turn, fact.step_run_id, parse_label(fact.iteration))


def _task_progress(turn: Turn, fact: Fact, pipe: Pipe) -> None:
    if pipe.is_open and fact.number == pipe.number:
        turn.accept(fact, turn.state.runs[fact.step_run_id], pipe.seq)


def _task_done(turn: Turn, fact: Fact, pipe: Pipe) -> None:
    if not pipe.is_open or fact.number != pipe.number:
        return
    before = turn.state.ctx
    wait = pipe.wait
    # Should this task have given up on a signal that has come after all, the next in line goes on with it.
    heirs = turn.state.listeners.get(wait.signal or "", [])[:1] if wait is not None and wait.answer is not None else []
    turn.accept(fact, turn.state.runs[fact.step_run_id], pipe.seq)
    for run_id, path in heirs:
        heir = find_pipe(turn.state, run_id, path)
        if heir is not None and heir.wait is not None and heir.wait.answer is not None:
            control.go_on(turn, run_id, path)
    if turn.state.ctx is not before:
        routing.look_again(turn)


def _step_ended(turn: Turn, fact: Fact, pipe: Pipe) -> None:
    if pipe.is_open:
        return
    run = turn.state.runs[fact.step_run_id]
    runs.end(turn, run, fact.payload["output"], fact=fact)


def _iteration_ended(turn: Turn, fact: Fact, pipe: Pipe) -> None:
    if pipe.is_open:
        return
    run = turn.state.runs[fact.step_run_id]
    turn.accept(fact, run, pipe.seq)
    loops.pump(turn, turn.outlook.steps[run.step], run)


FACTS: dict[str, Callable[[Turn, Fact, Pipe], None]] = {
    "task.started": _task_started,
    "task.progress": _task_progress,
    "task.done": _task_done,
    "step.done": _step_ended,
    "step.failed": _step_ended,
    "loop.iteration.done": _iteration_ended,
    "loop.iteration.failed": _iteration_ended,
}


# --- taking over -----------------------------------------------------------------------------------------------------


def pending(outlook: Outlook, state: Execution, now: float, new_id: NewId) -> Decision:
    """The orders under way, as the state has them: for whoever goes on with an execution. Records nothing."""
    turn = Turn(outlook, state, now, new_id)
    for run in state.runs.values():
        if run.due is not None:
            turn.orders.append(WakeAt(run.due))
        for path, pipe in pipes(run):
            wait = pipe.wait if pipe is not None else None
            if wait is None or wait.answer is not None:
                control.order(turn, run, path, pipe)
                continue
            if wait.until is not None:
                turn.orders.append(WakeAt(wait.until))
            if wait.child is not None:
                turn.orders.append(StartChild(wait.task_run_id, wait.child))
    return turn.decision


def again(outlook: Outlook, state: Execution, order: RunPipeline, now: float) -> RunPipeline | None:
    """An order that somebody has left undone, as it is to be given now; None: it is no longer wanted. Records nothing."""
    run = state.runs.get(order.step_run_id)
    if run is None or state.over:
        return None
    path = parse_label(order.iteration)
    pipe = find_pipe(state, run.id, path)
    if path and pipe is None:
        return None
    if pipe is not None and pipe.wait is not None and pipe.wait.answer is None:
        return order if order.answer is not None else None  # what it waits for is not in the log
    turn = Turn(outlook, state, now, str)
    control.order(turn, run, path, pipe)
    found = turn.orders[0]
    assert isinstance(found, RunPipeline)
    return found


def slumber(state: Execution) -> tuple[bool, float | None]:
    """Whether an execution waits for nothing but times and words from outside; and the first of the times."""
    if state.over or state.boundaries:
        return False, None
    times: list[float] = []
    for run in state.runs.values():
        if run.due is not None:
            times.append(run.due)
        for _, pipe in pipes(run):
            wait = pipe.wait if pipe is not None else None
            if wait is None or wait.answer is not None or wait.child is not None:
                return False, None
            if wait.until is not None:
                times.append(wait.until)
    return True, min(times, default=None)

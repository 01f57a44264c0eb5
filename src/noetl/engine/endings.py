"""Endings: nothing can move any more, or somebody said that it is over."""

from __future__ import annotations

from typing import Any

from noetl.engine import runs
from noetl.engine.decision import DecisionBuilder


def end_if_over(turn: DecisionBuilder) -> None:
    """End the execution when there is nothing left to do for it."""
    state = turn.state
    if state.over or state.status != "running":
        return
    if state.terminated is not None:
        _end_all(turn, f"the execution was {'cancelled' if state.terminated == 'cancelled' else 'ended by an arc'}")
    elif state.runs or state.boundaries:
        return
    stalled = [] if state.terminated is not None else _drop_parked(turn)
    status = state.terminated or ("failed" if state.failure is not None else "completed")
    _finish(turn, status, state.failure or _error(turn, status), stalled)


def _error(turn: DecisionBuilder, status: str) -> dict[str, Any] | None:
    bringer = turn.state.bringer
    if status != "failed":
        return turn.state.error if status == "cancelled" else None
    error = {
        "kind": "fail",
        "message": "an arc ended the execution as failed",
        "step": bringer.step if bringer else None,
    }
    cause = _cause(turn)
    if cause is None:
        return error
    why = f"step {cause['step']} failed: {cause['kind']}: {cause['message']}"
    return {**error, "message": f"{error['message']}; {why}", "cause": cause}


def _cause(turn: DecisionBuilder) -> dict[str, Any] | None:
    """The error of the step that failed last, of those whose latest run did."""
    failed = [(name, info) for name, info in turn.state.steps.items() if info.error is not None]
    if not failed:
        return None
    name, info = max(failed, key=lambda one: one[1].finished_at or "")
    return {**(info.error or {}), "step": name}


def _finish(turn: DecisionBuilder, status: str, error: dict[str, Any] | None, stalled: list[str]) -> None:
    state = turn.state
    payload = {"status": status, "output": state.output, "error": error, "stalled": stalled}
    good = "success" if status == "completed" else "error"
    event = turn.emit("workflow.finished", state.path, payload, parent=turn.last, status=good)
    turn.emit("playbook.processed", state.path, {"status": status}, parent=event.seq, status=good)


def refuse(turn: DecisionBuilder, error: dict[str, Any]) -> None:
    """End an execution that never started."""
    state = turn.state
    state_error = {**error, "step": None}
    turn.emit(
        "playbook.request.evaluated", state.path, {"error": state_error}, parent=turn.last, status="error"
    )  # fmt: skip
    turn.emit("playbook.processed", state.path, {"status": "failed"}, parent=turn.last, status="error")


def _end_all(turn: DecisionBuilder, why: str) -> None:
    for run in list(turn.state.runs.values()):
        runs.cancel_run(turn, run, why)
    for name in _steps_with_tokens(turn):
        turn.emit("step.cancelled", name, {"why": why}, parent=turn.last)


def _drop_parked(turn: DecisionBuilder) -> list[str]:
    stalled = _steps_with_tokens(turn)
    for name in stalled:
        payload = {"from": None, "why": "stalled", "held": _token_sources(turn, name)}
        turn.emit("step.skipped", name, payload, parent=turn.last)
    return stalled


def _token_sources(turn: DecisionBuilder, name: str) -> list[str | None]:
    """Where the tokens came from that are left at a step."""
    state = turn.state
    if name in state.parked:
        return [token.source for token in state.parked[name]]
    return [source for source, tokens in state.rounds[name].places.items() for _ in tokens]


def _steps_with_tokens(turn: DecisionBuilder) -> list[str]:
    state = turn.state
    held = [name for name, entry in state.rounds.items() if any(entry.places.values())]
    return [*state.parked, *(name for name in held if name not in state.parked)]

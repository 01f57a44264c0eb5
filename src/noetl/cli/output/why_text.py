"""Why, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from noetl.cli.output.ending_lines import describe_dead_ends
from noetl.cli.output.printing import colorize, columns, count, glimpse, local_time, seconds_of
from noetl.cli.output.state_lines import error_words, glimpse_text, place, trace_lines, wait_words, waits
from noetl.lang import escape_controls

if TYPE_CHECKING:
    from noetl.history import StepExplanation, StepReason
    from noetl.model.events import Event
    from noetl.model.state import Execution
    from noetl.ports import PlaybookSource


#: reasons told of a step that ran again and again
_MOST = 40


def describe_ending(
    state: Execution, status: str, source: PlaybookSource | None, cancelled: Event | None = None, *, colour: bool
) -> str:
    """Why the execution as a whole stands as it does."""
    if state.terminated == "cancelled" and cancelled is not None:
        return _cancelled_text(state, cancelled, colour=colour)
    head = f"{state.execution_id} is {colorize(status, status, colour=colour)}"
    if state.error is not None:
        head += "\n".join([f": {error_words(state.error)}", *trace_lines(state.error, source)])
    elif odd := describe_dead_ends(state.stalled, state.unmatched):
        head += f", {odd}"
    return f"{head}\n"


#: the reason of a cancellation for which nobody gave one
_NO_REASON = "it was cancelled"
#: the reason of a step that ended with its execution
_WITH_EXECUTION = "the execution was cancelled"


def _cancelled_text(state: Execution, event: Event, *, colour: bool) -> str:
    """When an execution was cancelled and for which reason; the log has the request, not the person behind it."""
    was = colorize("was cancelled", "cancelled", colour=colour)
    why = str(event.payload["why"])
    reason = "no reason was given" if why == _NO_REASON else escape_controls(glimpse_text(why))
    by = " by a request (`noetl cancel`, or the API)" if "request" in event.payload else ""
    return f"{state.execution_id} {was} at {local_time(seconds_of(event.timestamp))}{by}, event {event.seq}: {reason}\n"


def overview(answers: list[StepExplanation], state: Execution, *, colour: bool) -> str:
    """Each step in a line."""
    rows = [("STEP", "STATUS", "WHY")]
    rows += [(one.step, one.status, _main_reason(one, state)) for one in answers]
    return columns(rows, paint=1, colour=colour) + f"\n`noetl why {state.execution_id} STEP` says more of one\n"


def _main_reason(answer: StepExplanation, state: Execution) -> str:
    """The reason that counts most, with what it saw."""
    if not answer.reasons:
        return _no_token_text(answer, state)
    first, *rest = _reason_lines(_decisive(answer.reasons), answer, state)
    return f"{first} ({', '.join(line.strip() for line in rest)})" if rest else first


#: what says nothing of why a step ran
_AFTER_A_RUN = frozenset({"closing", "undoing", "undone", "undo-failed"})


def _decisive(reasons: list[StepReason]) -> StepReason:
    """Of a step that ran, what let its token come or in; of one that did not, what kept it out."""
    of_run = [one for one in reasons if one.what not in _AFTER_A_RUN]
    last = (of_run or reasons)[-1]
    if last.what == "skipped":
        parked = next((one for one in reversed(reasons) if one.what == "parked"), last)
        return last if last.rules and last.rules != parked.rules else parked
    if last.what not in ("done", "failed", "fired"):
        return last
    fired = next((one for one in reversed(reasons) if one.what in ("fired", "last")), last)
    if fired.what == "last":
        return fired
    if fired.join or fired.rules:
        return fired
    return next((one for one in reversed(reasons) if one.taken or one.what == "start"), fired)


def answer_text(answer: StepExplanation, state: Execution, *, colour: bool) -> str:
    """All there is to say about one step."""
    if answer.runs:
        head = f"{_how_often(answer)}; it is {colorize(answer.status, answer.status, colour=colour)}"
    else:
        head = f"{answer.step} {colorize('did not run', 'never ran', colour=colour)}"
    lines = [head]
    surplus = max(0, len(answer.reasons) - _MOST)
    if surplus:
        lines.append(f"        … {count(surplus, 'earlier reason')}; --json has all")
    for reason in answer.reasons[surplus:]:
        first, *rest = _reason_lines(reason, answer, state)
        lines += [f"{reason.seq:>6}  {first}", *(f"          {line}" for line in rest)]
    if not answer.reasons:
        lines.append(f"        {_no_token_text(answer, state)}")
    lines += [f"   now  {line}" for line in _current_lines(answer, state)]
    return "\n".join(lines) + "\n"


def _how_often(answer: StepExplanation) -> str:
    ran = answer.runs - (answer.status == "scheduled")  # a worker says when it begins
    return f"{answer.step} {'has not begun' if not ran else 'ran once' if ran == 1 else f'ran {ran} times'}"


def _no_token_text(answer: StepExplanation, state: Execution) -> str:
    if not state.started and state.error is not None:
        return f"the execution failed before any step could run: {error_words(state.error)}"
    if not answer.predecessors:
        return "no arc leads to it"
    came = ", ".join(f"{name} ({status})" for name, status in answer.predecessors.items())
    return f"no token came; it could come from {came}"


# --- one reason ------------------------------------------------------------------------------------------------------


def _reason_lines(reason: StepReason, answer: StepExplanation, state: Execution) -> Iterator[str]:
    return _RENDERERS[reason.what](reason, answer, state)


def _start_lines(_reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield "the execution starts here"


def _arc_lines(reason: StepReason, answer: StepExplanation, _state: Execution) -> Iterator[str]:
    verdict = "was taken" if reason.taken else "was refused"
    head = f"{reason.source} ended ({reason.offer}): its arc to {answer.step} {verdict}"
    if reason.when is None:
        yield head if reason.taken else f"{head}: without a `when` it is taken on success only"
        return
    yield f"{head}: {escape_controls(reason.when)} {'held' if reason.taken else 'did not hold'}"
    yield from _values(reason.saw)


def _format_planned(reason: StepReason, answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield f"{reason.source} ended ({reason.offer}) and planned steps, of which {answer.step} is the first"


def _arc_failed_lines(reason: StepReason, answer: StepExplanation, _state: Execution) -> Iterator[str]:
    guard = f" ({escape_controls(reason.when)})" if reason.when is not None else ""
    error = error_words(reason.error or {})
    yield f"{reason.source} ended ({reason.offer}): judging its arc to {answer.step}{guard} failed: {error}"


#: what the log has of a value that is too large for it
_DESCRIBED = re.compile(r"a (?:list|map) of \d+")


def _values(saw: dict[str, Any]) -> Iterator[str]:
    for name, value in saw.items():
        described = isinstance(value, str) and _DESCRIBED.fullmatch(value)
        yield f"{name} is {value}" if described else f"{name} = {escape_controls(glimpse(value, 120))}"


def _format_unasked(reason: StepReason, answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield f"{reason.source} ended ({reason.offer}): its arc to {answer.step} was not asked, the one to {reason.why} was taken"


def _format_unjudged(reason: StepReason, _answer: StepExplanation, state: Execution) -> Iterator[str]:
    cause = "it was being ended" if state.terminated is not None else "it had failed"
    if state.failure is not None and state.failure.get("step"):
        cause = f"it had failed at {state.failure['step']}"
    yield f"{reason.source} ended ({reason.offer}), but the execution took no more arcs: {cause}"


def _format_routing_failure(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield f"{reason.source} ended, but judging its arcs failed: {error_words(reason.error or {})}"


def _admission_failed_lines(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield f"asking whether a token may enter failed: {error_words(reason.error or {})}"


def _format_parked(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    if reason.join:
        yield f"the token from {reason.source or 'the start'} waits here for the others of the join"
        return
    yield f"the token from {reason.source or 'the start'} was parked: not admitted"
    yield from _rules(reason.rules)


def _rules(rules: list[dict[str, Any]]) -> Iterator[str]:
    for rule in rules:
        yield f"{escape_controls(rule['when'])} {'held' if rule['held'] else 'did not hold'}"
        yield from (f"  {line}" for line in _values(rule["saw"]))


def _format_fired(reason: StepReason, answer: StepExplanation, state: Execution) -> Iterator[str]:
    # Of several runs, the status is that of the latest.
    latest = next(one for one in reversed(answer.reasons) if one.what == "fired")
    waits = answer.status == "scheduled" and reason is latest and not state.over
    what = ", and waits for a worker" if waits else " and ran"
    tokens = f", with the {'tokens' if len(reason.sources) > 1 else 'token'} from {', '.join(reason.sources)}"
    yield f"it {'joined' if reason.join else 'was admitted'}{what}{tokens if reason.sources else ''}"
    if reason.waited_for:
        yield f"nothing else could move, and it and {', '.join(reason.waited_for)} waited for each other: its token came first"
    yield from _rules(reason.rules)


_SKIPS = {
    "once": "it had run already, and runs once (`fire: once`)",
    "round": "the join had fired without it in this round",
    "stalled": "nothing could move any more, and its parked tokens were dropped",
}


def _format_skipped(reason: StepReason, answer: StepExplanation, _state: Execution) -> Iterator[str]:
    token = f"the token from {reason.source} ended here: " if reason.source else ""
    yield f"{token}{_SKIPS.get(reason.why, reason.why)}"
    if reason.why == "stalled" and any(one.join for one in answer.reasons if one.what == "parked"):
        missing = (f"{name} ({how})" for name, how in answer.predecessors.items() if name not in reason.sources)
        yield from (f"no token was left from {name}" for name in missing)
    # The rules saw the same when the token came: they are told there.
    if all(one.rules != reason.rules for one in answer.reasons if one.what == "parked"):
        yield from _rules(reason.rules)


_NO_MATCH = {
    "reported": "the branch ends here, and the run is reported as unmatched",
    "end": "the branch ends here",
    "fail": "so the execution failed (`on_no_match: fail`)",
}


def _format_unmatched(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    arcs = "its only arc did not match" if len(reason.rules) == 1 else f"none of its {len(reason.rules)} arcs matched"
    yield f"{arcs} ({reason.offer}): {_NO_MATCH[reason.why]}"
    for arc in reason.rules:
        yield f"to {arc['to']}: {escape_controls(arc['when'])} did not hold"
        yield from (f"  {line}" for line in _values(arc["saw"]))


def _format_done(_reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield "it ended well"


def _format_failed(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield f"it failed: {error_words(reason.error or {})}"
    yield from trace_lines(reason.error)


def _format_cancelled(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    if reason.why == _WITH_EXECUTION:
        yield "it ended with the execution, which was cancelled"
    else:
        yield f"it was cancelled: {escape_controls(glimpse_text(reason.why))}"


def _format_closing(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield f"its body was ended: {error_words(reason.error or {})}; its `finally` tasks followed"


def _format_undo(reason: StepReason, answer: StepExplanation, state: Execution) -> Iterator[str]:
    where = place(answer.step, reason.iteration) if reason.iteration is not None else "it"
    if reason.what == "undone":
        yield f"{where} was undone"
    elif reason.what == "undo-failed":
        yield f"{where} could not be undone: {error_words(reason.error or {})}"
    else:
        how = "was cancelled" if state.terminated == "cancelled" else "failed"
        yield f"the execution {how}: the compensation of {place(answer.step, reason.iteration)} began"


def _format_last(reason: StepReason, _answer: StepExplanation, _state: Execution) -> Iterator[str]:
    yield f"it runs last, whatever the outcome (`executor.spec.policy.finally`): the execution was {reason.why}"


_RENDERERS: dict[str, Callable[[StepReason, StepExplanation, Execution], Iterator[str]]] = {
    "start": _start_lines,
    "arc": _arc_lines,
    "planned": _format_planned,
    "arc-failed": _arc_failed_lines,
    "unasked": _format_unasked,
    "unjudged": _format_unjudged,
    "routing-failed": _format_routing_failure,
    "admission-failed": _admission_failed_lines,
    "parked": _format_parked,
    "fired": _format_fired,
    "skipped": _format_skipped,
    "done": _format_done,
    "failed": _format_failed,
    "unmatched": _format_unmatched,
    "cancelled": _format_cancelled,
    "closing": _format_closing,
    "undoing": _format_undo,
    "undone": _format_undo,
    "undo-failed": _format_undo,
    "last": _format_last,
}


# --- now -------------------------------------------------------------------------------------------------------------


def _current_lines(answer: StepExplanation, state: Execution) -> Iterator[str]:
    """What the step waits for at this moment."""
    if state.over:
        return
    for run, iteration, wait in waits(state):
        if run.step == answer.step:
            yield f"{place(run.step, iteration)} {wait_words(wait)}"
    tokens = state.parked.get(answer.step, ())
    if tokens:
        yield f"{count(len(tokens), 'token')} parked; looked at again whenever a step ends, `ctx` changes or a signal comes"
    entry = state.rounds.get(answer.step)
    if entry is not None:
        held = {name: len(tokens) for name, tokens in entry.places.items() if tokens}
        missing = [f"{name} ({how})" for name, how in answer.predecessors.items() if name not in held]
        shown = ", ".join(f"{count(number, 'token')} from {name}" for name, number in held.items())
        yield f"the join holds {shown or 'nothing'}"
        if missing:
            yield f"nothing has come yet from {', '.join(missing)}"

"""noetl why: why a step ran or did not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import (
    check_step,
    complete_steps,
    describe_status,
    execution_argument,
    find,
    json_option,
    open_command_log,
    waits_for,
    whole_net,
)
from noetl.cli.output.printing import as_json, in_colour, out

if TYPE_CHECKING:
    from noetl.history import StepExplanation
    from noetl.model.events import Event
    from noetl.model.state import Execution
    from noetl.ports import EventLog, PlaybookSource


#: of a step that may wait for something outside of the execution
_WAITING = ("scheduled", "running")


@click.command()
@execution_argument()
@click.argument("step", metavar="[STEP]", required=False, shell_complete=complete_steps)
@json_option
def command(*, execution: str, step: str | None, as_data: bool) -> None:
    """Say why a STEP ran or did not, or of each step in a line.

    Every guard stands with the values it saw when it was asked, refused arcs included, and so do tokens that are parked
    and what they wait for.
    """
    from noetl.cli.output.progress import CountingLog
    from noetl.history import events_of, explain_step, source_of, state_at

    with open_command_log() as log:
        summary = find(log, execution)
        net = whole_net(log, summary)
        state = state_at(log, summary.execution_id)
        if step is not None:
            check_step(log, summary, step)
        watched: Any = CountingLog(log, summary.seq)
        answers = explain_step(net, state, events_of(watched, summary.execution_id), step)
        watched.clear()
        waits = waits_for(log, summary) if not as_data else []
        source = source_of(log, state)
        cancelled = _find_cancellation(log, state) if state.terminated == "cancelled" else None
    if as_data:
        out(as_json({"execution_id": summary.execution_id, "status": summary.status, "steps": answers}))
    else:
        from noetl.cli.output.why_text import describe_ending

        ending = describe_ending(state, describe_status(summary), source, cancelled, colour=in_colour(sys.stdout))
        answers = [_with_frames(one, source) for one in answers]
        out(_text(state, ending, answers, waits, one=step is not None))


def _find_cancellation(log: EventLog, state: Execution) -> Event | None:
    from noetl.history import events_of

    return next((one for one in events_of(log, state.execution_id) if one.name == "execution.cancelled"), None)


def _text(state: Execution, ending: str, answers: list[StepExplanation], waits: list[str], *, one: bool) -> str:
    from noetl.cli.output.why_text import answer_text, overview

    colour = in_colour(sys.stdout)
    if one:
        told = answer_text(answers[0], state, colour=colour)
        # Which of its steps waits is not said there: of those that are over none does.
        return told + "".join(f"   now  {line}\n" for line in waits if answers[0].status in _WAITING)
    head = ending + "".join(f"{line}\n" for line in waits)
    return f"{head}\n{overview(answers, state, colour=colour)}"


def _with_frames(answer: StepExplanation, source: PlaybookSource | None) -> StepExplanation:
    """The same with errors whose tracebacks name lines of the playbook."""
    from msgspec.structs import replace

    from noetl.cli.output.state_lines import locate_frames

    reasons = [
        one if one.error is None else replace(one, error=locate_frames(one.error, source, answer.step))
        for one in answer.reasons
    ]
    return replace(answer, reasons=reasons)

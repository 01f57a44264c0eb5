"""noetl why: why a step ran or did not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import (
    check_step,
    execution_argument,
    find,
    json_option,
    offered_steps,
    opened_log,
    shown_status,
    waits_for,
    whole_net,
)
from noetl.cli.printing import as_json, in_colour, out

if TYPE_CHECKING:
    from noetl.model.state import Execution
    from noetl.server.why import Answer


#: of a step that may wait for something outside of the execution
_WAITING = ("scheduled", "running")


@click.command()
@execution_argument()
@click.argument("step", metavar="[STEP]", required=False, shell_complete=offered_steps)
@json_option
def command(*, execution: str, step: str | None, as_data: bool) -> None:
    """Say why a STEP ran or did not, or of each step in a line.

    Every guard stands with the values it saw when it was asked, refused arcs included, and so do tokens that are parked
    and what they wait for.
    """
    from noetl.cli.watching import Watched
    from noetl.server.history import events_of, state_at
    from noetl.server.why import explain

    with opened_log() as log:
        summary = find(log, execution)
        net = whole_net(log, summary)
        state = state_at(log, summary.execution_id)
        if step is not None:
            check_step(log, summary, step)
        watched: Any = Watched(log, summary.seq)
        answers = explain(net, state, events_of(watched, summary.execution_id), step)
        watched.done()
        waits = waits_for(log, summary) if not as_data else []
    if as_data:
        out(as_json({"execution_id": summary.execution_id, "status": summary.status, "steps": answers}))
    else:
        out(_text(state, shown_status(summary), answers, waits, one=step is not None))


def _text(state: Execution, status: str, answers: list[Answer], waits: list[str], *, one: bool) -> str:
    from noetl.cli.why_text import answer_text, ending_text, overview

    colour = in_colour(sys.stdout)
    if one:
        told = answer_text(answers[0], state, colour=colour)
        # Which of its steps waits is not said there: of those that are over none does.
        return told + "".join(f"   now  {line}\n" for line in waits if answers[0].status in _WAITING)
    head = ending_text(state, status, colour=colour) + "".join(f"{line}\n" for line in waits)
    return f"{head}\n{overview(answers, state, colour=colour)}"

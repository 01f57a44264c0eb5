"""How a run ended, in a few lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from noetl.cli.placing import place_line
from noetl.cli.printing import in_colour, note, painted
from noetl.cli.telling import error_words, output_line, trace_lines
from noetl.cli.words import duration

if TYPE_CHECKING:
    from noetl.model.net import Net
    from noetl.model.state import Execution
    from noetl.ports import EventLog

_SIGNS = {"completed": "✓", "failed": "✗", "cancelled": "■"}


def closing(state: Execution, net: Net, log: EventLog) -> None:
    """Tell how an execution ended, and what to do next."""
    colour = in_colour(sys.stderr)
    took = duration(state.took) if state.started else "no time"
    odd = bool(state.stalled) and state.status == "completed"
    head = f"{'⚠' if odd else _SIGNS[state.status]} {state.path} {state.status}"
    but = f", but tokens were left at {', '.join(state.stalled)}" if odd else ""
    style = "paused" if odd else state.status
    note(f"{painted(head, style, colour=colour)} in {took}{but}  {state.execution_id}")
    if state.error is not None:
        note(f"  {error_words(state.error)}")
        if place := place_line(state.error, log.source(state.playbook)):
            note(f"  {place}")
        for line in trace_lines(state.error):
            note(f"  {line}")
    if state.stalled:
        from noetl.cli.stalls import stall_lines

        for line in stall_lines(log, state, net):
            note(f"  {line}")
    if state.output is not None:
        note(f"  output: {output_line(state)}")
    if state.status == "failed":
        name = state.execution_id
        note(f"  look closer: noetl why {name} · noetl show {name} · noetl logs {name}")

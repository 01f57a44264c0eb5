"""How a run ended, in a few lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from noetl.cli.printing import in_colour, note, painted
from noetl.cli.telling import error_words, output_line, trace_lines
from noetl.cli.words import duration, seconds_of

if TYPE_CHECKING:
    from noetl.model.state import Execution

_SIGNS = {"completed": "✓", "failed": "✗", "cancelled": "■"}


def closing(state: Execution) -> None:
    """Tell how an execution ended, and what to do next."""
    colour = in_colour(sys.stderr)
    took = duration(seconds_of(state.timestamp) - state.started) if state.started else "no time"
    head = f"{_SIGNS[state.status]} {state.path} {state.status}"
    note(f"{painted(head, state.status, colour=colour)} in {took}  {state.execution_id}")
    if state.error is not None:
        note(f"  {error_words(state.error)}")
        for line in trace_lines(state.error):
            note(f"  {line}")
    if state.stalled:
        note(f"  never admitted: {', '.join(state.stalled)}")
    if state.output is not None:
        note(f"  output: {output_line(state)}")
    if state.status == "failed" or state.stalled:
        name = state.execution_id
        note(f"  look closer: noetl why {name} · noetl show {name} · noetl logs {name}")

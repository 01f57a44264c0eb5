"""noetl show: one execution as a whole."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import (
    describe_status,
    execution_argument,
    find,
    is_interrupted,
    json_option,
    open_command_log,
    resume_hint,
    runner,
    waits_for,
    whole_net,
)
from noetl.cli.files import near
from noetl.cli.output.printing import as_json, colorize, in_colour, out
from noetl.cli.output.state_lines import locate_error, place_line
from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.model.state import Execution
    from noetl.ports import EventLog, PlaybookSource, Summary


@click.command()
@execution_argument()
@json_option
def command(*, execution: str, as_data: bool) -> None:
    """Show one execution: how it stands, its steps, what it waits for, how it ended."""
    from noetl.cli.executions import describe_descendant_waits
    from noetl.cli.output.ending_lines import dead_end_lines, find_unreached_steps
    from noetl.history import source_of, state_at

    with open_command_log() as log:
        summary = find(log, execution)
        state = state_at(log, summary.execution_id)
        source = source_of(log, state)
        children = _children(log, summary.execution_id)
        below = describe_descendant_waits(log, state) if not as_data else ""
        below += "".join(f"{line}\n" for line in waits_for(log, summary)) if not as_data else ""
        net = whole_net(log, summary)
        never = find_unreached_steps(state, net)
        dead_ends = list(dead_end_lines(log, state, net)) if not as_data else []
    if as_data:
        out(as_json({**_document(summary, state, source, children), "never_ran": never}))
    else:
        out(_text(summary, state, source, children, below, never, dead_ends))


def _children(log: EventLog, execution_id: str) -> list[Summary]:
    return log.summaries(limit=1_000_000, parent=execution_id)


def _document(
    summary: Summary, state: Execution, source: PlaybookSource | None, children: list[Summary]
) -> dict[str, Any]:
    from noetl.cli.output.state_lines import find_parked_tokens, waits
    from noetl.history import run_document

    waiting = [
        {
            "step": run.step,
            "iteration": label,
            "signal": wait.signal,
            "until": wait.until,
            "child": wait.child,
            "title": wait.title,
            "assignees": wait.assignees,
        }
        for run, label, wait in waits(state)
    ]
    return {
        **run_document(state),
        "error": locate_error(state.error, source),
        "status": summary.status,
        "path": summary.path,
        "file": source.file if source is not None else None,
        "playbook": summary.playbook,
        "requested_at": summary.requested_at,
        "updated_at": summary.updated_at,
        "events": summary.seq,
        "parent": summary.parent,
        "rerun": state.origin,
        "children": [one.execution_id for one in children],
        "owner": summary.owner,
        "alive": summary.alive,
        "dormant": summary.dormant,
        "waiting": waiting,
        "parked": find_parked_tokens(state),
        "stuck": state.stuck,
    }


def _text(
    summary: Summary,
    state: Execution,
    source: PlaybookSource | None,
    children: list[Summary],
    below: str,
    never: list[str],
    dead_ends: list[str],
) -> str:
    """All of it; `below` is what children wait for, and what is no part of any, `never` the steps that did not run."""
    import time

    from noetl.cli.output.state_lines import describe_parked, describe_waits, steps

    colour = in_colour(sys.stdout)
    rows = [(name, text) for name, text in _head(summary, state, source, colour=colour) if text]
    blocks = ["".join(f"{name:10} {text}\n" for name, text in rows)]
    alive = time.time() if summary.is_attended else None
    blocks.append(steps(state, alive, left=is_interrupted(summary), never=never, colour=colour))
    blocks.append(f"{describe_waits(state)}{below}{describe_parked(state)}")
    blocks.append("".join(f"child {one.execution_id}  {describe_status(one)}  {one.path}\n" for one in children[:20]))
    if len(children) > 20:
        blocks.append(f"… and {len(children) - 20:,} more; `noetl ps --children` lists them\n")
    blocks.append("".join(f"⚠ {line}\n" for line in dead_ends))
    blocks.append(_hints(summary, state))
    return "\n".join(block for block in blocks if block)


def _head(
    summary: Summary, state: Execution, source: PlaybookSource | None, *, colour: bool
) -> list[tuple[str, str]]:  # fmt: skip
    from noetl.cli.output.ending_lines import describe_dead_ends
    from noetl.cli.output.printing import count, duration, local_time
    from noetl.cli.output.state_lines import error_words, origin_words, output_line, trace_lines

    status = describe_status(summary)
    began = state.origin["at"] if state.origin is not None else summary.requested_at
    took = duration(state.duration)
    odd = describe_dead_ends(state.stalled, state.unmatched) if summary.status in OVER else ""
    return [
        ("execution", colorize(summary.execution_id, "bold", colour=colour)),
        ("playbook", f"{summary.path}{f' ({near(source.file)})' if source is not None else ''}"),
        ("status", f"{colorize(status, status, colour=colour)}{f', {odd}' if odd else ''}"),
        ("started", f"{local_time(began)}, {took} up to the last of {count(summary.seq, 'event')}"),
        ("run by", _run_by(summary)),
        ("child of", summary.parent or ""),
        ("rerun of", origin_words(state.origin) if state.origin is not None else ""),
        ("stuck", state.stuck or ""),
        ("error", error_words(state.error) if state.error else ""),
        ("", place_line(state.error, source)),
        *(("", line) for line in trace_lines(state.error, source)),
        ("output", output_line(state) if summary.status in OVER and state.output is not None else ""),
    ]


def _run_by(summary: Summary) -> str:
    if summary.status in OVER:
        return ""
    return "a server, when what it waits for comes" if summary.dormant else runner(summary) if summary.alive else ""


def _hints(summary: Summary, state: Execution) -> str:
    execution_id = summary.execution_id
    if is_interrupted(summary):
        return f"{resume_hint(summary)}\n"
    if summary.status == "stuck":
        return f"`noetl unpause {execution_id}` tries once more, `noetl cancel {execution_id}` ends it\n"
    if summary.status == "paused":
        return f"`noetl unpause {execution_id}` lets it go on\n"
    if state.error is not None:
        return f"`noetl why {execution_id}` says why, `noetl logs {execution_id}` what its tools wrote\n"
    return ""

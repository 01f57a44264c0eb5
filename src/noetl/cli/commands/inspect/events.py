"""noetl events: the log of an execution, an event per line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import (
    check_step,
    execution_argument,
    find,
    follow,
    follow_option,
    json_option,
    open_command_log,
    step_option,
)
from noetl.cli.output.printing import colorize, in_colour, out

if TYPE_CHECKING:
    from noetl.model.events import Event


@click.command()
@execution_argument()
@follow_option
@click.option("--after", "seq", metavar="SEQ", default=0, type=click.IntRange(0), help="Only those behind this event.")
@step_option
@json_option
def command(*, execution: str, follow_on: bool, seq: int, step: str | None, as_data: bool) -> int:
    """Print the events of an execution: everything that happened, in order.

    With --json each line is one event exactly as it is stored.
    """
    from noetl.history import EVENTS_PER_PAGE
    from noetl.model.events import encode

    colour = in_colour(sys.stdout)
    at, start = seq, ""
    with open_command_log() as log:
        summary = find(log, execution)
        if step is not None:
            check_step(log, summary, step)

        def tell() -> bool:
            nonlocal at, start
            page = log.read(summary.execution_id, after=at, limit=EVENTS_PER_PAGE)
            while page:
                wanted = [event for event in page if step is None or _is_of(event, step)]
                if as_data:
                    out("".join(f"{encode(event).decode()}\n" for event in wanted))
                else:
                    start = start or summary.requested_at
                    out("".join(line(event, start, colour=colour) for event in wanted))
                at = page[-1].seq
                if len(page) < EVENTS_PER_PAGE:
                    return True
                page = log.read(summary.execution_id, after=at, limit=EVENTS_PER_PAGE)
            return False

        return follow(log, summary, tell, go_on=follow_on)


def _is_of(event: Event, step: str) -> bool:
    return event.entity_id == step or (event.entity_type == "task" and event.entity_id.partition(".")[0] == step)


def line(event: Event, start: str, *, colour: bool) -> str:
    """An event for people: its number, when, what, whose, and the part of its payload that matters most."""
    from noetl.cli.output.printing import between
    from noetl.cli.output.state_lines import place

    whose = place(event.entity_id, event.iteration)
    again = f" attempt {event.attempt}" if (event.attempt or 1) > 1 else ""
    more = detail(event)
    style = {"error": "failed", "skipped": "skipped"}.get(event.status, "")
    head = f"{event.seq:>5}  {between(start, event.timestamp):>9.3f}s  {event.name:28}"
    return f"{colorize(head, style, colour=colour)}  {whose}{again}{f'  {more}' if more else ''}\n"


def detail(event: Event) -> str:
    """The part of a payload that matters most, on a line."""
    from noetl.cli.output.printing import glimpse
    from noetl.lang import escape_controls

    said = _describe_payload(event.name, event.payload)
    return (
        escape_controls(said if isinstance(said, str) else glimpse(said, 120)) if said not in ("", None, [], {}) else ""
    )


def _describe_payload(name: str, payload: dict[str, Any]) -> Any:
    from noetl.cli.output.printing import items
    from noetl.cli.output.state_lines import wait_words
    from noetl.model.state import Wait

    error = (payload.get("output") or {}).get("error") if isinstance(payload.get("output"), dict) else None
    error = payload.get("error") or error
    if isinstance(error, dict):
        again = f"; again in {payload['delay']:g} s" if payload.get("do") == "retry" else ""
        return f"{error.get('kind')}: {error.get('message')}{again}"
    if name in ("next.evaluated", "workflow.finished"):
        return _describe_routing(payload) if name == "next.evaluated" else _describe_end(payload)
    if name in ("step.done", "task.done", "loop.iteration.done"):
        return _describe_output(payload.get("output") or {**payload, "external": "ref" in payload})
    if name == "task.started" and "wait" in payload:
        wait = payload["wait"]
        about = Wait("", wait.get("until"), wait.get("signal"), wait.get("child"), title=wait.get("title"))
        return wait_words(about)
    if name == "workflow.synthesized":
        return f"{payload['step']} plans {', '.join(step['step'] for step in payload['steps'])}"
    if name == "loop.started":
        return f"{items(payload['items'])}, {payload['mode']}"
    for key in ("why", "set", "signal", "loop", "data", "status", "from", "step"):
        if payload.get(key) is not None:
            return payload[key]
    return ""


def _describe_routing(payload: dict[str, Any]) -> str:
    arcs = ", ".join(f"{arc['to']} {'taken' if arc['taken'] else 'refused'}" for arc in payload["arcs"])
    return f"{arcs}: no arc matched" if payload.get("unmatched") else arcs


def _describe_end(payload: dict[str, Any]) -> str:
    from noetl.cli.output.ending_lines import describe_dead_ends

    odd = describe_dead_ends(payload["stalled"], payload.get("unmatched", []))
    return f"{payload['status']}, {odd}" if odd else str(payload["status"])


def _describe_output(output: dict[str, Any]) -> Any:
    from noetl.cli.output.printing import describe_stored

    if output.get("external"):
        return f"{describe_stored(output['ref'])}: {output['ref']['locator'].get('path', '')}"
    return output["data"] if output.get("data") is not None else ""

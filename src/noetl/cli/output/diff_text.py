"""Two executions side by side, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.cli.output.ending_lines import describe_dead_ends
from noetl.cli.output.printing import colorize, columns, count, duration, glimpse, local_time
from noetl.cli.output.state_lines import error_words, place
from noetl.lang import escape_controls

if TYPE_CHECKING:
    from noetl.history import (
        Change,
        Difference,
        Divergence,
        ForkPlan,
        KeptStep,
        PendingWork,
        Side,
        StepDecision,
        StepPair,
        StepStanding,
        TaskEffect,
    )


#: lines under one heading; --json has all
_MOST = 30
_WIDE = 60


def difference_text(found: Difference, *, colour: bool) -> str:
    """All sections that have something to say."""
    parts = [_heads(found, colour=colour)]
    parts += [_values("payload", found.workload, colour=colour)]
    if found.parting is not None:
        parts.append(_title("where they part", colour=colour) + _divergence_text(found.parting))
    parts.append(_title("steps", colour=colour) + _steps(found.steps, colour=colour))
    parts += [_values(name, getattr(found, name), colour=colour) for name in ("ctx", "output")]
    if found.playbook is not None:
        parts.append(_title("playbook", colour=colour) + _playbook(found.playbook, colour=colour))
    if found.same:
        parts.append("they came to the same\n")
    return "\n".join(part for part in parts if part)


def _title(text: str, *, colour: bool) -> str:
    return f"{colorize(text, 'bold', colour=colour)}\n"


# --- as a whole ------------------------------------------------------------------------------------------------------


def _heads(found: Difference, *, colour: bool) -> str:
    rows = [("", "ID", "STATUS", "TOOK", "EVENTS", "PLAYBOOK")]
    rows += [(name, *_row(side)) for name, side in (("A", found.a), ("B", found.b))]
    text = columns(rows, paint=2, colour=colour)
    for name, side in (("A", found.a), ("B", found.b)):
        if side.error is not None:
            text += f"{name}  {error_words(side.error)}\n"
        if odd := describe_dead_ends(side.stalled, side.unmatched):
            text += f"{name}  {odd}\n"
    return text


def _row(side: Side) -> tuple[str, str, str, str, str]:
    origin = side.rerun
    whence = "" if origin is None else f", rerun of {origin['execution_id']} behind event {origin['seq']}"
    return side.execution_id, side.status, duration(side.seconds), f"{side.events:,}", f"{side.path}{whence}"


# --- values ----------------------------------------------------------------------------------------------------------


def _values(title: str, found: list[Change], *, colour: bool) -> str:
    return _title(title, colour=colour) + "".join(_changes(found, "  ")) if found else ""


def _changes(found: list[Change], indent: str) -> Iterator[str]:
    for one in found[:_MOST]:
        yield f"{indent}{change_line(one)}\n"
    if len(found) > _MOST:
        yield f"{indent}… and {count(len(found) - _MOST, 'more difference')}; --json has all\n"


def change_line(change: Change) -> str:
    """One place at which two values differ."""
    return f"{escape_controls(change.path)}: {_value(change.a)} → {_value(change.b)}"


def _value(value: Any) -> str:
    return "nothing" if value is msgspec.UNSET else escape_controls(glimpse(value, _WIDE))


# --- the route -------------------------------------------------------------------------------------------------------


def _divergence_text(parting: Divergence) -> str:
    lines = [f"  {'behind' if parting.what == 'arcs' else 'at'} {parting.run}\n"]
    for name, judged in (("A", parting.a), ("B", parting.b)):
        lines.append(f"  {name}  {_route_text(parting, judged)}\n")
        lines += [f"       {_guard_line(one)}\n" for one in (judged.asked if judged is not None else ())]
    return "".join(lines)


def _route_text(parting: Divergence, judged: StepDecision | None) -> str:
    if judged is None:
        return f"no token came to {parting.step}"
    if parting.what == "admission":
        return f"event {judged.seq}: {parting.step} {'was admitted' if judged.event == 'fired' else judged.event}"
    return f"event {judged.seq}: {judged.event}, went to {', '.join(judged.taken) or 'nowhere'}"


def _guard_line(asked: dict[str, Any]) -> str:
    """A guard, its verdict, and the values it saw."""
    sign = "✓" if asked.get("taken", asked.get("held")) else "✗"
    to = f"{asked['to']}: " if "to" in asked else ""
    saw = ", ".join(f"{name} = {glimpse(value, _WIDE)}" for name, value in asked.get("saw", {}).items())
    return escape_controls(f"{sign} {to}{asked.get('when', 'no guard')}{f'  ({saw})' if saw else ''}")


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(pairs: list[StepPair], *, colour: bool) -> str:
    rows = [("", "STEP", "A", "B", "DIFFERS")]
    rows += [
        ("" if one.same else "≠", one.step, _describe_standing(one.a), _describe_standing(one.b), _what(one))
        for one in pairs
    ]
    lines = columns(rows).splitlines(keepends=True)
    text = ""
    for pair, line in zip([None, *pairs], lines, strict=True):
        text += colorize(line.rstrip("\n"), "dim" if pair is not None and pair.same else "", colour=colour) + "\n"
        text += "".join(_changes(pair.output, "       ")) if pair is not None else ""
    return text


def _describe_standing(standing: StepStanding | None) -> str:
    if standing is None:
        return "never ran"
    took = f" {duration(standing.seconds)}" if standing.seconds is not None else ""
    runs = f", {standing.runs} runs" if standing.runs > 1 else ""
    loop = standing.loop
    counts = f", {loop['completed']:,} of {loop['total']:,}" if loop is not None else ""
    failed = f", {loop['failed']:,} failed" if loop is not None and loop["failed"] else ""
    return f"{standing.status}{took}{runs}{counts}{failed}"


def _what(pair: StepPair) -> str:
    """In which respects a step differs."""
    if pair.a is None or pair.b is None:
        return "route"
    named = {"status": "status", "runs": "runs", "error": "error", "loop": "loop"}
    found = [word for name, word in named.items() if getattr(pair.a, name) != getattr(pair.b, name)]
    return ", ".join([*found, *(["output"] if pair.output else [])])


# --- playbooks -------------------------------------------------------------------------------------------------------


def _playbook(lines: list[str], *, colour: bool) -> str:
    style = {"+": "done", "-": "failed", "@": "running"}
    shown = [colorize(escape_controls(line), style.get(line[:1], ""), colour=colour) for line in lines]
    return "".join(f"  {line}\n" for line in shown)


# The plan of a rerun, in words.


#: lines under one heading; --json has all
_MOST_KEPT = 20


def plan_text(plan: ForkPlan, *, colour: bool) -> str:
    """What is kept, what runs, and what may happen a second time."""
    lines = [_head(plan, colour=colour)]
    lines += _block("kept", list(_format_kept(plan)), colour=colour)
    lines += _block("workload", [change_line(one) for one in plan.workload], colour=colour)
    lines += _block("runs", [_again_text(one) for one in plan.again], colour=colour)
    lines += _block("may happen again", [_effect(one) for one in plan.effects], colour=colour)
    lines += _block("note", plan.notes, colour=colour)
    return "\n".join(lines) + "\n"


def _head(plan: ForkPlan, *, colour: bool) -> str:
    name = colorize(plan.execution_id, "bold", colour=colour)
    which = f"{plan.playbook}, {colorize(plan.status, plan.status, colour=colour)}"
    file = f", with {plan.file}" if plan.changed else ""
    if not plan.seq:
        return f"rerun of {name} ({which}) from the start{file}"
    return f"rerun of {name} ({which}) behind event {plan.seq} of {plan.of}, {plan.event}{file}"


def _block(title: str, told: list[str], *, colour: bool) -> Iterator[str]:
    surplus = len(told) - _MOST_KEPT
    if surplus > 0:
        told = [*told[:_MOST_KEPT], f"… and {surplus:,} more; --json has all"]
    heads = [colorize(title, "bold", colour=colour), *[""] * len(told)]
    widths = [len(title), *[0] * len(told)]
    for head, width, line in zip(heads, widths, told, strict=False):
        yield f"  {head}{' ' * max(0, 16 - width)}  {escape_controls(line)}"


def _format_kept(plan: ForkPlan) -> Iterator[str]:
    if not plan.seq:
        yield "nothing but the payload"
        return
    yield f"{count(plan.seq, 'event')}, the results of {count(plan.results, 'task')}"
    if plan.kept:
        yield ", ".join(_step(one) for one in plan.kept)


def _step(kept: KeptStep) -> str:
    runs = f" ({kept.runs} runs)" if kept.runs > 1 else ""
    return f"{kept.step} {kept.status}{runs}"


def _again_text(again: PendingWork) -> str:
    name = place(again.step, again.iteration)
    if again.what == "loops":
        return f"{name}: {again.kept:,} of {count(again.total, 'iteration')} kept"
    if again.what == "calls":
        return f"{name} calls playbook {again.child} anew"
    if again.what == "waits" and again.signal is not None:
        return f"{name} waits for the signal `{again.signal}`"
    if again.what == "waits":
        return f"{name} waits until {local_time(again.until or 0.0)}"
    return f"{name} goes on behind its last recorded task" if again.what == "goes on" else f"{name} starts"


def _effect(effect: TaskEffect) -> str:
    task = effect.step if effect.task == effect.step else f"{effect.step}.{effect.task}"
    times = "once" if effect.times == 1 else f"{effect.times:,} times"
    return f"{task} ({effect.kind}), tried {times} under {effect.keys[0]}{' …' if len(effect.keys) > 1 else ''}"

"""Two executions side by side, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.cli.printing import columns, painted
from noetl.cli.telling import error_words
from noetl.cli.words import count, duration, glimpse
from noetl.lang.report import visible

if TYPE_CHECKING:
    from noetl.server.compare import Change
    from noetl.server.diff import Difference, Judged, Parting, Side, Standing, StepPair

#: lines under one heading; --json has all
_MOST = 30
_WIDE = 60


def difference_text(found: Difference, *, colour: bool) -> str:
    """All sections that have something to say."""
    parts = [_heads(found, colour=colour)]
    parts += [_values("payload", found.workload, colour=colour)]
    if found.parting is not None:
        parts.append(_title("where they part", colour=colour) + _parting(found.parting))
    parts.append(_title("steps", colour=colour) + _steps(found.steps, colour=colour))
    parts += [_values(name, getattr(found, name), colour=colour) for name in ("ctx", "output")]
    if found.playbook is not None:
        parts.append(_title("playbook", colour=colour) + _playbook(found.playbook, colour=colour))
    if found.same:
        parts.append("they came to the same\n")
    return "\n".join(part for part in parts if part)


def _title(text: str, *, colour: bool) -> str:
    return f"{painted(text, 'bold', colour=colour)}\n"


# --- as a whole ------------------------------------------------------------------------------------------------------


def _heads(found: Difference, *, colour: bool) -> str:
    rows = [("", "ID", "STATUS", "TOOK", "EVENTS", "PLAYBOOK")]
    rows += [(name, *_row(side)) for name, side in (("A", found.a), ("B", found.b))]
    text = columns(rows, paint=2, colour=colour)
    for name, side in (("A", found.a), ("B", found.b)):
        if side.error is not None:
            text += f"{name}  {error_words(side.error)}\n"
        if side.stalled:
            text += f"{name}  never admitted: {', '.join(side.stalled)}\n"
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
    return f"{visible(change.path)}: {_value(change.a)} → {_value(change.b)}"


def _value(value: Any) -> str:
    return "nothing" if value is msgspec.UNSET else visible(glimpse(value, _WIDE))


# --- the route -------------------------------------------------------------------------------------------------------


def _parting(parting: Parting) -> str:
    lines = [f"  {'behind' if parting.what == 'arcs' else 'at'} {parting.run}\n"]
    for name, judged in (("A", parting.a), ("B", parting.b)):
        lines.append(f"  {name}  {_went(parting, judged)}\n")
        lines += [f"       {_asked(one)}\n" for one in (judged.asked if judged is not None else ())]
    return "".join(lines)


def _went(parting: Parting, judged: Judged | None) -> str:
    if judged is None:
        return f"no token came to {parting.step}"
    if parting.what == "admission":
        return f"event {judged.seq}: {parting.step} {'was admitted' if judged.event == 'fired' else judged.event}"
    return f"event {judged.seq}: {judged.event}, went to {', '.join(judged.taken) or 'nowhere'}"


def _asked(asked: dict[str, Any]) -> str:
    """A guard, its verdict, and the values it saw."""
    sign = "✓" if asked.get("taken", asked.get("held")) else "✗"
    to = f"{asked['to']}: " if "to" in asked else ""
    saw = ", ".join(f"{name} = {glimpse(value, _WIDE)}" for name, value in asked.get("saw", {}).items())
    return visible(f"{sign} {to}{asked.get('when', 'no guard')}{f'  ({saw})' if saw else ''}")


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(pairs: list[StepPair], *, colour: bool) -> str:
    rows = [("", "STEP", "A", "B", "DIFFERS")]
    rows += [("" if one.same else "≠", one.step, _stands(one.a), _stands(one.b), _what(one)) for one in pairs]
    lines = columns(rows).splitlines(keepends=True)
    text = ""
    for pair, line in zip([None, *pairs], lines, strict=True):
        text += painted(line.rstrip("\n"), "dim" if pair is not None and pair.same else "", colour=colour) + "\n"
        text += "".join(_changes(pair.output, "       ")) if pair is not None else ""
    return text


def _stands(standing: Standing | None) -> str:
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
    shown = [painted(visible(line), style.get(line[:1], ""), colour=colour) for line in lines]
    return "".join(f"  {line}\n" for line in shown)

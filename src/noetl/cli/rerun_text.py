"""The plan of a rerun, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl.cli.diff_text import change_line
from noetl.cli.printing import painted
from noetl.cli.telling import place
from noetl.cli.words import count, local_time
from noetl.lang.report import visible

if TYPE_CHECKING:
    from noetl.server.forkplan import Again, Effect, Kept, Plan

#: lines under one heading; --json has all
_MOST = 20


def plan_text(plan: Plan, *, colour: bool) -> str:
    """What is kept, what runs, and what may happen a second time."""
    lines = [_head(plan, colour=colour)]
    lines += _block("kept", list(_kept(plan)), colour=colour)
    lines += _block("workload", [change_line(one) for one in plan.workload], colour=colour)
    lines += _block("runs", [_again(one) for one in plan.again], colour=colour)
    lines += _block("may happen again", [_effect(one) for one in plan.effects], colour=colour)
    lines += _block("note", plan.notes, colour=colour)
    return "\n".join(lines) + "\n"


def _head(plan: Plan, *, colour: bool) -> str:
    name = painted(plan.execution_id, "bold", colour=colour)
    which = f"{plan.playbook}, {painted(plan.status, plan.status, colour=colour)}"
    file = f", with {plan.file}" if plan.changed else ""
    if not plan.seq:
        return f"rerun of {name} ({which}) from the start{file}"
    return f"rerun of {name} ({which}) behind event {plan.seq} of {plan.of}, {plan.event}{file}"


def _block(title: str, told: list[str], *, colour: bool) -> Iterator[str]:
    surplus = len(told) - _MOST
    if surplus > 0:
        told = [*told[:_MOST], f"… and {surplus:,} more; --json has all"]
    heads = [painted(title, "bold", colour=colour), *[""] * len(told)]
    widths = [len(title), *[0] * len(told)]
    for head, width, line in zip(heads, widths, told, strict=False):
        yield f"  {head}{' ' * max(0, 16 - width)}  {visible(line)}"


def _kept(plan: Plan) -> Iterator[str]:
    if not plan.seq:
        yield "nothing but the payload"
        return
    yield f"{count(plan.seq, 'event')}, the results of {count(plan.results, 'task')}"
    if plan.kept:
        yield ", ".join(_step(one) for one in plan.kept)


def _step(kept: Kept) -> str:
    runs = f" ({kept.runs} runs)" if kept.runs > 1 else ""
    return f"{kept.step} {kept.status}{runs}"


def _again(again: Again) -> str:
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


def _effect(effect: Effect) -> str:
    task = effect.step if effect.task == effect.step else f"{effect.step}.{effect.task}"
    times = "once" if effect.times == 1 else f"{effect.times:,} times"
    return f"{task} ({effect.kind}), tried {times} under {effect.keys[0]}{' …' if len(effect.keys) > 1 else ''}"

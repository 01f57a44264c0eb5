"""Net to Picture: the cards, links, badges and texts of a playbook, without positions and without a format.

All texts in a Picture are cleaned (one line, no control characters) but neither escaped nor elided.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.draw.text_fitting import clean, initial, shorten
from noetl.model.net import Net
from noetl.model.playbook import Admission, Arc, Condition, Join, Loop, Step, Task

#: in the name of whatever is not a step, so that no step has the same name
APART = "\0"
#: the role of a card decides its shape
STEP, ROUTER, END = "step", "router", "end"


class Row(msgspec.Struct, frozen=True):
    """A task of a pipeline."""

    name: str
    kind: str
    #: badges of the task itself: its retries, its jump
    hints: tuple["Badge", ...] = ()


class Badge(msgspec.Struct, frozen=True):
    """A short remark with an icon."""

    icon: str
    text: str


class Card(msgspec.Struct, frozen=True):
    """A step."""

    name: str
    role: str
    desc: str
    rows: tuple[Row, ...]
    badges: tuple[Badge, ...]
    #: everything there is to say, for whoever points at it
    tooltip: str
    start: bool = False
    reachable: bool = True
    gated: bool = False
    fans_out: bool = False


class Mark(msgspec.Struct, frozen=True):
    """A small end mark: an arc that ends the execution leads to it."""

    name: str
    outcome: str


class Link(msgspec.Struct, frozen=True):
    """An arc. `target` is the name of a card or of a mark."""

    source: str
    target: str
    text: str = ""
    #: its place among several conditional arcs of which the first match wins
    number: int | None = None
    failure: bool = False
    cancels: tuple[str, ...] = ()
    tooltip: str = ""
    reachable: bool = True

    @property
    def otherwise(self) -> bool:
        """Whether its text is our word for "no other arc matched", not the author's condition."""
        return self.text == OTHERWISE


class Picture(msgspec.Struct, frozen=True):
    """A playbook, ready to be drawn."""

    name: str
    path: str
    desc: str
    cards: tuple[Card, ...]
    marks: tuple[Mark, ...]
    links: tuple[Link, ...]


OTHERWISE = "otherwise"


def picture(net: Net) -> Picture:
    """Everything a drawing of the net shows."""
    reached = _find_reachable(net)
    links: list[Link] = []
    marks: dict[str, Mark] = {}
    for source, first in net.plans:
        links.append(Link(source, first, text="plans", reachable=source in reached))
    for step in net.steps.values():
        for link, mark in _links(step, net, reachable=step.name in reached):
            links.append(link)
            if mark is not None:
                marks[mark.name] = mark
    desc = net.playbook.metadata.get("description")
    return Picture(
        name=clean(net.playbook.name),
        path=clean(net.playbook.path),
        desc=initial(desc if isinstance(desc, str) else None),
        cards=tuple(_card(step, net, reachable=step.name in reached) for step in net.steps.values()),
        marks=tuple(marks.values()),
        links=tuple(links),
    )


def _find_reachable(net: Net) -> frozenset[str]:
    ahead = [name for name in (net.start, net.playbook.final_step) if name is not None]
    seen = set(ahead)
    while ahead:
        name = ahead.pop()
        arcs = net.steps[name].router.arcs if name in net.steps else ()
        for target in (*(arc.step for arc in arcs), *(first for source, first in net.plans if source == name)):
            if target is not None and target not in seen:
                seen.add(target)
                ahead.append(target)
    return frozenset(seen)


def _card(step: Step, net: Net, *, reachable: bool) -> Card:
    # What sugar made of `choose` and `while` is the engine's business, not the reader's.
    tasks = tuple(task for task in step.pipeline if not task.silent) or step.pipeline
    rows = tuple(Row(clean(task.name), clean(task.kind), _hints(task)) for task in tasks)
    role = END if step.name == "end" else STEP if tasks else ROUTER
    badges = _badges(step, tasks, is_last=step.name == net.playbook.final_step)
    return Card(
        name=step.name,
        role=role,
        desc=initial(step.desc),
        rows=rows,
        badges=badges,
        tooltip=_tooltip(step, rows, badges, reachable=reachable),
        start=step.name == net.start,
        reachable=reachable,
        gated=step.admission.join is not None or step.admission.rules is not None,
        fans_out=step.router.mode == "inclusive" and len(step.router.arcs) > 1,
    )


def _hints(task: Task) -> tuple[Badge, ...]:
    hints = []
    if (attempts := retries(task)) is not None:
        hints.append(Badge("retry", f"×{value_text(attempts)}"))
    if (target := jumps(task)) is not None:
        hints.append(Badge("jump", clean(target)))
    if (timeout := task_timeout(task)) is not None:
        hints.append(Badge("clock", duration(timeout)))
    return tuple(hints)


def _badges(step: Step, tasks: tuple[Task, ...], *, is_last: bool) -> tuple[Badge, ...]:
    badges = [Badge("gate", text) for text in gate_texts(step.admission)]
    if is_last:
        badges.append(Badge("gate", "runs last, whatever the outcome"))
    if step.loop is not None:
        badges.append(Badge("loop", loop_text(step.loop)))
        if step.failure_mode == "best_effort":
            badges.append(Badge("loop", "best effort"))
    # A pipeline shows these beside the task they belong to.
    if len(tasks) == 1:
        badges += [Badge(hint.icon, _describe_badge(hint)) for hint in _hints(tasks[0])]
    if step.timeout is not None:
        badges.append(Badge("clock", f"timeout {duration(step.timeout)}"))
    if step.deadline is not None:
        badges.append(Badge("clock", f"deadline {duration(step.deadline)}"))
    if step.compensation is not None:
        badges.append(Badge("jump", f"undone by {clean(step.compensation.kind)}"))
    if step.router.synthesize is not None:
        badges.append(Badge("spark", f"adds up to {step.router.synthesize.max_steps} steps"))
    return tuple(badges)


def _describe_badge(hint: Badge) -> str:
    return {"retry": f"retry {hint.text}", "jump": f"jumps to {hint.text}"}.get(hint.icon, f"timeout {hint.text}")


def _tooltip(step: Step, rows: tuple[Row, ...], badges: tuple[Badge, ...], *, reachable: bool) -> str:
    lines = [clean(step.name)]
    lines += [line for text in (step.desc or "").splitlines() if (line := clean(text))]
    for row in rows:
        hints = "".join(f", {_describe_badge(hint)}" for hint in row.hints)
        lines.append(f"• {row.name} ({row.kind}{hints})")
    lines += [badge.text for badge in badges]
    if not reachable:
        lines.append("No arc leads here from the start.")
    return "\n".join(lines)


def _links(step: Step, net: Net, *, reachable: bool) -> Iterator[tuple[Link, Mark | None]]:
    arcs = step.router.arcs
    exclusive = step.router.mode != "inclusive"
    numbered = exclusive and sum(arc.when is not None for arc in arcs) > 1
    for position, arc in enumerate(arcs, 1):
        mark = None
        target = arc.step
        if target is None:
            outcome = clean(arc.terminate or "completed")
            mark = Mark(f"{step.name}{APART}{outcome}", outcome)
            target = mark.name
        elif target not in net.steps:
            continue
        left_over = exclusive and position == len(arcs) and any(arc.when is not None for arc in arcs)
        text = condition_text(arc.when) if arc.when is not None else OTHERWISE if left_over else ""
        yield (
            Link(
                source=step.name,
                target=target,
                text=text,
                number=position if numbered and arc.when is not None else None,
                failure=is_failure(arc),
                cancels=tuple(map(clean, arc.cancel)),
                tooltip=_arc_tooltip(step, arc),
                reachable=reachable,
            ),
            mark,
        )


def _arc_tooltip(step: Step, arc: Arc) -> str:
    target = clean(arc.step if arc.step is not None else f"the end ({arc.terminate})")
    lines = [f"{clean(step.name)} → {target}"]
    lines.append("when " + expression(arc.when.source) if arc.when is not None else "on success")
    if arc.cancel:
        lines.append("cancels " + ", ".join(map(clean, arc.cancel)))
    lines += [f"sets {clean(assignment.scope)}.{clean('.'.join(assignment.path))}" for assignment in arc.set]
    return "\n".join(lines)


# What a picture says about a step, in a few words: its loop, its gate, its limits, its conditions.


_BRACES = re.compile(r"^\{\{-?(.*?)-?\}\}$", re.DOTALL)
_EVENT_NAME = re.compile(r"""event\.name\s*==\s*(["'])([\w.]+)\1""")
#: layers of a spec that are written at the step itself
_NEAR = ("step.spec", "loop.spec", "task.spec")
_FAILURES = re.compile(
    r"""==\s*["'](step\.failed|error|failed)["']   # event.name == 'step.failed', output.status == 'error'
    |["'](step\.failed|error|failed)["']\s*==
    |status\s*!=\s*["']ok["']
    |(?<!not\s)\b(event|output)\.error\b(?!\s*(is\s+none|is\s+not\s+defined|==\s*none))
    |(?<!not\s)\bfail\(""",
    re.VERBOSE | re.IGNORECASE,
)


def value_text(value: Any) -> str:
    """A number as people write it; of a template its expression."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    source = getattr(value, "source", None)
    return expression(source) if isinstance(source, str) else "…"


def expression(source: str) -> str:
    """A template's text without its braces."""
    text = clean(source)
    found = _BRACES.match(text)
    return (found.group(1) if found and "{{" not in found.group(1) else text).strip()


def condition_text(when: Condition) -> str:
    """A condition, as short as it can be said without loss."""
    text = expression(when.source)
    if text.lower() in ("true", "false"):
        return "always" if text.lower() == "true" else "never"
    return _EVENT_NAME.sub(lambda found: found.group(2), text)


def is_failure(arc: Arc) -> bool:
    """Whether an arc is there for when things went wrong, by what its condition mentions."""
    return arc.when is not None and _FAILURES.search(expression(arc.when.source)) is not None


def duration(seconds: Any) -> str:
    """`90` as `90 s`, `7200` as `2 h`; a template as its expression."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return shorten(value_text(seconds), 24)
    # A minute is better known as 60 seconds.
    for unit, size, least in (("d", 86_400, 86_400), ("h", 3_600, 3_600), ("min", 60, 120)):
        if seconds >= least and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def loop_text(loop: Loop) -> str:
    """`for each city · parallel ×50`."""
    names, inner = [clean(loop.iterator)], loop.inner
    while inner is not None:
        names.append(clean(inner.iterator))
        inner = inner.inner
    parts = ["for each " + ", ".join(names)]
    if loop.mode == "parallel":
        parts.append(f"parallel ×{shorten(value_text(loop.max_in_flight), 16)}")
    if loop.exec == "distributed":
        parts.append("distributed")
    if loop.until is not None:
        parts.append("until " + condition_text(loop.until))
    if loop.complete_when is not None:
        parts.append("enough when " + condition_text(loop.complete_when))
    return " · ".join(parts)


def gate_texts(admission: Admission) -> list[str]:
    """What holds tokens back before a step, one phrase per reason."""
    texts = []
    if admission.join is not None:
        texts.append(_join_text(admission.join))
    if admission.rules is not None:
        conditions = [rule for rule in admission.rules if rule.when is not None]
        if len(conditions) == 1 and conditions[0].when is not None:
            verb = "when" if conditions[0].allow else "unless"
            texts.append(f"{verb} {condition_text(conditions[0].when)}")
        else:
            texts.append(f"gate · {len(conditions)} rules" if conditions else "gate")
    if admission.fire == "once":
        texts.append("once")
    return texts


def _join_text(join: Join) -> str:
    several = [f"{clean(name)} ×{value_text(count)}" for name, count in join.places.items() if count not in (1, None)]
    need = "all" if join.need is None else f"{join.need} of"
    text = f"join {need} {len(join.places)}"
    if several:
        text += " · " + ", ".join(several)
    return text if join.rest == "keep" else f"{text} · {join.rest} rest"


def retries(task: Task) -> Any:
    """How often a task may be tried, None when it is never retried."""
    rules = task.policy.rules if task.policy is not None else ()
    attempts = [rule.then.attempts for rule in rules if rule.then.do == "retry"]
    numbers = [number for number in attempts if isinstance(number, int)]
    return max(numbers) if numbers and len(numbers) == len(attempts) else next(iter(attempts), None)


def jumps(task: Task) -> str | None:
    """The task a rule of this one jumps to, if any does."""
    rules = task.policy.rules if task.policy is not None else ()
    return next((rule.then.to for rule in rules if rule.then.do == "jump" and rule.then.to), None)


def task_timeout(task: Task) -> Any:
    """A timeout the step's author asked for; what a kind or the executor has by default is not worth a badge."""
    layered = task.spec.get("timeout")
    return layered.value if layered is not None and layered.origin in _NEAR else None

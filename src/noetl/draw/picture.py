"""Net to Picture: what there is to see of a playbook, before anybody asks where or in which format.

All texts in a Picture are cleaned (one line, no control characters) but neither escaped nor elided.
"""

from collections.abc import Iterator

import msgspec

from noetl.draw import words
from noetl.draw.text import clean, initial
from noetl.model.net import Net
from noetl.model.playbook import Arc, Step, Task

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
    seen, ahead = {net.start}, [net.start]
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
    tasks = tuple(task for task in step.tasks if not task.silent) or step.tasks
    rows = tuple(Row(clean(task.name), clean(task.kind), _hints(task)) for task in tasks)
    role = END if step.name == "end" else STEP if tasks else ROUTER
    badges = _badges(step, tasks)
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
    if (attempts := words.retries(task)) is not None:
        hints.append(Badge("retry", f"×{words.value_text(attempts)}"))
    if (target := words.jumps(task)) is not None:
        hints.append(Badge("jump", clean(target)))
    if (timeout := words.task_timeout(task)) is not None:
        hints.append(Badge("clock", words.duration(timeout)))
    return tuple(hints)


def _badges(step: Step, tasks: tuple[Task, ...]) -> tuple[Badge, ...]:
    badges = [Badge("gate", text) for text in words.gate_texts(step.admission)]
    if step.loop is not None:
        badges.append(Badge("loop", words.loop_text(step.loop)))
        if step.failure_mode == "best_effort":
            badges.append(Badge("loop", "best effort"))
    # A pipeline shows these beside the task they belong to.
    if len(tasks) == 1:
        badges += [Badge(hint.icon, _describe_badge(hint)) for hint in _hints(tasks[0])]
    if step.timeout is not None:
        badges.append(Badge("clock", f"timeout {words.duration(step.timeout)}"))
    if step.deadline is not None:
        badges.append(Badge("clock", f"deadline {words.duration(step.deadline)}"))
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
        text = words.condition_text(arc.when) if arc.when is not None else OTHERWISE if left_over else ""
        yield (
            Link(
                source=step.name,
                target=target,
                text=text,
                number=position if numbered and arc.when is not None else None,
                failure=words.is_failure(arc),
                cancels=tuple(map(clean, arc.cancel)),
                tooltip=_arc_tooltip(step, arc),
                reachable=reachable,
            ),
            mark,
        )


def _arc_tooltip(step: Step, arc: Arc) -> str:
    target = clean(arc.step if arc.step is not None else f"the end ({arc.terminate})")
    lines = [f"{clean(step.name)} → {target}"]
    lines.append("when " + words.expression(arc.when.source) if arc.when is not None else "on success")
    if arc.cancel:
        lines.append("cancels " + ", ".join(map(clean, arc.cancel)))
    lines += [f"sets {clean(assignment.scope)}.{clean('.'.join(assignment.path))}" for assignment in arc.set]
    return "\n".join(lines)

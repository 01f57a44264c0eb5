"""Nets written short, for the tests of the pictures."""

from typing import Any

from noetl.model.diagnostics import Span
from noetl.model.net import Incoming, Net
from noetl.model.playbook import Arc, Directive, Playbook, Policy, Router, Rule, Step, Synthesis, Task

AT = Span(1, 1, 1, 2)
FAILED = "event.name == 'step.failed'"


class Expression:
    """A stand-in for a compiled condition or value."""

    reads: tuple[Any, ...] = ()

    def __init__(self, source: str) -> None:
        self.source = source

    def evaluate(self, scopes: Any) -> Any:
        raise NotImplementedError


def when(expression: str | None) -> Expression | None:
    return None if expression is None else Expression(f"{{{{ {expression} }}}}")


def arc(step: str | None, condition: str | None = None, **more: Any) -> Arc:
    return Arc(step=step, at=AT, when=when(condition), **more)


def task(name: str, kind: str, *, retry: int | None = None, jump: str | None = None, **more: Any) -> Task:
    rules = []
    if retry is not None:
        rules.append(Rule(when("output.status == 'error'"), Directive(do="retry", attempts=retry), AT))
    if jump is not None:
        rules.append(Rule(when("iter.more"), Directive(do="jump", to=jump), AT))
    return Task(name=name, kind=kind, at=AT, policy=Policy(tuple(rules)) if rules else None, **more)


def step(
    name: str,
    *tasks: str | Task,
    to: tuple[str | Arc, ...] = (),
    mode: str = "exclusive",
    synthesize: Synthesis | None = None,
    **more: Any,
) -> Step:
    made = tuple(
        given if isinstance(given, Task) else task(name if len(tasks) == 1 else f"task_{number}", given)
        for number, given in enumerate(tasks, 1)
    )
    arcs = tuple(given if isinstance(given, Arc) else arc(given) for given in to)
    return Step(name=name, at=AT, tasks=made, router=Router(mode=mode, arcs=arcs, synthesize=synthesize), **more)


def net(*steps: Step, name: str = "demo", start: str | None = None, description: str | None = None) -> Net:
    by_name = {each.name: each for each in steps}
    incoming: dict[str, tuple[Incoming, ...]] = dict.fromkeys(by_name, ())
    for each in steps:
        for leading in each.router.arcs:
            if leading.step is not None:
                incoming[leading.step] = (*incoming.get(leading.step, ()), Incoming(each.name, leading))
    playbook = Playbook(name=name, path=name, steps=steps, metadata={"description": description} if description else {})
    return Net(playbook, start or (steps[0].name if steps else ""), by_name, incoming)


def chain(length: int) -> Net:
    """Steps in a row, each of which may fail."""
    return net(
        *(
            step(f"s{number}", "http", to=(f"s{number + 1}", arc(f"s{length - 1}", FAILED)))
            for number in range(length - 1)
        ),
        step(f"s{length - 1}", "noop"),
    )


def fan(width: int) -> Net:
    """One step that calls many, and one that waits for all."""
    names = [f"branch_{number}" for number in range(width)]
    return net(
        step("start", to=tuple(names), mode="inclusive"),
        *(step(name, "http", to=("join",)) for name in names),
        step("join", "python"),
    )


def ring(length: int) -> Net:
    """Steps in a circle, with shortcuts back."""
    return net(
        *(
            step(f"s{number}", "http", to=(f"s{(number + 1) % length}", arc(f"s{number // 2}", f"ctx.n < {number}")))
            for number in range(length)
        )
    )


def hubs(width: int) -> Net:
    """Two steps that both call the same many steps."""
    names = [f"branch_{number}" for number in range(width)]
    return net(
        step("start", to=("left", "right"), mode="inclusive"),
        step("left", to=tuple(names), mode="inclusive"),
        step("right", to=tuple(names), mode="inclusive"),
        *(step(name, "http") for name in names),
    )

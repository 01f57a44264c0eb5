"""The typed playbook to its net: steps by name, the start, and who leads to whom."""

from noetl.model.net import Incoming, Net
from noetl.model.playbook import Playbook, Step


def compile_net(playbook: Playbook) -> Net:
    """Index a playbook. It must have a step; arcs to steps that do not exist are left out of `incoming`."""
    steps: dict[str, Step] = {}
    for step in playbook.steps:
        steps.setdefault(step.name, step)
    incoming: dict[str, list[Incoming]] = {name: [] for name in steps}
    for step in steps.values():
        for arc in step.router.arcs:
            if arc.step in incoming:
                incoming[arc.step].append(Incoming(step.name, arc))
    return Net(
        playbook=playbook,
        start="start" if "start" in steps else playbook.steps[0].name,
        steps=steps,
        incoming={name: tuple(arcs) for name, arcs in incoming.items()},
    )

"""noetl explain: what a playbook means, in words or as data."""

from __future__ import annotations

import sys

import click

from noetl.cli.loading import FILE, net_or_exit
from noetl.cli.printing import as_json, in_colour, out
from noetl.errors import UsageError
from noetl.model.nearest import nearest


@click.command()
@click.argument("file", metavar="FILE", type=FILE)
@click.argument("step", metavar="[STEP]", required=False)
@click.option("--json", "as_data", is_flag=True, help="As data, for programs.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
def command(*, file: str, step: str | None, as_data: bool, legacy: bool) -> None:
    """Say what a playbook means: the net after all passes, or one STEP of it.

    Older dialects and sugar are lowered: what is shown is what runs. Every value of an effective spec is shown with
    the layer it comes from.
    """
    net = net_or_exit(file, legacy=legacy, json=as_data)

    from noetl.cli.explain_text import net_text, step_text
    from noetl.lang.explain import explain, explain_step

    colour = in_colour(sys.stdout)
    if step is None:
        told = explain(net)
        out(as_json(told) if as_data else net_text(told, colour=colour))
        return
    if step not in net.steps:
        meant = nearest(step, net.steps)
        hint = f"did you mean `{meant}`?" if meant else f"steps: {', '.join(list(net.steps)[:20])}"
        raise UsageError(f"{file}: there is no step `{step}`; {hint}")
    one = explain_step(net, net.steps[step])
    out(as_json(one) if as_data else step_text(one, colour=colour))

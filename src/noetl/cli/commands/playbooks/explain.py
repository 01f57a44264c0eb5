"""noetl explain: what a playbook means, in words or as data."""

from __future__ import annotations

import re
import sys

import click

from noetl.cli.files import one_file, read
from noetl.cli.output.printing import as_json, in_colour, out
from noetl.cli.playbook_files import FILE, net_or_exit
from noetl.errors import UsageError
from noetl.model.nearest import nearest

#: good enough to complete a name, and works while a file is being written; arcs name the same steps
_STEP = re.compile(rb"""\bstep["']?:\s*["']?([A-Za-z_][\w-]*)""")


def _steps(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """The steps of the file that stands before, for the shell to complete."""
    try:
        data = read(one_file(context.params["file"]))
    except (UsageError, KeyError):
        return []
    names = dict.fromkeys(name.decode() for name in _STEP.findall(data))
    return [name for name in names if name.startswith(begun)]


@click.command()
@click.argument("file", metavar="FILE", type=FILE)
@click.argument("step", metavar="[STEP]", required=False, shell_complete=_steps)
@click.option("--json", "as_data", is_flag=True, help="As data, for programs.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
def command(*, file: str, step: str | None, as_data: bool, legacy: bool) -> None:
    """Say what a playbook means: all its steps in order, or one STEP with all its text.

    What is shown is what runs: older dialects and short forms such as `choose` are written out, and every setting
    stands with the place it comes from.
    """
    net = net_or_exit(file, legacy=legacy, json=as_data)

    from noetl.cli.output.explain_text import net_text, step_text
    from noetl.lang import explain_playbook, explain_step

    colour = in_colour(sys.stdout)
    if step is None:
        told = explain_playbook(net)
        out(as_json(told) if as_data else net_text(told, colour=colour))
        return
    if step not in net.steps:
        meant = nearest(step, net.steps)
        hint = f"did you mean `{meant}`?" if meant else f"steps: {', '.join(list(net.steps)[:20])}"
        raise UsageError(f"{file}: there is no step `{step}`; {hint}")
    one = explain_step(net, net.steps[step])
    out(as_json(one) if as_data else step_text(one, colour=colour))

"""noetl graph: the picture of a playbook's net."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.files import STDIN, write
from noetl.cli.output.printing import note, out
from noetl.cli.playbook_files import FILE, net_or_exit
from noetl.errors import NoetlError, UsageError

if TYPE_CHECKING:
    from noetl.model.net import Net

#: the format a file's ending stands for
ENDINGS = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot"}


@click.command()
@click.argument("file", metavar="[FILE]", type=FILE, required=False)
@click.option("--run", "execution", metavar="ID", help="In place of FILE: what this execution runs, planned steps too.")
@click.option(
    "--format", "form", type=click.Choice(["svg", "mermaid", "dot"]), help="By default the ending of OUT, or svg."
)
@click.option("-o", "--output", metavar="OUT", type=click.Path(), help="Write to this file; `-` is stdout.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
def command(*, file: str | None, execution: str | None, form: str | None, output: str | None, legacy: bool) -> None:
    """Draw a playbook: its steps, loops, gates and arcs.

    The picture goes to stdout; at a terminal, an SVG is written beside FILE instead.
    """
    if (file is None) == (execution is None):
        raise UsageError("name a FILE, or an execution with --run ID")
    if output is None and form in (None, "svg") and file not in (None, STDIN) and sys.stdout.isatty():
        output = str(Path(file or "").with_suffix(".svg"))
    chosen = form or _by_ending(output)
    net = net_or_exit(file, legacy=legacy) if file is not None else _net_of(execution or "")

    from noetl.draw import draw

    picture = draw(net, chosen)
    picture = picture if picture.endswith("\n") else f"{picture}\n"
    if output is None or output == STDIN:
        out(picture)
        return
    write(Path(output), picture)
    note(f"wrote {output}")


def _net_of(execution: str) -> Net:
    from noetl.cli.executions import find, open_command_log, whole_net

    with open_command_log() as log:
        net = whole_net(log, find(log, execution))
    if net is None:
        raise NoetlError(f"the playbook of {execution} is not there any more, or cannot be read")
    return net


def _by_ending(output: str | None) -> str:
    ending = Path(output).suffix.lower() if output not in (None, STDIN) else ".svg"
    if ending not in ENDINGS:
        raise UsageError(f"{output}: which format is this? name one with --format svg|mermaid|dot")
    return ENDINGS[ending]

"""noetl format: playbooks in their one canonical spelling."""

from __future__ import annotations

import click

from noetl.cli.files import InputFile
from noetl.cli.playbook_files import FILE, load_data, playbook_text, refuse, rewrite_each


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=FILE)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the result instead of writing it.")
def command(*, files: tuple[str, ...], check: bool, to_stdout: bool) -> int:
    """Write playbooks in their canonical spelling: order of keys, quotes, shapes; comments are kept.

    FILE may be a folder, which stands for all playbooks in it, or - for stdin, whose result goes to stdout.
    """
    return rewrite_each(files, _format, word="reformatted", check=check, to_stdout=to_stdout)


def _format(file: InputFile, data: bytes) -> str:
    from noetl.lang import format_text
    from noetl.tools import ToolKinds

    text = format_text(playbook_text(file, data), ToolKinds())
    if text is None:
        refuse(load_data(data, file.name), json=False)
    return text

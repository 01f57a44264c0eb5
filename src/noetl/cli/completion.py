"""noetl completion: the script that makes a shell complete noetl's commands, options and files."""

from __future__ import annotations

import click

from noetl.cli.printing import out


@click.command(
    epilog='bash: add  eval "$(noetl completion bash)"  to ~/.bashrc; zsh: the same in ~/.zshrc; '
    "fish: noetl completion fish > ~/.config/fish/completions/noetl.fish"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    from noetl.cli.app import COMPLETION, cli

    chosen = get_completion_class(shell)
    if chosen is not None:
        # Only the text is wanted; `source()` would first start a bash to ask for its version.
        made = chosen(cli, {}, "noetl", COMPLETION)
        out(made.source_template % made.source_vars() + "\n")

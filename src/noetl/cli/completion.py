"""noetl completion: the script that makes a shell complete noetl's commands, options and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.command_table import COMPLETION
from noetl.cli.output.printing import out

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete


@click.command(
    epilog="""\b
    bash: add to ~/.bashrc   eval "$(noetl completion bash)"
    zsh:  add to ~/.zshrc    eval "$(noetl completion zsh)"
    fish: noetl completion fish > ~/.config/fish/completions/noetl.fish
    """
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print the completion script for a shell."""
    made = _completer(context.find_root().command, shell)
    if made is not None:
        # Only the text is wanted; `source()` would first start a bash to ask for its version.
        out(made.source_template % made.source_vars() + "\n")


def answer(cli: click.Command, asked: str) -> int:
    """Answer what the script of a shell asks, as in `bash_complete`; the exit code."""
    made = _completer(cli, asked.partition("_")[0])
    if made is None:
        return 1
    words, begun = made.get_completion_args()
    # Of `--format=s` bash makes three words; the others want the whole of it back.
    words = [word for word in words if word != "="]
    joined = begun[: begun.find("=") + 1] if begun.startswith("--") else ""
    for item in made.get_completions(words, begun):
        if item.type == "plain" and joined:
            item.value = joined + item.value
        out(made.format_completion(item) + "\n")
    return 0


def _completer(cli: click.Command, shell: str) -> ShellComplete | None:
    from click.shell_completion import get_completion_class

    chosen = get_completion_class(shell)
    return None if chosen is None else chosen(cli, {}, "noetl", COMPLETION)

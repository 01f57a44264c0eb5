"""noetl: the group of all commands, and what becomes of errors and interruptions.

Exit codes: 0 done, 1 not as it should be, 2 the playbook or the command line is invalid, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from noetl import __version__
from noetl.cli.command_table import COMMANDS, COMPLETION
from noetl.cli.target import find_asked, note_server, refuse_remote, server_option
from noetl.errors import NoetlError, UsageError
from noetl.model.nearest import nearest

FAILED = 1
INVALID = 2
INTERRUPTED = 130
#: characters of what is wrong with an answer
_LONGEST_REASON = 200
#: what a shell reports of a program that a closed pipe has ended
PIPE_CLOSED = 141


class Commands(click.Group):
    """The commands of the table, imported when they are called and never for the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """The command of that name, imported now."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        command: click.Command = getattr(import_module(f"noetl.cli.{module}"), name or "command")
        if entry.remote and server_option not in command.params:
            command.params.append(server_option)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, but an unknown name is answered with the nearest known one."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            self.refuse(ctx, args[0])
        return super().resolve_command(ctx, args)

    def refuse(self, ctx: click.Context, name: str) -> NoReturn:
        """Say that there is no such command, and what may have been meant."""
        meant = nearest(name, COMMANDS)
        if meant is not None:
            ctx.fail(f"there is no command `{name}`; did you mean `{meant}`?")
        if name.endswith((".yaml", ".yml")):
            ctx.fail(f"there is no command `{name}`; did you mean `noetl validate {name}`?")
        ctx.fail(f"there is no command `{name}`")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's
        """The commands under their purposes."""
        purposes: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            purposes.setdefault(entry.purpose, []).append((name, entry.about))
        widest = max(map(len, COMMANDS))
        for purpose, rows in purposes.items():
            with formatter.section(purpose):
                formatter.write_dl([(name.ljust(widest), about) for name, about in rows])


@click.group(
    cls=Commands,
    invoke_without_command=True,
    epilog="`noetl help validate` says more about a command, `noetl help unknown-key` about the code of a message.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="noetl %(version)s")
@click.option(
    "--server", metavar="URL", expose_value=False, callback=note_server, help="Act on the server at this address."
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Durable workflows in plain YAML."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return
    remote = COMMANDS[ctx.invoked_subcommand].remote
    if not remote:
        refuse_remote(ctx.invoked_subcommand, named_here=remote is None)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. Nothing that can happen to a user ends in a traceback."""
    _prepare_output()
    try:
        return _run_command(list(arguments))
    finally:
        _settle_messages()


def _run_command(arguments: list[str]) -> int:
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"noetl: {where}{error.strerror or error}", err=True)
        return FAILED
    return code


def _dispatch(arguments: list[str]) -> int:
    asked = os.environ.get(COMPLETION)
    if asked:
        from noetl.cli.completion import answer

        return answer(cli, asked)
    context: click.Context | None = None
    try:
        with cli.make_context("noetl", arguments) as context:
            result = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except NoetlError as error:
        _complain(str(error))
        return INVALID if isinstance(error, UsageError) else FAILED
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except OSError:
        raise
    except Exception as error:
        # Whatever a server answers is data like any other: what cannot be used of it ends no command in a traceback.
        if (server := find_asked(context)) is None:
            raise
        reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        _complain(f"the answer of {server} cannot be used ({reason}): is it a NoETL server of this version?")
        return FAILED
    return result if isinstance(result, int) else 0


def _complain(what: str) -> None:
    from noetl.cli.output.printing import note

    note(f"noetl: {what}")


def _prepare_output() -> None:
    """What is written to a file or a pipe is UTF-8, whatever the terminal speaks."""
    if sys.stdout is None:
        _drop_output()  # `noetl … >&-`
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


def _settle_messages() -> None:
    """What stderr would not take is given up, or the interpreter would try again at its end and exit with 120."""
    try:
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _drop_output() -> None:
    # The interpreter flushes once more at its end; there is nobody left to read it.
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115

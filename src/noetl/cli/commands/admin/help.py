"""noetl help: about a command, or about the code of a diagnostic."""

from __future__ import annotations

import sys
from textwrap import fill, indent

import click

from noetl.cli.command_table import COMMANDS
from noetl.cli.output.printing import as_json, in_colour, out
from noetl.errors import UsageError
from noetl.model.nearest import nearest


def _topics(_context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """Commands and codes, for the shell to complete."""
    from noetl.model.slugs import SLUGS
    from noetl.model.slugs.failures import FAILURES

    return [name for name in (*COMMANDS, *SLUGS, *FAILURES) if name.startswith(begun)]


@click.command()
@click.argument("topic", metavar="[COMMAND|CODE|KIND]", required=False, shell_complete=_topics)
@click.option("--json", "as_data", is_flag=True, help="What is known about a code, as data.")
def command(*, topic: str | None, as_data: bool) -> None:
    """Help about a command, about a code such as `unknown-key`, which stands in brackets in a message, or about a kind of
    error that a run ended with, such as `result-expired`.
    """
    from noetl.cli.app import cli

    if topic is None or topic in COMMANDS:
        with cli.make_context("noetl", [topic, "--help"] if topic else ["--help"]) as context:
            cli.invoke(context)
        return
    _about_slug(topic, as_data=as_data)


def _about_slug(topic: str, *, as_data: bool) -> None:
    import msgspec

    from noetl.model.slugs import SLUGS, slug_info
    from noetl.model.slugs.failures import FAILURES

    info = slug_info(topic) or FAILURES.get(topic)
    if info is None:
        meant = nearest(topic, [*COMMANDS, *SLUGS, *FAILURES])
        hint = f"did you mean `{meant}`?" if meant else "`noetl help` lists the commands, `noetl validate` prints codes"
        raise UsageError(f"`{topic}` is neither a command nor a code of a message; {hint}")
    if as_data:
        out(as_json(msgspec.structs.asdict(info)))
        return
    code = f"\x1b[1m{info.code}\x1b[0m" if in_colour(sys.stdout) else info.code
    parts = [f"{code}: {info.title}", *(fill(text, 96) for text in (f"{info.meaning} {info.why}", info.mend))]
    if info.code == "unknown-filter":
        parts += _filters()
    if info.wrong:
        parts += [f"Wrong:\n\n{indent(info.wrong, '    ')}", f"Right:\n\n{indent(info.right, '    ')}"]
    out("\n\n".join(parts) + "\n")


def _filters() -> list[str]:
    """All filters and tests of templates, from the tables by which they are looked up."""
    from noetl.expr import FILTERS, TESTS

    told = {"Filters": FILTERS, "Tests": TESTS}
    return [fill(f"{name}: {', '.join(sorted(known))}.", 96, break_on_hyphens=False) for name, known in told.items()]

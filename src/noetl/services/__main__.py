"""python -m noetl.services FOLDER: PostgreSQL and S3 to try things with, until Ctrl-C."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import click

from noetl.services.kept_servers import exports, services
from noetl.services.servers import NotStarted

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--nats", is_flag=True, help="NATS with JetStream too.")
def main(folder: Path, *, nats: bool) -> None:
    """PostgreSQL and S3 on this machine, to try things with.

    They listen on loopback alone, and end with Ctrl-C. The data, the ports and the passwords stay in FOLDER.
    """
    for one in _ENDING:
        signal.signal(one, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt), services(folder, nats=nats) as told:
            try:
                _write_exports(told, folder / "exports")
                signal.pause()
            finally:
                for one in _ENDING:  # once is enough, and a second time would leave some of them behind
                    signal.signal(one, signal.SIG_IGN)
    except NotStarted as error:
        raise click.ClickException(str(error)) from None


def _write_exports(told: dict[str, str], file: Path) -> None:
    click.echo(exports(told))
    click.echo(f"# These lines are also in {file}: in another terminal, `. {file}`. Ctrl-C ends the servers.")


if __name__ == "__main__":
    main(prog_name="python -m noetl.services")

"""python -m noetl.services FOLDER: PostgreSQL and S3 to try things with, until Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import click

from noetl.services.servers import LocalServer, NatsServer, NotStarted, PostgresServer, S3Server, is_free

# The servers of a folder are at each start where they were: ports and passwords are kept there, for their owner alone.


#: the bucket that is there from the start
BUCKET = "lake"
#: of each server, what it is started with again
_KEPT = {"postgres": ("port", "password"), "s3": ("port", "access_key", "secret_key"), "nats": ("port", "password")}


@contextmanager
def services(folder: Path, *, nats: bool = False) -> Iterator[dict[str, str]]:
    """PostgreSQL, S3 and if wanted NATS; how clients reach them, by the names of variables. NotStarted: they do not."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        _lock(stack.enter_context(_open_private(folder / "services.lock")), folder)
        kept = _read(folder / "services.json")
        s3 = S3Server(folder / "s3", **kept.get("s3", {}))
        s3.make_bucket(BUCKET)
        postgres = PostgresServer(folder / "postgres", **kept.get("postgres", {}))
        servers: dict[str, Any] = {"postgres": postgres, "s3": s3}
        told = {"PG": postgres.url(), "LAKE": json.dumps(_credential(s3))}
        if nats:
            servers["nats"] = NatsServer(folder / "nats", **kept.get("nats", {}))
            told["NATS"] = servers["nats"].url()
        kept |= {name: {key: getattr(one, key) for key in _KEPT[name]} for name, one in servers.items()}
        _write(folder / "services.json", json.dumps(kept, indent=2))
        for name, server in servers.items():
            _start(stack, server, name, server.port)
        _write(folder / "exports", exports(told))
        yield told


def exports(told: Mapping[str, str]) -> str:
    """Lines for a shell."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in told.items())


def _lock(file: TextIO, folder: Path) -> None:
    """The folder is ours as long as the file is open, which is never replaced."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise NotStarted(f"the services of {folder} run already") from None


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path.read_text(encoding="utf-8") if path.exists() else "") or "{}")
    return found


def _start(stack: ExitStack, server: LocalServer, name: str, port: int) -> None:
    # Somebody else who listens there would be taken for it.
    if not is_free(port):
        raise NotStarted(
            f"port {port} is taken, by a {name} that was left over or by somebody else: end that, or take `{name}` out of "
            "services.json, and it gets another port"
        )
    stack.callback(server.stop)  # before it starts: that may be interrupted
    server.start()


def _credential(s3: S3Server) -> dict[str, str]:
    """The fields of a keychain entry."""
    where = {"endpoint": s3.url, "region": "us-east-1", "bucket": BUCKET}
    return {**where, "access_key_id": s3.access_key, "secret_access_key": s3.secret_key}


def _open_private(path: Path) -> TextIO:
    """A file to write, of its owner alone, also where it was there with other rights; no link is followed."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+", encoding="utf-8")
    os.fchmod(file.fileno(), 0o600)
    return file


def _write(path: Path, text: str) -> None:
    """Beside it, and in its place at once: whoever has the old one open, or reads meanwhile, sees no part of the new one."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with _open_private(beside) as file:
        file.write(text + "\n")
    beside.replace(path)


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
